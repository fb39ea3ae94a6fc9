"""A chat with an endless memory, as a program holds it: `Memory`, and `AsyncMemory` for event loops.

Both run the same programs (`turns.py`); what does not wait is in `Attached`.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Never, Self, TypeVar

from everlog.chat.drivers import AsyncDriver, SyncDriver
from everlog.chat.effects import Act, Effect, Invoke, Program
from everlog.chat.loop import OnChunk
from everlog.chat.message import ChatMessage, Chunk
from everlog.chat.tools import ToolCall
from everlog.context import Context
from everlog.conversation.attached import Attached
from everlog.conversation.costs import Costs
from everlog.conversation.database import Everlog
from everlog.conversation.options import Options
from everlog.conversation.partners import Partner
from everlog.conversation.status import MemoryStatus

T = TypeVar("T")


class Memory(Attached):
    """A chat that remembers everything.

        memory = everlog.attach("anthropic/claude-sonnet-5-5", key="holiday")
        memory.turn("Which sea is warm in June?")

    Each turn records what the user says, asks within the budget, and records the answer. One turn of a thread runs at a
    time, in all processes.
    """

    _driver = SyncDriver()

    def turn(
        self, text: str | None = None, *, with_: Any = None, on_chunk: OnChunk | None = None, **misspelt: Never
    ) -> ChatMessage:
        """Say something and return the answer, once all tools that it called have run.

        Without words and files it goes on with the last turn, as `resume` does.

        Args:
            text: the words.
            with_: attachments: paths, http(s) URLs, open files, bytes, or a list or mapping of them. A path is read and a
                URL is handed on, so take neither from strangers.
            on_chunk: gets each `Chunk` of the answer as it comes.
            misspelt: nothing; a type checker says so, and so does the error.

        Raises:
            Busy: another turn of the thread is under way, and did not end within `wait_s`.
            Mistake: there are neither words nor files, or an attachment cannot be read; nothing was recorded.
            PendingCalls: the turn before waits for somebody to approve its calls.
            ProtocolError: the chat speaks another protocol than the required one; nothing was recorded.
            ProviderTrouble: the model failed, after all retries and fallbacks; what came is kept, and `resume` asks again.
            SpendCapReached: what may be spent is spent; nothing was asked.
            StoreUnavailable: nothing can be recorded, and too much waits for that already.
            Cancelled: it was cancelled; what came is kept.
            Erased: the thread was erased.
        """
        return self._driver.run(self._said(text, with_, on_chunk=on_chunk, **misspelt))

    def stream(self, text: str | None = None, *, with_: Any = None, **misspelt: Never) -> Iterator[Chunk]:
        """Say something and hand out the answer, and those of tool rounds before it, as they come.

        Nothing is said before the first piece is asked for. Who stops reading has what came so far recorded.
        """
        return self._driver.stream(self._said(text, with_, stream=True, **misspelt))

    def resume(self, *, on_chunk: OnChunk | None = None) -> ChatMessage:
        """Go on with the last turn: one that waits for approvals, or that failed, broke off, or was left by its process.

        The user's words stand in the log once, and words of an answer that broke off stay there before the whole one. Calls
        that have no result yet run, also one that raised. `stream()` without words does the same.

        Raises:
            Mistake: the last turn was answered to the end, or there is none.
        """
        return self._driver.run(self._said(None, None, on_chunk=on_chunk))

    def pending(self) -> list[ToolCall]:
        """Return the calls that the last turn waits for, also one that another process began: to approve or deny.

        `chat.approve(call)` or `chat.deny(call)`, then `resume()`.
        """
        return self._pending()

    def fork(self, at: int | None = None, *, key: str, title: str | None = None) -> "Memory":
        """Return a memory of a new thread that shares the messages below `at` (all of them if None), and goes its own way.

        It talks with the same partner; a chat that is ready takes turns in both.
        """
        return Memory(*self._forked(at, key, title), owns=False)

    def context(self) -> Context:
        """Return what would be sent now, before anything more is said, with the report of what is in it and why."""
        return self._look()

    def status(self) -> MemoryStatus:
        """Return what is missing, what waits, and what the next prompt depends on."""
        return self._status()

    def cost(self) -> Costs:
        """Return what models took for this thread: the talk, and what is remembered of it, apart."""
        return self._cost()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing of it is being built in the background; say whether that is so."""
        return self._pump.wait(timeout_s)

    def close(self) -> None:
        """End what is under way in the background, and close the database if it was opened for this memory."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncMemory(Attached):
    """The memory for event loops: its methods are awaited, and the database is used in threads.

    memory = everlog.attach(everlog.AsyncChat("anthropic/claude-sonnet-5-5"), key="holiday")
    await memory.turn("Which sea is warm in June?")
    """

    _driver = AsyncDriver()

    async def turn(
        self, text: str | None = None, *, with_: Any = None, on_chunk: OnChunk | None = None, **misspelt: Never
    ) -> ChatMessage:
        """Say something and return the answer, once all tools that it called have run; see `Memory.turn`."""
        return await self._driver.run(self._said(text, with_, on_chunk=on_chunk, **misspelt))

    def stream(self, text: str | None = None, *, with_: Any = None, **misspelt: Never) -> AsyncIterator[Chunk]:
        """Say something and hand out the answer as it comes; see `Memory.stream`."""
        return self._driver.stream(self._said(text, with_, stream=True, **misspelt))

    async def resume(self, *, on_chunk: OnChunk | None = None) -> ChatMessage:
        """Go on with the last turn, which waits, failed or broke off; see `Memory.resume`."""
        return await self._driver.run(self._said(None, None, on_chunk=on_chunk))

    async def pending(self) -> list[ToolCall]:
        """Return the calls that the last turn waits for; see `Memory.pending`."""
        return await self._act(self._pending)

    async def fork(self, at: int | None = None, *, key: str, title: str | None = None) -> "AsyncMemory":
        """Return a memory of a new thread that shares the messages below `at`; see `Memory.fork`."""
        return AsyncMemory(*await self._act(self._forked, at, key, title), owns=False)

    async def context(self) -> Context:
        """Return what would be sent now; see `Memory.context`."""
        return await self._act(self._look)

    async def status(self) -> MemoryStatus:
        """Return what is missing, what waits, and what the next prompt depends on."""
        return await self._act(self._status)

    async def cost(self) -> Costs:
        """Return what models took for this thread: the talk, and what is remembered of it, apart."""
        return await self._act(self._cost)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing of it is being built in the background; say whether that is so."""
        return await self._aside(self._pump.wait, timeout_s)

    async def close(self) -> None:
        """End what is under way in the background, and close the database if it was opened for this memory."""
        await self._aside(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _act(self, act: Callable[..., T], *args: Any) -> T:
        """Do something on the database."""
        return await self._driver.run(_done(Act(act, args)))

    async def _aside(self, act: Callable[..., T], *args: Any) -> T:
        """Do something that may wait for long, in a thread that is not of those for the database."""
        return await self._driver.run(_done(Invoke(act, args, blocking=True)))


def _done(effect: Effect) -> Program[Any]:
    return (yield effect)


def made(home: Everlog, key: str, partner: Partner, options: Options, *, owns: bool) -> Memory | AsyncMemory:
    """Return the memory for a partner."""
    kind = AsyncMemory if partner.is_async else Memory
    return kind(home, key, partner, options, owns=owns)
