"""Laws 3 and 4, and the stable beginning, over any history of appends, landing nodes and reads at several budgets."""

from collections.abc import Collection, Mapping, Sequence
from math import ceil, log2

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from everlog.memory.tree.fold import MIN_BUDGET_BYTES, View, fit, settle, view_of
from everlog.memory.tree.lines import PLACEHOLDER
from everlog.memory.tree.nodes import children_of, cover, ending_within, level_of, start_of, stop_of
from everlog.memory.tree.render import FRAME_BYTES, Shown, begun, parse
from everlog.tokens import size_bytes

BUDGETS = [MIN_BUDGET_BYTES, 300, 777, 2_000, 10_000]


class Reading(RuleBasedStateMachine):
    """A log of sizes, the nodes built so far, and a saved view for each budget."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.texts: dict[int, str] = {}
        self.saved: dict[int, View] = {}
        self.low_mark = 0.5

    @initialize(low_mark=st.sampled_from([0.0, 0.5, 0.85, 1.0]))
    def choose(self, low_mark: float) -> None:
        self.low_mark = low_mark

    @rule(more=st.one_of(st.integers(1, 5), st.integers(1, 90)))
    def append(self, more: int) -> None:
        self.count += more

    @rule(data=st.data(), size=st.integers(1, 600), most=st.sampled_from([3, 50, 1000]))
    def build(self, data: st.DataObject, size: int, most: int) -> None:
        """Build some of the nodes that are possible, wherever they are."""
        possible = [
            nid
            for nid in ending_within(0, self.count)
            if nid not in self.texts and (not level_of(nid) or all(half in self.texts for half in children_of(nid)))
        ]
        if possible:
            first = data.draw(st.integers(0, len(possible) - 1))
            for nid in possible[first : first + most]:
                self.texts[nid] = "x" * (1 + (size + nid * 37) % 600)

    @rule(budget=st.sampled_from(BUDGETS))
    def read(self, budget: int) -> None:
        before = self.saved.get(budget, View())
        after = settle(before, self.count, budget=budget, low=int(budget * self.low_mark), weigh=self.weigh)
        fitted = fit(after, self.count, budget=budget, weigh=self.weigh)
        texts = tuple((nid, begun(self.texts.get(nid, PLACEHOLDER), fitted.room)) for nid in fitted.lines)
        shown = Shown(texts, fitted.hidden, fitted.notice)
        assert tiles(after.lines, 0, self.count) or after == before, "a batch that waits changes nothing"
        assert fitted.lines or not self.count
        assert fitted.room is None or len(fitted.lines) == 1
        assert tiles(fitted.lines, fitted.hidden, self.count)
        assert never_split(before.lines, after.lines)
        assert never_split(after.lines, fitted.lines)
        if self.quiet(before, budget):
            assert after.lines == (*before.lines, *range(before.count, self.count)), "a view only grows between batches"
        assert all(nid in self.texts for nid in set(after.lines) - set(before.lines) if level_of(nid))
        assert size_bytes(shown.text) <= budget
        assert parse(shown.text) == shown
        assert reachable(parse(shown.text), self.count)
        assert view_of(after.runs, owed=after.owed) == after
        assert settle(after, self.count, budget=budget, low=int(budget * self.low_mark), weigh=self.weigh) == after
        self.saved[budget] = after

    def quiet(self, before: View, budget: int) -> bool:
        lines = [*before.lines, *range(before.count, self.count)]
        texts = tuple((nid, self.texts.get(nid, PLACEHOLDER)) for nid in lines)
        return not before.owed and size_bytes(Shown(texts).text) <= budget

    def weigh(self, nids: Collection[int]) -> Mapping[int, int]:
        return {nid: len(self.texts[nid]) for nid in nids if nid in self.texts}


def tiles(lines: Collection[int], start: int, stop: int) -> bool:
    edges = [start, *map(stop_of, lines)]
    return edges[-1] == stop and [start_of(nid) for nid in lines] == edges[:-1]


def never_split(before: Sequence[int], after: Sequence[int]) -> bool:
    """No later line begins inside an earlier one."""
    end = stop_of(before[-1]) if before else 0
    return {start_of(nid) for nid in after if start_of(nid) < end} <= {start_of(nid) for nid in before}


def reachable(shown: Shown, count: int) -> bool:
    """Every entry is under a line, or a block that the notice names, few enough zooms away."""
    blocks = [*cover(0, shown.hidden), *(nid for nid, _ in shown.lines)]
    most = ceil(log2(count)) + 1 if count > 1 else 1
    return tiles(blocks, 0, count) and all(level_of(nid) + 1 <= most for nid in blocks)


TestReading = pytest.mark.covers("A118", "A119", "A120", "A121", "A122", "A123", "A124")(Reading.TestCase)


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_burst_of_messages_after_a_saved_view_is_shown_and_splits_none_of_its_lines(budget: int):
    texts = dict.fromkeys(ending_within(0, 256), "x" * 40)

    def weigh(nids: Collection[int]) -> Mapping[int, int]:
        return {nid: len(texts[nid]) for nid in nids if nid in texts}

    saved = settle(View(), 256, budget=budget, low=FRAME_BYTES, weigh=weigh)
    assert max(map(level_of, saved.lines)) > 0
    for burst in (1, 60, 700, 5_000):
        fitted = fit(saved, 256 + burst, budget=budget, weigh=weigh)
        assert tiles(fitted.lines, fitted.hidden, 256 + burst)
        assert never_split(saved.lines, fitted.lines)
