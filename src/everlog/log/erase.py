"""Erasing a thread, a user, or a tenant: what has to be gone, in which order, and the receipt that says so.

A thread is first closed for good (its key freed, its generation raised, so that nothing that was read before can be
written after), then what its forks still show is copied to the nearest of them under that fork's key, then its rows
go, then its key. A user's turns become tombstones where they stand, and what was derived over them is dropped in every
thread that shares them. Each step is a unit; the receipt row carries the state, so a killed erasure is resumed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal


from everlog.clock import new_id
from everlog.errors import Erased
from everlog.log import rows, threads
from everlog.log.threads import END
from everlog.store import Store, Unit, metadata, sealed
from everlog.store import rows as store_rows
from everlog.store.keys import version_of
from everlog.store.residue import Probe, piece, residue
from everlog.store.rotation import rotate_owner
from everlog.store.sealed import Table

BATCH = 500
PROBES = 64
"""Pieces looked for in the files after an erasure."""

Target = Literal["thread", "user", "tenant"]
State = Literal["rows", "files", "pending", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof of an erasure: counts and states, no names and no text."""

    id: str
    target: Target
    state: State
    """`rows` and `files`: begun, and resumed by the next call. `pending`: rows and keys are gone, but the files could
    not be cleaned yet, because another connection reads. `done`: nothing of it was found in the files."""
    threads: tuple[str, ...] = ()
    """Our own ids of the threads it touched."""
    entries: int = 0
    """Entries that became tombstones."""
    rows: int = 0
    """Other rows that were deleted."""
    handed_over: int = 0
    """Entries copied to forks that share them."""
    holds: tuple[str, ...] = ()
    """What the database itself may still hold, and until when."""
    wrapper: str = ""
    """Name of the master key that could unwrap the destroyed keys, if they came back from a backup."""


def erase_thread(store: Store, tenant: str, thread: str) -> Receipt:
    """Erase a thread by its id; forks keep what they share with it.

    Raises:
        Erased: it was erased before.
    """
    probes = _probes(store, tenant, [thread])
    receipt = store.write(tenant, partial(_bury, thread=thread), name="erase.begin")
    return _finish(store, tenant, receipt, probes)


def erase_user(store: Store, tenant: str, user: str) -> Receipt:
    """Erase every turn of an end user, in all threads of the tenant; other people's turns stay."""
    turns: dict[str, list[int]] = {}
    for thread, number in store.read(tenant, lambda unit: unit.rows(rows.TURNS_OF_USER, user=user)):
        turns.setdefault(thread, []).append(number)
    probes = _probes(store, tenant, list(turns), turns)
    receipt = store.write(tenant, partial(_begin, target="user", touched=tuple(turns)), name="erase.begin")
    for thread, numbers in turns.items():
        for begin in range(0, len(numbers), BATCH):
            some = numbers[begin : begin + BATCH]
            receipt = store.write(
                tenant, partial(_bury_turns, receipt=receipt, thread=thread, turns=some), name="erase.turns"
            )
    for thread in turns if receipt.wrapper else ():
        rotate_owner(store, tenant, thread)
    receipt = replace(receipt, state="files")
    store.write(tenant, partial(_note, receipt=receipt), name="erase.rows_gone")
    return _finish(store, tenant, receipt, probes)


def erase_tenant(store: Store, tenant: str) -> Receipt:
    """Erase everything of a tenant; only receipts stay."""
    ids = [thread for thread, _ in store.read(tenant, lambda unit: unit.rows(rows.THREAD_IDS))]
    probes = _probes(store, tenant, ids)
    receipt = store.write(tenant, partial(_begin, target="tenant", touched=()), name="erase.begin")
    return _finish(store, tenant, receipt, probes)


def resume(store: Store, tenant: str) -> list[Receipt]:
    """Go on with erasures that were killed or had to wait; return their receipts."""
    waiting = [receipt for receipt in receipts(store, tenant) if receipt.state != "done"]
    return [_finish(store, tenant, receipt, ()) for receipt in waiting]


def receipts(store: Store, tenant: str) -> list[Receipt]:
    """Return the tenant's receipts, oldest first."""
    return [_receipt(row) for row in store.read(tenant, lambda unit: unit.rows(store_rows.RECEIPTS))]


def _finish(store: Store, tenant: str, receipt: Receipt, probes: Sequence[Probe]) -> Receipt:
    if receipt.state == "rows":
        if receipt.target == "tenant":
            receipt = _drop_tenant(store, tenant, receipt)
        else:
            for thread in receipt.threads if receipt.target == "thread" else ():
                receipt = _hand_over(store, tenant, receipt, thread)
                receipt = _clear(store, tenant, receipt, thread)
        receipt = replace(receipt, state="files")
        store.write(tenant, partial(_note, receipt=receipt), name="erase.rows_gone")
    found = residue(store, probes, wrapper=receipt.wrapper)
    receipt = replace(receipt, state="done" if found.clean else "pending", holds=found.holds)
    store.write(tenant, partial(_note, receipt=receipt), name="erase.receipt")
    return receipt


def _bury(unit: Unit, thread: str) -> Receipt:
    threads.load(unit, thread)
    unit.run(rows.BURY, {"thread": thread, "when": unit.now_us})
    return _begin(unit, "thread", (thread,))


def _begin(unit: Unit, target: Target, touched: tuple[str, ...]) -> Receipt:
    receipt = Receipt(id=new_id(unit.clock), target=target, state="rows", threads=touched, wrapper=unit.master_key_name)
    _note(unit, receipt)
    return receipt


def _bury_turns(unit: Unit, receipt: Receipt, thread: str, turns: Sequence[int]) -> Receipt:
    positions = [i for (i,) in unit.rows(rows.POSITIONS_OF_TURNS, thread=thread, turns=list(turns))]
    unit.run(rows.TOUCH_GENERATION, {"thread": thread})
    unit.count(rows.CLEAR_ENTRIES_OF_TURNS, thread=thread, turns=list(turns))
    unit.count(rows.CLEAR_TURNS, thread=thread, turns=list(turns))
    dropped = _drop_blobs(unit, thread, positions)
    for sharer in {
        thread,
        *(fork for fork, _, upto in unit.rows(rows.FORKS_OF, owner=thread) if positions[:1] < [upto]),
    }:
        dropped += sealed.drop_derived(unit, sharer, positions)
    receipt = replace(receipt, entries=receipt.entries + len(positions), rows=receipt.rows + dropped)
    _note(unit, receipt)
    return receipt


def _drop_blobs(unit: Unit, thread: str, positions: Sequence[int]) -> int:
    """Drop the blobs that only erased entries show."""
    gone = set(positions)
    uses: dict[str, set[int]] = {}
    for name, i in unit.rows(rows.BLOB_USES, thread=thread):
        uses.setdefault(name, set()).add(i)
    unit.count(rows.DROP_BLOB_USES, thread=thread, positions=list(positions))
    orphans = [name for name, shown in uses.items() if shown <= gone]
    return unit.count(rows.DROP_BLOBS, thread=thread, names=orphans) if orphans else 0


def _hand_over(store: Store, tenant: str, receipt: Receipt, thread: str) -> Receipt:
    """Copy what forks share with a buried thread to the nearest of them, and point the others there."""
    while (heir := store.read(tenant, partial(_heir, thread=thread))) is not None:
        try:
            copied = sum(_copied(store, tenant, thread, *heir, table) for table in _shared_tables())
            receipt = replace(receipt, handed_over=copied)
            store.write(tenant, partial(_repoint, receipt=receipt, owner=thread, heir=heir[0]), name="erase.hand_over")
        except Erased:
            continue  # the heir was erased meanwhile: the next one inherits
        break
    return receipt


def _copied(store: Store, tenant: str, owner: str, heir: str, upto: int, table: Table) -> int:
    after: object = None
    copied = 0
    while True:
        batch = partial(_copy, table=table, owner=owner, heir=heir, upto=upto, after=after)
        step = store.write(tenant, batch, name="erase.copy")
        if step is None:
            return copied if table is rows.entry else 0
        after = step[0]
        copied += step[1]


def _heir(unit: Unit, thread: str) -> tuple[str, int] | None:
    """Return the fork that shares most with a thread, the nearest of equals, and how far it shares."""
    forks = [(-upto, n, fork) for fork, n, upto in unit.rows(rows.FORKS_OF, owner=thread)]
    if not forks:
        return None
    most, _, nearest = min((least, -n, fork) for least, n, fork in forks)
    return nearest, -most


def _copy(unit: Unit, table: Table, owner: str, heir: str, upto: int, after: object) -> tuple[object, int] | None:
    threads.load(unit, heir)
    found = sealed.rows_of(unit, table, owner, after, BATCH)
    if not found:
        return None
    names = [column.name for column in table.c]
    share: sealed.Share = table.info["share"]
    place = names.index(share.column)
    shared = [row for row in found if share.last(row[place]) < upto]
    sealed.copy(unit, table, owner, heir, shared)
    return found[-1][names.index(sealed.key_columns(table)[-1].name)], len(shared)


def _shared_tables() -> list[Table]:
    return [table for table in metadata.sorted_tables if "share" in table.info]


def _repoint(unit: Unit, receipt: Receipt, owner: str, heir: str) -> None:
    threads.load(unit, heir)
    for fork in {fork for fork, _, _ in unit.rows(rows.FORKS_OF, owner=owner)}:
        old = unit.rows(rows.SEGMENTS, thread=fork)
        merged: list[tuple[str, int]] = []
        for found, upto in [*old, (fork, END)]:
            named = heir if found == owner else found
            if merged and merged[-1][0] == named:
                merged.pop()
            merged.append((named, upto))
        unit.run(rows.DROP_SEGMENTS, {"thread": fork})
        if merged[:-1]:
            unit.run(
                rows.PUT_SEGMENT,
                [{"thread": fork, "n": n, "owner": named, "upto": upto} for n, (named, upto) in enumerate(merged[:-1])],
            )
    _note(unit, receipt)


def _clear(store: Store, tenant: str, receipt: Receipt, thread: str) -> Receipt:
    """Make a buried thread's entries tombstones, drop its other rows, and destroy its key."""
    highest = store.read(tenant, lambda unit: unit.row(rows.HIGHEST, thread=thread))
    stop = 0 if highest is None or highest[0] is None else highest[0] + 1
    cleared = dropped = 0
    for begin in range(0, stop, BATCH * 10):
        end = min(stop, begin + BATCH * 10)
        cleared += store.write(
            tenant, partial(_bury_entries, thread=thread, start=begin, stop=end), name="erase.entries"
        )
    for table in sealed.tables("thread"):
        dropped += store.write(tenant, partial(sealed.drop, table=table, owner=thread), name="erase.rows")
    store.write(tenant, lambda unit: unit.count(store_rows.DROP_KEYS, owner=thread), name="erase.key")
    return replace(receipt, entries=receipt.entries + cleared, rows=receipt.rows + dropped)


def _bury_entries(unit: Unit, thread: str, start: int, stop: int) -> int:
    return unit.count(rows.CLEAR_ENTRIES, thread=thread, start=start, stop=stop)


def _drop_tenant(store: Store, tenant: str, receipt: Receipt) -> Receipt:
    entries = dropped = 0
    for table in [table for table in metadata.sorted_tables if table.info.get("erase") in _OF_TENANT]:
        count = store.write(tenant, partial(_drop_all, table=table), name="erase.tenant")
        entries += count if table is rows.entry else 0
        dropped += 0 if table is rows.entry else count
    return replace(receipt, entries=receipt.entries + entries, rows=receipt.rows + dropped)


_OF_TENANT = ("thread", "tombstone", "owner", "tenant")


def _drop_all(unit: Unit, table: Table) -> int:
    return unit.count(sealed.drop_all(table))


def _note(unit: Unit, receipt: Receipt) -> None:
    report = {
        "threads": list(receipt.threads),
        "entries": receipt.entries,
        "rows": receipt.rows,
        "handed_over": receipt.handed_over,
        "holds": list(receipt.holds),
    }
    unit.run(
        store_rows.PUT_RECEIPT,
        {
            "id": receipt.id,
            "target": receipt.target,
            "state": receipt.state,
            "at": unit.now_us,
            "wrapper": receipt.wrapper,
            "report": json.dumps(report),
        },
    )


def _receipt(row: Sequence[Any]) -> Receipt:
    report = json.loads(row[6])
    return Receipt(
        id=row[1],
        target=row[2],
        state=row[3],
        threads=tuple(report["threads"]),
        entries=report["entries"],
        rows=report["rows"],
        handed_over=report["handed_over"],
        holds=tuple(report["holds"]),
        wrapper=row[5],
    )


def _probes(
    store: Store, tenant: str, ids: Sequence[str], turns: dict[str, list[int]] | None = None
) -> tuple[Probe, ...]:
    """Pick pieces of what is to go, to look for them in the files afterwards: of plain words, or of wrapped keys."""
    found: list[Probe] = []
    for thread in ids:
        if len(found) >= PROBES:
            break
        found += store.read(tenant, partial(_pick, thread=thread, turns=None if turns is None else turns[thread]))
    return tuple(found[:PROBES])


def _pick(unit: Unit, thread: str, turns: Sequence[int] | None) -> list[Probe]:
    highest = unit.row(rows.HIGHEST, thread=thread)
    count = 0 if highest is None or highest[0] is None else highest[0] + 1
    if turns is None:
        positions = list(range(0, count, max(1, count // PROBES)))
    else:
        positions = [i for (i,) in unit.rows(rows.POSITIONS_OF_TURNS, thread=thread, turns=list(turns)[:PROBES])]
    bodies = [row[6] for row in unit.rows(rows.ENTRIES_AT, thread=thread, positions=positions[:PROBES])]
    plain = [bytes(body) for body in bodies if body is not None and not version_of(bytes(body))]
    keys = [] if turns is not None else [bytes(row[2]) for row in unit.rows(store_rows.KEYS_OF, owner=thread)]
    return [probe for probe in map(piece, plain + keys) if probe is not None]
