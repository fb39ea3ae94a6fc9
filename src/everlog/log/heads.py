"""What holds a thread to its name and its length: a keyed hash beside them.

Each entry is equal to its own hash and follows on the one before it. That says nothing of entries that are missing at
the end, all rows of them together, and nothing of whose conversation it is. Both stand in the thread's row, and who has
no key cannot make a head that fits others.
"""

from everlog.log import rows
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import utf8


def head(unit: Unit, thread: str, key: str | None, count: int, turns: int) -> bytes:
    """Return the head of a thread by its id, its key, and how many entries and turns it has."""
    return digest(unit.secret(), b"thread", thread.encode(), utf8(key or ""), b"%d %d" % (count, turns))


def grow(unit: Unit, thread: str, key: str | None, count: int, turns: int) -> None:
    """Store how many entries and turns a thread has from now on."""
    grown = {"thread": thread, "new_next": count, "new_turns": turns}
    unit.run(rows.GROW, grown | {"new_head": head(unit, thread, key, count, turns)})


def fits(unit: Unit, thread: str, key: str | None, count: int, turns: int) -> bool:
    """Return whether a thread has the key, and as many entries and turns, as were stored."""
    found = unit.row(rows.HEAD, thread=thread)
    return found is not None and found[0] is not None and bytes(found[0]) == head(unit, thread, key, count, turns)
