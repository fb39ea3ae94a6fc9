"""Which nodes a view shows: pure planning in whole numbers, over sizes alone.

A view is a list of nodes that tiles the log from its first entry. Two things happen to it: a leaf is appended for each
new entry, and two lines that are the halves of one node are replaced by that node. It never splits. Of all pairs the
one with the largest due merges first, due = (T - last) / 2^level, T entries in the log, `last` the pair's last entry,
`level` its lines'; of equals the oldest. So each level keeps about as many lines as the next, and detail fades in
proportion to age. Between batches a view only grows at its end: once it is over its budget it is merged down to the
low mark, as far as nodes are built, and a batch that was held up goes on when the log has grown.

`settle` makes the view that is saved. `fit` makes of it what one reader sees now, which merges lines whose node is not
built yet, and as the last resort leaves out the oldest; where not even the newest fits, its beginning is shown. That is
saved nowhere. While so many nodes are missing that their
places alone would fill the budget, a batch waits and the saved view stays as it is, without the entries since: else each
read of a long log that is barely built would go through all of it.

A parent's due is always smaller than its children's. So the view at which all pairs of due >= d have merged can be
told from the top of the tree down, and a long log is folded by looking at the lines near the result only.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from everlog.memory.tree.nodes import INDEX_BITS, children_of, cover, level_of, parent_of, start_of, stop_of
from everlog.memory.tree.render import FRAME_BYTES, MIN_LINE_BYTES, PLACEHOLDER_BYTES, line_bytes, notice

Weigh = Callable[[Collection[int]], Mapping[int, int]]
"""Gives the bytes of text, as shown, of those of the asked nodes that are built."""

MIN_BUDGET_BYTES = 256
"""The smallest budget that public functions take; a planner's promise for smaller ones is only to end."""

WORDS_BYTES = 100
"""Room for words that the names of what is left out give way to."""


@dataclass(frozen=True, slots=True)
class View:
    """A saved view."""

    lines: tuple[int, ...] = ()
    """Nodes, oldest first, tiling the log from entry 0."""
    owed: bool = False
    """Whether the last batch stopped above the low mark, for want of built nodes."""

    @property
    def count(self) -> int:
        """How many entries it covers."""
        return stop_of(self.lines[-1]) if self.lines else 0

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The same as (level, how many of it in a row)."""
        runs: list[tuple[int, int]] = []
        for nid in self.lines:
            level = level_of(nid)
            if runs and runs[-1][0] == level:
                runs[-1] = level, runs[-1][1] + 1
            else:
                runs.append((level, 1))
        return runs


@dataclass(frozen=True, slots=True)
class Fitted:
    """What fits: nodes to show, built or not, and what is left out."""

    lines: tuple[int, ...]
    hidden: int = 0
    """How many of the oldest entries are left out."""
    notice: str = ""
    """The line that stands for them."""
    room: int | None = None
    """Bytes to which the text of the only line is cut, where not all of it fits."""


def view_of(runs: Iterable[tuple[int, int]], *, owed: bool, most: int = 1 << INDEX_BITS) -> View | None:
    """Return the view with these runs, or None if they do not tile a log of at most so many entries."""
    lines: list[int] = []
    at = 0
    for level, length in runs:
        if length < 1 or not 0 <= level <= INDEX_BITS or at & (1 << level) - 1:
            return None
        if at + (length << level) > most:
            return None
        first = level << INDEX_BITS | at >> level
        lines.extend(range(first, first + length))
        at += length << level
    return View(tuple(lines), owed)


def settle(view: View, count: int, *, budget: int, low: int, weigh: Weigh) -> View:
    """Return the view after the log has grown to `count` entries: grown, and merged to `low` bytes if it must be."""
    grown = count - view.count
    if (len(view.lines) + grown) * MIN_LINE_BYTES > budget:
        most = max(budget, 0) // (MIN_LINE_BYTES + PLACEHOLDER_BYTES)
        merged = _descend(view.lines, count, low, weigh, most_missing=most)
        if merged is None:
            return view
        present = merged
    else:
        lines = (*view.lines, *range(view.count, count))
        present = _weighed(lines, weigh(lines))
        if FRAME_BYTES + sum(present.values()) <= budget and not (view.owed and grown):
            return View(lines, view.owed) if grown else view
    size = _merge(present, count, low, weigh(_above(present, count)), unbuilt=False)
    return View(_in_order(present), owed=size > low)


def fit(view: View, count: int, *, budget: int, weigh: Weigh) -> Fitted:
    """Return what to show within `budget` bytes, tags and all, of a view and the entries since, up to `count`."""
    if (len(view.lines) + count - view.count) * MIN_LINE_BYTES > budget:
        descended = _descend(view.lines, count, budget, weigh)
        assert descended is not None
        present = descended
    else:
        lines = (*view.lines, *range(view.count, count))
        present = _weighed(lines, weigh(lines))
        if FRAME_BYTES + sum(present.values()) <= budget:
            return Fitted(lines)
    size = _merge(present, count, budget, weigh(_above(present, count)), unbuilt=True)
    lines = _in_order(present)
    return Fitted(lines) if size <= budget else _leave_out(lines, present, size, budget)


def canonical(count: int, *, budget: int, weigh: Weigh) -> Fitted | None:
    """Return the one view of the first `count` entries that depends on nothing but their nodes; None until it is built.

    It is what the log up to there folds to at once, every node built. Pairs merge by their due alone, and a node that is
    missing weighs nothing here, which can only end the merging too early. So a view without a missing node is the same
    that the whole tree would give.
    """

    def padded(nids: Collection[int]) -> Mapping[int, int]:
        return {**dict.fromkeys(nids, 0), **weigh(nids)}

    fitted = fit(settle(View(), count, budget=budget, low=budget, weigh=padded), count, budget=budget, weigh=padded)
    return fitted if len(weigh(fitted.lines)) == len(fitted.lines) else None


def due(left: int, count: int) -> int:
    """Return how due a pair of siblings is, given its left one: (T - last) / 2^level, times 2^40."""
    return count + 1 - stop_of(left + 1) << INDEX_BITS - level_of(left)


def _leave_out(lines: tuple[int, ...], present: Mapping[int, int], size: int, budget: int) -> Fitted:
    hidden = 0
    said = ""
    for shown, nid in enumerate(lines):
        room = budget - size - 1
        if hidden and len(said := notice(hidden, room)) <= room:
            return Fitted(lines[shown:], hidden, said)
        size -= present[nid]
        hidden = stop_of(nid)
    return (_cut(lines[-1], budget) if lines else None) or Fitted((), hidden, notice(hidden, budget - size - 1))


def _cut(newest: int, budget: int) -> Fitted | None:
    """Return the newest line alone, cut to what fits beside the notice; None where that is not worth it."""
    hidden = start_of(newest)
    room = budget - FRAME_BYTES - line_bytes(newest, 0)
    said = notice(hidden, room - WORDS_BYTES - 1) if hidden else ""
    room -= len(said) + 1 if hidden else 0
    worth = budget >= MIN_BUDGET_BYTES and room >= PLACEHOLDER_BYTES
    return Fitted((newest,), hidden, said, room) if worth else None


def _merge(present: dict[int, int], count: int, target: int, known: Mapping[int, int], *, unbuilt: bool) -> int:
    """Merge the most due pairs among `present` (node to rendered bytes) until all of it is `target` bytes or less.

    `known` weighs the nodes above; with `unbuilt`, one that is not built merges all the same, as a placeholder.
    Returns the bytes of the whole view.
    """
    heap = [
        (-due(nid, count), start_of(nid), nid)
        for nid in present
        if not nid & 1 and nid + 1 in present and (unbuilt or parent_of(nid) in known)
    ]
    heapify(heap)
    size = FRAME_BYTES + sum(present.values())
    while size > target and heap:
        _, _, left = heappop(heap)
        parent = parent_of(left)
        present[parent] = merged = line_bytes(parent, known.get(parent, PLACEHOLDER_BYTES))
        size += merged - present.pop(left) - present.pop(left + 1)
        left = parent & ~1
        if left in present and left + 1 in present and (unbuilt or parent_of(left) in known):
            heappush(heap, (-due(left, count), start_of(left), left))
    return size


def _descend(
    fixed: Collection[int], count: int, target: int, weigh: Weigh, *, most_missing: int | None = None
) -> dict[int, int] | None:
    """Return the coarsest lines, of those that come before the result, from which merging on leads to it.

    Lines in `fixed` are never split; neither is a leaf. For least due d = 1, 2, 4 …, all pairs of due >= d are merged;
    the first such view above `target` bytes is returned. With `most_missing`, pairs merge into built nodes only, and
    the way ends with None where it meets more missing ones than that side by side.
    """
    unbuilt = most_missing is None
    kept = frozenset(fixed)
    lines = cover(0, count)
    sizes: dict[int, int] = {}
    least = 1
    while True:
        split = True
        while split:
            fresh = [nid for nid in lines if nid not in sizes]
            sizes.update(dict.fromkeys(fresh, -1))
            sizes.update(weigh(fresh))
            if most_missing is not None and sum(sizes[nid] < 0 and nid not in kept for nid in lines) > most_missing:
                return None
            lines, split = _split(lines, kept, count, least, sizes, unbuilt=unbuilt)
        present = _weighed(lines, {nid: sizes[nid] for nid in lines if sizes[nid] >= 0})
        if FRAME_BYTES + sum(present.values()) > target or least > count:
            return present
        least *= 2


def _split(
    lines: list[int], kept: Collection[int], count: int, least: int, sizes: Mapping[int, int], *, unbuilt: bool
) -> tuple[list[int], bool]:
    """Split, once, each line that is not built or whose halves were not due to merge; return whether any was."""
    result: list[int] = []
    for nid in lines:
        level = level_of(nid)
        merged = (unbuilt or sizes[nid] >= 0) and count + 1 - stop_of(nid) >= least << level - 1 if level else True
        if merged or nid in kept:
            result.append(nid)
        else:
            result.extend(children_of(nid))
    return result, len(result) > len(lines)


def _above(lines: Iterable[int], count: int) -> list[int]:
    """Return every node that lines tiling `count` entries can merge into."""
    found: dict[int, None] = {}
    for nid in lines:
        parent = parent_of(nid)
        while parent not in found and stop_of(parent) <= count:
            found[parent] = None
            parent = parent_of(parent)
    return list(found)


def _weighed(lines: Iterable[int], known: Mapping[int, int]) -> dict[int, int]:
    return {nid: line_bytes(nid, known.get(nid, PLACEHOLDER_BYTES)) for nid in lines}


def _in_order(present: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(present, key=start_of))
