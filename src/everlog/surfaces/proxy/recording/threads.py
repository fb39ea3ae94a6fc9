"""The threads in which exchanges are heard and kept: few, and what waits for them is counted."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 4


class Threads:
    """Does one thing after another, as many at once as there are threads."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self.waiting = 0
        """What is done at this moment, or waits for it."""
        self._lock = threading.Lock()
        self._keeping: set[Future[Any]] = set()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="everlog-record")

    def begin(self, act: Callable[[], T]) -> Future[T]:
        """Do something."""
        with self._lock:
            self.waiting += 1
        return self._pool.submit(self._run, act)

    def keep(self, act: Callable[[Callable[[], object]], T]) -> Future[T]:
        """Keep something; the act is given what waits until all is kept that was to be kept before it.

        That ends: threads take up what is to be done in order, so what came before has one already.
        """
        with self._lock:
            before = tuple(self._keeping)
        future = self.begin(partial(act, partial(wait, before)))
        with self._lock:
            self._keeping.add(future)
        future.add_done_callback(self._kept)
        return future

    def close(self, *, gives_up: bool) -> None:
        """Finish what is under way; `gives_up` says whether what still waits for its turn is let go."""
        self._pool.shutdown(wait=True, cancel_futures=gives_up)

    def _run(self, act: Callable[[], T]) -> T:
        try:
            return act()
        finally:
            with self._lock:
                self.waiting -= 1

    def _kept(self, future: Future[Any]) -> None:
        with self._lock:
            self._keeping.discard(future)
