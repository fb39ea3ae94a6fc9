"""A summary as it is stored: JSON, one list for each section."""

import json
from typing import Any

from everlog.errors import Damaged, expect
from everlog.memory.rolling.outline import Item, Outline
from everlog.memory.rolling.rows import MEND
from everlog.tokens import text_of, utf8

_ITEMS = ("decisions", "commitments", "uncertainties", "strands")
_LINES = ("topics", "tools")
_MAYBE_INT = (int, type(None))


def encode(outline: Outline) -> bytes:
    """Return a summary's stored form."""
    value: dict[str, Any] = {name: [_listed(item) for item in getattr(outline, name)] for name in _ITEMS}
    value |= {name: list(getattr(outline, name)) for name in _LINES}
    value |= {"guide": list(outline.guide), "pointers": list(map(list, outline.pointers)), "state": outline.state}
    return utf8(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def decode(plain: bytes) -> Outline:
    """Return what `encode` was given.

    Raises:
        Damaged: it is not a summary.
    """
    try:
        value = json.loads(text_of(plain))
        items = {name: tuple(_item(*one) for one in value[name]) for name in _ITEMS}
        topics, tools = (tuple(map(_words, value[name])) for name in _LINES)
        horizon, completed, current, following = map(_words, value["guide"])
        return Outline(
            guide=(horizon, completed, current, following),
            topics=topics,
            tools=tools,
            pointers=tuple((_number(first), _number(last)) for first, last in value["pointers"]),
            state=_words(value["state"]),
            **items,
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Damaged(f"a summary of a conversation cannot be read; {MEND}") from None


def _listed(item: Item) -> list[Any]:
    return [item.text, item.source, item.first, item.closed, item.closed_by]


def _item(text: Any, source: Any, first: Any, closed: Any, closed_by: Any) -> Item:
    expect(source, _MAYBE_INT, "a source is an int or None")
    expect(closed, (str, type(None)), "a reason is a str or None")
    expect(closed_by, _MAYBE_INT, "a source is an int or None")
    return Item(text=_words(text), source=source, first=_number(first), closed=closed, closed_by=closed_by)


def _words(value: Any) -> str:
    expect(value, str, "words are a str")
    return str(value)


def _number(value: Any) -> int:
    expect(value, int, "a position is an int")
    return int(value)
