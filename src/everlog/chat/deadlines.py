"""Ends for waits that a silence does not end: a server can keep a connection busy without ever saying anything.

A blocking wait can be ended only from another thread. One thread looks after all of them; it begins with the first
deadline of a process, and costs a wait no more than a note of when it should be over.
"""

import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

from everlog.clock import monotonic

End = Callable[[], object]


class Limited(Protocol):
    """What can be made to end after a while."""

    is_late: bool
    """Whether it was."""

    def limit(self, seconds: float) -> None:
        """End what is waited for from now on, unless it is over in time."""

    def unlimit(self) -> None:
        """It is over."""


class Deadlines:
    """Calls `end` for what is not over in time."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._due: dict[End, float] = {}
        self._wakes_at = 0.0
        self._is_watched = False

    def set(self, end: End, seconds: float) -> None:
        """Call `end` after so many seconds, from another thread; once for each `end`, the last time counts."""
        if self._process != os.getpid():  # a fork has neither the thread nor the waits of its parent
            self.__init__()  # type: ignore[misc]
        due = monotonic() + seconds
        with self._changed:
            self._due[end] = due
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="everlog-deadlines", daemon=True).start()
            elif due < self._wakes_at:
                self._changed.notify()

    def clear(self, end: End) -> None:
        """Do not call it; it is not under way when this returns."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._due.pop(end, None)

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = monotonic()
                for end in [end for end, due in self._due.items() if due <= now]:
                    del self._due[end]
                    end()
                self._wakes_at = min(self._due.values(), default=float("inf"))
                self._changed.wait(None if self._wakes_at == float("inf") else self._wakes_at - now)


def timed(pieces: Iterator[bytes], who: Limited, seconds: float) -> Iterator[bytes]:
    """Return pieces as they come, each within its time.

    Raises:
        TimeoutError: one did not come; a connection that was cut may look like one that ended well.
    """
    while True:
        who.limit(seconds)
        try:
            piece = next(pieces, b"")
        finally:
            who.unlimit()
        if who.is_late:
            raise TimeoutError
        if not piece:
            return
        yield piece


async def timed_async(pieces: AsyncIterator[bytes], who: Limited, seconds: float) -> AsyncIterator[bytes]:
    """Return pieces as they come, each within its time."""
    while True:
        who.limit(seconds)
        try:
            piece = await anext(pieces, b"")
        finally:
            who.unlimit()
        if not piece:
            return
        yield piece


deadlines = Deadlines()
