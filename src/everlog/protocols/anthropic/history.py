"""Conversations of Anthropic's Messages: the list `messages`, and `system` beside it."""

from collections.abc import Sequence

from everlog.messages import JSON, Call, Kind, Media, Message, Result
from everlog.protocols.draft import Draft
from everlog.protocols.exchange import MODEL, Raw, Said
from everlog.protocols.media import base64_text, from_base64, from_url, pieces, unsupported
from everlog.protocols.shapes import Record, array, dumps, loads, record, string

NAME = "anthropic"

KINDS: dict[str, Kind] = {"system": "system", "user": "user", "assistant": "assistant"}

REASONING = frozenset({"thinking", "redacted_thinking"})

STEPS = frozenset({"server_tool_use", "mcp_tool_use"})
"""Blocks in which the provider's own tools begin to run."""

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def parse_history(body: Record) -> tuple[Said, ...]:
    """Return the conversation of a request body; each wire message is one `Said` that keeps it."""
    out: list[Said] = []
    if (system := body.get("system")) is not None:
        words = Draft(NAME, "system")
        read(system, words)
        raw = Raw(protocol=NAME, items=(system,), field="system")
        out.append(Said(messages=words.ended(even_empty=True), raw=raw))
    items = array(body.get("messages"))
    return (*out, *(Said(messages=parse_message(record(one)), raw=Raw(protocol=NAME, items=(one,))) for one in items))


def parse_message(item: Record) -> tuple[Message, ...]:
    """Return what one wire message says; nothing if its role is unknown."""
    kind = KINDS.get(string(item.get("role")))
    if kind is None:
        return ()
    draft = Draft(NAME, kind)
    read(item.get("content"), draft)
    return draft.ended(even_empty=True)


def read(content: object, draft: Draft) -> None:
    """Add content, a text or a list of blocks, to a draft.

    Text with citations comes in several blocks; those are one text, while other texts are lines of their own.
    """
    if isinstance(content, str):
        draft.say(content)
    before: Record = {}
    for block in array(content):
        shape = record(block)
        kind = string(shape.get("type"))
        if kind == "text" and isinstance(shape.get("text"), str):
            draft.say(shape["text"], glued=_is_glued(before, shape))
        elif kind == "tool_use":
            draft.call(_call(shape))
        elif kind == "tool_result":
            words = Draft(NAME, "tool_result")
            read(shape.get("content"), words)
            draft.answer(Result(call_id=string(shape.get("tool_use_id")), failed=shape.get("is_error") is True), words)
        elif (media := _media(shape)) is not None:
            draft.show(media)
        elif kind not in REASONING:
            draft.keep(block)
        before = shape


def _is_glued(before: Record, block: Record) -> bool:
    return before.get("type") == "text" and bool(before.get("citations") or block.get("citations"))


def _call(block: Record) -> Call:
    given = block.get("input")
    words = given if isinstance(given, str) else dumps({} if given is None else given)
    return Call(call_id=string(block.get("id")), name=string(block.get("name")), arguments=words)


def _media(block: Record) -> Media | None:
    if string(block.get("type")) not in {"image", "document"}:
        return None
    source = record(block.get("source"))
    name, stated = string(block.get("title")) or None, string(source.get("media_type"))
    data = source.get("data")
    match source.get("type"):
        case "base64":
            return from_base64(data, stated, name)
        case "text" if isinstance(data, str):
            return Media(media_type=stated or "text/plain", content=data.encode("utf-8", "surrogatepass"), name=name)
        case "url":
            found = "image/*" if block["type"] == "image" else "application/pdf"
            return from_url(string(source.get("url")), found, name)
        case _:
            return None


def with_history(body: Record, history: Sequence[Said]) -> Record:
    """Return the body with another conversation in it, and nothing else changed."""
    system, messages = render_history(history)
    out = {**body, "messages": messages} if messages or isinstance(body.get("messages"), list) else dict(body)
    if system is not None:
        return {**out, "system": system}
    if out.get("system") is not None:
        del out["system"]
    return out


def render_history(history: Sequence[Said]) -> tuple[JSON, list[JSON]]:
    """Return a conversation as the field `system` and wire messages.

    System messages that this protocol did not write are blocks of `system`; results in a row are one user message.

    Raises:
        UnsupportedAttachment: a file of a type that this protocol does not carry.
    """
    system = [field for said in history if (field := _system_field(said)) is not None]
    messages: list[JSON] = []
    results: list[JSON] | None = None
    for said in history:
        raw = said.raw_in(NAME)
        if _system_field(said) is not None:
            continue
        if raw is not None:
            messages += _marked_messages(list(raw.items)) if said.cached else raw.items
            results = None
            continue
        blocks = _marked(_blocks(said)) if said.cached else _blocks(said)
        is_results = all(message.kind == "tool_result" for message in said.messages)
        if results is not None and is_results:
            results += blocks
        elif blocks:
            role = "assistant" if said.messages[0].kind in MODEL else "user"
            messages.append({"role": role, "content": blocks})
            results = blocks if is_results else None
    return _system(system), messages


def _system_field(said: Said) -> JSON:
    """Return what a `Said` contributes to the field `system`; None if it stands among the messages."""
    raw = said.raw_in(NAME)
    if raw is not None:
        if raw.field != "system":
            return None
        return _marked_system(raw.items[0]) if said.cached else raw.items[0]
    if not said.messages or any(message.kind != "system" for message in said.messages):
        return None
    blocks: list[JSON] = [_text(message.text) for message in said.messages if message.text.strip()]
    return _marked(blocks) if said.cached else blocks


def _system(fields: Sequence[JSON]) -> JSON:
    fields = [field for field in fields if field != []] or fields[:1]
    if len(fields) < 2:
        return fields[0] if fields else None
    return [block for field in fields for block in ([_text(field)] if isinstance(field, str) else array(field))]


def _blocks(said: Said) -> list[JSON]:
    out: list[JSON] = []
    for message in said.messages:
        if (call := message.call) is not None:
            out.append({"type": "tool_use", "id": call.call_id, "name": call.name, "input": arguments(call.arguments)})
        elif (result := message.result) is not None:
            content = pieces(message, NAME, _text, _media_block)
            failed = {"is_error": True} if result.failed else {}
            out.append({"type": "tool_result", "tool_use_id": result.call_id, "content": content, **failed})
        else:
            out += pieces(message, NAME, _text, _media_block)
    return [block for block in out if record(block).get("type") != "text" or string(record(block).get("text")).strip()]


def arguments(text: str) -> JSON:
    """Return the object that JSON text of arguments stands for; text that is none is kept under one name."""
    parsed = loads(text) if text else {}
    return parsed if isinstance(parsed, dict) else {"arguments": text}


def _text(text: str) -> Record:
    return {"type": "text", "text": text}


def _media_block(media: Media) -> Record:
    source: Record
    if media.content is None:
        source = {"type": "url", "url": media.url}
    else:
        source = {"type": "base64", "media_type": media.media_type, "data": base64_text(media)}
    if media.media_type in IMAGES or (media.media_type == "image/*" and media.content is None):
        return {"type": "image", "source": source}
    title = {"title": media.name} if media.name else {}
    if media.media_type == "application/pdf":
        return {"type": "document", "source": source, **title}
    if media.media_type == "text/plain" and media.content is not None:
        words = media.content.decode("utf-8", "replace")
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": words}, **title}
    raise unsupported(media, NAME)


def _marked(blocks: list[JSON]) -> list[JSON]:
    """Return blocks of which the last that may ends what is to be cached."""
    for place in range(len(blocks) - 1, -1, -1):
        block = record(blocks[place])
        if string(block.get("type")) not in REASONING:
            if "cache_control" in block:
                return blocks
            return [*blocks[:place], {**block, "cache_control": {"type": "ephemeral"}}, *blocks[place + 1 :]]
    return blocks


def _marked_system(value: JSON) -> JSON:
    return _marked([_text(value)] if isinstance(value, str) else array(value))


def _marked_messages(items: list[JSON]) -> list[JSON]:
    last = record(items[-1]) if items else {}
    content = last.get("content")
    if not content:
        return items
    blocks = [_text(content)] if isinstance(content, str) else array(content)
    return [*items[:-1], {**last, "content": _marked(blocks)}]
