"""Saved views: one per thread and budget, grown and merged when it is read, never made again from the log.

A read that merges nothing writes nothing, since a view that only grew is the saved one and a leaf per later entry. One
that merges saves the result before it is delivered, if the saved view is still the one it started from; otherwise it
starts over from what the other reader saved. So whoever reads sees the same beginning.
"""

import json
import logging
from dataclasses import dataclass
from functools import partial

from everlog import log
from everlog.errors import BudgetTooSmall, StoreUnavailable
from everlog.memory.tree import rows
from everlog.memory.tree.fold import MIN_BUDGET_BYTES, View, fit, settle, view_of
from everlog.memory.tree.render import Shown
from everlog.memory.tree.shelf import Shelf
from everlog.store import Store, Unit

LOW_MARK = 0.5
"""What share of its budget a view that grows is merged down to; 1.0 merges at every message (measured: 25 times the
rewriting). The first view of a budget fills it: nothing is known yet of whether the thread goes on."""

_TRIES = 8
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Saved:
    view: View
    version: int
    damaged: bool = False


def show(store: Store, tenant: str, thread: str | None, budget_bytes: int, *, low_mark: float = LOW_MARK) -> Shown:
    """Return the view of a thread (by its id; None for one without words) within a budget of UTF-8 bytes, tags and all.

    Raises:
        BudgetTooSmall: the budget is under 256 bytes.
        Erased: the thread was erased.
    """
    if budget_bytes < MIN_BUDGET_BYTES:
        raise BudgetTooSmall(f"a view needs at least {MIN_BUDGET_BYTES} bytes, not {budget_bytes}")
    if thread is None:
        return Shown(())
    shown = None
    for _ in range(_TRIES):
        shown, saved = store.read(tenant, partial(_read, thread=thread, budget=budget_bytes, low_mark=low_mark))
        if saved is None or _save(store, tenant, thread, budget_bytes, saved):
            break
    assert shown is not None
    if shown.hidden:
        _logger.info("a view left out the oldest messages", extra={"thread_id": thread, "left_out": shown.hidden})
    return shown


def _read(unit: Unit, thread: str, budget: int, low_mark: float) -> tuple[Shown, _Saved | None]:
    """Return what to show, and the view to save before it is shown, if any."""
    row = log.load(unit, thread)
    saved = _load(unit, thread, budget, row.next)
    low = int(budget * low_mark) if saved.version else budget
    shelf = Shelf(unit, row)
    view = settle(saved.view, row.next, budget=budget, low=low, weigh=shelf.weigh)
    fitted = fit(view, row.next, budget=budget, weigh=shelf.weigh)
    shown = Shown(shelf.shown(fitted.lines, fitted.room), fitted.hidden, fitted.notice)
    grown = view.count - saved.view.count
    only_grew = len(view.lines) == len(saved.view.lines) + grown and view.owed == saved.view.owed
    return shown, None if only_grew and not saved.damaged else _Saved(view, saved.version)


def _load(unit: Unit, thread: str, budget: int, count: int) -> _Saved:
    row = unit.row(rows.VIEW, thread=thread, budget=budget)
    if row is None:
        return _Saved(View(), 0)
    version, owed, runs = row
    stored = _runs_in(runs)
    view = None if stored is None else view_of(stored, owed=bool(owed), most=count)
    if view is None:
        _logger.warning("a saved view does not tile its thread and is made anew", extra={"thread_id": thread})
        return _Saved(View(), version, damaged=True)
    return _Saved(view, version)


def _runs_in(text: str) -> list[tuple[int, int]] | None:
    """Return the runs of a saved view, or None if it is no list of pairs of numbers."""
    try:
        found = [(level, length) for level, length in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        return None
    return found if all(type(number) is int for pair in found for number in pair) else None


def _save(store: Store, tenant: str, thread: str, budget: int, saved: _Saved) -> bool:
    """Save a view over the one it was made from; return False if that has changed meanwhile."""
    try:
        return store.write(tenant, partial(_put, thread=thread, budget=budget, saved=saved), name="tree.view")
    except StoreUnavailable as error:
        # A reader is served also where nothing can be written; the next one that can save makes the same view.
        _logger.warning("a view could not be saved: %s", error, extra={"thread_id": thread})
        return True


def _put(unit: Unit, thread: str, budget: int, saved: _Saved) -> bool:
    owed, runs = int(saved.view.owed), json.dumps(saved.view.runs, separators=(",", ":"))
    log.load(unit, thread)
    if not saved.version:
        return unit.count(rows.PUT_VIEW, thread=thread, budget=budget, version=1, owed=owed, runs=runs) == 1
    changed = unit.count(
        rows.SET_VIEW,
        thread=thread,
        of_budget=budget,
        seen=saved.version,
        new_version=saved.version + 1,
        new_owed=owed,
        new_runs=runs,
    )
    return changed == 1
