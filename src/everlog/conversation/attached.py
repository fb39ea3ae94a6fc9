"""What `Memory` and `AsyncMemory` have in common: all that does not wait, and the programs that they run."""

import weakref
from typing import Any, Self

from everlog import context as contexts
from everlog import log
from everlog.chat.async_chat import AsyncChat
from everlog.chat.chat import Chat
from everlog.chat.effects import Act, Invoke, Program
from everlog.chat.loop import OnChunk
from everlog.chat.message import ChatMessage, user_message
from everlog.chat.options import refuse_unknown
from everlog.chat.tools import ToolCall
from everlog.context import Context
from everlog.conversation.costs import Costs
from everlog.conversation.database import Everlog
from everlog.conversation.forgetting import remember
from everlog.conversation.options import Options
from everlog.conversation.partners import Partner, beside, state_of
from everlog.conversation.pumping import Pump, memory_of
from everlog.conversation.recording.recollection import Recollection
from everlog.conversation.recording.recorder import Recorder
from everlog.conversation.recording.spending import Purse
from everlog.conversation.recording.trouble import PASSES, Trouble
from everlog.conversation.recording.undecided import is_unanswered, undecided
from everlog.conversation.recording.units import Turn
from everlog.conversation.rolling import Rolling
from everlog.conversation.status import MemoryStatus
from everlog.conversation.thread import Thread
from everlog.conversation.tree import Tree
from everlog.conversation.turn import asking, carrying
from everlog.conversation.turn.bench import Bench
from everlog.conversation.turn.room import Room
from everlog.conversation.turn.toolbox import Toolbox
from everlog.conversation.turn.turns import Going
from everlog.errors import Mistake, UnknownThread, expect
from everlog.log import NewTurn, Spent, TurnState
from everlog.memory.tree.lines import PLACEHOLDER


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
        self._recollection = Recollection()
        self._recorder = Recorder(home.store, home.name, key, self._trouble, mode=options.past)
        tokens = options.budget if options.unit == "tokens" else options.budget // 4
        built = memory_of(options.past, options.compactor, tokens, self._recollection.budget_bytes)
        self._pump = Pump(self._recorder, options.compactor, self._trouble, built)
        self._room = Room(
            options=options,
            recorder=self._recorder,
            recollection=self._recollection,
            purse=Purse(self._recorder, options.spend_cap_usd),
            redact=home.redact,
            allow=partner.allow,
            bench=Bench(),
            place=(id(home.store), home.name, key),
        )
        self._is_closed = self._is_warm = False
        self._recorder.take_leftovers()
        remember(self._recorder, self._recollection)
        weakref.finalize(self, self._recorder.leave)

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
        """The tree memory of the thread; empty before the first turn."""
        return Tree(self._home.store, self._home.name, self._thread_id)

    @property
    def _thread_id(self) -> str | None:
        """Our id of the thread; None before its first turn."""
        try:
            return self._thread.id
        except UnknownThread:
            return None

    @property
    def rolling(self) -> Rolling:
        """The rolling summary of the thread."""
        return self._thread.rolling

    @property
    def chat(self) -> Chat | AsyncChat:
        """The chat of this turn, or of the last one."""
        return self._partner.chat

    @property
    def is_awaiting_approval(self) -> bool:
        """Whether a turn of this process waits for somebody to approve a call; `pending()` asks the log, too."""
        return self._room.bench.turn is not None

    def cancel(self, *, hard: bool = False) -> Self:
        """Stop the turn that is under way at its next step, from any thread; what came of it is kept.

        Args:
            hard: also close the connection that it waits in.
        """
        self._partner.chat.cancel(hard=hard)
        return self

    def _begun(self, text: str | None, files: Any) -> Program[Going]:
        """Return the turn to run: a new one, or the one that waits or broke off."""
        if text is None and files is None:
            return (yield from self._resumed())
        message = self._home.redact(user_message(text, files).said.messages[0])
        key = self._recorder.new_key()
        chat = self._partner.next()
        opening = NewTurn(
            messages=(message,),
            client_key=key,
            state=TurnState.OPEN,
            model=state_of(chat).route.name,
            origin=self._options.origin,
        )
        log.check([opening])
        carrying.refuse(message, state_of(chat).route.protocol)
        return Going(self._room, chat, self._toolbox(), Turn(opening, key))

    def _resumed(self) -> Program[Going]:
        if isinstance(waiting := self._room.bench.turn, Going):
            return waiting
        try:
            turn = yield Act(self._recorder.left_open, (self._options.origin,))
        except PASSES:
            if not isinstance(broken := self._room.bench.broken, Going):
                raise
            return broken
        return Going(self._room, self._partner.next(), self._toolbox(), turn, is_resumed=True)

    def _toolbox(self) -> Toolbox:
        return Toolbox(self._recorder, self._options, self._trouble)

    def _said(
        self,
        text: str | None,
        files: Any,
        /,
        *,
        stream: bool = False,
        on_chunk: OnChunk | None = None,
        **misspelt: object,
    ) -> Program[ChatMessage]:
        refuse_unknown(misspelt, ("text", "with_", "on_chunk"), "a turn", "; attachments are given by with_=")
        self._refuse_if_closed()
        expect(text, (str, type(None)), "what the user says is a str")
        if on_chunk is not None and not callable(on_chunk):
            raise Mistake(f"`on_chunk` is called with each piece of the answer, so it is no {type(on_chunk).__name__}")
        going = yield from self._begun(text, files)
        if not self._is_warm and self._options.pump in {"thread", "inline"}:
            self._is_warm = True
            yield Act(self._warm)
        try:
            reply = yield from going.run(stream=stream, on_chunk=on_chunk)
        finally:
            if self._options.pump == "thread":
                self._pump.kick()
        if self._options.pump == "inline":
            yield Invoke(self._pump.run, blocking=True)
        return reply

    def _warm(self) -> None:
        try:
            thread = self._thread_id
        except PASSES:  # the turn counts it
            return
        self._pump.warm(thread)

    def _look(self) -> Context:
        state = state_of(self._partner.chat)
        takes = asking.takes_tools(state, self._options.past)
        terms = asking.terms_of(beside(state, self._toolbox().tools(takes=takes)), self._options)
        return contexts.look(self._home.store, self._home.name, self._thread_id, terms)

    def _pending(self) -> list[ToolCall]:
        waiting = self._room.bench.turn
        return list(waiting.undecided) if isinstance(waiting, Going) else undecided(self._recorder.database, self.key)

    def _status(self) -> MemoryStatus:
        context = self._room.recollection.context
        shown = () if context is None or context.shown is None else context.shown.lines
        return MemoryStatus(
            trouble=self._trouble.counts,
            last_error=self._trouble.last,
            waiting=self._recorder.spool.messages,
            refused=self._recorder.backlog.refused,
            is_open=bool(self._pending()),
            can_resume=self._can_resume(),
            epoch=None if context is None else context.epoch.n,
            reason=None if context is None else context.epoch.reason,
            turns_when=None if context is None else context.turns_when,
            memory_bytes=0 if context is None else context.memory_bytes,
            hidden=0 if context is None else context.hidden,
            behind=0 if context is None or not self._pump.summarises else context.hidden,
            placeholders=sum(text == PLACEHOLDER for _, text in shown),
            unbuilt=self._pump.left,
            hindrance=self._pump.hindrance,
            bad_answers=self._pump.bad_answers,
        )

    def _can_resume(self) -> bool:
        bench = self._room.bench
        is_left = bench.turn is not None or bench.broken is not None
        if is_left and self._recorder.spool.messages:  # the log does not know of it yet
            return True
        try:
            return is_unanswered(self._recorder.database, self.key)
        except PASSES:
            return is_left

    def _cost(self) -> Costs:
        try:
            return self._thread.cost()
        except UnknownThread:  # nothing was said yet
            return Costs(talk=Spent(), memory=Spent())

    def _forked(self, at: int | None, key: str, title: str | None) -> tuple[Everlog, str, Partner, Options]:
        self._refuse_if_closed()
        thread = self._thread
        if self._thread_id is None:
            raise UnknownThread(
                f"nothing was said in thread {self.key!r} yet, so there is nothing to fork; attach to {key!r} instead"
            )
        thread.fork(thread.row().next if at is None else at, key, title=title)
        return self._home, key, self._partner.for_fork(), self._options

    def _refuse_if_closed(self) -> None:
        """Make sure that what is said can be recorded or kept.

        Raises:
            Mistake: the memory, or its database, was closed.
        """
        if self._is_closed or self._home.store.is_closed:
            what = "memory" if self._is_closed else "database of the memory"
            raise Mistake(f"the {what} was closed; nothing was recorded or asked: attach to thread {self.key!r} again")

    def _close(self) -> None:
        self._is_closed = True
        self._pump.close()
        self._recorder.close()
        if self._owns:
            self._home.close()
