"""Stopping what is under way.

A pulled `Cancel` is seen at the next place where a program checks it; that check raises `Cancelled` once and clears
it, so that a chat can go on afterwards. Pulled hard, it also closes the connection, or ends the pause, that somebody
is waiting in. Thread-safe.
"""

import threading
from collections.abc import Callable
from typing import NoReturn

from everlog.errors import Cancelled

Stop = Callable[[], object]


class Cancel:
    """A switch that one side pulls and the other side checks."""

    def __init__(self, checker: Callable[[], bool] | None = None) -> None:
        """Begin unpulled; a `checker` is asked at each check whether somebody else cancelled."""
        self.checker = checker
        self._lock = threading.RLock()  # a signal handler may pull while its own thread checks
        self._pulled = False
        self._hard = False
        self._stops: list[Stop] = []

    @property
    def is_pulled(self) -> bool:
        """Whether it was pulled, and nobody has stopped for it yet."""
        return self._pulled

    def is_due(self) -> bool:
        """Whether the next check will stop; asks the checker."""
        return self._pulled or (self.checker is not None and self.checker())

    def pull(self, *, hard: bool = False) -> None:
        """Cancel; `hard` stops also what is blocked in a connection or a pause."""
        with self._lock:
            self._pulled = True
            self._hard = self._hard or hard
            for stop in list(self._stops) if self._hard else ():
                stop()

    def check(self) -> None:
        """Go on, or stop here.

        Raises:
            Cancelled: it was pulled, or the checker says so; it is clear again.
        """
        if self._pulled or (self.checker is not None and self.checker()):
            self.stop()

    def stop(self) -> NoReturn:
        """Stop here, since somebody saw that it is due; a checker need not say so a second time.

        Raises:
            Cancelled: always; it is clear again.
        """
        self.clear()
        raise Cancelled("cancelled by the caller")

    def clear(self) -> None:
        """Forget that it was pulled."""
        with self._lock:
            self._pulled = self._hard = False

    def watch(self, stop: Stop) -> None:
        """Have `stop` called, from whichever thread pulls hard, until `unwatch`.

        Raises:
            Cancelled: it was pulled hard before; it is clear again.
        """
        with self._lock:
            self.check_hard()
            self._stops.append(stop)

    def unwatch(self, stop: Stop) -> None:
        """Do not call `stop` any more; it is not under way when this returns."""
        with self._lock:
            if stop in self._stops:
                self._stops.remove(stop)

    def check_hard(self) -> None:
        """Stop here if what just failed, or is about to begin, was cut short on purpose.

        Raises:
            Cancelled: it was pulled hard; it is clear again.
        """
        if self._hard:
            self.check()
