"""A turn, as a program: record what the user says, ask, run tools, ask again, and record each word as it is said.

It yields the chat's effects, so that the chat's drivers run it, blocking or on an event loop; what it does on the
database are effects too. However it ends, the log says what was said: a reply that broke off is kept as far as it came.
"""

import logging
from dataclasses import replace

from everlog.chat import loop, rounds
from everlog.chat.async_chat import AsyncChat
from everlog.chat.chat import Chat
from everlog.chat.effects import Abandoned, Act, Program
from everlog.chat.loop import OnChunk
from everlog.chat.message import ChatMessage
from everlog.chat.pending import open_calls
from everlog.chat.state import State
from everlog.chat.tools import ToolCall
from everlog.context import Context, Held, Terms
from everlog.context.values import Status
from everlog.conversation.partners import as_messages, beside, state_of
from everlog.conversation.recording.units import Piece, Turn
from everlog.conversation.turn import again, asking
from everlog.conversation.turn.carrying import carried
from everlog.conversation.turn.entry import Entry
from everlog.conversation.turn.overhearing import Heard, overheard
from everlog.conversation.turn.parts import Numbers, Parts, of_reply, of_results
from everlog.conversation.turn.patience import Patience
from everlog.conversation.turn.room import Room
from everlog.conversation.turn.toolbox import Toolbox
from everlog.errors import Cancelled, ContextTooLong, SpendCapReached
from everlog.log import TurnState
from everlog.protocols.exchange import Said, Usage, said

_logger = logging.getLogger(__name__)


class Going:
    """A turn under way."""

    def __init__(
        self, room: Room, chat: Chat | AsyncChat, toolbox: Toolbox, turn: Turn, *, is_resumed: bool = False
    ) -> None:
        self.turn = turn
        self._room = room
        self._chat = chat
        self._state = state_of(chat)
        self._toolbox = toolbox
        self._is_resumed = is_resumed
        self._patience = Patience(toolbox)
        self._numbers = Numbers(turn.held)
        self._told = len(self._state.messages)
        """How many of the chat's messages are recorded, or are no part of the turn."""
        self._billed = len(self._state.ledger)
        self._context: Context | None = None
        self._terms: Terms | None = None
        self._is_out = False
        """Whether nobody said yet what became of the last request."""
        self._heard = Heard()
        self._was_too_long = False
        self._is_kept = False
        """Whether it failed, and is recorded as far as it came."""
        self._undecided: ChatMessage | None = None
        """The reply whose calls waited, as it was said: the log may have it redacted."""
        self._pending: Piece | None = None
        """What is being recorded; the act may have been cancelled before it began."""
        self._entry = Entry(
            room.recorder,
            room.bench,
            names=(room.place, id(self._state)),
            wait_s=room.options.wait_s,
            close=toolbox.close,
        )

    @property
    def undecided(self) -> tuple[ToolCall, ...]:
        """The calls that have no result yet, as they were shown to who decides."""
        if self._undecided is None:
            return ()
        waiting = {call.id for call in open_calls(self._state.messages)}
        return tuple(call for call in self._undecided.calls if call.id in waiting)

    @property
    def pending(self) -> str:
        """Names of the tools whose calls wait."""
        return ", ".join(dict.fromkeys(call.name for call in self.undecided)) or "decided ones"

    def run(self, *, stream: bool = False, on_chunk: OnChunk | None = None) -> Program[ChatMessage]:
        """Go on until the model has answered, or a call waits for approval; return the last message."""
        yield from self._enter()
        try:
            reply = yield from self._rounds(stream, on_chunk)
        except GeneratorExit:  # nobody runs it any more; the next turn closes this one
            self._entry.leave(self.turn)
            raise
        except BaseException as error:
            try:
                yield from self._fail(error)
            except BaseException as second:
                self._entry.break_off(self.turn, second)
                raise
            yield from self._entry.exit(self.turn)
            self._advise(error)
            raise
        yield from self._entry.exit(self.turn)
        return reply

    def _enter(self) -> Program[None]:
        yield from self._entry.enter(self, self.turn, is_resumed=self._is_resumed)
        self._heard, self._is_out, self._is_kept, self._pending = Heard(), False, False, None
        if not self._is_resumed:
            self._room.recollection.begin()
            self._state.approvals.forget()
            self._room.recollection.add([Said(messages=self.turn.opening.messages)])

    def _rounds(self, stream: bool, on_chunk: OnChunk | None) -> Program[ChatMessage]:
        while True:
            state = yield from self._prepare()
            if self._is_resumed and again.breaks_off(state):
                yield from self._ask_again()
                state = yield from self._prepare()
            if self._is_resumed and open_calls(state.messages):
                reply = self._as_said(state)
            else:
                reply = yield from self._ask(state, stream, on_chunk)
                yield from self._record_reply(reply)
                if not reply.calls:
                    return reply
            self._is_resumed = False
            if not loop.is_waiting(state):
                yield from rounds.run_tools(state)
                self._state.tool_options = state.tool_options
                yield from self._record_results(state)
                self._patience.note(reply.calls)
            if open_calls(state.messages):
                self._is_resumed = True
                self._undecided = _last_reply(state)
                self._room.bench.sit(self)
                return self._undecided

    def _ask_again(self) -> Program[None]:
        """Have the next request say that the answer which it ends with is asked for again."""
        self._room.recollection.add([again.SAID])
        position = self.turn.next
        held = Held(position=position, n=self._numbers.at(position), kind="round", said=(again.SAID,))
        yield from self._record(Piece(held=(held,)), status="cancelled")

    def _as_said(self, state: State) -> ChatMessage:
        """Return the reply whose calls are to be run, and have the chat hold those that were decided on."""
        reply, said = _last_reply(state), self._undecided
        if said is None or [call.id for call in said.calls] != [call.id for call in reply.calls]:
            return reply
        state.messages[:] = [said if one is reply else one for one in state.messages]
        return said

    def _prepare(self) -> Program[State]:
        """Compile the next request into the chat's messages, and return the chat as it is for that request."""
        room, chat = self._room, self._state
        room.allow(self._chat)
        mine = self._toolbox.tools(takes=asking.takes_tools(chat, room.options.past))
        state = beside(chat, mine)
        terms = replace(asking.terms_of(state, room.options), too_long=self._was_too_long)
        self._context = yield Act(room.recorder.prepare, (self.turn, terms))
        if self._context is None:
            said = room.recollection.said(terms.head.instructions, terms.consumer.budget)
        else:
            said = self._context.said
            room.recollection.keep(self._context, len(terms.head.instructions))
            self._toolbox.show(self._context.shown, self.turn)
        self._terms = replace(terms, open_at=self.turn.at)
        chat.messages[:] = as_messages(carried(said, chat.route.protocol))
        self._told = len(chat.messages)
        return asking.cached(state, terms.marking)

    def _ask(self, state: State, stream: bool, on_chunk: OnChunk | None) -> Program[ChatMessage]:
        """Ask once; where the provider finds the prompt too long, once more with a shorter one."""
        try:
            yield Act(self._room.purse.check)
        except SpendCapReached:
            yield from self._record(Piece(), status="not sent")
            raise
        try:
            return (yield from self._asked(state, stream, on_chunk))
        except ContextTooLong:
            if self._was_too_long or self._context is None:
                raise
        yield from self._record(Piece(), status="failed")
        self._was_too_long = True
        try:
            state = yield from self._prepare()
        finally:
            self._was_too_long = False
        return (yield from self._asked(state, stream, on_chunk))

    def _asked(self, state: State, stream: bool, on_chunk: OnChunk | None) -> Program[ChatMessage]:
        self._heard, self._is_out = Heard(), True
        asked = loop.generate(self._heard.listen(self._patience.asked(state)), stream=stream or on_chunk is not None)
        return (yield from overheard(asked, self._heard, on_chunk, self._entry.pace))

    def _record_reply(self, reply: ChatMessage) -> Program[None]:
        broken = tuple(map(self._room.redact, self._heard.broken))
        parts = of_reply(
            reply.said,
            tools=self._toolbox.names,
            position=self.turn.next + len(broken),
            numbers=self._numbers,
            redact=self._room.redact,
        )
        parts = replace(parts, entries=(*broken, *parts.entries), said=(*said(broken), *parts.said))
        ended = TurnState.PARTIAL if reply.finish == "length" else TurnState.COMPLETE
        state = TurnState.OPEN if reply.calls else ended
        self._told += 1
        self._room.recollection.add(parts.said)
        usage = reply.reply.usage if reply.reply is not None else None
        yield from self._record(_piece(parts, state), status="answered", usage=usage)

    def _record_results(self, state: State) -> Program[None]:
        fresh = [message.said for message in state.messages[self._told :]]
        self._told = len(state.messages)
        parts = of_results(
            fresh,
            tools=self._toolbox.names,
            position=self.turn.next,
            numbers=self._numbers,
            redact=self._room.redact,
        )
        self._room.recollection.add(fresh)
        if parts.entries or parts.held:
            yield from self._record(_piece(parts, TurnState.OPEN))

    def _fail(self, error: BaseException) -> Program[None]:
        """Record what came before it failed, and how the turn ended."""
        try:
            if (pending := self._pending) is not None:
                yield Act(self._room.recorder.record, (self.turn, pending))
                if pending.state is not TurnState.OPEN:
                    return  # it was over
            yield from self._record(self._rest(), status=self._outcome(error))
            self._is_kept = True
        except GeneratorExit:
            raise
        except Exception as trouble:  # noqa: BLE001 -- the error that matters is the first
            _logger.warning("the end of a turn was not recorded", extra={"error": type(trouble).__name__})

    def _advise(self, error: BaseException) -> None:
        """Have it go on if it is asked for again, and say so with the error."""
        if not self._is_kept:
            return
        self._is_resumed, self._undecided = True, None
        self._room.bench.fall(self)
        again.advise(error)

    def _rest(self) -> Piece:
        """Return what was said and is not recorded yet; what may not be stored is left out."""
        fresh = self._state.messages[self._told :]
        results = [one.said for one in fresh if one.role == "tool"]
        replies = [one.said for one in fresh if one.role == "assistant"]
        broken = self._heard.rest(replies, self._toolbox.names) if self._is_out else []
        self._room.recollection.add([*results, *broken])
        try:
            parts = of_results(
                [*results, *broken],
                tools=self._toolbox.names,
                position=self.turn.next,
                numbers=self._numbers,
                redact=self._room.redact,
            )
        except Exception as error:  # noqa: BLE001 -- a redactor of the user's; it stopped the turn, maybe for the same words
            _logger.warning(
                "the rest of a turn was not redacted, and is left out", extra={"error": type(error).__name__}
            )
            parts = Parts((), ())
        is_answered = bool(parts.entries or self.turn.said)
        return _piece(parts, TurnState.PARTIAL if is_answered else TurnState.ABORTED)

    def _outcome(self, error: BaseException) -> Status | None:
        if not self._is_out:
            return None
        return "cancelled" if isinstance(error, Cancelled | Abandoned) else "failed"

    def _record(self, piece: Piece, *, status: Status | None = None, usage: Usage | None = None) -> Program[None]:
        ledger = self._state.ledger.attempts
        attempts, self._billed = ledger[self._billed :], len(ledger)
        self._is_out = self._is_out and status is None
        whole = replace(
            piece,
            terms=self._terms,
            context=self._context,
            status=status,
            model=self._heard.model or self._state.route.name,
            usage=usage,
            attempts=attempts,
        )
        self._pending = whole
        yield Act(self._room.recorder.record, (self.turn, whole))
        self._pending = None


def _piece(parts: Parts, state: TurnState) -> Piece:
    return Piece(messages=parts.entries, held=parts.held, state=state)


def _last_reply(state: State) -> ChatMessage:
    return next(message for message in reversed(state.messages) if message.role == "assistant")
