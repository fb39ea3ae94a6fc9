"""Answers that were given before, looked up by their ids: what one said, and what it was asked.

All of it is in the log: an id stands for the last entry of its answer, and each entry knows the request that it came with.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from everlog import access, log
from everlog.access import Requested
from everlog.errors import Erased
from everlog.log import ThreadRow
from everlog.messages import Entry, Message
from everlog.protocols.exchange import MODEL
from everlog.store import Unit

PAGE = 64
"""Entries that are read at once on the way back to where an answer begins; few have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An answer as it was given."""

    at: datetime
    messages: tuple[Message, ...]
    """What it said, in order; the id of each is that of its item."""
    is_whole: bool
    """Whether it came to its end."""
    was: Requested | None
    """What its request was; None where that is forgotten, or the answer is known by the id of another try."""


def given(unit: Unit, id_: str, *, principal: str, key: str) -> Given | None:
    """Return an answer; None where nobody of this name was given one of this id, or it is no more.

    Args:
        unit: the unit to read in.
        id_: the answer's.
        principal: in whose name it is looked for.
        key: id of the key that they have.
    """
    found = _found(unit, id_, principal)
    if found is None:
        return None
    thread, i = found
    entries = _of_answer(unit, thread, i)
    return Given(
        at=entries[-1].at,
        messages=tuple(entry.message for entry in entries),
        is_whole=i not in log.broken_off(unit, thread.id, i, i + 1),
        was=access.answered_by(unit, id_, key=key),
    )


def question(unit: Unit, id_: str, *, principal: str) -> tuple[Message, ...] | None:
    """Return what was new in the request of an answer, in order; None as for `given`."""
    found = _found(unit, id_, principal)
    if found is None:
        return None
    thread, i = found
    first = _of_answer(unit, thread, i)[0]
    said: list[Entry] = []
    for entry in _back(unit, thread, first.i, media=True):
        if entry.kind in MODEL and entry.origin.request != first.origin.request:
            break
        said.append(entry)
    return tuple(entry.message for entry in reversed(said))


def forgotten(unit: Unit, id_: str, *, principal: str) -> bool:
    """Forget the ids of an answer and of its items, so that nobody can name it; return whether it was known.

    Its words stay in the log.
    """
    found = _found(unit, id_, principal)
    if found is None:
        return False
    items = [entry.message.id for entry in _of_answer(unit, *found)]
    log.drop_answers(unit, [id_, *filter(None, items)], principal=principal)
    return True


def _found(unit: Unit, id_: str, principal: str) -> tuple[ThreadRow, int] | None:
    place = log.answer(unit, id_, principal=principal)
    if place is None:
        return None
    try:
        thread = log.load(unit, place[0])
    except Erased:
        return None
    there = log.at(unit, thread, [place[1]])
    return None if not there or there[place[1]].erased else (thread, place[1])


def _of_answer(unit: Unit, thread: ThreadRow, i: int) -> Sequence[Entry]:
    """Return the entries of the answer that ends at a position: what one model said to one request."""
    found: list[Entry] = []
    for entry in _back(unit, thread, i + 1):
        last = found[0] if found else entry
        is_same = (entry.origin.request, entry.message.model) == (last.origin.request, last.message.model)
        if found and not (entry.kind in MODEL and is_same):
            break
        found.append(entry)
    return found[::-1]


def _back(unit: Unit, thread: ThreadRow, stop: int, *, media: bool = False) -> Iterator[Entry]:
    """Yield the entries below a position, the newest first."""
    while stop > 0:
        start = max(0, stop - PAGE)
        yield from reversed(log.read(unit, thread, start, stop, media=media))
        stop = start
