"""What a caller tells the model before the conversation begins: kept once per distinct text, never an entry.

Clients resend and reword it with every request, so it tells nothing apart. The newest few of each thread are kept.
"""

from collections.abc import Iterable

from everlog.log import rows
from everlog.log.shelves import Shelf
from everlog.log.threads import ThreadRow
from everlog.store import Unit

KEPT = 8
"""Distinct instructions kept for a thread."""

_SHELF = Shelf(
    name="instruction",
    body=rows.instruction.c.body,
    prints=rows.INSTRUCTION_PRINTS,
    texts=rows.INSTRUCTIONS,
    put=rows.PUT_INSTRUCTION,
    drop=rows.DROP_INSTRUCTION,
    kept=KEPT,
)


def latest_instructions(texts: Iterable[str]) -> list[str]:
    """Return those of some instructions that would be kept, each once."""
    return _SHELF.latest(texts)


def instruct(unit: Unit, thread: ThreadRow, texts: Iterable[str]) -> None:
    """Keep instructions that the thread does not have yet; the oldest give way."""
    _SHELF.add(unit, thread, texts)


def instructions(unit: Unit, thread: ThreadRow) -> list[str]:
    """Return the instructions of a thread, oldest first."""
    return _SHELF.read(unit, thread)
