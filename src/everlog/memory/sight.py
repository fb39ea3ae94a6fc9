"""Whose rows a memory read, and under which generations: what was erased meanwhile must not be written any more."""

from collections.abc import Mapping
from dataclasses import dataclass

from everlog import log
from everlog.log import ThreadRow
from everlog.store import Unit


@dataclass(frozen=True, slots=True)
class Seen:
    """Whose rows were read, and under which generations; if that has changed, what was read must not be written."""

    segments: tuple[tuple[str, int], ...]
    generations: Mapping[str, int]


def seen(unit: Unit, thread: ThreadRow, stop: int) -> Seen:
    """Return whose rows entries up to `stop` are, and under which generations.

    Raises:
        Erased: one of them was erased, and its heir has not taken over yet.
    """
    owners = {owner for owner, _, _ in thread.spans(0, stop)} - {thread.id}
    generations = {owner: log.load(unit, owner).generation for owner in sorted(owners)}
    return Seen(thread.segments, {thread.id: thread.generation, **generations})
