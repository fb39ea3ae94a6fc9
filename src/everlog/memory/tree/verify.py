"""Proof that the lines of a tree can be shown: each opens, is as long as it says, and stands on its halves.

What they say is not checked, since a compactor made them; all of them can be made again.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from everlog import log
from everlog.errors import Damaged, Erased
from everlog.log import Fault, ThreadRow, Verified
from everlog.memory.tree import rows, tries
from everlog.memory.tree.nodes import children_of, label_of, level_of, start_of, stop_of
from everlog.memory.tree.shelf import Shelf, built
from everlog.store import Store, Unit, sealed
from everlog.tokens import size_bytes

PAGE = 500
"""Lines looked at by one unit."""


def verify(store: Store, tenant: str, thread: str) -> Iterator[Verified]:
    """Check the lines of a thread, by its id, page by page; those that it shares are its parents'.

    Raises:
        Damaged: the row of the thread is damaged, which the verification of the log says.
        Erased: the thread was erased.
    """
    row = store.read(tenant, partial(log.load, thread=thread))
    if (fault := store.read(tenant, partial(_tries, thread=thread))) is not None:
        yield _said(row, [fault])
    after = -1
    while True:
        try:
            nids = store.read(tenant, partial(_next, thread=thread, after=after))
        except Damaged as error:
            yield _said(row, [Fault(thread=thread, i=None, what=str(error))])
            return
        if not nids:
            return
        if faults := [*_checked(store, tenant, row, nids)]:
            yield _said(row, faults)
        after = nids[-1]


def _said(row: ThreadRow, faults: Sequence[Fault]) -> Verified:
    return Verified(thread=row.id, stop=row.next, of=row.next, faults=tuple(faults))


def _tries(unit: Unit, thread: str) -> Fault | None:
    try:
        tries.check(unit, thread)
    except (Damaged, Erased):
        what = f"a try at a line of its tree cannot be opened; {rows.MEND}"
        return Fault(thread=thread, i=None, what=what)
    return None


def _next(unit: Unit, thread: str, after: int) -> list[int]:
    nids = [nid for (nid,) in unit.rows(rows.NIDS, thread=thread, after=after, limit=PAGE)]
    if nids:
        sealed.onward(nids[-1], after)
    return nids


def _checked(store: Store, tenant: str, row: ThreadRow, nids: Sequence[int]) -> Iterator[Fault]:
    """Check lines; where their rows cannot be read together, one by one."""
    try:
        yield from store.read(tenant, partial(_page, row=row, nids=nids))
    except Damaged as error:
        if len(nids) == 1:
            yield Fault(thread=row.id, i=start_of(nids[0]), what=f"the line {label_of(nids[0])} of its tree: {error}")
            return
        for nid in nids:
            yield from _checked(store, tenant, row, [nid])


def _page(unit: Unit, row: ThreadRow, nids: Sequence[int]) -> list[Fault]:
    mine = [nid for nid in nids if row.owner(stop_of(nid) - 1) == row.id]
    shelf = Shelf(unit, row)
    sizes = shelf.weigh(mine)
    unit.rows(rows.HOW_MADE, thread=row.id, nids=mine)
    halves = [half for nid in mine if level_of(nid) for half in children_of(nid)]
    there = built(unit, row, halves)
    faults = []
    for nid in mine:
        what = _wrong(shelf, nid, sizes)
        if what is None and level_of(nid) and not there.issuperset(children_of(nid)):
            what = "stands on lines that are missing"
        if what is not None:
            said = f"the line {label_of(nid)} of its tree {what}; {rows.MEND}"
            faults.append(Fault(thread=row.id, i=start_of(nid), what=said))
    return faults


def _wrong(shelf: Shelf, nid: int, sizes: Mapping[int, int]) -> str | None:
    if nid not in sizes:
        return None  # it was dropped meanwhile
    try:
        ((_, text),) = shelf.shown([nid])
    except (Damaged, Erased):
        return "cannot be opened"
    return None if size_bytes(text) == sizes[nid] else "is not as long as it says"
