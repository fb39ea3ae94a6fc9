"""The summaries of one thread, as a unit of work sees them: the newest that can be believed.

A summary is believed if the log below it is what it was made of: the chain of the log at its end is a hash over all that
stands before, and the row holds a hash of that and of its position. One over erased words is dropped with them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from everlog import log
from everlog.errors import Damaged
from everlog.log import ThreadRow
from everlog.memory.interface import Digest
from everlog.memory.rolling import codec, rows
from everlog.memory.rolling.markdown import render
from everlog.memory.rolling.outline import Outline
from everlog.memory.rolling.window import Stands
from everlog.store import Unit
from everlog.store.keys import digest

_AT_ONCE = 4
"""Rows read by one statement on the way down to one that can be believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What stands for the entries `[0, upto)` of a thread."""

    upto: int
    text: str
    """The outline, as it is shown."""
    hash: str
    """32 hex digits over what it stands for: the same for the same stretch of the log."""
    prev: int
    """The summary that it goes on from stands for `[0, prev)`."""
    said_chars: int
    """Characters of the messages that it stands for."""

    @property
    def stands(self) -> Stands:
        """What the check needs of it."""
        user, assistant = injection(self)
        return Stands(upto=self.upto, chars=len(user) + len(assistant))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A summary, opened."""

    upto: int
    prev: int
    covered: Digest
    said_chars: int
    inputs: Digest
    fallback: bool
    outline: Outline


def injection(summary: Summary) -> tuple[str, str]:
    """Return what is put in front of a conversation: what the user is made to say, and the assistant (seed 002)."""
    return f"[Context Summary — compressed history of this conversation]\n{summary.text}", "[Context loaded]"


def latest(unit: Unit, thread: ThreadRow, upto: int | None = None) -> Summary | None:
    """Return the newest summary of a thread that stands for no entry from `upto` on; None if there is none.

    One that only points at what could not be summarised is passed over.
    """
    row = next((row for row in believed(unit, thread, upto) if not row.fallback), None)
    if row is None:
        return None
    return Summary(upto=row.upto, text=render(row.outline), hash=row.covered, prev=row.prev, said_chars=row.said_chars)


def believed(unit: Unit, thread: ThreadRow, upto: int | None = None) -> Iterator[Row]:
    """Yield the summaries of a thread that can be believed, the newest first."""
    limit = thread.next if upto is None else min(upto, thread.next)
    for owner, start, stop in reversed(list(thread.spans(0, limit))):
        below = stop
        while found := unit.rows(rows.BELOW, thread=owner, above=start, limit=below, count=_AT_ONCE):
            for row in found:
                if bytes(row[3]) == covered(unit, thread, row[1]):
                    yield opened(unit, owner, row)
            below = min(below, found[-1][1]) - 1


def covered(unit: Unit, thread: ThreadRow, upto: int) -> bytes:
    """Return the hash over the first `upto` entries of a thread."""
    return digest(unit.secret(), b"summary", b"%d" % upto, log.chain(unit, thread, upto))


def opened(unit: Unit, owner: str, row: tuple[Any, ...]) -> Row:
    """Return a row as it was stored.

    Raises:
        Damaged: it cannot be read.
    """
    _, upto, prev, hashed, said, _, _, _, inputs, fallback, body = row
    try:
        plain = unit.open(rows.summary.c.body, (owner, upto), body)
    except Damaged:
        raise Damaged(f"the summary of a conversation up to entry {upto} cannot be opened; {rows.MEND}") from None
    return Row(
        upto=upto,
        prev=prev,
        covered=bytes(hashed).hex(),
        said_chars=said,
        inputs=bytes(inputs).hex(),
        fallback=bool(fallback),
        outline=codec.decode(plain),
    )
