"""What Responses asks of a history, and how one that does not keep to it is put right.

Rules, as the provider refuses what breaks them: each call has an output behind it, each output a call before it; a
reasoning item has behind it an item that it led to; no two items have the same id. Where a history goes on from one
that the server holds, outputs may answer calls that are not in it.
"""

import re
from collections.abc import Iterator

from everlog.messages import JSON
from everlog.protocols.pairs import Mark, paired
from everlog.protocols.responses.history import is_models
from everlog.protocols.shapes import Record, record, string

IDS = re.compile(r"[\x21-\x7e]+")
ID_LIMIT = 64

UNPAIRED = "local_shell_call"
"""A call whose output does not name it."""

PAIRS = (("mcp_approval_request", "id", "mcp_approval_response", "approval_request_id"),)
"""Kinds of items that belong together without a `call_id`."""


def repair(body: Record) -> Record:
    """Return the body with a lawful history; the same object if it was lawful."""
    items = body.get("input")
    if not isinstance(items, list):
        return body
    kept = items
    if not _goes_on(body, items):
        kept = _distinct(_led_to(_answered(items)))
    return body if kept == items else {**body, "input": kept}


def _goes_on(body: Record, items: list[JSON]) -> bool:
    """Whether the server holds a part of the history."""
    references = any(record(item).get("type") == "item_reference" for item in items)
    return references or bool(body.get("previous_response_id") or body.get("conversation"))


def _answered(items: list[JSON]) -> list[JSON]:
    """Return the items without calls that have no output, and outputs that have no call."""
    marks = list(_marks(items))
    pairs = paired(marks, IDS, ID_LIMIT, unique=True)
    fields = {mark.place: "call_id" for mark in marks}
    drop = {place[0] for place in fields if place not in pairs.ids}
    out: list[JSON] = []
    for i, item in enumerate(items):
        if (i, 0) in pairs.ids and record(item)["call_id"] != pairs.ids[i, 0]:
            out.append({**record(item), "call_id": pairs.ids[i, 0]})
        elif i not in drop:
            out.append(item)
    return _approved(out)


def _marks(items: list[JSON]) -> Iterator[Mark]:
    for i, item in enumerate(items):
        shape = record(item)
        call_id, kind = shape.get("call_id"), string(shape.get("type"))
        if isinstance(call_id, str) and kind != UNPAIRED:
            yield Mark((i, 0), call_id, is_call=not kind.endswith("_output"))


def _approved(items: list[JSON]) -> list[JSON]:
    """Return the items without answers to requests that are not there."""
    out = items
    for request, name, response, pointer in PAIRS:
        asked = {string(record(item).get(name)) for item in out if record(item).get("type") == request}
        out = [one for one in out if record(one).get("type") != response or string(record(one).get(pointer)) in asked]
    return out


def _led_to(items: list[JSON]) -> list[JSON]:
    """Return the items without reasoning that led to nothing that is still there."""
    out: list[JSON] = []
    follower: JSON = None
    for item in reversed(items):
        if record(item).get("type") != "reasoning":
            follower = item
        elif not is_models(follower):
            continue
        out.append(item)
    out.reverse()
    return out


def _distinct(items: list[JSON]) -> list[JSON]:
    """Return the items with each id once: what is there again is the same thing for a provider, and refused."""
    seen: set[str] = set()
    out: list[JSON] = []
    for item in items:
        name = record(item).get("id")
        if isinstance(name, str) and name in seen:
            if record(item).get("type") == "reasoning":
                continue
            item = {field: value for field, value in record(item).items() if field != "id"}  # noqa: PLW2901 -- as it is sent
        elif isinstance(name, str):
            seen.add(name)
        out.append(item)
    return out
