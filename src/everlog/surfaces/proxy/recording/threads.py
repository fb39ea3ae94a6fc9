"""The threads in which exchanges are heard and kept: few, and what waits for them is counted."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 4

LARGE = 4 * 2**20
"""From how many bytes on work is done one after the other: it is the interpreter's alone, and answers wait for that too."""


class Threads:
    """Does one thing after another, as many at once as there are threads."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self.waiting = 0
        """What is done at this moment, or waits for it."""
        self._lock = threading.Lock()
        self._keeping: set[Future[Any]] = set()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="everlog-record")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="everlog-record-large")

    def begin(self, act: Callable[[], T], size_bytes: int = 0) -> Future[T]:
        """Do something, with so much."""
        with self._lock:
            self.waiting += 1
        return (self._pool if size_bytes < LARGE else self._large).submit(self._run, act)

    def keep(self, act: Callable[[Callable[[], object]], T], size_bytes: int = 0) -> Future[T]:
        """Keep something; the act is given what waits until all is kept that was to be kept before it.

        That ends: threads take up what is to be done in order, so what came before has one already, or gets
        it from what came before that.
        """
        with self._lock:
            before = tuple(self._keeping)
        future = self.begin(partial(act, partial(wait, before)), size_bytes)
        with self._lock:
            self._keeping.add(future)
        future.add_done_callback(self._kept)
        return future

    def earlier(self) -> Callable[[], object]:
        """Return what waits until all is kept that is to be kept by now; for one of these threads."""
        with self._lock:
            return partial(wait, tuple(self._keeping))

    def close(self, *, gives_up: bool) -> None:
        """Finish what is under way; `gives_up` says whether what still waits for its turn is let go."""
        for pool in (self._large, self._pool):
            pool.shutdown(wait=True, cancel_futures=gives_up)

    def _run(self, act: Callable[[], T]) -> T:
        try:
            return act()
        finally:
            with self._lock:
                self.waiting -= 1

    def _kept(self, future: Future[Any]) -> None:
        with self._lock:
            self._keeping.discard(future)
