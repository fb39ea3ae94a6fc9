"""The moves of a chat, each a program: one reply, one round of tools, one step, or all until the model has answered."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from everlog.chat.attempts import exchange
from everlog.chat.cost import sum_usages
from everlog.chat.effects import Effect, Emit, Invoke, Program
from everlog.chat.message import ChatMessage, chunk_of, reply_message
from everlog.chat.pending import is_complete, last_said, open_calls
from everlog.chat.requests import body_of, prepared_of
from everlog.chat.rounds import run_tools
from everlog.chat.routes import Route
from everlog.chat.state import State
from everlog.errors import BadReply, Cancelled
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Delta, Reply
from everlog.protocols.shapes import loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Another model in the place of one that failed."""

    error: BaseException
    """Why the one before it failed."""
    origin: str
    """The model that failed, as provider/id."""
    target: str
    """The model that is tried."""
    attempt: int
    """Number of the fallback, from 1."""
    is_streaming: bool = False
    has_yielded: bool = False
    """Whether pieces of the failed answer were already handed out; they are not taken back."""
    failure: BaseException | None = None
    """Why this one failed, once it has; None also where it answered."""


OnChunk = Callable[[Any], Any]


def complete(state: State, *, stream: bool = False, on_chunk: OnChunk | None = None) -> Program[ChatMessage | None]:
    """Step until the model has answered, or a call waits for approval; return the last message."""
    while not (is_complete(state.messages) or is_waiting(state)):
        yield from step(state, stream=stream, on_chunk=on_chunk)
    return last_said(state.messages) or (state.messages[-1] if state.messages else None)


def is_waiting(state: State) -> bool:
    """Whether nothing can go on without a decision: every open call waits for one."""
    calls = open_calls(state.messages)
    return bool(calls) and all(state.approvals.of(call, state.tools) is None for call in calls)


def step(state: State, *, stream: bool = False, on_chunk: OnChunk | None = None) -> Program[ChatMessage | None]:
    """Make one move: run the open calls, else ask the model; return the message that came of it, if one did."""
    if is_complete(state.messages):
        return None
    if not open_calls(state.messages):
        return (yield from generate(state, stream=stream, on_chunk=on_chunk))
    before = len(state.messages)
    yield from run_tools(state)
    return state.messages[-1] if len(state.messages) > before else None


def generate(state: State, *, stream: bool = False, on_chunk: OnChunk | None = None) -> Program[ChatMessage]:
    """Ask the model once, and the fallbacks where it fails; add the reply and return it. Tools are not run."""
    state.cancel.check()
    primary = state.route
    try:
        return (
            yield from _with_fallbacks(state, _Watch(is_streaming=stream or on_chunk is not None, on_chunk=on_chunk))
        )
    finally:
        state.route = primary


class _Watch:
    """Who gets the pieces of an answer: a function, or whoever reads the stream."""

    def __init__(self, *, is_streaming: bool, on_chunk: OnChunk | None) -> None:
        self.is_streaming = is_streaming
        self.has_yielded = False
        self._on_chunk = on_chunk

    def each(self, delta: Delta) -> Effect:
        """Hand a piece out."""
        self.has_yielded = True
        chunk = chunk_of(delta)
        return Emit(chunk) if self._on_chunk is None else Invoke(self._on_chunk, (chunk,))


def _with_fallbacks(state: State, watch: _Watch) -> Program[ChatMessage]:
    begun = len(state.ledger)
    left = list(state.fallbacks)
    fallback: Fallback | None = None
    while True:
        try:
            reply = yield from _reply(state, watch)
        except Exception as error:
            if fallback is not None:
                yield from state.fire("after_fallback", replace(fallback, failure=error))
            if not left or isinstance(error, Cancelled) or not isinstance(error, state.fallback_errors):
                raise
            fallback = _fallback(state, error, left.pop(0), watch, attempt=len(state.fallbacks) - len(left))
            yield from state.fire("before_fallback", fallback)
        else:
            message = reply_message(reply, state.ledger.since(begun))
            yield from state.add(message, is_announced=watch.is_streaming)
            if fallback is not None:
                yield from state.fire("after_fallback", fallback)
            return message


def _fallback(state: State, error: Exception, route: Route, watch: _Watch, *, attempt: int) -> Fallback:
    """Switch to another model."""
    origin, state.route = state.route, route
    return Fallback(
        error=error,
        origin=origin.name,
        target=route.name,
        attempt=attempt,
        is_streaming=watch.is_streaming,
        has_yielded=watch.has_yielded,
    )


PAUSES = 8
"""How often a provider may pause in the middle of an answer."""


def _reply(state: State, watch: _Watch) -> Program[Reply]:
    """Return a whole answer: where the provider pauses, it is asked to go on, and the pieces are one answer."""
    reply = yield from _piece(state, watch, None)
    for _ in range(PAUSES):
        if reply.finish != "pause":
            break
        reply = _joined(reply, (yield from _piece(state, watch, reply)), state.route.protocol)
    _refuse_malformed(reply)
    return reply


def _joined(first: Reply, second: Reply, protocol: str) -> Reply:
    body = {**second.body, "content": [*first.body["content"], *second.body.get("content", ())]}
    return replace(FORMATS[protocol].parse_reply(body), usage=sum_usages([first.usage, second.usage]))


def _piece(state: State, watch: _Watch, before: Reply | None) -> Program[Reply]:
    body = yield from body_of(state, [ChatMessage(said=before.said)] if before else (), stream=watch.is_streaming)
    prepared = prepared_of(state, body)
    if watch.is_streaming and before is None:
        yield from state.fire("before_message")
    reply = yield from exchange(
        prepared, ledger=state.ledger, cancel=state.cancel, clock=state.config.clock, each=watch.each
    )
    state.cancel.check()
    return reply


def _refuse_malformed(reply: Reply) -> None:
    for message in reply.said.messages:
        call = message.call
        if call is not None and _is_malformed(call.arguments.strip()):
            raise BadReply(
                f"the arguments of a call of {call.name} are no JSON; it ended with {reply.stop}", finish=reply.stop
            )


def _is_malformed(arguments: str) -> bool:
    return bool(arguments) and arguments != "null" and loads(arguments) is None
