"""Programs beside each other: in threads, on the loop that calls, or on the background loop."""

import asyncio
import contextvars
import queue
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from everlog.chat.effects import Begin, Outcome, Program
from everlog.chat.loops import in_background


class ThreadBatch:
    """Each program in a worker thread, with the context variables of the caller."""

    def __init__(self, run: Callable[[Program[Any]], Any], effect: Begin) -> None:
        """Begin."""
        self._run = run
        self._ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._left = len(effect.programs)
        self._pool = ThreadPoolExecutor(max(1, min(effect.limit, self._left)), thread_name_prefix="everlog-tool")
        for index, make in enumerate(effect.programs):
            self._pool.submit(contextvars.copy_context().run, self._one, index, make)

    def _one(self, index: int, make: Callable[[], Program[Any]]) -> None:
        try:
            self._ended.put(Outcome(index, value=self._run(make())))
        except BaseException as error:  # noqa: BLE001 -- handed to whoever waits for the outcome
            self._ended.put(Outcome(index, error=error))

    def next(self) -> Outcome | None:
        """Wait for the next one to end."""
        if self._left == 0:
            self._pool.shutdown()
            return None
        self._left -= 1
        return self._ended.get()

    def drop(self) -> None:
        """Begin no more, and wait for those that run."""
        self._pool.shutdown(cancel_futures=True)


class LoopBatch:
    """Each program in a task of the loop that calls."""

    def __init__(self, run: Callable[[Program[Any]], Awaitable[Any]], effect: Begin) -> None:
        """Begin."""
        self._run = run
        self._ended: asyncio.Queue[Outcome] = asyncio.Queue()
        self._left = len(effect.programs)
        self._room = asyncio.Semaphore(max(1, effect.limit))
        self._tasks = [asyncio.ensure_future(self._one(*each)) for each in enumerate(effect.programs)]

    async def _one(self, index: int, make: Callable[[], Program[Any]]) -> None:
        async with self._room:
            try:
                self._ended.put_nowait(Outcome(index, value=await self._run(make())))
            except asyncio.CancelledError as error:
                self._ended.put_nowait(Outcome(index, error=error))
                raise
            except BaseException as error:  # noqa: BLE001 -- handed to whoever waits for the outcome
                self._ended.put_nowait(Outcome(index, error=error))

    async def next(self) -> Outcome | None:
        """Wait for the next one to end."""
        if self._left == 0:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            return None
        self._left -= 1
        return await self._ended.get()

    async def drop(self) -> None:
        """Cancel all that are under way, and wait until they are gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class BackgroundBatch:
    """A `LoopBatch` on the background loop, for a caller without a loop."""

    def __init__(self, run: Callable[[Program[Any]], Awaitable[Any]], effect: Begin) -> None:
        """Begin."""
        self._batch: LoopBatch = in_background(_made(run, effect))

    def next(self) -> Outcome | None:
        """Wait for the next one to end."""
        outcome: Outcome | None = in_background(self._batch.next())
        return outcome

    def drop(self) -> None:
        """Cancel all that are under way, and wait until they are gone."""
        in_background(self._batch.drop())


async def _made(run: Callable[[Program[Any]], Awaitable[Any]], effect: Begin) -> LoopBatch:
    return LoopBatch(run, effect)
