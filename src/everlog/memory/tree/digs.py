"""What agents opened: a count for each line, and for each dig down to a message how many lines it took.

Nothing follows from the counts by itself: no line is made anew and no view shows it longer. They are for people, and
for whoever decides that one day.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from everlog import log
from everlog.clock import moment
from everlog.memory.tree import rows
from everlog.memory.tree.nodes import label_of
from everlog.store import Unit


@dataclass(frozen=True, slots=True)
class Dig:
    """A way down to the words of a message."""

    leaf: int
    """Position of the message that was opened."""
    steps: int
    """How many lines over it were opened in the turn, itself included."""
    turn: int | None = None
    """Number of the turn; None if whoever dug did not say."""
    at: datetime | None = None
    """When it was counted; None until then."""


@dataclass(frozen=True, slots=True)
class Hot:
    """A line, and how often agents opened it."""

    label: str
    """`id+n`."""
    count: int
    last_at: datetime


def put(unit: Unit, thread: str, opened: Sequence[int], reached: Sequence[Dig], key: str) -> None:
    """Count the lines (by node) that were opened, once for each `key`.

    Raises:
        Erased: the thread was erased.
    """
    log.load(unit, thread)
    same = {"thread": thread, "id": key, "at": unit.now_us}
    if not unit.count(rows.PUT_EVENT, **same, n=0, leaf=None, steps=None, turn=None):
        return
    unit.run(
        rows.PUT_EVENT,
        [same | {"n": n, "leaf": dig.leaf, "steps": dig.steps, "turn": dig.turn} for n, dig in enumerate(reached, 1)],
    )
    counts = sorted(Counter(opened).items())
    unit.run(rows.PUT_DIG, [{"thread": thread, "nid": nid, "count": 0, "last_at": unit.now_us} for nid, _ in counts])
    unit.run(rows.DUG, [{"of_thread": thread, "of_nid": nid, "more": more, "now": unit.now_us} for nid, more in counts])


def hot(unit: Unit, thread: str, limit: int) -> list[Hot]:
    """Return the most opened lines, the latest of equals first."""
    return [Hot(label_of(nid), count, moment(at)) for nid, count, at in unit.rows(rows.HOT, thread=thread, limit=limit)]


def events(unit: Unit, thread: str, limit: int) -> list[Dig]:
    """Return digs, the latest first."""
    found = unit.rows(rows.EVENTS, thread=thread, limit=limit)
    return [Dig(leaf, steps, turn, moment(at)) for leaf, steps, turn, at in found]
