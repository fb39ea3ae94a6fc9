"""Where the blocking world and event loops meet: pauses that can be cut short, and coroutines for those without a loop."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable
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

    def __init__(self, cancel: Cancel) -> None:
        """Begin, on the loop that runs."""
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._was_cut = False
        cancel.watch(self._stop)

    async def on(self, awaitable: Awaitable[T]) -> T:
        """Await.

        Raises:
            Cancelled: it was cancelled hard.
        """
        self._task = task = asyncio.current_task()
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self._was_cut and task is not None and task.uncancel() == 0:
                self._cancel.check_hard()
            raise
        finally:
            self._task = None

    def end(self) -> None:
        """Be done."""
        self._cancel.unwatch(self._stop)

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
