"""What a client asked and was answered, on the wire, as an exchange that can be kept: pure."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from everlog.chat.cost import cost_of
from everlog.conversation.alignment.values import Answer, Caller, Request
from everlog.errors import EverlogError
from everlog.log import TurnState
from everlog.messages import Message, Origin
from everlog.protocols import Format
from everlog.protocols.exchange import Reply, Said, Usage
from everlog.protocols.shapes import Record, array, loads, record, string
from everlog.protocols.sse import Frames
from everlog.registry import Model, builtin
from everlog.surfaces.proxy.hidden.items import PREFIX
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.identity import identify, opaque
from everlog.surfaces.proxy.recording.profiles import profile_of
from everlog.surfaces.proxy.recording.profiles.rules import Facts
from everlog.surfaces.proxy.recording.room import MOST_SAID

LONGEST_SESSION = 160
"""Characters of a session's name that leave room for the client's name before it and a number behind it, in a key."""


def body_of(data: bytes) -> Record | None:
    """Return the object that a body is; None where it is none."""
    try:
        found = loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    return found if isinstance(found, dict) else None


def is_too_long(body: Record) -> bool:
    """Return whether a request says more messages, and parts of them, than a conversation has."""
    said = [one for name in ("messages", "input") for one in array(body.get(name))]
    return len(said) + sum(len(array(one.get("content"))) for one in said if isinstance(one, dict)) > MOST_SAID


def parse_exchange(
    protocol: Format,
    headers: Headers,
    body: Record,
    *,
    caller: Caller,
    request: str,
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> Request:
    """Return what a client asked.

    Args:
        protocol: the format of the body.
        headers: those of the request, names in lower case.
        body: the parsed body.
        caller: whose key it came with.
        request: our id of it.
        aliases: further names of headers that say who asks, by field.
    """
    return parse_request(protocol, headers, body, caller=caller, request=request, aliases=aliases)[0]


def parse_request(
    protocol: Format,
    headers: Headers,
    body: Record,
    *,
    caller: Caller,
    request: str,
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Request, tuple[Said, ...]]:
    """Return what a client asked, and its history as it stands on the wire; see `parse_exchange`."""
    said = protocol.parse_history(body)
    facts = Facts(headers, body, tuple(message for one in said for message in one.messages))
    profile = profile_of(facts)
    history = tuple(map(profile.blocks.leave_out_of, said)) if profile.blocks.ends else said
    who = identify(headers, body, sources=profile.sources, aliases=aliases)
    session = who.session or ""
    name = (session if len(session) <= LONGEST_SESSION else _tag("", session)) or request
    user = caller.user or who.user or ""
    whose = f"@{_tag(caller.key, user)}" if caller.key else ""
    made = Request(
        messages=tuple(message for one in history for message in one.messages),
        name=f"{profile.name}:{name}{whose}",
        caller=replace(caller, user=user),
        session=session,
        after=opaque(after) if (after := string(body.get("previous_response_id"))) else None,
        held=opaque(held) if (held := conversation(body)) else None,
        origin=Origin(
            request=request,
            session=session or None,
            user=user or None,
            project=caller.project or who.project,
            cwd=who.cwd,
        ),
        model=opaque(model) if (model := string(body.get("model"))) else None,
        learns=Controls.of(headers).learns,
        is_side=profile.is_side(facts) and not string(body.get("previous_response_id")).startswith(PREFIX),
    )
    return made, history


def heard_answer(
    protocol: Format, pieces: list[bytes], *, is_stream: bool, is_whole: bool, is_stored: bool, provider: str | None
) -> Answer | None:
    """Return an answer as far as it was heard; None where it is none that belongs to the conversation.

    The pieces of a stream are taken out of the list as they are read, so that no more is held than that and its words.
    """
    if not is_stream:
        body = body_of(b"".join(pieces))
        if body is None:
            return Answer(state=TurnState.ABORTED)
        if protocol.parse_fault(body) is not None:
            return None
        return parse_answer(protocol.parse_reply(body), is_whole=is_whole, is_stored=is_stored, provider=provider)
    stream, frames = protocol.stream(), Frames()
    pieces.reverse()
    while pieces:
        for event in frames.feed(pieces.pop()):
            stream.feed(event)
    reply = stream.reply()
    is_ended = is_whole and stream.fault is None and (stream.done or reply.stop is not None)
    return parse_answer(reply, is_whole=is_ended, is_stored=is_stored, provider=provider)


def parse_answer(reply: Reply, *, is_whole: bool, is_stored: bool, provider: str | None = None) -> Answer:
    """Return what a client was answered.

    Args:
        reply: the answer, as far as it came.
        is_whole: whether it came to its end.
        is_stored: whether the client may name it later instead of sending it again.
        provider: whose prices count, a name in the registry; None where nobody knows them.
    """
    messages = tuple(_with_model(one) for one in reply.said.messages if one.text or one.parts)
    state = TurnState.COMPLETE if is_whole and reply.finish != "failed" else TurnState.PARTIAL
    if not messages and state is TurnState.PARTIAL:
        state = TurnState.ABORTED
    id_ = None if reply.id is None else opaque(reply.id)
    items = tuple(_items(reply, messages)) if is_stored else ()
    named = {place: item for item, place in reversed(items)}
    return Answer(
        messages=tuple(replace(one, id=named.get(n)) for n, one in enumerate(messages)) if named else messages,
        id=id_,
        state=state,
        ids=((id_, len(messages) - 1), *items) if is_stored and messages and id_ is not None else items,
        usage=reply.usage,
        cost_usd=None if reply.usage is None else cost_usd(reply.usage, reply.model or "", provider),
    )


def cost_usd(usage: Usage, name: str, provider: str | None) -> float | None:
    """Return what an answer cost, as the provider says, or by its price of the model that answered, if it is known."""
    model = None if provider is None else _priced(provider, name)
    return usage.cost_usd if model is None else cost_of(usage, model).total_usd


@lru_cache(maxsize=1024)
def _priced(provider: str, name: str) -> Model | None:
    try:
        return builtin().find(name, provider=provider)
    except EverlogError:
        return None


def _items(reply: Reply, messages: Sequence[Message]) -> Iterator[tuple[str, int]]:
    """Yield the ids of the items of an answer, with the message that each stands for."""
    words = next((n for n, one in enumerate(messages) if one.kind == "assistant"), None)
    calls = {one.call.call_id: n for n, one in enumerate(messages) if one.call is not None}
    for item in map(record, reply.said.raw.items if reply.said.raw is not None else ()):
        place = words if item.get("type") == "message" else calls.get(string(item.get("call_id")))
        if place is not None and (id_ := string(item.get("id"))):
            yield opaque(id_), place


def conversation(body: Record) -> str:
    """Return the id of the conversation that a request goes on with; '' if it names none."""
    named = body.get("conversation")
    return string(record(named).get("id")) or string(named)


def _tag(key: str, user: str) -> str:
    """Return what parts the names of threads of different callers: none learns from its own that another's is there."""
    return hashlib.sha256(f"{key}/{user}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _with_model(message: Message) -> Message:
    return message if message.model is None else replace(message, model=opaque(message.model))
