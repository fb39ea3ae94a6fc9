"""Erasing an end user: every turn that is theirs becomes tombstones where it stands, in all threads that share it.

The turns are first marked: the erasure's own name takes the place of the user's, so that the name is gone at once and
what is left to do is read off the rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from everlog.log import rows
from everlog.log.appending import check_id
from everlog.log.handover import enter
from everlog.log.receipts import Receipt, note, print_of
from everlog.log.threads import END
from everlog.log.titles import untitle
from everlog.log.turns import TurnState
from everlog.store import Store, Unit, sealed
from everlog.store import rows as store_rows

BATCH = 500

Dropped = Callable[[Unit, str, int], None]
"""Told of each thread in which entries were erased, by id and number of entries, in the same unit: what was derived from
them is gone."""


def has_turns_of(unit: Unit, user: str) -> bool:
    """Return whether there is a turn of an end user.

    Raises:
        Mistake: it is not an id that a user can have.
    """
    check_id(user)
    return bool(unit.rows(rows.TURNS_OF_USER, user=user, limit=1))


def begun(unit: Unit, receipt: Receipt) -> bool:
    """Enter, and return whether this was done before: a unit whose commit was not confirmed is run again."""
    enter(unit)
    return unit.row(store_rows.GET_RECEIPT, id=receipt.id) is not None


def mark(unit: Unit, receipt: Receipt, user: str) -> tuple[Receipt, int]:
    """Put the erasure's own name in the place of the user's on every turn that is to go."""
    receipt = replace(receipt, wrapper=unit.master_key_name, subject=print_of(unit, user))
    done = begun(unit, receipt)
    marked = unit.count(rows.MARK_TURNS, of_user=user, mark=_mark_of(receipt))
    return (receipt if done else note(unit, receipt)), marked


def _mark_of(receipt: Receipt) -> str:
    return f"erase:{receipt.id}"


def bury_marked(store: Store, tenant: str, receipt: Receipt, dropped: Dropped | None) -> Receipt:
    """Make tombstones of all marked turns, a few in each unit."""
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
    return note(unit, receipt)


def _bury_in(unit: Unit, receipt: Receipt, thread: str, positions: Sequence[int], dropped: Dropped | None) -> Receipt:
    """Clear entries that stand under a thread, also such that it is just inheriting, and what it derived from them."""
    found = unit.row(rows.THREAD_TO_WRITE, thread=thread)
    unit.run(rows.TOUCH_GENERATION, {"thread": thread})
    unit.count(rows.CLEAR_ENTRIES_AT, thread=thread, positions=list(positions))
    if positions and found is not None:
        untitle(unit, thread, found[9], found[3])
    gone = _drop_blobs(unit, thread, positions) + unit.count(rows.DROP_ASIDES, thread=thread)
    if not _has_words(unit, thread):
        gone += unit.count(rows.DROP_INSTRUCTIONS, thread=thread)
    derived = sealed.drop_derived(unit, thread, positions)
    if dropped is not None and found is not None and found[8] is None:
        dropped(unit, thread, found[5])
    touched = receipt.threads if thread in receipt.threads else (*receipt.threads, thread)
    return replace(receipt, threads=touched, rows=receipt.rows + gone + derived)


def _has_words(unit: Unit, thread: str) -> bool:
    """Return whether a thread still shows words, its own or shared ones."""
    start = 0
    for owner, upto in (*unit.rows(rows.SEGMENTS, thread=thread), (thread, END)):
        if unit.row(rows.WORDS_LEFT, thread=owner, start=start, stop=upto) is not None:
            return True
        start = upto
    return False


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
