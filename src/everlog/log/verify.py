"""Proof that a log is whole: each thread of the name and length it had, positions without gaps, each row equal to its hash
and where it was written, turns and blobs in place.

Nothing else would notice a changed or missing row. Each page is its own short unit, so a store can be verified while
it is in use.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from everlog.errors import Damaged, Erased
from everlog.log import blobs, heads, rows, threads
from everlog.log.asides import asides
from everlog.log.bodies import blob_name, decode
from everlog.log.entries import PAGE, row_hash
from everlog.log.fingerprints import GENESIS, Fingerprints
from everlog.log.instructions import instructions
from everlog.log.receipts import receipts
from everlog.log.threads import ThreadRow
from everlog.messages import KINDS
from everlog.store import Store, Unit, sealed
from everlog.store import rows as store_rows
from everlog.store.vault import KeyGone
from everlog.tokens import size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something in a thread that cannot be right."""

    thread: str
    """Our own id of the thread; empty for what is not in any."""
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
    shared: int = 0
    """Entries, from the first on, that are another thread's; said by the first of a thread's stretches."""
    erased: int = 0
    """Tombstones in the stretch."""
    faults: tuple[Fault, ...] = ()
    """What is wrong in the stretch."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What the next entry has to follow on; None where that cannot be told, after one that is missing or wrong."""

    turn: int | None = -1
    chain: bytes | None = GENESIS


def verify(store: Store, tenant: str, thread: str) -> Iterator[Verified]:
    """Check a thread, shared entries included, page by page. What is damaged is said and not raised.

    Raises:
        Erased: the thread was erased.
    """
    try:
        row, faults = store.read(tenant, partial(_begun, thread=thread))
    except (Damaged, KeyGone) as error:
        yield Verified(thread=thread, stop=0, of=0, faults=(Fault(thread=thread, i=None, what=str(error)),))
        return
    shared = row.segments[-2][1] if len(row.segments) > 1 else 0
    yield Verified(thread=thread, stop=0, of=row.next, shared=shared, faults=(*faults, *_beside(store, tenant, thread)))
    place = _Place()
    for owner, start, stop in row.spans(0, row.next):
        place = yield from _stretch(store, tenant, row, (owner, start, stop), place)
    beyond = _tried(store, tenant, thread, partial(_beyond, row=row, turn=place.turn))
    if beyond:
        yield Verified(thread=thread, stop=row.next, of=row.next, faults=tuple(beyond))


def around(store: Store, tenant: str) -> list[Fault]:
    """Check what a tenant has beside its threads: itself, keys, receipts, and that no thread has lost its own row."""
    faults = _tried(store, tenant, "", _strays)
    for table in (*sealed.tables("tenant"), *sealed.tables("owner"), store_rows.receipt):
        faults += _tried(store, tenant, "", partial(_none_wrong, table=table))
    try:
        receipts(store, tenant)
    except Damaged as error:
        faults.append(Fault(thread="", i=None, what=str(error)))
    return faults


def _strays(unit: Unit) -> list[Fault]:
    what = "there are entries of a thread whose own row is missing"
    owners = {owner for (owner,) in unit.rows(rows.OWNERS)}
    return [Fault(thread=thread, i=None, what=what) for thread in sorted(owners.difference(threads.ids(unit)))]


def _begun(unit: Unit, thread: str) -> tuple[ThreadRow, list[Fault]]:
    """Return the thread, if it can be read, and what is wrong with what stands beside it."""
    row = threads.load(unit, thread)
    if unit.row(store_rows.GET_TENANT) is None:
        raise Damaged("the row of the tenant is missing, and with it the secret that all hashes are made with")
    unit.secret()
    faults = []
    if not heads.fits(unit, row.id, row.key, row.next, row.turns, row.segments[:-1]):
        what = "its name, how many entries and turns it has, or whose it shares, is not what was stored"
        faults.append(Fault(thread=thread, i=None, what=what))
    for read, what in ((instructions, "its instructions"), (asides, "the answers kept beside it")):
        try:
            read(unit, row)
        except (Damaged, Erased) as error:
            faults.append(Fault(thread=thread, i=None, what=f"{what} cannot be read: {error}"))
    return row, faults


def _beside(store: Store, tenant: str, thread: str) -> Iterator[Fault]:
    """Look at the rows of a thread in every table that is not checked otherwise: each can be what was stored."""
    for table in sealed.tables("thread"):
        if "share" not in table.info:
            yield from _tried(store, tenant, thread, partial(_none_wrong, table=table, thread=thread))


def _none_wrong(unit: Unit, table: sealed.Table, thread: str | None = None) -> list[Fault]:
    sealed.beside(unit, table, thread)
    return []


def _tried(store: Store, tenant: str, thread: str, act: Callable[[Unit], list[Fault]]) -> list[Fault]:
    """Return what an act finds, or what it stumbled over."""
    try:
        return store.read(tenant, act)
    except Damaged as error:
        return [Fault(thread=thread, i=None, what=str(error))]


def _stretch(
    store: Store, tenant: str, row: ThreadRow, span: tuple[str, int, int], place: _Place
) -> Generator[Verified, None, _Place]:
    """Check the entries of one owner, and return what the next one has to follow on."""
    owner, at, stop = span
    while at < stop:
        first, end = store.read(tenant, partial(_piece, owner=owner, start=at, stop=stop))
        if first < stop and first - at < PAGE:
            place = yield from _page_by_halves(store, tenant, row, (owner, at, end), place)
        else:
            what = "the entry is missing" if first == at + 1 else f"it and all entries up to {first - 1} are missing"
            fault = Fault(thread=row.id, i=at, what=what)
            yield Verified(thread=row.id, stop=first, of=row.next, faults=(fault,))
            end, place = first, _Place(None, None)
        at = end
    return place


def _piece(unit: Unit, owner: str, start: int, stop: int) -> tuple[int, int]:
    """Return the first position of a stretch at which there is an entry, and the end of the page that begins there.

    So a hole is passed over at once, however many entries are said to be in it.
    """
    try:
        first = unit.row(rows.FIRST_WITHIN, thread=owner, start=start, stop=stop)
        last = unit.row(rows.LAST_WITHIN, thread=owner, start=start, stop=min(stop, start + PAGE))
    except Damaged:  # which reading the page will say
        return start, min(stop, start + PAGE)
    if last is None and first is not None and first[0] < start + PAGE:  # an index that is damaged contradicts itself
        return start, min(stop, start + PAGE)
    return stop if first is None else first[0], start if last is None else last[0] + 1


def _page_by_halves(
    store: Store, tenant: str, row: ThreadRow, span: tuple[str, int, int], place: _Place
) -> Generator[Verified, None, _Place]:
    """Check a page of one owner's entries, and return what the next one has to follow on.

    Where its entries cannot be read together they are read in halves, and at last one by one.
    """
    owner, *page = span
    left = [tuple(page)]
    while left:
        begin, end = left.pop()
        act = partial(_page, thread=row.id, owner=owner, begin=begin, end=end, place=place)
        try:
            faults, place, erased = store.read(tenant, act)
        except Damaged as error:
            if end - begin > 1:
                middle = (begin + end) // 2
                left += [(middle, end), (begin, middle)]
                continue
            faults, place, erased = [Fault(thread=row.id, i=begin, what=str(error))], _Place(None, None), 0
        yield Verified(thread=row.id, stop=end, of=row.next, erased=erased, faults=tuple(faults))
    return place


def _beyond(unit: Unit, row: ThreadRow, turn: int | None) -> list[Fault]:
    """Look for what stands above the thread's end, unless it has grown since."""
    now = threads.load(unit, row.id)
    if now.next != row.next:
        return []
    faults = []
    highest = unit.row(rows.HIGHEST, thread=row.id)
    if highest is not None and highest[0] is not None and highest[0] >= row.next:
        what = f"an entry stands above the thread's end, {row.next}"
        faults.append(Fault(thread=row.id, i=highest[0], what=what))
    if turn is not None and turn + 1 != now.turns:
        what = f"its last turn is {turn}, but it counts {now.turns}"
        faults.append(Fault(thread=row.id, i=None, what=what))
    return faults


def _page(unit: Unit, thread: str, owner: str, begin: int, end: int, place: _Place) -> tuple[list[Fault], _Place, int]:
    turn, chain = place.turn, place.chain
    found = [
        dict(zip(_COLUMNS, row, strict=True)) for row in unit.rows(rows.HASHED, thread=owner, start=begin, stop=end)
    ]
    secret = unit.secret()
    positions = {row["i"] for row in found}
    faults = [Fault(thread=thread, i=i, what="the entry is missing") for i in range(begin, end) if i not in positions]
    firsts = _firsts(unit, owner, found)
    for row in found:
        i, number = row["i"], row["turn"]
        faults += [Fault(thread=thread, i=i, what=what) for what in _misplaced(i, number, turn, firsts)]
        turn = number if turn is None else max(turn, number)
        what = _wrong(unit, owner, row, secret) or _astray(
            row, chain if i - 1 in positions or i == begin else None, secret
        )
        if what is not None:
            faults.append(Fault(thread=thread, i=i, what=what))
        chain = None if what is not None or row["chain"] is None else bytes(row["chain"])
    return faults, _Place(turn, chain), sum(row["body"] is None for row in found)


def _misplaced(i: int, number: int, turn: int | None, firsts: dict[int, int]) -> Iterator[str]:
    """Say what is wrong with the turn of an entry, after one of another turn."""
    if turn is not None and not turn <= number <= turn + 1:
        yield f"it belongs to turn {number}, after one of turn {turn}"
    if number not in firsts:
        yield f"its turn {number} is missing"
    elif firsts[number] > i or (turn is not None and number > turn and firsts[number] != i):
        yield f"its turn {number} is said to begin at {firsts[number]}"


_COLUMNS = ("i", "kind", "turn", "at", "request", "model", "body", "size", "fp", "chain", "call", "hash")
_TEXTS = ("request", "model", "fp", "chain", "call", "hash")


def _firsts(unit: Unit, owner: str, found: list[dict[str, Any]]) -> dict[int, int]:
    """Return where each turn of a page begins, by its number."""
    if not found:
        return {}
    numbers = [row["turn"] for row in found]
    return {row[2]: row[3] for row in unit.rows(rows.TURNS, thread=owner, start=min(numbers), stop=max(numbers) + 1)}


def _astray(row: dict[str, Any], chain: bytes | None, secret: bytes) -> str | None:
    """Say so if an entry was not written after the one that stands before it."""
    if chain is None or row["chain"] is None or row["fp"] is None:
        return None
    expected = Fingerprints(secret, chain).follow(bytes(row["fp"]), KINDS[row["kind"]])
    return None if expected == bytes(row["chain"]) else "it does not follow on what stands before it"


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
