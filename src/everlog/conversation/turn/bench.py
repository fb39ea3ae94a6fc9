"""The place where a turn of a memory waits: for somebody to approve its calls, or to ask again where it broke off."""

import threading
from typing import Protocol

from everlog.errors import PendingCalls


class Parked(Protocol):
    """A turn that may wait."""

    @property
    def pending(self) -> str:
        """Names of the tools whose calls wait."""
        ...


class Bench:
    """Holds the turn that waits, if there is one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.turn: Parked | None = None
        self.broken: Parked | None = None
        """The last turn, if it broke off."""

    def refuse(self, turn: Parked) -> None:
        """Make sure that no other turn waits.

        Raises:
            PendingCalls: one does.
        """
        waiting = self.turn
        if waiting is not None and waiting is not turn:
            raise PendingCalls(
                f"the turn before waits for its calls ({waiting.pending}); approve or deny them, then resume()"
            )

    def sit(self, turn: Parked) -> None:
        """Have a turn wait."""
        with self._lock:
            self.turn = turn

    def fall(self, turn: Parked) -> None:
        """Note that a turn broke off."""
        with self._lock:
            self.broken = turn

    def rise(self, turn: Parked) -> None:
        """Have a turn wait no longer."""
        with self._lock:
            self.broken = None
            if self.turn is turn:
                self.turn = None
