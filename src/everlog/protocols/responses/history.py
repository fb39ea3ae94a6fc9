"""Conversations of Responses: the list `input`, and `instructions` beside it.

An item is one thing: a message, a call, an output, a piece of reasoning. What the model said at once is a run of items.
"""

from collections.abc import Iterator, Sequence

from everlog.messages import JSON, Call, Kind, Media, Message, Result, Unknown
from everlog.protocols.draft import Draft
from everlog.protocols.exchange import MODEL, Raw, Said
from everlog.protocols.media import data_url, from_base64, from_url, openai_image, pieces, unsupported
from everlog.protocols.shapes import Record, array, dumps, record, string

NAME = "responses"

KINDS: dict[str, Kind] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that are calls of the caller's tools, and where their arguments are."""

_BREAKPOINT: Record = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def is_models(item: JSON) -> bool:
    """Whether an item is the model's: its words, reasoning, calls, and steps of the provider's tools."""
    shape = record(item)
    kind = string(shape.get("type"))
    if kind in {"", "message"}:
        return shape.get("role") == "assistant"
    return not kind.endswith("_output") and kind not in {
        "item_reference",
        "mcp_approval_response",
        "compaction_trigger",
    }


def parse_history(body: Record) -> tuple[Said, ...]:
    """Return the conversation of a request body; each `Said` keeps its items."""
    out: list[Said] = []
    if isinstance(instructions := body.get("instructions"), str):
        words = Draft(NAME, "system")
        words.say(instructions)
        raw = Raw(protocol=NAME, items=(instructions,), field="instructions")
        out.append(Said(messages=words.ended(even_empty=True), raw=raw))
    given = body.get("input")
    if isinstance(given, str):
        raw = Raw(protocol=NAME, items=(given,), field="input")
        out.append(Said(messages=(Message(kind="user", text=given),), raw=raw))
    runs = _runs(array(given))
    return (*out, *(Said(messages=parse_items(run), raw=Raw(protocol=NAME, items=tuple(run))) for run in runs))


def _runs(items: list[JSON]) -> Iterator[list[JSON]]:
    run: list[JSON] = []
    for item in items:
        if run and not (is_models(run[-1]) and is_models(item)):
            yield run
            run = []
        run.append(item)
    if run:
        yield run


def parse_items(items: Sequence[JSON]) -> tuple[Message, ...]:
    """Return what a run of items says."""
    messages: list[Message] = []
    draft = Draft(NAME, "assistant")
    for item in items:
        shape = record(item)
        kind = string(shape.get("type"))
        if kind in {"", "message"} and (speaker := KINDS.get(string(shape.get("role")))):
            if speaker == "assistant":
                _read(shape.get("content"), draft)
            else:
                words = Draft(NAME, speaker, id=string(shape.get("id")) or None)
                _read(shape.get("content"), words)
                messages += words.ended(even_empty=True)
        elif kind in CALLS:
            _call(shape, draft)
        elif kind.endswith("_call_output") and isinstance(shape.get("call_id"), str):
            words = Draft(NAME, "tool_result")
            _read(shape.get("output"), words)
            draft.answer(Result(call_id=shape["call_id"]), words)
        elif kind != "reasoning":
            draft.keep(item)
    return (*messages, *draft.ended())


def _call(item: Record, draft: Draft) -> None:
    name, words = string(item.get("name")), string(item.get(CALLS[item["type"]]))
    draft.call(Call(call_id=string(item.get("call_id")), name=name, arguments=words))


def _read(content: object, draft: Draft) -> None:
    if isinstance(content, str):
        draft.say(content)
    elif isinstance(content, dict):
        draft.say(dumps(content))
    for part in array(content):
        shape = record(part)
        kind = string(shape.get("type"))
        if kind in {"input_text", "output_text", "text"} and isinstance(shape.get("text"), str):
            draft.say(shape["text"])
        elif kind == "refusal" and isinstance(shape.get("refusal"), str):
            draft.say(shape["refusal"])
        elif (media := _media(shape)) is not None:
            draft.show(media)
        else:
            draft.keep(part)


def _media(part: Record) -> Media | None:
    name = string(part.get("filename")) or None
    match part.get("type"):
        case "input_image":
            return openai_image(part)
        case "input_file" if data := string(part.get("file_data")):
            return from_url(data, "application/pdf", name) if ":" in data[:8] else from_base64(data, "", name)
        case "input_file":
            return from_url(string(part.get("file_url")), "application/pdf", name)
        case _:
            return None


def with_history(body: Record, history: Sequence[Said]) -> Record:
    """Return the body with another conversation in it, and nothing else changed."""
    instructions, items = render_history(history)
    spoken = [raw for said in history if (raw := said.raw_in(NAME)) is None or raw.field != "instructions"]
    out = dict(body)
    if len(spoken) == 1 and spoken[0] is not None and spoken[0].field == "input":
        out["input"] = spoken[0].items[0]
    elif items or isinstance(body.get("input"), list):
        out["input"] = items
    if instructions is not None:
        out["instructions"] = instructions
    elif isinstance(body.get("instructions"), str):
        del out["instructions"]
    return out


def render_history(history: Sequence[Said]) -> tuple[str | None, list[JSON]]:
    """Return a conversation as instructions and input items.

    System messages that this protocol did not write are instructions, but those that end what is to be cached are items.
    Attachments of tool results follow the results of their round as a user message.

    Raises:
        UnsupportedAttachment: a file of a type that this protocol does not carry.
    """
    instructions: list[str] = []
    first: list[JSON] = []
    rest: list[JSON] = []
    held: list[JSON] = []
    for said in history:
        raw = said.raw_in(NAME)
        if held and not all(message.kind == "tool_result" for message in said.messages):
            rest.append({"role": "user", "content": held})
            held = []
        if _field(said) == "instructions" or (raw is None and _is_system(said)):
            words = "\n\n".join(message.text for message in said.messages)
            if said.cached:
                first += _marked([_message("system", [_text_part(words)])])
            else:
                instructions.append(words)
        elif raw is not None:
            kept: list[JSON] = [_message("user", raw.items[0])] if raw.field == "input" else list(raw.items)
            rest += _marked(kept) if said.cached else kept
        else:
            items, shown = _render(said)
            rest += _marked(items) if said.cached else items
            held += shown
    if held:
        rest.append(_message("user", held))
    return "\n\n".join(instructions) if instructions else None, first + rest


def _field(said: Said) -> str:
    raw = said.raw_in(NAME)
    return "" if raw is None else raw.field


def _is_system(said: Said) -> bool:
    return bool(said.messages) and all(message.kind == "system" for message in said.messages)


def _render(said: Said) -> tuple[list[JSON], list[JSON]]:
    """Return the items, and the attachments of tool results among them."""
    out: list[JSON] = []
    shown: list[JSON] = []
    for message in said.messages:
        if (call := message.call) is not None:
            item = {"type": "function_call", "call_id": call.call_id, "name": call.name}
            out.append({**item, "arguments": call.arguments or "{}"})
        elif (result := message.result) is not None:
            out.append({"type": "function_call_output", "call_id": result.call_id, "output": message.text})
            shown += [
                _media_part(part) for part in message.parts if isinstance(part, Media) and (part.content or part.url)
            ]
        elif message.kind in MODEL:
            own = [part.value for part in message.parts if isinstance(part, Unknown) and part.source == NAME]
            out += [_message("assistant", message.text)] if message.text else []
            out += own
        else:
            parts = pieces(message, NAME, _text_part, _media_part)
            out.append(_message("system" if message.kind == "system" else "user", parts))
    return out, shown


def _message(role: str, content: JSON) -> Record:
    return {"role": role, "content": content}


def _text_part(text: str) -> Record:
    return {"type": "input_text", "text": text}


def _media_part(media: Media) -> Record:
    if media.media_type.startswith("image/"):
        return {"type": "input_image", "detail": "auto", "image_url": data_url(media)}
    if media.media_type.startswith(("audio/", "video/")):
        raise unsupported(media, NAME)
    if media.content is not None:
        return {"type": "input_file", "filename": media.name or "file", "file_data": data_url(media)}
    return {"type": "input_file", "file_url": media.url}


def _marked(items: list[JSON]) -> list[JSON]:
    """Return items whose last one ends what is to be cached, if it is a message that may."""
    last = record(items[-1]) if items else {}
    content = last.get("content")
    if string(last.get("role")) not in {"user", "system", "developer"} or not content:
        return items
    parts = [_text_part(content)] if isinstance(content, str) else list(content)
    if "prompt_cache_breakpoint" not in parts[-1]:
        parts[-1] = {**parts[-1], **_BREAKPOINT}
    return [*items[:-1], {**last, "content": parts}]
