"""Entries: the log itself, read by position, across forks.

Nothing here edits an entry, and nothing elsewhere but erasure (`erase.py`), which leaves a tombstone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from everlog.clock import moment
from everlog.errors import Damaged
from everlog.log import blobs, rows
from everlog.log.bodies import decode, words
from everlog.log.fingerprints import ERASED, GENESIS, Print
from everlog.log.threads import ThreadRow
from everlog.messages import KINDS, Entry, Kind, Message, Origin, Part
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import utf8

PAGE = 1000
"""Entries read by one statement."""


class Said(NamedTuple):
    """What a scan sees of an entry; a tuple, since there are many of them."""

    i: int
    kind: Kind
    at_us: int
    text: str | None
    """The words; None if they were erased."""
    parts: tuple[Part, ...]
    """Its parts, without the bytes of media."""


def read(unit: Unit, thread: ThreadRow, start: int = 0, stop: int | None = None, *, media: bool = True) -> list[Entry]:
    """Return the entries of `[start, stop)`, in order.

    Args:
        unit: the unit of work.
        thread: the thread, as this unit loaded it.
        start: first position.
        stop: position after the last; the thread's end if None.
        media: whether to fetch the bytes of images, sounds and files.

    Raises:
        Damaged: an entry of the stretch is missing.
    """
    found: list[Entry] = []
    for owner, begin, end in thread.spans(max(0, start), min(thread.next, thread.next if stop is None else stop)):
        stored = unit.rows(rows.ENTRIES, thread=owner, start=begin, stop=end, limit=end - begin)
        _whole(stored, end - begin, begin, end)
        origins = _origins(unit, owner, stored)
        found += [entry_of(unit, owner, row, origins.get(row[2], Origin()), media=media) for row in stored]
    return found


def seen(unit: Unit, thread: ThreadRow, start: int = 0, stop: int | None = None) -> list[Print]:
    """Return what alignment knows of a thread's entries in `[start, stop)`, by default all of them.

    Raises:
        Damaged: an entry is missing.
    """
    end = thread.next if stop is None else min(stop, thread.next)
    found = [
        Print(
            fp=ERASED if fp is None else bytes(fp),
            kind=KINDS[kind],
            size=size,
            call=None if call is None else bytes(call),
        )
        for owner, begin, upto in thread.spans(start, end)
        for kind, fp, call, size in unit.rows(rows.PRINTS, thread=owner, start=begin, stop=upto)
    ]
    _whole(found, max(0, end - start), start, end)
    return found


def at(unit: Unit, thread: ThreadRow, positions: Iterable[int], *, media: bool = False) -> dict[int, Entry]:
    """Return the entries at some positions, by position.

    Raises:
        Damaged: one of them is missing.
    """
    wanted: dict[str, list[int]] = {}
    for i in positions:
        if 0 <= i < thread.next:
            wanted.setdefault(thread.owner(i), []).append(i)
    found: dict[int, Entry] = {}
    for owner, mine in wanted.items():
        stored = unit.rows(rows.ENTRIES_AT, thread=owner, positions=mine)
        _whole(stored, len(mine), min(mine), max(mine) + 1)
        found |= {row[0]: entry_of(unit, owner, row, Origin(), media=media) for row in stored}
    return found


def turn_start(unit: Unit, thread: ThreadRow, turn: int, i: int) -> int | None:
    """Return the position at which the turn of entry `i` began; None if nobody knows."""
    row = unit.row(rows.TURNS, thread=thread.owner(i), start=turn, stop=turn + 1)
    return None if row is None else int(row[3])


def back(unit: Unit, thread: ThreadRow, stop: int, limit: int) -> list[Said]:
    """Return up to `limit` entries below `stop`, the newest first, as a scan sees them.

    Raises:
        Damaged: one of them is missing.
    """
    found: list[Said] = []
    stop = min(stop, thread.next)
    for owner, begin, end in reversed(list(thread.spans(max(0, stop - limit), stop))):
        stored = unit.rows(rows.ENTRIES_BACK, thread=owner, start=begin, stop=end, limit=end - begin)
        _whole(stored, end - begin, begin, end)
        for i, kind, _, at_us, _, _, body in stored:
            text, parts = (None, ()) if body is None else words(unit.open(rows.entry.c.body, (owner, i), body))
            found.append(Said(i, KINDS[kind], at_us, text, parts))
    return found


def newest(unit: Unit, thread: ThreadRow, kind: Kind) -> int | None:
    """Return the position of the newest entry of a kind, erased ones included; None if there is none."""
    for owner, start, stop in reversed(list(thread.spans(0, thread.next))):
        found = unit.row(rows.LAST_OF_KIND, thread=owner, start=start, stop=stop, number=KINDS.index(kind))
        if found is not None:
            return int(found[0])
    return None


def chain(unit: Unit, thread: ThreadRow, stop: int) -> bytes:
    """Return a keyed hash over the prints of the first `stop` entries: equal ones are equal histories."""
    for owner, _, end in reversed(list(thread.spans(0, min(stop, thread.next)))):
        found = unit.row(rows.LAST_CHAIN, thread=owner, stop=end)
        if found is not None:
            return bytes(found[0])
    return GENESIS


def _whole(stored: Sequence[object], size: int, start: int, stop: int) -> None:
    """Make sure that none of some entries is missing.

    Raises:
        Damaged: one is.
    """
    if len(stored) != size:
        what = f"{size - len(stored)} of the entries {start} to {stop - 1} are missing"
        raise Damaged(f"{what}; `everlog verify` says which, and a backup has them")


def entry_of(unit: Unit, owner: str, row: Sequence[Any], origin: Origin, *, media: bool) -> Entry:
    """Return the entry of a stored row."""
    i, kind, turn, micros_at, request, model, body = row[:7]
    when = moment(micros_at)
    if body is None:
        return Entry(i=i, turn=turn, message=Message(kind=KINDS[kind], at=when), at=when, erased=True)
    plain = unit.open(rows.entry.c.body, (owner, i), body)
    fetch = (lambda name: blobs.read(unit, owner, name)) if media else None
    message = decode(plain, kind, when, model=model, blob=fetch)
    if request is not None:
        origin = Origin(
            request=request, session=origin.session, user=origin.user, project=origin.project, cwd=origin.cwd
        )
    return Entry(i=i, turn=turn, message=message, at=when, origin=origin)


def row_hash(secret: bytes, row: Mapping[str, Any], plain: bytes) -> bytes:
    """Return the keyed hash that `verify` checks a row against: all of it but whose it is, and its size."""
    numbers = b"%d %d %d %d" % (row["i"], row["kind"], row["turn"], row["at"])
    names = [b"-" if row[name] is None else b"+" + utf8(row[name]) for name in ("request", "model")]
    prints = [b"-" if row[name] is None else b"+" + bytes(row[name]) for name in ("fp", "chain", "call")]
    return digest(secret, b"entry", numbers, *names, *prints, plain)


def _origins(unit: Unit, owner: str, stored: Sequence[Sequence[Any]]) -> dict[int, Origin]:
    if not stored:
        return {}
    found = {}
    for row in unit.rows(rows.TURNS, thread=owner, start=stored[0][2], stop=stored[-1][2] + 1):
        number, session, user, project, body = row[2], row[9], row[10], row[11], row[15]
        if session or user or project or body:
            cwd = None if body is None else unit.open_text(rows.turn.c.body, (owner, number), body)
            found[number] = Origin(session=session, user=user, project=project, cwd=cwd)
    return found
