"""Canonical contexts: what a model is shown beside a source, a function of the log alone.

A leaf is shown the canonical view of everything before its block of eight, and the messages of the block before it,
clipped. A merge is shown the same for its first message, and its own stretch two levels finer. So eight leaves, and the
merges among them, share one prefix and can be asked at once, and it does not matter who asks, when, or in which order.
A node whose context is not built yet waits; nothing else does.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from everlog import log
from everlog.errors import Damaged
from everlog.log import ThreadRow
from everlog.memory.tree.extractive import clip
from everlog.memory.tree.fold import Fitted, canonical
from everlog.memory.tree.lines import LIMIT_BYTES, shown, source
from everlog.memory.tree.nodes import children_of, label_of, level_of, start_of, stop_of
from everlog.memory.tree.questions import Context
from everlog.memory.tree.render import Shown, begun
from everlog.memory.tree.rows import MEND
from everlog.memory.tree.shelf import Shelf
from everlog.memory.tree.window import Window
from everlog.store import Unit
from everlog.tokens import size_bytes

BLOCK = 8
"""Leaves that share a view."""

BLOCKS = 8
"""Views that one snapshot holds at most."""

MERGES = 32
"""Merges that one snapshot prepares at most, the earliest first."""


def with_contexts(unit: Unit, thread: ThreadRow, state: Window, budget: int) -> Window:
    """Return a snapshot with the contexts of the next few nodes that can be asked for."""
    shelf = Shelf(unit, thread)
    wanted: list[int] = []
    blocks: dict[int, str | None] = {}
    for nid in state.asking():
        block = block_of(nid)
        if block not in blocks:
            if len(blocks) == BLOCKS:
                break
            fitted = canonical(block, budget=budget, weigh=partial(_weigh, shelf, state))
            blocks[block] = None if fitted is None else _rendered(shelf, state, fitted)
        if blocks[block] is not None:
            wanted.append(nid)
        if len(wanted) == BLOCK + MERGES:
            break
    since = _clipped(unit, thread, wanted)
    return replace(
        state, contexts={nid: _context(shelf, state, nid, blocks[block_of(nid)] or "", since) for nid in wanted}
    )


def block_of(nid: int) -> int:
    """Return the first message of the block whose view a node is shown."""
    return start_of(nid) & -BLOCK


def finer(nid: int) -> list[int]:
    """Return what a merge's halves were made of: nodes two levels below it; of a pair of messages, these."""
    if level_of(nid) < 2:
        return list(range(start_of(nid), stop_of(nid)))
    return [half for one in children_of(nid) for half in children_of(one)]


def _context(shelf: Shelf, state: Window, nid: int, view: str, clipped: Mapping[int, str]) -> Context:
    call = state.calls.get(nid)
    return Context(
        view=view,
        since=tuple(_row(i, clipped[i]) for i in range(block_of(nid), start_of(nid))),
        finer=_finer(shelf, state, nid, clipped),
        call=None if call is None else shown(call.text),
    )


def _finer(shelf: Shelf, state: Window, nid: int, clipped: Mapping[int, str]) -> tuple[str, ...]:
    level = level_of(nid)
    if level == 0:
        return ()
    if level == 1:
        return tuple(_row(i, clipped[i]) for i in finer(nid))
    return tuple(_row(one, text) for one, text in _texts(shelf, state, finer(nid)))


def _row(nid: int, text: str) -> str:
    return f"{label_of(nid)}|{text}"


def _clipped(unit: Unit, thread: ThreadRow, nids: Collection[int]) -> dict[int, str]:
    """Return the messages that are shown clipped beside some nodes, as texts of a view."""
    wanted = {i for nid in nids for i in range(block_of(nid), start_of(nid))}
    wanted |= {i for nid in nids if level_of(nid) == 1 for i in finer(nid)}
    found = log.at(unit, thread, sorted(wanted)) if wanted else {}
    return {i: shown(clip(source(entry).text, LIMIT_BYTES)) for i, entry in found.items()}


def _weigh(shelf: Shelf, state: Window, nids: Collection[int]) -> Mapping[int, int]:
    """Return the bytes of nodes that are built, or are their own source and about to be."""
    known = dict(shelf.weigh(nids))
    for nid in nids:
        if nid not in known and stop_of(nid) > state.start and (line := state.line(nid)) is not None:
            known[nid] = size_bytes(shown(line.text))
    return known


def _texts(shelf: Shelf, state: Window, nids: Sequence[int], room: int | None = None) -> list[tuple[int, str]]:
    built = shelf.lines(nids)
    texts = []
    for nid in nids:
        line = built[nid] if nid in built else state.line(nid)
        if line is None:
            raise Damaged(f"the line {label_of(nid)} of a tree is missing, though one above it is there; {MEND}")
        texts.append((nid, begun(line.text, room)))
    return texts


def _rendered(shelf: Shelf, state: Window, fitted: Fitted) -> str:
    return Shown(tuple(_texts(shelf, state, fitted.lines, fitted.room)), fitted.hidden, fitted.notice).text
