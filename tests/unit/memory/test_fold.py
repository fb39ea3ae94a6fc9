"""What a view shows, against published rows and hand cases; its laws are in `test_fold_laws.py`."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from pathlib import Path
from time import process_time

import pytest

from everlog.memory.tree.fold import MIN_BUDGET_BYTES, View, Weigh, due, fit, settle, view_of
from everlog.memory.tree.nodes import index_of, label_of, level_of, pack, start_of, stop_of
from everlog.memory.tree.render import FRAME_BYTES, Shown, begun, line_bytes
from everlog.tokens import size_bytes

VECTORS = Path(__file__).parents[2] / "vectors"
PUSH = json.loads((VECTORS / "push.json").read_text("utf-8"))
DUE = json.loads((VECTORS / "due_pairs.json").read_text("utf-8"))["cases"]
UNIFORM = json.loads((VECTORS / "view_uniform.json").read_text("utf-8"))["cases"]
APPLICABLE = [case for case in UNIFORM if case["rule"] == "last" and case["acc"] == "rendered"]


def all_built(size: Callable[[int], int]) -> Weigh:
    return lambda nids: {nid: size(nid) for nid in nids}


def constant(line: int) -> Weigh:
    """Every node is built, and every rendered line has the same bytes."""
    return all_built(lambda nid: line - line_bytes(nid, 0))


def nothing(nids: Collection[int]) -> Mapping[int, int]:
    return {}


def view(*parts: list[int]) -> View:
    return View(tuple(pack(level, index) for level, index in parts))


def labels(lines: Collection[int]) -> list[str]:
    return [label_of(nid) for nid in lines]


def profile(name: str, nid: int) -> int:
    level, index = level_of(nid), index_of(nid)
    if name == "free100":
        return [100, 201, 403, 400][min(level, 3)]
    assert name == "mixed"
    return min(512, 200 + (index * 53 + level * 97) % 313) if level else 20 + index * 37 % 481


@pytest.mark.covers("A118")
@pytest.mark.parametrize("case", APPLICABLE, ids=[case["id"] for case in APPLICABLE])
def test_two_thousand_appends_give_the_published_views(case: dict):
    rows = {row["T"]: row for row in case["rows"]}
    weigh = all_built(lambda nid: profile(case["profile"], nid))
    seen = hashlib.sha256()
    grown = View()
    largest = 0
    for count in range(1, case["N"] + 1):
        grown = settle(grown, count, budget=case["budget"], low=case.get("low", case["budget"]), weigh=weigh)
        parts = [[level_of(nid), index_of(nid)] for nid in grown.lines]
        size = FRAME_BYTES + sum(line_bytes(nid, profile(case["profile"], nid)) for nid in grown.lines)
        largest = max(largest, size)
        if count in rows:
            assert (parts, size) == (rows[count]["parts"], rows[count]["size"])
        seen.update(f"{count}:{' '.join(f'{level},{index}' for level, index in parts)}\n".encode())
    assert seen.hexdigest() == case["sha256_all"]
    assert largest == case["maxSize"]


def test_both_published_forms_of_batching_are_among_the_rows():
    assert [case["id"] for case in APPLICABLE] == ["A5", "C2"]


def test_the_rule_reproduces_rollback_push_at_every_step():
    """The published equivalence, with the length of push's list as the budget."""
    states: list[tuple[int, bool]] = []
    seen = hashlib.sha256()
    grown = View()
    weigh = constant(100)
    published = dict(PUSH["seq"])
    for step in range(PUSH["steps_checked"]):
        states = pushed(step, states)
        starts = [start for start, _ in reversed(states)]
        budget = FRAME_BYTES + 100 * len(starts)
        grown = settle(grown, step + 1, budget=budget, low=budget, weigh=weigh)
        assert [start_of(nid) for nid in grown.lines] == starts == published.get(step, starts)
        seen.update(f"{','.join(map(str, starts))}\n".encode())
    assert seen.hexdigest() == PUSH["sha256_of_all"]


def pushed(state: int, states: list[tuple[int, bool]]) -> list[tuple[int, bool]]:
    """Rollback push, newest first: every second state that arrives at a place stays there, the one before moves on."""
    if not states:
        return [(state, False)]
    (newest, full), *older = states
    return [(state, False), *pushed(newest, older)] if full else [(newest, True), *older]


@pytest.mark.parametrize("case", DUE)
def test_the_pair_that_merges_next_is_the_most_due(case: dict):
    lines = view(*case["view"])
    line = 100
    unbuilt = case.get("unbuilt_levels", [])
    budget = FRAME_BYTES + line * len(lines.lines) - 1

    def weigh(nids: Collection[int]) -> Mapping[int, int]:
        return constant(line)([nid for nid in nids if level_of(nid) not in unbuilt or nid in lines.lines])

    merged = settle(lines, case["T"], budget=budget, low=budget, weigh=weigh)
    gone = [n for n, nid in enumerate(lines.lines) if nid not in merged.lines]
    assert gone == ([] if case["last"] == -1 else [case["last"], case["last"] + 1])
    assert merged.owed is (case["last"] == -1)


def test_the_most_due_of_two_pairs_is_told_without_fractions():
    assert due(pack(0, 8), 10) == 1 << 40
    assert due(pack(2, 0), 10) == 3 << 38


def test_eight_leaves_of_24_bytes_lose_their_first_pair_when_one_byte_is_missing():
    weigh = all_built(lambda nid: 24)
    full = FRAME_BYTES + sum(line_bytes(i, 24) for i in range(8))
    assert len(settle(View(), 8, budget=full, low=full, weigh=weigh).lines) == 8
    assert labels(settle(View(), 8, budget=full - 1, low=full - 1, weigh=weigh).lines)[:2] == ["0+2", "2+1"]


@pytest.mark.parametrize(
    ("line", "budget", "messages", "batches"), [(300, 6000, 120, [21, 32, 43, 54, 65, 76, 87, 98, 109, 120])]
)
def test_batches_come_at_known_messages(line: int, budget: int, messages: int, batches: list[int]):
    """Published for lines of 300 bytes at 6,000, text alone counted; so the frame is added here and labels are not."""
    weigh = constant(line)
    grown = View()
    found = []
    for count in range(1, messages + 1):
        before = grown
        grown = settle(grown, count, budget=budget + FRAME_BYTES, low=budget // 2 + FRAME_BYTES, weigh=weigh)
        if len(grown.lines) <= len(before.lines):
            found.append(count)
    assert found == batches


def test_a_view_of_four_hundred_messages_is_batched_every_fourteen():
    weigh = constant(300)
    grown = View()
    found = []
    for count in range(1, 401):
        before = grown
        grown = settle(grown, count, budget=8000 + FRAME_BYTES, low=4000 + FRAME_BYTES, weigh=weigh)
        if len(grown.lines) <= len(before.lines):
            found.append(count)
    assert found == list(range(27, 401, 14))
    assert len(found) == 27


def test_a_batch_that_lacks_a_node_goes_on_at_later_messages_below_the_budget():
    missing = {pack(1, index) for index in range(8)}

    def weigh(nids: Collection[int]) -> Mapping[int, int]:
        return constant(100)([nid for nid in nids if nid not in missing])

    budget, low = FRAME_BYTES + 1500, FRAME_BYTES + 700
    held = settle(View(), 16, budget=budget, low=low, weigh=weigh)
    assert (len(held.lines), held.owed) == (16, True)
    missing.clear()
    assert settle(held, 16, budget=budget + 1000, low=low, weigh=weigh) == held, "nothing new was said"
    assert len(settle(held, 17, budget=budget + 1000, low=low, weigh=weigh).lines) == 7


def test_a_batch_merges_only_as_far_up_as_nodes_are_built():
    def weigh(nids: Collection[int]) -> Mapping[int, int]:
        return constant(100)([nid for nid in nids if level_of(nid) < 2])

    held = settle(View(), 16, budget=FRAME_BYTES + 1500, low=FRAME_BYTES, weigh=weigh)
    assert labels(held.lines) == [f"{start}+2" for start in range(0, 16, 2)]
    assert held.owed


@pytest.mark.covers("A121", "A123")
@pytest.mark.parametrize("count", [1, 2, 3, 31, 100, 1023])
def test_no_budget_is_ever_exceeded_by_a_single_byte(count: int):
    weigh = all_built(lambda nid: 60 + index_of(nid) % 7)
    for budget in range(MIN_BUDGET_BYTES, 1500):
        shown = fit(settle(View(), count, budget=budget, low=budget, weigh=weigh), count, budget=budget, weigh=weigh)
        texts = tuple((nid, begun("x" * size, shown.room)) for nid, size in weigh(shown.lines).items())
        assert shown.lines, "there are words in every view that a reader can ask for"
        assert size_bytes(Shown(texts, shown.hidden, shown.notice).text) <= budget


def test_a_larger_budget_splits_nothing():
    small = settle(View(), 64, budget=1000, low=500, weigh=constant(100))
    assert settle(small, 64, budget=100_000, low=50_000, weigh=constant(100)) == small


def test_nodes_that_land_after_a_view_was_saved_do_not_push_it_over_its_budget():
    budget = 1000
    saved = settle(View(), 40, budget=budget, low=500, weigh=nothing)
    assert len(fit(saved, 40, budget=budget, weigh=nothing).lines) < 40

    def landed(nids: Collection[int]) -> Mapping[int, int]:
        return dict.fromkeys(nids, 400)

    now = fit(settle(saved, 40, budget=budget, low=500, weigh=landed), 40, budget=budget, weigh=landed)
    assert FRAME_BYTES + sum(line_bytes(nid, 400) for nid in now.lines) + len(now.notice) + 1 <= budget


def test_twenty_thousand_messages_with_nothing_built_stay_within_the_budget():
    saved = settle(View(), 20_000, budget=128_000, low=64_000, weigh=nothing)
    assert saved.lines == tuple(range(20_000))
    shown = fit(saved, 20_000, budget=128_000, weigh=nothing)
    size = FRAME_BYTES + sum(line_bytes(nid, 29) for nid in shown.lines)
    assert 0.9 * 128_000 < size <= 128_000
    assert (shown.hidden, stop_of(shown.lines[-1])) == (0, 20_000)


def test_what_does_not_fit_even_fully_merged_is_left_out_oldest_first_behind_one_line():
    weigh = all_built(lambda nid: 512)
    shown = fit(settle(View(), 1023, budget=4096, low=2048, weigh=weigh), 1023, budget=4096, weigh=weigh)
    assert labels(shown.lines)[-1] == "1022+1"
    assert shown.notice == "(left out, zoom to open: 0+512 512+256 768+128)"
    assert shown.hidden == 896


@pytest.mark.parametrize(
    ("count", "hidden", "said", "room"),
    [
        (1024, 0, "", 256 - FRAME_BYTES - len("0+1024|\n")),
        (12, 8, "(left out, zoom to open: 0+8)", 207),
        (255, 254, "(left out, zoom to open: 0+128 128+64 192+32 224+16 240+8 248+4 252+2)", 164),
        (
            65535,
            65534,
            "(left out from 0: +32768 +16384 +8192 +4096 +2048 +1024 +512 +256 +128 +64 +32 +16 +8 +4 +2)",
            140,
        ),
    ],
)
def test_of_a_newest_line_that_does_not_fit_the_beginning_is_shown(count: int, hidden: int, said: str, room: int):
    weigh = all_built(lambda nid: 512)
    shown = fit(settle(View(), count, budget=256, low=128, weigh=weigh), count, budget=256, weigh=weigh)
    assert (shown.hidden, shown.notice, shown.room) == (hidden, said, room)
    assert stop_of(shown.lines[-1]) == count
    text = Shown(((shown.lines[0], begun("word " * 200, shown.room)),), hidden, said).text
    assert 240 < size_bytes(text) <= 256


@pytest.mark.parametrize("budget", [0, 1, 13, 14, 60, 255])
@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_a_budget_below_one_line_ends_in_the_shortest_lawful_view(budget: int, count: int):
    weigh = all_built(lambda nid: 512)
    shown = fit(settle(View(), count, budget=budget, low=budget // 2, weigh=weigh), count, budget=budget, weigh=weigh)
    assert shown.lines == ()
    assert shown.hidden == count


def test_a_view_is_saved_as_runs_of_a_level():
    lines = view([3, 0], [2, 2], [0, 12], [0, 13], [0, 14], [0, 15])
    assert lines.runs == [(3, 1), (2, 1), (0, 4)]
    assert view_of(lines.runs, owed=False) == lines
    grown = settle(lines, 17, budget=10_000, low=5_000, weigh=nothing)
    assert grown.lines == (*lines.lines, pack(0, 16)), "one append adds one leaf"


@pytest.mark.parametrize("runs", [[(0, 1), (1, 1)], [(0, 0)], [(-1, 1)], [(41, 1)], [(2, 1), (3, 1)], [(0, -1)]])
def test_runs_that_do_not_tile_a_log_are_no_view(runs: list[tuple[int, int]]):
    assert view_of(runs, owed=False) is None


def test_a_long_log_is_folded_without_looking_at_all_of_it():
    asked: set[int] = set()

    def weigh(nids: Collection[int]) -> Mapping[int, int]:
        asked.update(nids)
        return constant(120)(nids)

    began = process_time()
    folded = settle(View(), 1_000_000, budget=80_000, low=40_000, weigh=weigh)
    fit(folded, 1_000_000, budget=80_000, weigh=weigh)
    assert len(asked) < 20 * len(folded.lines)
    assert process_time() - began < 1.0


@pytest.mark.parametrize("built", [0, 100, 500_000])
def test_a_long_log_that_is_barely_built_is_read_without_looking_at_all_of_it(built: int):
    """Faults 21 and 22: a batch waits for the most of its nodes, and the view stays as it was saved."""
    asked: list[int] = []

    def weigh(nids: Collection[int]) -> Mapping[int, int]:
        asked.extend(nids)
        return dict.fromkeys((nid for nid in nids if stop_of(nid) <= built), 100)

    saved = settle(View(), built, budget=80_000, low=40_000, weigh=weigh)
    before = len(asked)
    assert settle(saved, 1_000_000, budget=80_000, low=40_000, weigh=weigh) == saved
    shown = fit(saved, 1_000_000, budget=80_000, weigh=weigh)
    assert (shown.hidden, stop_of(shown.lines[-1])) == (0, 1_000_000)
    assert len(asked) - before < 20_000
    landed = settle(saved, 1_000_000, budget=80_000, low=40_000, weigh=constant(120))
    assert FRAME_BYTES + 120 * len(landed.lines) <= 40_000 or not built, "and goes on once they are there"
    assert landed.count == 1_000_000


def test_a_hundred_thousand_entries_are_folded_within_a_second_when_every_line_fits():
    """No short cut from above: every leaf is a line of the result, or close to it."""
    began = process_time()
    folded = settle(View(), 100_000, budget=100_000 * 60, low=100_000 * 30, weigh=constant(100))
    assert len(folded.lines) < 100_000
    assert process_time() - began < 2.0


def test_a_read_after_one_message_looks_only_at_what_it_shows():
    asked: list[int] = []

    def weigh(nids: Collection[int]) -> Mapping[int, int]:
        asked.extend(nids)
        return constant(120)(nids)

    saved = settle(View(), 100_000, budget=80_000, low=40_000, weigh=constant(120))
    grown = settle(saved, 100_001, budget=80_000, low=40_000, weigh=weigh)
    assert grown.lines == (*saved.lines, 100_000)
    assert len(asked) == len(grown.lines)


def test_starting_from_above_gives_the_view_that_merging_from_the_leaves_gives():
    for count in (300, 700, 1000):
        sizes = all_built(lambda nid: 50 + level_of(nid))
        budget = 3000
        stepwise = settle(View(), count, budget=10**9, low=10**9, weigh=sizes)
        assert settle(View(), count, budget=budget, low=1500, weigh=sizes).lines == merged_one_by_one(stepwise, 1500)


def merged_one_by_one(start: View, low: int) -> tuple[int, ...]:
    """The rule in its plainest form: look at all pairs, merge the most due, look again."""
    lines = list(start.lines)
    while FRAME_BYTES + sum(line_bytes(nid, 50 + level_of(nid)) for nid in lines) > low:
        pairs = [
            (-due(one, start.count), place)
            for place, (one, other) in enumerate(pairwise(lines))
            if one ^ 1 == other and not one & 1
        ]
        if not pairs:
            break
        _, place = min(pairs)
        one = lines[place]
        lines[place : place + 2] = [pack(level_of(one) + 1, index_of(one) >> 1)]
    return tuple(lines)
