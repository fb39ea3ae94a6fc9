"""The canonical view: the same for the same log, and not there before it is certain."""

from collections.abc import Collection, Mapping

from hypothesis import given
from hypothesis import strategies as st

from everlog.memory.tree.contexts import block_of, finer
from everlog.memory.tree.fold import View, canonical, fit, settle
from everlog.memory.tree.nodes import ending_within, pack, start_of, stop_of
from everlog.memory.tree.render import FRAME_BYTES, line_bytes


def weighing(known: Mapping[int, int]):
    def weigh(nids: Collection[int]) -> Mapping[int, int]:
        return {nid: known[nid] for nid in nids if nid in known}

    return weigh


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, dict[int, int]]:
    count = draw(st.integers(0, 150))
    sizes = draw(st.lists(st.integers(1, 560), min_size=7, max_size=7))
    return count, {nid: sizes[nid % 7] for nid in ending_within(0, count)}


@given(trees(), st.integers(256, 8_000), st.randoms(use_true_random=False))
def test_a_view_made_while_nodes_are_missing_is_the_one_of_the_whole_tree_or_none(tree, budget, random):
    """Fault 47, and law 2: whoever asks early gets nothing, and never something else."""
    count, known = tree
    whole = canonical(count, budget=budget, weigh=weighing(known))
    assert whole is not None
    some = {nid: size for nid, size in known.items() if random.random() < 0.9}
    assert canonical(count, budget=budget, weigh=weighing(some)) in (None, whole)
    for missing in random.sample(whole.lines, min(3, len(whole.lines))):
        known_but_one = {nid: size for nid, size in known.items() if nid != missing}
        assert canonical(count, budget=budget, weigh=weighing(known_but_one)) is None


@given(trees(), st.integers(256, 8_000))
def test_it_tiles_the_log_within_its_budget_as_merging_one_by_one_would(tree, budget):
    count, known = tree
    fitted = canonical(count, budget=budget, weigh=weighing(known))
    assert fitted is not None
    assert [start_of(nid) for nid in fitted.lines] == [fitted.hidden, *(stop_of(nid) for nid in fitted.lines)][
        : len(fitted.lines)
    ]
    most = 560 if fitted.room is None else fitted.room
    size = FRAME_BYTES + sum(line_bytes(nid, min(known[nid], most)) for nid in fitted.lines)
    assert size + (len(fitted.notice) + 1 if fitted.hidden else 0) <= budget
    grown = settle(View(), count, budget=budget, low=budget, weigh=weighing(known))
    assert fitted == fit(grown, count, budget=budget, weigh=weighing(known))


def test_what_is_not_in_the_view_is_not_waited_for():
    known = {nid: 100 for nid in ending_within(0, 64) if nid != pack(6, 0)}
    assert canonical(64, budget=24_000, weigh=weighing(known)) is not None
    assert canonical(64, budget=24_000, weigh=weighing(known | {70: 1})) is not None
    del known[63]
    assert canonical(64, budget=24_000, weigh=weighing(known)) is None


def test_eight_leaves_and_the_merges_among_them_share_a_block():
    assert {block_of(pack(0, i)) for i in range(16, 24)} == {16}
    assert {block_of(pack(1, i)) for i in range(8, 12)} == {16}
    assert block_of(pack(3, 2)) == 16
    assert block_of(pack(5, 1)) == 32


def test_a_merges_own_stretch_is_two_levels_finer_and_never_finer_than_messages():
    assert finer(pack(1, 3)) == [6, 7]
    assert finer(pack(2, 1)) == [4, 5, 6, 7]
    assert finer(pack(5, 1)) == [pack(3, 4), pack(3, 5), pack(3, 6), pack(3, 7)]
