"""Stopping what is under way.

A pulled `Cancel` is seen at the next place where a program checks it; that check raises `Cancelled` once and clears
it, so that a chat can go on afterwards. Pulled hard, it also closes the connection, or ends the pause, that somebody
is waiting in. Thread-safe.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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

    def pull(self, *, hard: bool = False) -> None:
        """Cancel; `hard` stops also what is blocked in a connection or a pause."""
        with self._lock:
            self._pulled = True
            self._hard = self._hard or hard
            for stop in list(self._stops) if self._hard else ():
                stop()  # within the lock: nobody leaves `stopping`, and gives a connection back, before it is done

    def check(self) -> None:
        """Go on, or stop here.

        Raises:
            Cancelled: it was pulled, or the checker says so; it is clear again.
        """
        if self._pulled or (self.checker is not None and self.checker()):
            self.clear()
            raise Cancelled("cancelled by the caller")

    def clear(self) -> None:
        """Forget that it was pulled."""
        with self._lock:
            self._pulled = self._hard = False

    @contextmanager
    def stopping(self, stop: Stop) -> Iterator[None]:
        """Call `stop` if it is pulled hard inside; what fails then is `Cancelled`, whatever it was.

        Raises:
            Cancelled: it was pulled hard, here or before; it is clear again.
        """
        with self._lock:
            if not self._hard:
                self._stops.append(stop)
        try:
            if self._hard:
                self.check()
            yield
        except Exception:
            if self._hard:
                self.check()
            raise
        finally:
            with self._lock:
                if stop in self._stops:
                    self._stops.remove(stop)
