"""Texts that come in pieces, joined once: adding to a long text piece by piece would copy all of it each time."""

from collections.abc import Sized
from typing import Any

from everlog.protocols.shapes import Record
from everlog.protocols.sse import EventTooLarge

MOST_ITEMS = 1024
"""The most calls, blocks or parts that an answer under way may have; each new piece is looked for among them."""


class Growing(list[str]):
    """The pieces of a text that is not whole yet."""


class Seams:
    """Where one text of an answer ends and another begins: each is a line of its own."""

    def __init__(self) -> None:
        self._last: object = None

    def joined(self, place: object, text: str, *, glued: bool = False) -> str:
        """Return a piece of the text at a place, behind a line break if another text was before it."""
        is_new = self._last not in (None, place) and not glued
        self._last = place
        return "\n" + text if is_new else text


def refuse_more(items: Sized) -> None:
    """Make sure that there is room for one more item.

    Raises:
        EventTooLarge: there is not.
    """
    if len(items) >= MOST_ITEMS:
        raise EventTooLarge(f"a stream has more than {MOST_ITEMS} calls, blocks or parts")


def grow(whole: Record, name: str, piece: str) -> None:
    """Add a piece to a text of an object; what was there and is no text is replaced."""
    old = whole.get(name)
    if isinstance(old, Growing):
        old.append(piece)
    elif isinstance(old, str):
        whole[name] = Growing((old, piece)) if old else piece
    else:
        whole[name] = piece


def grown(value: Any) -> Any:
    """Return a copy of a value with all texts in it whole."""
    if isinstance(value, Growing):
        return "".join(value)
    if isinstance(value, dict):
        return {name: grown(one) for name, one in value.items()}
    return [grown(one) for one in value] if isinstance(value, list) else value
