"""Lines that another model or prompt made: how many there are, and dropping all so that they are made again.

Only the thread's own rows are meant: what a fork shares with its parent is its parent's. Saved views stay as they are,
since they hold no text.
"""

from dataclasses import dataclass

from everlog import log
from everlog.memory.tree import rows
from everlog.memory.tree.nodes import INDEX_BITS, pack
from everlog.store import Unit, sealed

ENTRIES = 20_000
"""Over how many entries the lines are dropped by one unit."""


@dataclass(frozen=True, slots=True)
class Made:
    """Lines of one making."""

    prompt: str | None
    """Id of the prompt; None where there was none."""
    model: str | None
    """What made them; None if they are their own sources."""
    fallback: bool
    """Whether they stand in for answers that could not be used."""
    count: int


def made(unit: Unit, thread: str) -> list[Made]:
    """Return how a thread's lines were made."""
    found = unit.rows(rows.MADE, thread=thread)
    return [Made(prompt, model, bool(fallback), count) for prompt, model, fallback, count in found]


def stale(unit: Unit, thread: str, *, model: str, prompt: str | None) -> int:
    """Return how many of a thread's lines another model, or another prompt, made; what needs no model is never stale."""
    return sum(
        one.count
        for one in made(unit, thread)
        if one.model is not None and (one.prompt != prompt or (one.model != model and not one.fallback))
    )


def reach(unit: Unit, thread: str) -> int:
    """Return up to which entry a thread has lines of its own.

    Raises:
        Erased: the thread was erased.
    """
    log.load(unit, thread)
    last = unit.row(rows.LAST_LEAF, thread=thread, stop=pack(1, 0))
    return 0 if last is None else int(last[0]) + 1


def drop(unit: Unit, thread: str, start: int) -> int:
    """Drop a thread's lines over entries from `start` on, and return how many.

    A line must not outlive those below it, also such as were made meanwhile; so a long thread is dropped from its end
    backwards, each time with all that comes after. A worker that read them before cannot write any more.
    """
    log.fence(unit, thread)
    sealed.drop(unit, rows.attempt, thread)
    return sum(
        unit.count(rows.DROP_NODES, thread=thread, first=pack(level, start >> level), stop=pack(level + 1, 0))
        for level in range(INDEX_BITS)
    )
