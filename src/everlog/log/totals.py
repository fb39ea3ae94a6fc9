"""Counts over a whole tenant, for people who look after a database."""

from everlog.log import rows
from everlog.store import Unit


def thread_count(unit: Unit) -> int:
    """Return how many living threads there are."""
    return sum(int(count) for (count,) in unit.rows(rows.THREAD_COUNT))


def totals(unit: Unit) -> list[tuple[int, int, int]]:
    """Return (number of the kind, entries, UTF-8 bytes) for each kind that there is, tombstones left out."""
    return [(kind, int(count), int(size)) for kind, count, size in unit.rows(rows.TOTALS)]


def tombstones(unit: Unit) -> int:
    """Return how many entries were erased, those of erased threads included."""
    ((count,),) = unit.rows(rows.TOMBSTONES)
    return int(count)


def media_totals(unit: Unit) -> tuple[int, int]:
    """Return how many images, sounds and files are stored, and their bytes."""
    ((count, size),) = unit.rows(rows.MEDIA_TOTALS)
    return int(count), int(size or 0)
