"""Erasing a thread, a user, or a tenant: what has to be gone, in which order, and the receipt that says so.

A thread is first closed for good (its key freed, its generation raised, so that nothing that was read before can be
written after), then what its forks still show goes over to the nearest of them (`handover.py`), then its rows go, then
its key. A user's turns become tombstones where they stand (`forget.py`), and what was derived over them is dropped in
every thread that shares them. A tenant is closed as a whole. Each step is a unit; the receipt row carries the state, so a killed erasure is resumed.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from everlog.clock import new_id
from everlog.log import handover, rows, threads
from everlog.log.entries import PAGE
from everlog.log.forget import Dropped, begun, bury_marked, mark
from everlog.log.handover import HeirGone, enter
from everlog.log.receipts import UNFINISHED, Receipt, State, note, receipts
from everlog.log.threads import END
from everlog.store import Store, Unit, sealed
from everlog.store import rows as store_rows
from everlog.store.residue import residue
from everlog.store.rotation import rotate_owner
from everlog.store.sealed import Table


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

    A thread that had words of theirs loses its title, since titles are made of words, and so do its forks and what it
    was forked from, where they bear the same; one that is left without words loses its instructions as well.

    Args:
        store: the database.
        tenant: whose user.
        user: the id that came with the turns.
        dropped: told of threads in which something is to be derived anew.
    """
    receipt = Receipt(id=new_id(store.clock), target="user", state="rows")
    receipt, marked = store.write(tenant, partial(mark, receipt=receipt, user=user), name="erase.begin")
    while marked:  # a turn that was being appended meanwhile is found by the next look
        receipt = bury_marked(store, tenant, receipt, dropped)
        receipt, marked = store.write(tenant, partial(mark, receipt=receipt, user=user), name="erase.mark")
    return _finish(store, tenant, receipt, dropped)


def erase_tenant(store: Store, tenant: str) -> Receipt:
    """Erase everything of a tenant; only receipts stay. Until it is done, nothing can be written for this tenant."""
    receipt = Receipt(id=new_id(store.clock), target="tenant", state="rows")
    receipt = store.write(tenant, partial(_close, receipt=receipt), name="erase.begin")
    return _finish(store, tenant, receipt)


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


def _finish(store: Store, tenant: str, receipt: Receipt, dropped: Dropped | None = None) -> Receipt:
    if receipt.state == "rows":
        match receipt.target:
            case "thread":
                for thread in receipt.threads:
                    receipt = _hand_over(store, tenant, receipt, thread)
                    receipt = _clear(store, tenant, receipt, thread)
            case "user":
                receipt = bury_marked(store, tenant, receipt, dropped)
                for thread in receipt.threads if receipt.wrapper else ():
                    rotate_owner(store, tenant, thread)
            case "tenant":
                receipt = _drop_tenant(store, tenant, receipt)
        receipt = store.write(tenant, partial(note, receipt=receipt, state="files"), name="erase.rows_gone")
    found = residue(store, wrapper=receipt.wrapper)
    receipt = replace(receipt, holds=found.holds)
    state: State = "done" if found.clean else "pending"
    return store.write(tenant, partial(note, receipt=receipt, state=state), name="erase.receipt")


def _bury(unit: Unit, receipt: Receipt) -> Receipt:
    receipt = replace(receipt, wrapper=unit.master_key_name)
    if not begun(unit, receipt):
        (thread,) = receipt.threads
        threads.load(unit, thread)
        unit.run(rows.BURY, {"thread": thread, "when": unit.now_us})
    return note(unit, receipt)


def _close(unit: Unit, receipt: Receipt) -> Receipt:
    enter(unit)
    unit.run(store_rows.CLOSE_TENANT)
    unit.run(rows.BURY_ALL, {"when": unit.now_us})
    return note(unit, replace(receipt, wrapper=unit.master_key_name))


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
    return note(unit, receipt)


def _clear(store: Store, tenant: str, receipt: Receipt, thread: str) -> Receipt:
    """Make a buried thread's entries tombstones, drop its other rows, and destroy its key."""
    begin = 0
    while done := store.write(
        tenant, partial(_clear_some, receipt=receipt, thread=thread, start=begin), name="erase.entries"
    ):
        receipt, begin = done
    for table in sealed.tables("thread"):
        drop = partial(_drop_rows, receipt=receipt, table=table, thread=thread)
        receipt = store.write(tenant, drop, name="erase.rows")
    store.write(tenant, lambda unit: unit.count(store_rows.DROP_KEYS, owner=thread), name="erase.key")
    return receipt


def _clear_some(unit: Unit, receipt: Receipt, thread: str, start: int) -> tuple[Receipt, int] | None:
    """Clear the next entries that have words, wherever they stand; return where to go on, or None if there are none."""
    found = unit.row(rows.WORDS_LEFT, thread=thread, start=start, stop=END)
    if found is None:
        return None
    stop = found[0] + PAGE
    cleared = unit.count(rows.CLEAR_ENTRIES, thread=thread, start=start, stop=stop)
    return note(unit, replace(receipt, entries=receipt.entries + cleared)), stop


def _drop_rows(unit: Unit, receipt: Receipt, table: Table, thread: str) -> Receipt:
    return note(unit, replace(receipt, rows=receipt.rows + sealed.drop(unit, table, thread)))


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
    return note(unit, receipt)
