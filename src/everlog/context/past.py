"""What stands for the entries that are no longer shown: lines of the tree, recorded so that the same bytes come again.

A view is recorded as runs of nodes, with a bit for each whether its words were there: a line that was not built when the
epoch opened stays a placeholder until it turns, whatever is built meanwhile. What was merged and what is shown are two
things where nodes are missing, so both are kept.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from everlog.memory.tree.fold import Fitted, View, fit, settle
from everlog.memory.tree.lines import PLACEHOLDER
from everlog.memory.tree.nodes import INDEX_BITS, level_of, pack
from everlog.memory.tree.render import Shown
from everlog.tokens import size_bytes

Weigh = Callable[[Collection[int]], Mapping[int, int]]
Texts = Callable[[Sequence[int], int | None], tuple[tuple[int, str], ...]]
"""Gives nodes with the text that stands for each in a view, cut to some bytes if they are given."""

LOADED = "[Context loaded]"
"""What the assistant says to its past, as seed 002 has it; roles take turns that way."""

PAIR_BYTES = size_bytes(LOADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A view as it is recorded."""

    lines: tuple[int, ...] = ()
    """Nodes as they were merged, tiling everything before the cut; never split again."""
    owed: bool = False
    shown: tuple[tuple[int, bool], ...] = ()
    """Nodes that are shown, and whether their words were there."""
    hidden: int = 0
    notice: str = ""
    room: int | None = None

    @property
    def placeholders(self) -> list[int]:
        """Nodes whose words were not there."""
        return [nid for nid, there in self.shown if not there]


EMPTY = Past()


def render(past: Past) -> str:
    """Return a past as it is stored: numbers, no words."""
    if past == EMPTY:
        return ""
    same = past.lines == tuple(nid for nid, _ in past.shown)
    fields = {
        "lines": _runs([(nid, True) for nid in past.lines]) if not same else None,
        "shown": _runs(past.shown),
        "owed": past.owed or None,
        "hidden": past.hidden or None,
        "notice": past.notice or None,
        "room": past.room,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None}, separators=(",", ":"))


def parse(text: str) -> Past | None:
    """Return the past that was stored; None if it is damaged."""
    if not text:
        return EMPTY
    try:
        fields = json.loads(text)
        hidden = fields.get("hidden", 0)
        shown = tuple(_nodes(fields["shown"], hidden))
        lines = tuple(nid for nid, _ in (_nodes(fields["lines"], 0) if "lines" in fields else shown))
        return Past(
            lines=lines,
            owed=bool(fields.get("owed", False)),
            shown=shown,
            hidden=hidden,
            notice=fields.get("notice", ""),
            room=fields.get("room"),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def fold(before: Past, cut: int, *, target: int, cap: int, weigh: Weigh) -> Past:
    """Return the past up to `cut`: the lines of the one before and those since, merged to about `target` bytes.

    Pairs are merged whose parent is built; where that is not enough, what is shown is made to fit in `cap` bytes with
    placeholders, the oldest left out behind one line.
    """
    if not cut:
        return EMPTY
    view = settle(View(before.lines, before.owed), cut, budget=target, low=target, weigh=weigh)
    return _recorded(view, fit(view, cut, budget=cap, weigh=weigh), weigh)


def grow(before: Past, cut: int, *, budget: int, low: int, weigh: Weigh) -> Past:
    """Return the past up to `cut` for a memory without a tail: it grows line by line, and is merged when it is full."""
    if not cut:
        return EMPTY
    view = settle(View(before.lines, before.owed), cut, budget=budget, low=low, weigh=weigh)
    return _recorded(view, fit(view, cut, budget=budget, weigh=weigh), weigh)


def show(past: Past, texts: Texts) -> Shown:
    """Return what is shown, with its words."""
    lines = texts([nid for nid, _ in past.shown], past.room)
    kept = tuple(
        (nid, text if there else PLACEHOLDER) for (nid, text), (_, there) in zip(lines, past.shown, strict=True)
    )
    return Shown(kept, past.hidden, past.notice)


def _recorded(view: View, fitted: Fitted, weigh: Weigh) -> Past:
    built = weigh(fitted.lines)
    return Past(
        lines=view.lines,
        owed=view.owed,
        shown=tuple((nid, nid in built) for nid in fitted.lines),
        hidden=fitted.hidden,
        notice=fitted.notice,
        room=fitted.room,
    )


def _runs(nodes: Sequence[tuple[int, bool]]) -> list[list[int]]:
    runs: list[list[int]] = []
    for nid, there in nodes:
        level = level_of(nid)
        if runs and runs[-1][0] == level and runs[-1][2] == there:
            runs[-1][1] += 1
        else:
            runs.append([level, 1, int(there)])
    return runs


def _nodes(runs: Sequence[Sequence[int]], start: int) -> list[tuple[int, bool]]:
    """Return the nodes of runs that tile a stretch from `start` on.

    Raises:
        ValueError: they do not.
    """
    found: list[tuple[int, bool]] = []
    for level, count, there in runs:
        if not 0 <= level <= INDEX_BITS or count < 1 or start < 0 or start & (1 << level) - 1:
            raise ValueError("the lines of a recorded view do not follow each other")
        first = pack(level, start >> level)
        found += [(nid, bool(there)) for nid in range(first, first + count)]
        start += count << level
    return found
