"""Where the blocking world and event loops meet: pauses that can be cut short, and coroutines for those without a loop."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from everlog.chat.cancel import Cancel

T = TypeVar("T")


def pause(seconds: float, cancel: Cancel) -> None:
    """Wait in this thread.

    Raises:
        Cancelled: it was cancelled hard.
    """
    stopped = threading.Event()
    cancel.watch(stopped.set)
    try:
        stopped.wait(seconds)
    finally:
        cancel.unwatch(stopped.set)
    cancel.check_hard()


async def pause_async(seconds: float, cancel: Cancel) -> None:
    """Wait on this loop.

    Raises:
        Cancelled: it was cancelled hard.
    """
    waits = Waits(cancel)
    try:
        await waits.on(asyncio.sleep(seconds))
    finally:
        waits.end()


class Waits:
    """Waits on a loop that a hard cancel, from any thread, cuts short: the await is cancelled, not the task around it."""

    def __init__(self, cancel: Cancel, patience_s: float = float("inf")) -> None:
        """Begin, on the loop that runs; `patience_s` limits the wait for the head of an answer."""
        self.patience_s = patience_s
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._was_cut = False
        self.is_late = False
        self._timer: asyncio.TimerHandle | None = None
        cancel.watch(self._stop)

    async def on(self, awaitable: Awaitable[T]) -> T:
        """Await.

        Raises:
            Cancelled: it was cancelled hard.
            TimeoutError: what was limited took too long.
        """
        self._task = task = asyncio.current_task()
        try:
            return await awaitable
        except asyncio.CancelledError:
            if (self._was_cut or self.is_late) and task is not None and task.uncancel() == 0:
                self._cancel.check_hard()
                raise TimeoutError from None
            raise
        finally:
            self._task = None

    def limit(self, seconds: float) -> None:
        """End what is awaited, or will be, unless it is over in so many seconds."""
        self.unlimit()
        self._timer = self._loop.call_later(seconds, self._expire)

    def unlimit(self) -> None:
        """It is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def watch(self, event: str, _: Mapping[str, Any]) -> None:
        """Limit the wait for the head of an answer, as the client tells of it."""
        if event.endswith("receive_response_headers.started"):
            self.limit(self.patience_s)
        elif event.endswith("receive_response_headers.complete"):
            self.unlimit()

    def end(self) -> None:
        """Be done."""
        self.unlimit()
        self._cancel.unwatch(self._stop)

    def _expire(self) -> None:
        if self._task is not None:
            self.is_late = True
            self._task.cancel()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        if self._task is not None:
            self._was_cut = True
            self._task.cancel()


class _Background:
    """One event loop in a thread of its own, for the async functions of people who have no loop."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="everlog-loop", daemon=True)
        self.thread.start()


_lock = threading.Lock()
_running: list[_Background] = []


def _background() -> _Background:
    """Return the loop of this process; a fork has none of its parent's threads, so it starts its own."""
    with _lock:
        if not _running or _running[-1].process != os.getpid():
            _running[:] = [_Background()]
        return _running[-1]


def in_background(awaitable: Awaitable[Any]) -> Any:
    """Wait in this thread for an awaitable that runs on the background loop, with the context variables of the caller."""
    background = _background()
    work = _within(contextvars.copy_context(), awaitable)
    if threading.current_thread() is background.thread:  # an async tool that uses a blocking chat in its turn
        return _in_a_thread_of_its_own(work)
    future = asyncio.run_coroutine_threadsafe(work, background.loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def _within(context: contextvars.Context, awaitable: Awaitable[T]) -> T:
    return await asyncio.create_task(_awaited(awaitable), context=context)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _in_a_thread_of_its_own(work: Any) -> Any:
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 -- raised again in the thread that waits
            failure.append(error)

    thread = threading.Thread(target=run, name="everlog-nested-loop", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
