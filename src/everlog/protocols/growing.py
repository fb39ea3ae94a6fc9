"""Texts that come in pieces, joined once: adding to a long text piece by piece would copy all of it each time."""

from typing import Any

from everlog.protocols.shapes import Record


class Growing(list[str]):
    """The pieces of a text that is not whole yet."""


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
