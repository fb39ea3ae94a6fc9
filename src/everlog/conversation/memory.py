"""A chat with an endless memory, as a program holds it: `Memory`, and `AsyncMemory` for event loops.

Both run the same programs (`turns.py`); everything here that does not wait is in `Attached`.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from everlog import context as contexts
from everlog.chat.async_chat import AsyncChat
from everlog.chat.chat import Chat
from everlog.chat.drivers import AsyncDriver, SyncDriver
from everlog.chat.effects import Invoke, Program
from everlog.chat.loop import OnChunk
from everlog.chat.message import ChatMessage, Chunk, user_message
from everlog.context import Context
from everlog.conversation import asking
from everlog.conversation.costs import Costs
from everlog.conversation.database import Everlog
from everlog.conversation.options import Options
from everlog.conversation.partners import Partner, beside, state_of
from everlog.conversation.pumping import Pump
from everlog.conversation.recollection import Recollection
from everlog.conversation.recorder import Recorder, Turn
from everlog.conversation.spending import Purse
from everlog.conversation.status import MemoryStatus
from everlog.conversation.thread import Thread
from everlog.conversation.toolbox import Toolbox
from everlog.conversation.tree import Tree
from everlog.conversation.trouble import Trouble
from everlog.conversation.turns import Going, Room
from everlog.errors import PendingCalls, expect
from everlog.log import NewTurn, TurnState
from everlog.memory.tree.lines import PLACEHOLDER

T = TypeVar("T")


class Attached:
    """What both kinds of memory have in common."""

    def __init__(self, home: Everlog, key: str, partner: Partner, options: Options, *, owns: bool) -> None:
        """Attach a partner to a thread; `owns` says whether the database is closed with it."""
        self._home = home
        self._thread = home.thread(key)
        self._partner = partner
        self._options = options
        self._owns = owns
        self._trouble = Trouble()
        self._recorder = Recorder(home.store, home.name, key, self._trouble)
        self._pump = Pump(self._recorder, options.compactor, self._trouble)
        self._room = Room(
            options=options,
            recorder=self._recorder,
            recollection=Recollection(),
            purse=Purse(self._recorder, options.spend_cap_usd),
            redact=home.redact,
            place=(id(home.store), home.name, key),
        )
        self._parked: Going | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._thread.key!r}>"

    @property
    def key(self) -> str:
        """The thread's name."""
        return self._thread.key

    @property
    def thread(self) -> Thread:
        """The thread: every word that was said, and what is derived from it."""
        return self._thread

    @property
    def tree(self) -> Tree:
        """The tree memory of the thread."""
        return self._thread.tree

    @property
    def chat(self) -> Chat | AsyncChat:
        """The chat of this turn, or of the last one."""
        return self._partner.chat

    @property
    def is_awaiting_approval(self) -> bool:
        """Whether a turn waits for somebody to approve a call: `chat.approve(…)`, then `resume()`."""
        return self._parked is not None

    def cancel(self, *, hard: bool = False) -> Self:
        """Stop the turn that is under way at its next step, from any thread; what came of it is kept.

        Args:
            hard: also close the connection that it waits in.
        """
        self._partner.chat.cancel(hard=hard)
        return self

    def _begun(self, text: str | None, files: Any) -> Program[Going]:
        """Return the turn to run: a new one, or the one that waits."""
        if text is None and files is None:
            return (yield from self._resumed())
        if self._parked is not None:
            names = ", ".join(dict.fromkeys(call.name for call in self.chat.pending_approvals)) or "decided ones"
            raise PendingCalls(f"the turn before waits for its calls ({names}); approve or deny them, then resume()")
        message = self._home.redact(user_message(text, files).said.messages[0])
        chat = self._partner.next()
        opening = NewTurn(
            messages=(replace(message, at=self._home.store.clock.now()),),
            client_key=self._recorder.new_key(),
            state=TurnState.OPEN,
            model=state_of(chat).route.name,
            origin=self._options.origin,
        )
        return Going(self._room, state_of(chat), self._toolbox(), Turn(opening))

    def _resumed(self) -> Program[Going]:
        if self._parked is not None:
            return self._parked
        turn = yield Invoke(self._recorder.left_open, blocking=True)
        return Going(self._room, state_of(self._partner.next()), self._toolbox(), turn, is_resumed=True)

    def _toolbox(self) -> Toolbox:
        return Toolbox(self._recorder, self._options, self._trouble)

    def _said(
        self, text: str | None, files: Any, *, stream: bool = False, on_chunk: OnChunk | None = None
    ) -> Program[ChatMessage]:
        expect(text, (str, type(None)), "what the user says is a str")
        going = yield from self._begun(text, files)
        self._parked = None
        try:
            reply = yield from going.run(stream=stream, on_chunk=on_chunk)
        finally:
            self._parked = going if going.is_parked else None
            if self._options.pump == "thread":
                self._pump.kick()
        if self._options.pump == "inline":
            yield Invoke(self._pump.run, blocking=True)
        return reply

    def _look(self) -> Context:
        state = state_of(self._partner.chat)
        takes = asking.takes_tools(state, self._options.past)
        terms = asking.terms_of(beside(state, self._toolbox().tools(takes=takes)), self._options)
        return contexts.look(self._home.store, self._home.name, self._thread.id, terms)

    def _status(self) -> MemoryStatus:
        context = self._room.recollection.context
        shown = () if context is None or context.shown is None else context.shown.lines
        return MemoryStatus(
            trouble=self._trouble.counts,
            last_error=self._trouble.last,
            waiting=self._recorder.spool.messages,
            is_open=self.is_awaiting_approval,
            epoch=None if context is None else context.epoch.n,
            reason=None if context is None else context.epoch.reason,
            turns_when=None if context is None else context.turns_when,
            memory_bytes=0 if context is None else context.memory_bytes,
            hidden=0 if context is None else context.hidden,
            placeholders=sum(text == PLACEHOLDER for _, text in shown),
            unbuilt=self._pump.left,
        )

    def _forked(self, at: int | None, key: str, title: str | None) -> tuple[Everlog, str, Partner, Options]:
        thread = self._thread
        thread.fork(thread.row().next if at is None else at, key, title=title)
        return self._home, key, self._partner, self._options

    def _close(self) -> None:
        self._pump.close()
        if self._owns:
            self._home.close()


class Memory(Attached):
    """A chat that remembers everything.

        memory = everlog.attach("anthropic/claude-sonnet-5-5", key="holiday")
        memory.turn("Which sea is warm in June?")

    Each turn records what the user says, asks within the budget, and records the answer. One turn of a thread runs at a
    time, in all processes.
    """

    _driver = SyncDriver()

    def turn(self, text: str | None = None, *, with_: Any = None, on_chunk: OnChunk | None = None) -> ChatMessage:
        """Say something and return the answer, once all tools that it called have run.

        Without words and files it goes on with a turn that waits, as `resume` does.

        Args:
            text: the words.
            with_: attachments: paths, http(s) URLs, open files, bytes, or a list or mapping of them. A path is read and a
                URL is handed on, so take neither from strangers.
            on_chunk: gets each `Chunk` of the answer as it comes.

        Raises:
            Busy: another turn of the thread is under way, and did not end within `wait_s`.
            PendingCalls: the turn before waits for somebody to approve its calls.
            ProtocolError: the chat speaks another protocol than the required one; nothing was recorded.
            ProviderTrouble: the model failed, after all retries and fallbacks; what came is kept.
            SpendCapReached: what may be spent is spent; nothing was asked.
            StoreUnavailable: nothing can be recorded, and too much waits for that already.
            Cancelled: it was cancelled; what came is kept.
            Erased: the thread was erased.
        """
        return self._driver.run(self._said(text, with_, on_chunk=on_chunk))

    def stream(self, text: str | None = None, *, with_: Any = None) -> Iterator[Chunk]:
        """Say something and hand out the answer, and those of tool rounds before it, as they come.

        Nothing is said before the first piece is asked for. Who stops reading has what came so far recorded.
        """
        return self._driver.stream(self._said(text, with_, stream=True))

    def resume(self, *, on_chunk: OnChunk | None = None) -> ChatMessage:
        """Go on with a turn that waits: for approvals, or since the process that was at it is gone."""
        return self._driver.run(self._said(None, None, on_chunk=on_chunk))

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
        return self._thread.cost()

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

    async def turn(self, text: str | None = None, *, with_: Any = None, on_chunk: OnChunk | None = None) -> ChatMessage:
        """Say something and return the answer, once all tools that it called have run; see `Memory.turn`."""
        return await self._driver.run(self._said(text, with_, on_chunk=on_chunk))

    def stream(self, text: str | None = None, *, with_: Any = None) -> AsyncIterator[Chunk]:
        """Say something and hand out the answer as it comes; see `Memory.stream`."""
        return self._driver.stream(self._said(text, with_, stream=True))

    async def resume(self, *, on_chunk: OnChunk | None = None) -> ChatMessage:
        """Go on with a turn that waits: for approvals, or since the process that was at it is gone."""
        return await self._driver.run(self._said(None, None, on_chunk=on_chunk))

    async def fork(self, at: int | None = None, *, key: str, title: str | None = None) -> "AsyncMemory":
        """Return a memory of a new thread that shares the messages below `at`; see `Memory.fork`."""
        return AsyncMemory(*await self._aside(self._forked, at, key, title), owns=False)

    async def context(self) -> Context:
        """Return what would be sent now; see `Memory.context`."""
        return await self._aside(self._look)

    async def status(self) -> MemoryStatus:
        """Return what is missing, what waits, and what the next prompt depends on."""
        return self._status()

    async def cost(self) -> Costs:
        """Return what models took for this thread: the talk, and what is remembered of it, apart."""
        return await self._aside(self._thread.cost)

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

    async def _aside(self, act: Callable[..., T], *args: Any) -> T:
        """Run something that waits, in a thread."""

        def program() -> Program[T]:
            result: T = yield Invoke(act, args, blocking=True)
            return result

        return await self._driver.run(program())


def made(home: Everlog, key: str, partner: Partner, options: Options, *, owns: bool) -> Memory | AsyncMemory:
    """Return the memory for a partner."""
    kind = AsyncMemory if partner.is_async else Memory
    return kind(home, key, partner, options, owns=owns)
