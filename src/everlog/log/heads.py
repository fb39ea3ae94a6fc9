"""What holds a thread to its name, its length and what it shares: a keyed hash beside them.

Each entry is equal to its own hash and follows on the one before it. That says nothing of entries that are missing at
the end, all rows of them together, nothing of whose conversation it is, and nothing of a thread that shows another one's
entries from the first to the last. All that is in the head, and who has no key cannot make one that fits others.
"""

from collections.abc import Sequence

from everlog.log import rows
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import utf8

Shared = Sequence[tuple[str, int]]
"""The stretches that a thread shares, `(owner, upto)`, without its own."""


def head(unit: Unit, thread: str, key: str | None, count: int, turns: int, shared: Shared) -> bytes:
    """Return the head of a thread by its id, its key, how many entries and turns it has, and whose it shares."""
    stretches = [part for owner, upto in shared for part in (utf8(owner), b"%d" % upto)]
    return digest(unit.secret(), b"thread", thread.encode(), utf8(key or ""), b"%d %d" % (count, turns), *stretches)


def grow(unit: Unit, thread: str, key: str | None, count: int, turns: int, shared: Shared) -> None:
    """Store how many entries and turns a thread has from now on, and vouch for what it shares."""
    grown = {"thread": thread, "new_next": count, "new_turns": turns}
    unit.run(rows.GROW, grown | {"new_head": head(unit, thread, key, count, turns, shared)})


def fits(unit: Unit, thread: str, key: str | None, count: int, turns: int, shared: Shared) -> bool:
    """Return whether a thread has the key, as many entries and turns, and shares those, as were stored."""
    found = unit.row(rows.HEAD, thread=thread)
    if found is None or found[0] is None:
        return False
    return bytes(found[0]) == head(unit, thread, key, count, turns, shared)
