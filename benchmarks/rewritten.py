"""How much of a view a message rewrites: lines from the first changed one to the end, as it is merged in batches."""

from collections.abc import Collection, Mapping

from benchmarks._sheet import Sheet, fill
from everlog.memory.tree import LOW_MARK
from everlog.memory.tree.fold import View, settle
from everlog.memory.tree.render import FRAME_BYTES, line_bytes

LINES = 192
"""What a view holds on average, between its low mark and its budget."""

LINE_BYTES = 300


def measure(sheet: Sheet) -> None:
    """Measure it at the default low mark and, to compare, at others; the first fold fills the budget and is not counted."""
    count = sheet.pick(30_000, 500)
    for low_mark in (LOW_MARK, 0.85, 1.0):
        most = round(LINES * 2 / (1 + low_mark))
        rewritten = _rewritten(count, FRAME_BYTES + most * LINE_BYTES, low_mark)
        bound = 2 if low_mark == LOW_MARK else None
        what = f"lines rewritten per message, low mark {low_mark}"
        sheet.row(what, f"{count:,}, {LINES} lines", "planner", rewritten, "", at_most=bound)


def _rewritten(count: int, budget: int, low_mark: float) -> float:
    view, first = View(), 0
    lines = 0
    for upto in range(1, count + 1):
        low = int(budget * low_mark) if view.lines else budget
        before = view
        view = settle(view, upto, budget=budget, low=low, weigh=_weigh)
        kept = next(
            (n for n, (one, other) in enumerate(zip(before.lines, view.lines, strict=False)) if one != other),
            min(len(before.lines), len(view.lines)),
        )
        if len(view.lines) > len(before.lines) and not first:
            continue
        first = first or upto
        lines += len(view.lines) - kept
    return lines / (count + 1 - first)


def _weigh(nids: Collection[int]) -> Mapping[int, int]:
    return {nid: LINE_BYTES - line_bytes(nid, 0) for nid in nids}


if __name__ == "__main__":
    raise SystemExit(fill("rewritten", measure))
