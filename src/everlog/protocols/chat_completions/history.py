"""Conversations of Chat Completions: the list `messages`."""

from collections.abc import Sequence

from everlog.messages import JSON, Call, Kind, Media, Message, Result
from everlog.protocols.draft import Draft
from everlog.protocols.exchange import MODEL, Raw, Said
from everlog.protocols.media import base64_text, data_url, from_base64, from_url, openai_image, pieces, unsupported
from everlog.protocols.shapes import Record, array, record, string

NAME = "chat_completions"

KINDS: dict[str, Kind] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
    "function": "tool_result",
}

_BESIDE = ("refusal", "tool_calls", "function_call")
"""What a message may say beside its content."""

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_BREAKPOINT: Record = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def parse_history(body: Record) -> tuple[Said, ...]:
    """Return the conversation of a request body, each wire message as one `Said` that keeps it."""
    return tuple(
        Said(messages=parse_message(record(item)), raw=Raw(protocol=NAME, items=(item,)))
        for item in array(body.get("messages"))
    )


def parse_message(item: Record) -> tuple[Message, ...]:
    """Return what one wire message says; nothing if its role is unknown."""
    kind = KINDS.get(string(item.get("role")))
    if kind is None:
        return ()
    name = string(item.get("name")) or None
    if kind == "tool_result":
        draft, words = Draft(NAME, kind), Draft(NAME, kind)
        _read(item.get("content"), words)
        draft.answer(Result(call_id=string(item.get("tool_call_id")) or name or "", name=name), words)
        return draft.ended()
    content = item.get("content")
    if isinstance(content, str) and not any(map(item.get, _BESIDE)):
        return (Message(kind=kind, text=content, author=name),)
    draft = Draft(NAME, kind, author=name)
    _read(content, draft)
    draft.say(string(item.get("refusal")))
    for call in array(item.get("tool_calls")):
        _call(record(call), draft)
    if legacy := record(item.get("function_call")):
        draft.call(Call(call_id=string(legacy.get("name")), **_function(legacy)))
    return draft.ended(even_empty=True)


def _read(content: object, draft: Draft) -> None:
    if isinstance(content, str):
        draft.say(content)
    for part in array(content):
        shape = record(part)
        kind = string(shape.get("type"))
        if kind in {"text", "refusal"} and isinstance(shape.get(kind), str):
            draft.say(shape[kind])
        elif (media := _media(shape)) is not None:
            draft.show(media)
        else:
            draft.keep(part)


def _media(part: Record) -> Media | None:
    match part.get("type"):
        case "image_url":
            return openai_image(part)
        case "input_audio":
            audio = record(part.get("input_audio"))
            return from_base64(audio.get("data"), {"mp3": "audio/mpeg"}.get(string(audio.get("format")), "audio/wav"))
        case "file":
            file = record(part.get("file"))
            name = string(file.get("filename")) or None
            return from_url(string(file.get("file_data")), "application/pdf", name)
        case _:
            return None


def _call(call: Record, draft: Draft) -> None:
    if isinstance(call.get("function"), dict):
        draft.call(Call(call_id=string(call.get("id")), **_function(call["function"])))
    elif isinstance(custom := call.get("custom"), dict):
        name, words = string(custom.get("name")), string(custom.get("input"))
        draft.call(Call(call_id=string(call.get("id")), name=name, arguments=words))
    else:
        draft.keep(call)


def _function(function: Record) -> dict[str, str]:
    return {"name": string(function.get("name")), "arguments": string(function.get("arguments"))}


def with_history(body: Record, history: Sequence[Said]) -> Record:
    """Return the body with another conversation in it, and nothing else changed."""
    messages = render_history(history)
    return {**body, "messages": messages} if messages or isinstance(body.get("messages"), list) else body


def render_history(history: Sequence[Said]) -> list[JSON]:
    """Return a conversation as wire messages.

    System messages that this protocol did not write come first, in order; attachments of tool results follow the
    results of their round as a user message.

    Raises:
        UnsupportedAttachment: a file of a type that this protocol does not carry.
    """
    first: list[JSON] = []
    rest: list[JSON] = []
    held: list[JSON] = []
    for said in history:
        raw = said.raw_in(NAME)
        is_result = all(message.kind == "tool_result" for message in said.messages)
        if held and not is_result:
            rest.append({"role": "user", "content": held})
            held = []
        if raw is not None:
            rendered = list(raw.items)
        else:
            rendered, shown = _render(said)
            held += shown
        is_ours = raw is None and bool(said.messages) and all(message.kind == "system" for message in said.messages)
        (first if is_ours else rest).extend(_marked(rendered) if said.cached else rendered)
    if held:
        rest.append({"role": "user", "content": held})
    return first + rest


def _render(said: Said) -> tuple[list[JSON], list[JSON]]:
    """Return the wire messages, and the attachments of tool results among them."""
    out: list[JSON] = []
    shown: list[JSON] = []
    model = [message for message in said.messages if message.kind in MODEL]
    if model:
        out.append(_assistant(model))
    for message in said.messages:
        if message.result is not None:
            out.append({"role": "tool", "tool_call_id": message.result.call_id, "content": message.text})
            shown += [
                _media_part(part) for part in message.parts if isinstance(part, Media) and (part.content or part.url)
            ]
        elif message.kind == "system":
            out.append({"role": "system", "content": message.text})
        elif message.kind not in MODEL:
            parts = pieces(message, NAME, _text_part, _media_part)
            texts = [part["text"] for part in map(record, parts) if part.get("type") == "text"]
            content: JSON = "\n".join(texts) if len(texts) == len(parts) else parts
            out.append({"role": "user", "content": content})
    return out, shown


def _assistant(messages: Sequence[Message]) -> Record:
    words = "\n".join(message.text for message in messages if message.kind == "assistant" and message.text)
    calls: list[JSON] = [
        {
            "id": message.call.call_id,
            "type": "function",
            "function": {"name": message.call.name, "arguments": message.call.arguments or "{}"},
        }
        for message in messages
        if message.call is not None
    ]
    if calls:
        return {"role": "assistant", "content": words or None, "tool_calls": calls}
    return {"role": "assistant", "content": words}


def _text_part(text: str) -> Record:
    return {"type": "text", "text": text}


def _media_part(media: Media) -> Record:
    if media.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(media)}}
    if media.media_type in _AUDIO and media.content is not None:
        return {"type": "input_audio", "input_audio": {"data": base64_text(media), "format": _AUDIO[media.media_type]}}
    if media.content is not None and media.media_type == "application/pdf":
        return {"type": "file", "file": {"filename": media.name or "file.pdf", "file_data": data_url(media)}}
    raise unsupported(media, NAME)


def _marked(items: list[JSON]) -> list[JSON]:
    """Return wire messages whose last content part ends what is to be cached; a reply of the model cannot."""
    last = record(items[-1]) if items else {}
    content = last.get("content")
    if last.get("role") == "assistant" or not content:
        return items
    parts = [_text_part(content)] if isinstance(content, str) else list(content)
    if "prompt_cache_breakpoint" not in parts[-1]:
        parts[-1] = {**parts[-1], **_BREAKPOINT}
    return [*items[:-1], {**last, "content": parts}]
