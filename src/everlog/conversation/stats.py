"""How much there is: a tenant's threads, messages and bytes. Counts only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from everlog import context as contexts
from everlog import log
from everlog.context import Mode
from everlog.conversation.costs import Costs, costs
from everlog.messages import KINDS
from everlog.pump import rows as pump_rows
from everlog.store import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a tenant keeps."""

    threads: int
    entries: int
    """Messages with their words, each counted once however many forks share it."""
    erased: int
    """Tombstones: messages whose words were erased, in threads that are there and in threads that are not."""
    text_bytes: int
    """UTF-8 bytes of their words and kinds."""
    kinds: Mapping[str, int]
    """How many there are of each kind."""
    media: int
    """Images, sounds and files that are stored."""
    media_bytes: int
    cost: Costs
    """What was spent on models, erased threads left out."""


def stats(unit: Unit) -> Stats:
    """Count what the unit's tenant keeps; reads every row once."""
    kinds = log.totals(unit)
    media, media_bytes = log.media_totals(unit)
    return Stats(
        threads=log.thread_count(unit),
        entries=sum(count for _, count, _ in kinds),
        erased=log.tombstones(unit),
        text_bytes=sum(size for _, _, size in kinds),
        kinds={KINDS[kind]: count for kind, count, _ in kinds},
        media=media,
        media_bytes=media_bytes,
        cost=costs(unit),
    )


def due(unit: Unit) -> int:
    """Count the threads that have lines of a tree to build, but for those whose prompts show none."""
    return sum(is_due(unit, thread) and not _shows_no_lines(unit, thread) for thread in log.ids(unit))


def is_due(unit: Unit, thread: str) -> bool:
    """Return whether a thread, by its id, has lines of a tree to build."""
    found = unit.row(pump_rows.DUE, memory="tree", subject=thread)
    return found is not None and found[1] is not None


def _shows_no_lines(unit: Unit, thread: str) -> bool:
    """Return whether a thread is talked in, and always with a summary, or the newest words alone, before it."""
    used = {mode for mode in get_args(Mode) if contexts.in_use(unit, thread, mode) is not None}
    return bool(used) and "tree" not in used
