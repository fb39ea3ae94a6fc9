"""How a turn comes on, as others see it who wait for it: some would wait for themselves, and are told so at once."""

import asyncio
import threading

from everlog.clock import monotonic
from everlog.errors import Busy

STUCK_S = 0.5
"""How long a stream may stand still before its thread, which now waits for it, is taken for the one that was to read it."""


class Pace:
    """One turn. What it knows is a hint: it is read by others while it changes."""

    def __init__(self) -> None:
        self.runner: object = None
        """The thread, and on a loop the task, that ran it last; None before and after."""
        self.is_handing_out = False
        self.steps = 0

    def run(self) -> None:
        """Note that it goes on here."""
        self.runner, self.is_handing_out = _here(), False
        self.steps += 1

    def hand_out(self) -> None:
        """Note that it goes on when somebody asks for the next piece."""
        self.is_handing_out = True

    def end(self) -> None:
        """Note that nobody has to run it any more."""
        self.runner, self.is_handing_out = None, False


class Watch:
    """Looks, again and again, at the turn that one waits for."""

    def __init__(self) -> None:
        self._seen: tuple[Pace, int] | None = None
        self._since = 0.0

    def refuse_oneself(self, before: Pace | None, key: str) -> None:
        """Make sure that one does not wait for what only oneself could go on with.

        Raises:
            Busy: one does.
        """
        here = _here()
        if before is None or before.runner != here:
            return
        if not before.is_handing_out:
            raise Busy(
                f"a turn of thread {key!r} is under way, and this one was begun inside it, by a tool or a callback; it would "
                "wait for itself"
            )
        if self._seen != (before, before.steps):
            self._seen, self._since = (before, before.steps), monotonic()
        if here[1] is not None or monotonic() - self._since >= STUCK_S:
            raise Busy(
                f"a stream of thread {key!r} was begun here and is not read to its end; read on, or close it, before the "
                "next turn"
            )


def too_late(before: Pace | None, key: str, wait_s: float) -> Busy:
    """Return the error of who waited too long for a turn of this process, or for one of another (None)."""
    if before is not None and before.is_handing_out:
        return Busy(
            f"a stream of thread {key!r} in this process was not read to its end within {wait_s:g} s; read on, or close it, "
            "before the next turn"
        )
    return Busy(
        f"another turn of thread {key!r} is under way and did not end within {wait_s:g} s; try again, or give a longer wait_s"
    )


def _here() -> tuple[int, object]:
    try:
        task: object = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.get_ident(), task
