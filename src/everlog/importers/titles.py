"""Titles for conversations whose source gives none: the first words of the person."""

from collections.abc import Sequence

from everlog.messages import Message

LENGTH = 60
"""Characters of a title, about."""

_PROBED = 1_000
_SHORTEST = LENGTH // 2


def titled(messages: Sequence[Message]) -> str | None:
    """Return the beginning of what the person said first, on one line; what a client says in tags counts only if all is."""
    said = filter(None, (_line(message.text) for message in messages if message.kind == "user"))
    first = next(said, None)
    words = first
    while words is not None and words.startswith("<"):
        words = next(said, None)
    words = words or first
    if words is None or len(words) <= LENGTH:
        return words
    cut = words[:LENGTH]
    end = cut.rfind(" ")
    return f"{cut[:end] if end >= _SHORTEST else cut}…"


def _line(text: str) -> str:
    return " ".join(text[:_PROBED].split())
