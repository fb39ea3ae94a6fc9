"""The nodes of one thread, as a unit of work sees them: fetched together, opened when their text is asked for."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from everlog.errors import Damaged
from everlog.log import ThreadRow
from everlog.memory.tree import rows
from everlog.memory.tree.lines import PLACEHOLDER, Line, decode, decode_text
from everlog.memory.tree.nodes import children_of, cover, label_of, level_of, stop_of
from everlog.memory.tree.render import begun
from everlog.store import Unit

T = TypeVar("T")

_DEPTH = 8
"""Levels looked at by one statement on the way down to the first node that is not built."""


class Shelf:
    """Reads a thread's nodes, its parents' included."""

    def __init__(self, unit: Unit, thread: ThreadRow) -> None:
        self._unit = unit
        self._thread = thread
        self._found: dict[int, tuple[str, int, bytes] | None] = {}

    def weigh(self, nids: Collection[int]) -> Mapping[int, int]:
        """Return the bytes, as shown, of those nodes that are built."""
        found = self._fetch(nids)
        return {nid: row[1] for nid in nids if (row := found[nid]) is not None}

    def lines(self, nids: Collection[int]) -> dict[int, Line]:
        """Return those nodes that are built."""
        found = self._fetch(nids)
        return {nid: self._open(nid, row, decode) for nid in nids if (row := found[nid]) is not None}

    def shown(self, nids: Sequence[int], room: int | None = None) -> tuple[tuple[int, str], ...]:
        """Return nodes with the text that stands for each in a view, cut to `room` bytes if it is given."""
        found = self._fetch(nids)
        return tuple(
            (nid, PLACEHOLDER if (row := found[nid]) is None else begun(self._open(nid, row, decode_text), room))
            for nid in nids
        )

    def _fetch(self, nids: Iterable[int]) -> Mapping[int, tuple[str, int, bytes] | None]:
        missing = [nid for nid in nids if nid not in self._found]
        if missing:
            self._found.update(dict.fromkeys(missing))
            owners = owners_of(self._thread, missing)
            alone = len(owners) == 1
            for owner, nid, size, body in self._unit.rows(rows.NODES, owners=owners, nids=missing):
                if alone or owner == self._thread.owner(stop_of(nid) - 1):
                    self._found[nid] = owner, size, body
        return self._found

    def _open(self, nid: int, row: tuple[str, int, bytes], read: Callable[[bytes], T]) -> T:
        owner, _, body = row
        try:
            return read(self._unit.open(rows.node.c.body, (owner, nid), body))
        except Damaged:
            raise Damaged(f"the line {label_of(nid)} of a tree cannot be opened; {rows.MEND}") from None


def owners_of(thread: ThreadRow, nids: Iterable[int]) -> list[str]:
    """Return the threads under which some nodes are stored."""
    if len(thread.segments) == 1:
        return [thread.id]
    return sorted({thread.owner(stop_of(nid) - 1) for nid in nids})


def first_missing(unit: Unit, thread: ThreadRow) -> int | None:
    """Return the first node, in the order in which nodes become possible, that is not built; None if all are.

    A node is built after its halves and dropped with them, so a built node vouches for all below it, and the way
    leads down from the few roots.
    """
    roots = cover(0, thread.next)
    there = built(unit, thread, roots)
    nid = next((root for root in roots if root not in there), None)
    while nid is not None and level_of(nid):
        below = _below(nid)
        there = built(unit, thread, below)
        bottom = level_of(nid) - min(_DEPTH, level_of(nid))
        while level_of(nid) > bottom:
            half = next((half for half in children_of(nid) if half not in there), None)
            if half is None:
                return nid
            nid = half
    return nid


def _below(nid: int) -> list[int]:
    found: list[int] = []
    layer = [nid]
    for _ in range(min(_DEPTH, level_of(nid))):
        layer = [half for one in layer for half in children_of(one)]
        found += layer
    return found


def built(unit: Unit, thread: ThreadRow, nids: Sequence[int]) -> set[int]:
    """Return those nodes that are built."""
    found = unit.rows(rows.BUILT, owners=owners_of(thread, nids), nids=list(nids))
    return {nid for owner, nid in found if owner == thread.owner(stop_of(nid) - 1)}
