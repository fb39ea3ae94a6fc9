"""Proof that the summaries of a thread can be read: each opens, is as long as it says, and is of this log.

What they say is not checked, since a model made them; all of them can be made again.
"""

from collections.abc import Iterator
from functools import partial

from everlog import log
from everlog.errors import Damaged, Erased
from everlog.log import Fault, Verified
from everlog.memory.rolling import rows, shelf
from everlog.memory.rolling.markdown import render
from everlog.store import Store, Unit

PAGE = 20
"""Summaries looked at by one unit."""


def verify(store: Store, tenant: str, thread: str) -> Iterator[Verified]:
    """Check the summaries of a thread, by its id; those that it shares are its parents'.

    Raises:
        Damaged: the row of the thread is damaged, which the verification of the log says.
        Erased: the thread was erased.
    """
    row = store.read(tenant, partial(log.load, thread=thread))
    below: int | None = row.next
    while below is not None:
        try:
            below, faults = store.read(tenant, partial(_page, thread=thread, below=below))
        except Damaged as error:
            below, faults = None, [Fault(thread=thread, i=None, what=str(error))]
        if faults:
            yield Verified(thread=thread, stop=row.next, of=row.next, faults=tuple(faults))


def _page(unit: Unit, thread: str, below: int) -> tuple[int | None, list[Fault]]:
    """Return where to go on, and what is wrong with the next few summaries, the newest first."""
    row = log.load(unit, thread)
    found = unit.rows(rows.BELOW, thread=thread, above=0, limit=below, count=PAGE)
    faults = []
    for one in found:
        upto = int(one[1])
        try:
            opened = shelf.opened(unit, thread, one)
            fits = len(render(opened.outline)) == one[5] and opened.covered == shelf.covered(unit, row, upto).hex()
            what = None if fits else f"the summary up to entry {upto} is not of this log; {rows.MEND}"
        except (Damaged, Erased):
            what = f"the summary up to entry {upto} cannot be opened; {rows.MEND}"
        if what is not None:
            faults.append(Fault(thread=thread, i=upto - 1, what=what))
    return (min(below, int(found[-1][1])) - 1 if found else None), faults
