"""Proof that a log is whole: positions without gaps, every row equal to its hash, turns and blobs where they belong.

Nothing else would notice a changed or missing row. Each page is its own short unit, so a store can be verified while
it is in use.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from everlog.errors import Damaged, Erased
from everlog.log import rows, threads
from everlog.log.bodies import KIND_NUMBER, decode
from everlog.log.entries import PAGE, content_hash, pages
from everlog.log.threads import ThreadRow
from everlog.messages import KINDS
from everlog.store import Store, Unit
from everlog.store.keys import digest, version_of
from everlog.tokens import size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something in a thread that cannot be right."""

    thread: str
    """Our own id of the thread."""
    i: int | None
    """Position, where there is one."""
    what: str
    """What is wrong; never text of the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A stretch of a thread that has been checked."""

    thread: str
    stop: int
    """Entries below this position have been checked."""
    of: int
    """Entries the thread has."""
    faults: tuple[Fault, ...] = ()
    """What is wrong in the stretch."""


def verify(store: Store, tenant: str, thread: str) -> Iterator[Verified]:
    """Check a thread, shared entries included, page by page."""
    row = store.read(tenant, partial(threads.load, thread=thread))
    yield Verified(thread=thread, stop=0, of=row.next, faults=tuple(_segments(row)))
    turn = -1
    for owner, start, stop in row.spans(0, row.next):
        for begin, end in pages(start, stop):
            faults, turn = store.read(
                tenant, partial(_page, thread=thread, owner=owner, begin=begin, end=end, turn=turn)
            )
            yield Verified(thread=thread, stop=end, of=row.next, faults=tuple(faults))
    beyond = store.read(tenant, lambda unit: unit.row(rows.HIGHEST, thread=thread))
    if beyond is not None and beyond[0] is not None and beyond[0] >= row.next:
        fault = Fault(thread=thread, i=beyond[0], what=f"an entry stands above the thread's end, {row.next}")
        yield Verified(thread=thread, stop=row.next, of=row.next, faults=(fault,))


def _segments(row: ThreadRow) -> Iterator[Fault]:
    shared = [upto for _, upto in row.segments[:-1]]
    if shared != sorted(set(shared)) or (shared and shared[-1] > row.next):
        yield Fault(thread=row.id, i=None, what="the stretches it shares with its parents do not fit together")


def _page(unit: Unit, thread: str, owner: str, begin: int, end: int, turn: int) -> tuple[list[Fault], int]:
    found = unit.rows(rows.HASHED, thread=owner, start=begin, stop=end, limit=PAGE)
    secret = unit.secret()
    faults = []
    positions = {row[0] for row in found}
    faults += [Fault(thread=thread, i=i, what="the entry is missing") for i in range(begin, end) if i not in positions]
    known_turns = _turns(unit, owner, found)
    for row in found:
        i, _, number = row[:3]
        if number < turn:
            faults.append(Fault(thread=thread, i=i, what=f"it belongs to turn {number}, after one of turn {turn}"))
        if number not in known_turns:
            faults.append(Fault(thread=thread, i=i, what=f"its turn {number} is missing"))
        turn = max(turn, number)
        what = _wrong(unit, owner, row, secret)
        if what is not None:
            faults.append(Fault(thread=thread, i=i, what=what))
    return faults, turn


def _turns(unit: Unit, owner: str, found: list[Any]) -> set[int]:
    if not found:
        return set()
    numbers = [row[2] for row in found]
    return {row[2] for row in unit.rows(rows.TURNS, thread=owner, start=min(numbers), stop=max(numbers) + 1)}


def _wrong(unit: Unit, owner: str, row: Any, secret: bytes) -> str | None:
    i, kind, turn, at, _, model, body, stored_hash, size = row
    if body is None:
        return None if stored_hash is None else "it is a tombstone, but something of its content is left"
    if unit.encrypted and not version_of(bytes(body)):
        return "it is not sealed, but the database is encrypted"
    try:
        plain = unit.open(rows.entry.c.body, (owner, i), body)
    except (Damaged, Erased) as error:
        return str(error)
    if stored_hash is None or bytes(stored_hash) != content_hash(secret, i, kind, at, turn, plain):
        return "its content, kind, turn or time is not what was stored"
    missing: list[str] = []

    def fetch(name: str) -> bytes | None:
        found = unit.row(rows.BLOB, thread=owner, name=name)
        if found is None:
            missing.append(name)
        elif found[0] is not None:
            content = unit.open(rows.blob.c.body, (owner, name), found[0])
            if digest(secret, b"blob", content).hex() != name:
                missing.append(name)
        return None

    message = decode(plain, kind, unit.now, model=model, blob=fetch)
    if missing:
        return f"{len(missing)} of its images, sounds or files are missing or changed"
    weight = len(KINDS[kind]) + 2 + size_bytes(message.text)
    return None if size == weight and KIND_NUMBER[message.kind] == kind else f"its size is {weight}, not {size}"
