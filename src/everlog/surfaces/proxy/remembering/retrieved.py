"""Answers of ours as a client of Responses gets them again, from what the log has of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from everlog.access import Requested
from everlog.conversation.alignment.answers import Given
from everlog.messages import JSON, Message, Unknown
from everlog.protocols.exchange import MODEL, Said, Usage
from everlog.protocols.responses import FORMAT
from everlog.protocols.responses.answers import REPEATED, render_usage
from everlog.protocols.shapes import Record, array, loads, record, string
from everlog.surfaces.proxy.hidden.items import PREFIX

ITEMS, MOST_ITEMS = 20, 100
"""How many items a page has, and how many it can have."""

UNKNOWN: Record = {"temperature": None, "top_p": None}
"""Settings that were the request's own, and are not kept."""


def response_of(id_: str, given: Given) -> Record:
    """Return an answer as it was given; settings of its request are not kept, and have the value that is none."""
    was = given.was
    return {
        "id": id_,
        "object": "response",
        "created_at": int((given.at if was is None else was.at).timestamp()),
        "status": "completed" if given.is_whole else "incomplete",
        "error": None,
        "incomplete_details": None,
        "model": given.messages[-1].model or (was and was.model) or "",
        **REPEATED,
        **UNKNOWN,
        "previous_response_id": None if was is None else was.previous,
        "output": _items(given.messages, id_, "out"),
        "usage": None if was is None else _usage(was),
    }


def page_of(id_: str, said: Sequence[Message], query: Mapping[str, str]) -> Record | None:
    """Return a page of what was asked; None where the query means nothing: `limit`, `order` and `after` are what they are
    at OpenAI.
    """
    items = _items(said, id_, "in")
    limit, order, after = query.get("limit", str(ITEMS)), query.get("order", "desc"), query.get("after")
    if not (limit.isdecimal() and 1 <= int(limit) <= MOST_ITEMS) or order not in ("asc", "desc"):
        return None
    if order == "desc":
        items.reverse()
    ids = [string(record(item).get("id")) for item in items]
    if after is not None and after not in ids:
        return None
    start = 0 if after is None else ids.index(after) + 1
    page = items[start : start + int(limit)]
    named = ids[start : start + int(limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": named[0] if named else None,
        "last_id": named[-1] if named else None,
        "has_more": start + len(page) < len(items),
    }


def _items(messages: Iterable[Message], id_: str, side: str) -> list[JSON]:
    """Return messages as items; those that came without an id get one of their place."""
    items = [item for message in messages for item in _item(message)]
    stamp = f"{id_.removeprefix(PREFIX)}_{side}"
    return [{**item, "id": string(item.get("id")) or f"item_{stamp}_{n}"} for n, item in enumerate(items)]


def _item(message: Message) -> list[Record]:
    done: Record = {"id": message.id, "status": "completed"}
    if (call := message.call) is not None:
        arguments = call.arguments or "{}"
        is_object = isinstance(loads(arguments), dict)
        kind, field = ("function_call", "arguments") if is_object else ("custom_tool_call", "input")
        return [{**done, "type": kind, "call_id": call.call_id, "name": call.name, field: arguments}]
    if message.kind in MODEL:
        own = [record(part.value) for part in message.parts if isinstance(part, Unknown) and part.source == FORMAT.name]
        said: Record = {**done, "type": "message", "role": "assistant", "content": [_text(message.text)]}
        return [*([said] if message.text else ()), *own]
    if message.kind in ("system", "note"):
        words: JSON = [{"type": "input_text", "text": message.text}]
        role = "developer" if message.kind == "system" else "user"
        return [{**done, "type": "message", "role": role, "content": words}]
    rendered = array(FORMAT.with_history({"input": []}, [Said(messages=(message,))])["input"])
    return [{**done, "type": "message", **record(item)} for item in rendered]


def _text(text: str) -> Record:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(was: Requested) -> JSON:
    if was.tokens_in is None and was.tokens_out is None:
        return None
    return render_usage(
        Usage(input=was.tokens_in, output=was.tokens_out, cache_read=was.tokens_read, cache_write=was.tokens_written)
    )
