"""Entries to summarise, shared by the unit tests of the rolling summary."""

from collections.abc import Sequence
from datetime import UTC, datetime

from everlog.messages import Entry, Message

AT = datetime(2026, 1, 2, tzinfo=UTC)


def entries(messages: Sequence[Message], start: int = 0) -> tuple[Entry, ...]:
    """Return messages as entries of one turn, from a position on."""
    return tuple(Entry(i=start + n, turn=0, message=message, at=AT) for n, message in enumerate(messages))
