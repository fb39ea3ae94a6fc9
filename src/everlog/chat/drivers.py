"""Doing what programs ask for: blocking, or on an event loop.

Both drivers run the same programs with the same outcomes. `run` gives the result; `stream` hands out what is emitted,
and returns when the program does. Whoever stops reading a stream has its program clean up first.
"""

import asyncio
import contextlib
import importlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from everlog.chat.acts import acted
from everlog.chat.batches import BackgroundBatch, LoopBatch, ThreadBatch
from everlog.chat.cancel import Cancel
from everlog.chat.effects import (
    Abandoned,
    Act,
    Begin,
    Close,
    Drop,
    Effect,
    Emit,
    Invoke,
    Next,
    Program,
    Receive,
    Send,
    Sleep,
)
from everlog.chat.loops import in_background, pause, pause_async

if TYPE_CHECKING:
    from everlog.chat.wire import AsyncWire, Wire

T = TypeVar("T")


class SyncDriver:
    """Runs programs in the thread that calls."""

    def __init__(self, wire: "Wire | None" = None, sleep: Callable[[float, Cancel], None] | None = None) -> None:
        """Use a wire, by default the one of this process, and a way to pause, by default a real one."""
        self._wire = wire
        self._sleep = sleep or pause

    def run(self, program: Program[T]) -> T:
        """Run a program to its end; what it emits is dropped."""
        return self._go_on(program, None)

    def stream(self, program: Program[T]) -> Generator[Any, None, T]:
        """Run a program and yield what it emits; its result is that of this generator."""
        answer, error = None, None
        try:
            while True:
                effect = program.send(answer) if error is None else program.throw(error)
                answer, error = None, None
                if type(effect) is Emit:
                    try:
                        yield effect.value
                    except BaseException:  # nobody reads on, or what is thrown in is to come out again
                        with contextlib.suppress(Abandoned):
                            self._go_on(program, Abandoned())
                        raise
                else:
                    try:
                        answer = self._perform(effect)
                    except BaseException as failure:  # noqa: BLE001 -- raised where the program asked for the effect
                        error = failure
        except StopIteration as end:
            result: T = end.value
            return result

    def _go_on(self, program: Program[T], error: BaseException | None) -> T:
        """Run a program to its end; first, an error is raised where it stands."""
        answer = None
        try:
            while True:
                effect = program.send(answer) if error is None else program.throw(error)
                answer, error = None, None
                try:
                    answer = self._perform(effect)
                except BaseException as failure:  # noqa: BLE001 -- raised where the program asked for the effect
                    error = failure
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Receive():
                return self._http.receive(effect.connection)
            case Emit():
                return None
            case Invoke():
                result = effect.function(*effect.args, **effect.kwargs)
                return in_background(result) if inspect.isawaitable(result) else result
            case Act():
                return effect.function(*effect.args)
            case Send():
                return self._http.send(effect.request, effect.cancel, stream=effect.stream)
            case Close():
                return self._http.close(effect.connection, is_over=effect.is_over)
            case Sleep():
                return self._sleep(effect.seconds, effect.cancel)
            case Begin():
                return self._begin(effect)
            case Next():
                return effect.batch.next()
            case Drop():
                return effect.batch.drop()
            case _:
                assert_never(effect)

    def _begin(self, effect: Begin) -> "ThreadBatch | BackgroundBatch":
        if effect.mode == "fibers":
            return BackgroundBatch(AsyncDriver().run, effect)
        return ThreadBatch(self.run, effect)

    @property
    def _http(self) -> "Wire":
        if self._wire is None:
            self._wire = importlib.import_module("everlog.chat.wire").shared_wire()
        return self._wire


class AsyncDriver:
    """Runs programs on the event loop that calls."""

    def __init__(
        self, wire: "AsyncWire | None" = None, sleep: Callable[[float, Cancel], Awaitable[None]] | None = None
    ) -> None:
        """Use a wire, by default the one of this process, and a way to pause, by default a real one."""
        self._wire = wire
        self._sleep = sleep or pause_async

    async def run(self, program: Program[T]) -> T:
        """Run a program to its end; what it emits is dropped."""
        return await self._go_on(program, None)

    async def stream(self, program: Program[T], done: Callable[[T], None] | None = None) -> AsyncGenerator[Any]:
        """Run a program and yield what it emits; its result goes to `done`, since this generator can return none."""
        answer, error = None, None
        try:
            while True:
                effect = program.send(answer) if error is None else program.throw(error)
                answer, error = None, None
                if type(effect) is Emit:
                    try:
                        yield effect.value
                    except BaseException:  # nobody reads on, or what is thrown in is to come out again
                        with contextlib.suppress(Abandoned):
                            await self._go_on(program, Abandoned())
                        raise
                else:
                    try:
                        answer = await self._perform(effect)
                    except BaseException as failure:  # noqa: BLE001 -- raised where the program asked for the effect
                        error = failure
        except StopIteration as end:
            if done is not None:
                done(end.value)

    async def _go_on(self, program: Program[T], error: BaseException | None) -> T:
        """Run a program to its end; first, an error is raised where it stands."""
        answer = None
        try:
            while True:
                effect = program.send(answer) if error is None else program.throw(error)
                answer, error = None, None
                try:
                    answer = await self._perform(effect)
                except BaseException as failure:  # noqa: BLE001 -- raised where the program asked for the effect
                    error = failure
        except StopIteration as end:
            result: T = end.value
            return result

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Receive():
                return await self._http.receive(effect.connection)
            case Emit():
                return None
            case Invoke():
                return await _called(effect)
            case Act():
                return await acted(effect.function, *effect.args)
            case Send():
                return await self._http.send(effect.request, effect.cancel, stream=effect.stream)
            case Close():
                return await self._http.close(effect.connection, is_over=effect.is_over)
            case Sleep():
                return await self._sleep(effect.seconds, effect.cancel)
            case Begin():
                return LoopBatch(self.run, effect)
            case Next():
                return await effect.batch.next()
            case Drop():
                return await effect.batch.drop()
            case _:
                assert_never(effect)

    @property
    def _http(self) -> "AsyncWire":
        if self._wire is None:
            self._wire = importlib.import_module("everlog.chat.wire").shared_async_wire()
        return self._wire


async def _called(effect: Invoke) -> Any:
    if effect.blocking and not inspect.iscoroutinefunction(effect.function):
        result = await asyncio.to_thread(effect.function, *effect.args, **effect.kwargs)
    else:
        result = effect.function(*effect.args, **effect.kwargs)
    return await result if inspect.isawaitable(result) else result
