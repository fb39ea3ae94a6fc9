"""Proof that a log is whole: positions without gaps, every row equal to its hash, turns and blobs where they belong.

Nothing else would notice a changed or missing row. Each page is its own short unit, so a store can be verified while
it is in use.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from everlog.errors import Damaged, Erased
from everlog.log import blobs, rows, threads
from everlog.log.bodies import blob_name, decode
from everlog.log.entries import pages, row_hash
from everlog.log.threads import ThreadRow
from everlog.messages import KINDS
from everlog.store import Store, Unit
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
    erased: int = 0
    """Tombstones in the stretch."""
    faults: tuple[Fault, ...] = ()
    """What is wrong in the stretch."""


def verify(store: Store, tenant: str, thread: str) -> Iterator[Verified]:
    """Check a thread, shared entries included, page by page."""
    row = store.read(tenant, partial(threads.load, thread=thread))
    yield Verified(thread=thread, stop=0, of=row.next, faults=tuple(_segments(row)))
    turn = -1
    for owner, start, stop in row.spans(0, row.next):
        for begin, end in pages(start, stop):
            faults, turn, erased = store.read(
                tenant, partial(_page, thread=thread, owner=owner, begin=begin, end=end, turn=turn)
            )
            yield Verified(thread=thread, stop=end, of=row.next, erased=erased, faults=tuple(faults))
    beyond = store.read(tenant, partial(_beyond, row=row, turn=turn))
    if beyond:
        yield Verified(thread=thread, stop=row.next, of=row.next, faults=tuple(beyond))


def _segments(row: ThreadRow) -> Iterator[Fault]:
    shared = [upto for _, upto in row.segments[:-1]]
    if shared != sorted(set(shared)) or (shared and not 0 < shared[0] <= shared[-1] <= row.next):
        yield Fault(thread=row.id, i=None, what="the stretches it shares with its parents do not fit together")


def _beyond(unit: Unit, row: ThreadRow, turn: int) -> list[Fault]:
    """Look for what stands above the thread's end, unless it has grown since."""
    now = threads.load(unit, row.id)
    if now.next != row.next:
        return []
    faults = []
    highest = unit.row(rows.HIGHEST, thread=row.id)
    if highest is not None and highest[0] is not None and highest[0] >= row.next:
        what = f"an entry stands above the thread's end, {row.next}"
        faults.append(Fault(thread=row.id, i=highest[0], what=what))
    if turn + 1 != now.turns:
        what = f"its last turn is {turn}, but it counts {now.turns}"
        faults.append(Fault(thread=row.id, i=None, what=what))
    return faults


def _page(unit: Unit, thread: str, owner: str, begin: int, end: int, turn: int) -> tuple[list[Fault], int, int]:
    found = [
        dict(zip(_COLUMNS, row, strict=True)) for row in unit.rows(rows.HASHED, thread=owner, start=begin, stop=end)
    ]
    secret = unit.secret()
    positions = {row["i"] for row in found}
    faults = [Fault(thread=thread, i=i, what="the entry is missing") for i in range(begin, end) if i not in positions]
    firsts = _firsts(unit, owner, found)
    for row in found:
        i, number = row["i"], row["turn"]
        if not turn <= number <= turn + 1:
            faults.append(Fault(thread=thread, i=i, what=f"it belongs to turn {number}, after one of turn {turn}"))
        if number not in firsts:
            faults.append(Fault(thread=thread, i=i, what=f"its turn {number} is missing"))
        elif firsts[number] > i or (number > turn and firsts[number] != i):
            faults.append(Fault(thread=thread, i=i, what=f"its turn {number} is said to begin at {firsts[number]}"))
        turn = max(turn, number)
        what = _wrong(unit, owner, row, secret)
        if what is not None:
            faults.append(Fault(thread=thread, i=i, what=what))
    return faults, turn, sum(row["body"] is None for row in found)


_COLUMNS = ("i", "kind", "turn", "at", "request", "model", "body", "size", "fp", "chain", "call", "hash")
_TEXTS = ("request", "model", "fp", "chain", "call", "hash")


def _firsts(unit: Unit, owner: str, found: list[dict[str, Any]]) -> dict[int, int]:
    """Return where each turn of a page begins, by its number."""
    if not found:
        return {}
    numbers = [row["turn"] for row in found]
    return {row[2]: row[3] for row in unit.rows(rows.TURNS, thread=owner, start=min(numbers), stop=max(numbers) + 1)}


def _wrong(unit: Unit, owner: str, row: dict[str, Any], secret: bytes) -> str | None:
    """Say what is wrong with an entry's row, if something is."""
    body = row["body"]
    try:
        if body is None:
            left = any(row[name] is not None for name in _TEXTS) or row["size"] != len(KINDS[row["kind"]]) + 2
            return "it is a tombstone, but something of its content is left" if left else None
        plain = unit.open(rows.entry.c.body, (owner, row["i"]), body)
    except (Damaged, Erased) as error:
        return str(error)
    if row["hash"] is None or bytes(row["hash"]) != row_hash(secret, row, plain):
        return "its content, kind, turn or time is not what was stored"
    missing: list[str] = []
    message = decode(
        plain, row["kind"], unit.now, model=row["model"], blob=partial(_blob, unit, owner, secret, missing)
    )
    if missing:
        return f"{len(missing)} of its images, sounds or files are missing or changed"
    weight = len(message.kind) + 2 + size_bytes(message.text)
    return None if row["size"] == weight else f"its size is {weight}, not {row['size']}"


def _blob(unit: Unit, owner: str, secret: bytes, missing: list[str], name: str) -> None:
    """Check a large part, and note its name if it is missing or changed; one that retention took is neither."""
    found = unit.row(rows.BLOB, thread=owner, name=name)
    try:
        content = None if found is None or found[0] is None else blobs.read(unit, owner, name)
    except (Damaged, Erased):
        missing.append(name)
        return
    if found is None or (content is not None and blob_name(content, secret) != name):
        missing.append(name)
