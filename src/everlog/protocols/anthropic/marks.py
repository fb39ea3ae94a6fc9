"""Marks of what is to be cached: four in a request, counted over tools, system and messages."""

from collections.abc import Sequence

from everlog.messages import JSON
from everlog.protocols.shapes import Record, array, record

MARKS = 4


def capped(body: Record, fields: Sequence[str] = ("tools", "system", "messages")) -> Record:
    """Return the body with at most four marks; the first ones go, since a later mark covers what they cover.

    The automatic mark, `cache_control` of the body itself, is one of them.

    Args:
        body: a request.
        fields: where marks may go.
    """
    extra = _count(body) - MARKS
    out = body
    for field in fields:
        if extra > 0:
            kept, extra = _without(out.get(field), extra)
            out = {**out, field: kept}
    return out


def _count(value: JSON) -> int:
    """Return how many marks a body has: on itself, its tools, its blocks, and the blocks in them."""
    body = record(value)
    blocks = [*array(body.get("tools")), *array(body.get("system"))]
    for message in array(body.get("messages")):
        blocks += array(record(message).get("content"))
    inner = [one for block in blocks for one in array(record(block).get("content"))]
    return sum(bool(record(one).get("cache_control")) for one in [body, *blocks, *inner])


def _without(value: JSON, extra: int) -> tuple[JSON, int]:
    """Return tools, blocks or messages without their first `extra` marks, and how many are still too many."""
    if not isinstance(value, list):
        return value, extra
    out: list[JSON] = []
    for item in value:
        shape = record(item)
        if extra > 0 and isinstance(shape.get("content"), list):
            kept, extra = _without(shape["content"], extra)
            shape = {**shape, "content": kept}
            item = shape  # noqa: PLW2901 -- the same item, with less in it
        if extra > 0 and shape.get("cache_control"):
            extra -= 1
            item = {name: field for name, field in shape.items() if name != "cache_control"}  # noqa: PLW2901 -- the same
        out.append(item)
    return out, extra
