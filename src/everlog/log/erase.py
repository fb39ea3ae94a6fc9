"""Erasing a thread, a user, or a tenant: what has to be gone, in which order, and the receipt that says so.

A thread is first closed for good (its key freed, its generation raised, so that nothing that was read before can be
written after), then what its forks still show goes over to the nearest of them (`handover.py`), then its rows go, then
its key. A user's turns are first marked, so that the name is gone and what is left to do is read off the rows; then they
become tombstones where they stand, and what was derived over them is dropped in every thread that shares them. A tenant
is closed as a whole. Each step is a unit; the receipt row carries the state, so a killed erasure is resumed.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from everlog.clock import new_id
from everlog.log import handover, rows, threads
from everlog.log.entries import check_id, pages
from everlog.log.handover import HeirGone, enter
from everlog.log.threads import END
from everlog.log.turns import TurnState
from everlog.store import Store, Unit, sealed
from everlog.store import rows as store_rows
from everlog.store.residue import residue
from everlog.store.rotation import rotate_owner
from everlog.store.sealed import Table

BATCH = 500

Target = Literal["thread", "user", "tenant"]
State = Literal["rows", "files", "pending", "done"]
UNFINISHED: tuple[State, ...] = ("rows", "files", "pending")
Dropped = Callable[[Unit, str, int], None]
"""Told of each thread in which entries were erased, by id and number of entries, in the same unit: what was derived from
them is gone."""


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
    receipt = Receipt(id=new_id(store.clock), target="thread", state="rows", threads=(thread,))
    receipt = store.write(tenant, partial(_bury, receipt=receipt), name="erase.begin")
    return _finish(store, tenant, receipt)


def erase_user(store: Store, tenant: str, user: str, *, dropped: Dropped | None = None) -> Receipt:
    """Erase every turn of an end user, in all threads of the tenant; other people's turns stay.

    A thread that is left without words loses its title as well, since titles are made of them, and its instructions.

    Args:
        store: the database.
        tenant: whose user.
        user: the id that came with the turns.
        dropped: told of threads in which something is to be derived anew.
    """
    receipt = Receipt(id=new_id(store.clock), target="user", state="rows")
    receipt, marked = store.write(tenant, partial(_mark, receipt=receipt, user=user), name="erase.begin")
    while marked:  # a turn that was being appended meanwhile is found by the next look
        receipt = _bury_marked(store, tenant, receipt, dropped)
        receipt, marked = store.write(tenant, partial(_mark, receipt=receipt, user=user), name="erase.mark")
    return _finish(store, tenant, receipt, dropped)


def erase_tenant(store: Store, tenant: str) -> Receipt:
    """Erase everything of a tenant; only receipts stay. Until it is done, nothing can be written for this tenant."""
    receipt = Receipt(id=new_id(store.clock), target="tenant", state="rows")
    receipt = store.write(tenant, partial(_close, receipt=receipt), name="erase.begin")
    return _finish(store, tenant, receipt)


def has_turns_of(unit: Unit, user: str) -> bool:
    """Return whether there is a turn of an end user.

    Raises:
        Mistake: it is not an id that a user can have.
    """
    check_id(user)
    return bool(unit.rows(rows.TURNS_OF_USER, user=user, limit=1))


def resume(
    store: Store, tenant: str, *, dropped: Dropped | None = None, states: Sequence[State] = UNFINISHED
) -> list[Receipt]:
    """Go on with erasures that were killed or had to wait; return their receipts.

    Args:
        store: the database.
        tenant: whose erasures.
        dropped: told of threads in which something is to be derived anew.
        states: which of them, by how far they have come.
    """
    waiting = [receipt for receipt in receipts(store, tenant) if receipt.state in states]
    return [_finish(store, tenant, receipt, dropped) for receipt in waiting]


def receipts(store: Store, tenant: str) -> list[Receipt]:
    """Return the tenant's receipts, oldest first."""
    return [_receipt(row) for row in store.read(tenant, lambda unit: unit.rows(store_rows.RECEIPTS))]


def _finish(store: Store, tenant: str, receipt: Receipt, dropped: Dropped | None = None) -> Receipt:
    if receipt.state == "rows":
        match receipt.target:
            case "thread":
                for thread in receipt.threads:
                    receipt = _hand_over(store, tenant, receipt, thread)
                    receipt = _clear(store, tenant, receipt, thread)
            case "user":
                receipt = _bury_marked(store, tenant, receipt, dropped)
                for thread in receipt.threads if receipt.wrapper else ():
                    rotate_owner(store, tenant, thread)
            case "tenant":
                receipt = _drop_tenant(store, tenant, receipt)
        receipt = store.write(tenant, partial(_note, receipt=receipt, state="files"), name="erase.rows_gone")
    found = residue(store, wrapper=receipt.wrapper)
    receipt = replace(receipt, holds=found.holds)
    state: State = "done" if found.clean else "pending"
    return store.write(tenant, partial(_note, receipt=receipt, state=state), name="erase.receipt")


def _begun(unit: Unit, receipt: Receipt) -> bool:
    """Enter, and return whether this was done before: a unit whose commit was not confirmed is run again."""
    enter(unit)
    return unit.row(store_rows.GET_RECEIPT, id=receipt.id) is not None


def _bury(unit: Unit, receipt: Receipt) -> Receipt:
    receipt = replace(receipt, wrapper=unit.master_key_name)
    if not _begun(unit, receipt):
        (thread,) = receipt.threads
        threads.load(unit, thread)
        unit.run(rows.BURY, {"thread": thread, "when": unit.now_us})
    return _note(unit, receipt)


def _mark(unit: Unit, receipt: Receipt, user: str) -> tuple[Receipt, int]:
    """Put the erasure's own name in the place of the user's on every turn that is to go."""
    receipt = replace(receipt, wrapper=unit.master_key_name)
    begun = _begun(unit, receipt)
    marked = unit.count(rows.MARK_TURNS, of_user=user, mark=_mark_of(receipt))
    return (receipt if begun else _note(unit, receipt)), marked


def _mark_of(receipt: Receipt) -> str:
    return f"erase:{receipt.id}"


def _close(unit: Unit, receipt: Receipt) -> Receipt:
    enter(unit)
    unit.run(store_rows.CLOSE_TENANT)
    unit.run(rows.BURY_ALL, {"when": unit.now_us})
    return _note(unit, replace(receipt, wrapper=unit.master_key_name))


def _bury_marked(store: Store, tenant: str, receipt: Receipt, dropped: Dropped | None) -> Receipt:
    act = partial(_bury_some, dropped=dropped)
    while (more := store.write(tenant, partial(act, receipt=receipt), name="erase.turns")) is not None:
        receipt = more
    return receipt


def _bury_some(unit: Unit, receipt: Receipt, dropped: Dropped | None) -> Receipt | None:
    """Make tombstones of the next few marked turns of one thread, wherever their entries are; None if there are none."""
    enter(unit)
    marked = unit.rows(rows.TURNS_OF_USER, user=_mark_of(receipt), limit=BATCH)
    if not marked:
        return None
    thread = marked[0][0]
    unit.rows(rows.THREAD_TO_WRITE, thread=thread)
    mine = [(n, first) for owner, n, first in marked if owner == thread]
    numbers = [n for n, _ in mine]
    after = unit.row(rows.FIRST_AFTER, thread=thread, number=numbers[-1])
    span = {"start": min(first for _, first in mine), "stop": END if after is None or after[0] is None else after[0]}
    positions = [i for (i,) in unit.rows(rows.POSITIONS_OF_TURNS, thread=thread, turns=numbers, **span)]
    unit.count(rows.CLEAR_TURNS, thread=thread, turns=numbers, erased=int(TurnState.ERASED))
    receipt = replace(receipt, entries=receipt.entries + len(positions))
    reach = {thread: END}
    for fork, _, upto in unit.rows(rows.FORKS_OF, owner=thread):
        reach[fork] = max(upto, reach.get(fork, 0))
    for sharer in sorted(reach):
        shared = [i for i in positions if i < reach[sharer]]
        if shared or sharer == thread:
            receipt = _bury_in(unit, receipt, sharer, shared, dropped)
    if unit.row(rows.WORDS_LEFT, thread=thread) is None:
        unit.run(rows.SET_TITLE, {"thread": thread, "new_title": None})
        receipt = replace(receipt, rows=receipt.rows + unit.count(rows.DROP_INSTRUCTIONS, thread=thread))
    return _note(unit, receipt)


def _bury_in(unit: Unit, receipt: Receipt, thread: str, positions: Sequence[int], dropped: Dropped | None) -> Receipt:
    """Clear entries that stand under a thread, also such that it is just inheriting, and what it derived from them."""
    found = unit.row(rows.THREAD_TO_WRITE, thread=thread)
    unit.run(rows.TOUCH_GENERATION, {"thread": thread})
    unit.count(rows.CLEAR_ENTRIES_AT, thread=thread, positions=list(positions))
    gone = _drop_blobs(unit, thread, positions)
    derived = sealed.drop_derived(unit, thread, positions)
    if dropped is not None and found is not None and found[8] is None:
        dropped(unit, thread, found[5])
    touched = receipt.threads if thread in receipt.threads else (*receipt.threads, thread)
    return replace(receipt, threads=touched, rows=receipt.rows + gone + derived)


def _drop_blobs(unit: Unit, thread: str, positions: Sequence[int]) -> int:
    """Drop the blobs that only erased entries show."""
    gone = set(positions)
    uses: dict[str, set[int]] = {}
    for name, i in unit.rows(rows.BLOB_USES, thread=thread):
        uses.setdefault(name, set()).add(i)
    orphans = [name for name, shown in uses.items() if shown <= gone]
    if not any(shown & gone for shown in uses.values()):
        return 0
    unit.count(rows.DROP_BLOB_USES, thread=thread, positions=list(positions))
    return unit.count(rows.DROP_BLOBS, thread=thread, names=orphans)


def _hand_over(store: Store, tenant: str, receipt: Receipt, thread: str) -> Receipt:
    """Copy what forks share with a buried thread to the nearest of them, and let the others read it there."""
    while (heir := store.read(tenant, partial(handover.heir_of, owner=thread))) is not None:
        try:
            copied = handover.copy(store, tenant, thread, heir)
            inherit = partial(_inherit, receipt=replace(receipt, handed_over=copied), owner=thread, heir=heir)
            return store.write(tenant, inherit, name="erase.hand_over")
        except HeirGone:
            continue
    return receipt


def _inherit(unit: Unit, receipt: Receipt, owner: str, heir: handover.Heir) -> Receipt:
    handover.turn_over(unit, owner, heir)
    return _note(unit, receipt)


def _clear(store: Store, tenant: str, receipt: Receipt, thread: str) -> Receipt:
    """Make a buried thread's entries tombstones, drop its other rows, and destroy its key."""
    highest = store.read(tenant, lambda unit: unit.row(rows.HIGHEST, thread=thread))
    stop = 0 if highest is None or highest[0] is None else highest[0] + 1
    for begin, end in pages(0, stop):
        act = partial(_clear_entries, receipt=receipt, thread=thread, start=begin, stop=end)
        receipt = store.write(tenant, act, name="erase.entries")
    for table in sealed.tables("thread"):
        drop = partial(_drop_rows, receipt=receipt, table=table, thread=thread)
        receipt = store.write(tenant, drop, name="erase.rows")
    store.write(tenant, lambda unit: unit.count(store_rows.DROP_KEYS, owner=thread), name="erase.key")
    return receipt


def _clear_entries(unit: Unit, receipt: Receipt, thread: str, start: int, stop: int) -> Receipt:
    cleared = unit.count(rows.CLEAR_ENTRIES, thread=thread, start=start, stop=stop)
    return _note(unit, replace(receipt, entries=receipt.entries + cleared))


def _drop_rows(unit: Unit, receipt: Receipt, table: Table, thread: str) -> Receipt:
    return _note(unit, replace(receipt, rows=receipt.rows + sealed.drop(unit, table, thread)))


def _drop_tenant(store: Store, tenant: str, receipt: Receipt) -> Receipt:
    """Delete all rows of a closed tenant, and last the tenant and its keys, which opens it for a new beginning."""
    first = [(table,) for kind in ("thread", "tombstone") for table in sealed.tables(kind)]
    for tables in (*first, (*sealed.tables("owner"), *sealed.tables("tenant"))):
        receipt = store.write(tenant, partial(_drop_all, receipt=receipt, tables=tables), name="erase.tenant")
    return receipt


def _drop_all(unit: Unit, receipt: Receipt, tables: Sequence[Table]) -> Receipt:
    for table in tables:
        count = unit.count(sealed.drop_all(table))
        entries = count if table is rows.entry else 0
        receipt = replace(receipt, entries=receipt.entries + entries, rows=receipt.rows + count - entries)
    return _note(unit, receipt)


def _note(unit: Unit, receipt: Receipt, state: State | None = None) -> Receipt:
    """Write a receipt as it stands, and return it."""
    receipt = receipt if state is None else replace(receipt, state=state)
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
    return receipt


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
