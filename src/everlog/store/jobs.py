"""A unit on its way to the writer thread, and how its caller is answered."""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Job(Protocol[T]):
    """A unit that waits to be run, and whoever waits for it."""

    name: str
    act: Callable[[sqlite3.Connection], T]

    @property
    def settled(self) -> bool:
        """Whether its caller has been answered."""
        ...

    def begin(self) -> bool:
        """Return whether it is still wanted; from then on it cannot be cancelled."""
        ...

    def settle(self, result: T) -> None:
        """Answer with its result."""
        ...

    def fail(self, error: BaseException) -> None:
        """Answer with an error."""
        ...


class Awaited(Generic[T]):
    """A unit whose caller stands still. A bare lock wakes it for a third of what a `Future` costs."""

    __slots__ = ("_done", "_error", "_result", "act", "name", "settled")

    def __init__(self, name: str, act: Callable[[sqlite3.Connection], T]) -> None:
        self.name = name
        self.act = act
        self.settled = False
        self._error: BaseException | None = None
        self._result: T
        self._done = threading.Lock()
        self._done.acquire()

    def begin(self) -> bool:
        return True

    def settle(self, result: T) -> None:
        self._result = result
        self.settled = True
        self._done.release()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self.settled = True
        self._done.release()

    def wait(self) -> T:
        with self._done:
            if self._error is None:
                return self._result
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # it holds this frame, and those in which this unit stands: none of them may hold it


class Promised(Generic[T]):
    """A unit whose caller goes on, and may cancel it before it begins."""

    __slots__ = ("act", "future", "name")

    def __init__(self, name: str, act: Callable[[sqlite3.Connection], T]) -> None:
        self.name = name
        self.act = act
        self.future: Future[T] = Future()

    @property
    def settled(self) -> bool:
        return self.future.done()

    def begin(self) -> bool:
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def settle(self, result: T) -> None:
        self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        self.future.set_exception(error)
