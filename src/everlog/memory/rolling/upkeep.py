"""Summaries that another model or prompt made: how many there are, and dropping all so that they are made again.

Only the thread's own rows are meant: what a fork shares with its parent is its parent's.
"""

from everlog import log
from everlog.memory.rolling import rows
from everlog.store import Unit, sealed


def stale(unit: Unit, thread: str, *, model: str | None, prompt: str) -> int:
    """Return how many of a thread's summaries another model, or another prompt, made."""
    found = unit.rows(rows.MADE, thread=thread)
    return sum(was != prompt or by != model for was, by, _ in found)


def drop(unit: Unit, thread: str) -> int:
    """Drop a thread's summaries, and return how many; a worker that read them before cannot write any more.

    Raises:
        Erased: the thread was erased.
    """
    log.fence(unit, thread)
    return sealed.drop(unit, rows.summary, thread)
