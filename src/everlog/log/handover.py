"""What forks inherit from a thread that is erased: the stretch they share with it, copied to the nearest of them.

The heir is the fork that shares most. It gets every row below the place where it forked, sealed under its own key, and
all others that share rows of the erased thread read them from the heir from then on. Each copy is a short unit that
can be repeated, and the last unit turns all of them over at once: until then they read the old rows, after it the new.
A fork that is made meanwhile is seen by that unit, since it locks every thread that such a fork could be made of.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from everlog.errors import Erased
from everlog.log import heads, rows, threads
from everlog.log.threads import ThreadRow
from everlog.store import Store, Unit, metadata, sealed
from everlog.store import rows as store_rows
from everlog.store.sealed import Table

BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
"""Large parts copied by one unit, in bytes; one part may be larger."""


class HeirGone(Exception):
    """The heir was erased itself; the next fork inherits."""


@dataclass(frozen=True, slots=True)
class Heir:
    """Who inherits, and up to which position."""

    thread: str
    upto: int


def enter(unit: Unit) -> None:
    """Wait until no other unit of an erasure of this tenant runs; each begins with this."""
    unit.ask(store_rows.TENANT_TO_ERASE)


def heir_of(unit: Unit, owner: str) -> Heir | None:
    """Return the living fork that shares most of a thread's own rows; the oldest of equals."""
    forks = [(-upto, fork) for fork, _, upto in unit.rows(rows.FORKS_OF, owner=owner)]
    if not forks:
        return None
    least, fork = min(forks)
    return Heir(fork, -least)


def copy(store: Store, tenant: str, owner: str, heir: Heir) -> int:
    """Give the heir its own copy of what it shares, and return how many entries that were.

    Raises:
        HeirGone: the heir was erased meanwhile.
    """
    entries = 0
    tables = [table for table in metadata.sorted_tables if "share" in table.info]
    steps: list[Callable[..., tuple[object, int] | None]] = [partial(_copy_rows, table=table) for table in tables]
    for step in (*steps, _copy_blobs):
        after: object = None
        while True:
            done = store.write(tenant, partial(step, owner=owner, heir=heir, after=after), name="erase.copy")
            if done is None:
                break
            after = done[0]
            entries += done[1]
    return entries


def turn_over(unit: Unit, owner: str, heir: Heir) -> None:
    """Let every fork that shares rows of the owner read them from the heir.

    Raises:
        HeirGone: the heir, or another fork, was erased meanwhile.
    """
    enter(unit)
    forks = _locked(unit, owner)
    if heir.thread not in {fork.id for fork in forks}:
        raise HeirGone
    for fork in forks:
        merged: list[tuple[str, int]] = []
        for found, upto in fork.segments:
            named = heir.thread if found == owner else found
            if merged and merged[-1][0] == named:
                merged.pop()
            merged.append((named, upto))
        unit.run(rows.DROP_SEGMENTS, {"thread": fork.id})
        unit.run(
            rows.PUT_SEGMENT,
            [{"thread": fork.id, "n": n, "owner": named, "upto": upto} for n, (named, upto) in enumerate(merged[:-1])],
        )
        heads.grow(unit, fork.id, fork.key, fork.next, fork.turns, merged[:-1])


def _locked(unit: Unit, owner: str) -> list[ThreadRow]:
    """Lock all living threads that share rows of the owner; a fork that was made of one of them meanwhile is another."""
    locked: dict[str, ThreadRow] = {}
    while found := sorted({fork for fork, _, _ in unit.rows(rows.FORKS_OF, owner=owner)} - locked.keys()):
        locked |= {fork: _living(unit, fork) for fork in found}
    return list(locked.values())


def _living(unit: Unit, thread: str) -> ThreadRow:
    try:
        return threads.load(unit, thread)
    except Erased:
        raise HeirGone from None


def _copy_rows(unit: Unit, *, table: Table, owner: str, heir: Heir, after: object) -> tuple[object, int] | None:
    enter(unit)
    _living(unit, heir.thread)
    found = sealed.rows_of(unit, table, owner, after, BATCH)
    if not found:
        return None
    names = [column.name for column in table.c]
    share: sealed.Share = table.info["share"]
    place = names.index(share.column)
    shared = [row for row in found if share.last(row[place]) < heir.upto]
    sealed.copy(unit, table, owner, heir.thread, shared)
    last = sealed.onward(found[-1][names.index(sealed.key_columns(table)[-1].name)], after)
    return last, len(shared) if table is rows.entry else 0


def _copy_blobs(unit: Unit, *, owner: str, heir: Heir, after: object) -> tuple[object, int] | None:
    """Copy the next few large parts that shared entries show, in the order of their names, and who shows them."""
    enter(unit)
    _living(unit, heir.thread)
    uses = [(name, i) for name, i in unit.rows(rows.BLOB_USES, thread=owner) if i < heir.upto]
    left = sorted({name for name, _ in uses if after is None or name > str(after)})
    if not left:
        return None
    names = _some(left, dict(unit.rows(rows.BLOB_SIZES, thread=owner)))
    sealed.copy(unit, rows.blob, owner, heir.thread, unit.rows(rows.BLOBS_NAMED, thread=owner, names=names))
    unit.run(
        rows.PUT_BLOB_USE, [{"thread": heir.thread, "name": name, "i": i} for name, i in uses if name in set(names)]
    )
    return names[-1], 0


def _some(names: Sequence[str], sizes: dict[str, int]) -> list[str]:
    chosen: list[str] = []
    size = 0
    for name in names[:BATCH]:
        size += sizes.get(name, 0)
        if chosen and size > BATCH_BYTES:
            break
        chosen.append(name)
    return chosen
