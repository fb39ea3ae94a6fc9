"""Where a stretch of the log may be cut, and how a budget is divided there: properties over any history."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from everlog.context.opening import INSIDE, LEAST_BYTES, MIN_BUDGET_BYTES, divide
from everlog.context.past import PAIR_BYTES
from everlog.context.rounds import Round, rounds
from everlog.messages import Entry, Message
from tests.unit.context.talking import answer, call, user

AT = datetime(2026, 11, 30, tzinfo=UTC)
turns = st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=5)
"""For each turn, how many calls each of its rounds has."""


def history(turns: list[list[int]]) -> list[Entry]:
    entries: list[Entry] = []

    def add(turn: int, message: Message) -> None:
        entries.append(Entry(i=len(entries), turn=turn, message=message, at=AT))

    for turn, its in enumerate(turns):
        add(turn, user("question"))
        for calls in its:
            names = [f"call_{n}" for n in range(calls)]
            for name in names:
                add(turn, call(name))
            for name in names:
                add(turn, answer(name, "result"))
        add(turn, Message(kind="assistant", text="answer"))
    return entries


@given(turns=turns, start=st.integers(0, 5))
def test_rounds_follow_each_other_and_part_no_call_from_its_result(turns: list[list[int]], start: int):
    entries = history(turns)[start:]
    found = rounds(entries, lambda entry: entry.i + 1)
    assert [entry.i for one in found for entry in entries if one.start <= entry.i < one.stop] == [e.i for e in entries]
    for one in found[1:]:
        inside = [entry.message for entry in entries if one.start <= entry.i < one.stop]
        calls = [message.call.call_id for message in inside if message.call]
        results = [message.result.call_id for message in inside if message.result]
        assert sorted(calls) == sorted(results)
        assert one.size == sum(range(one.start + 1, one.stop + 1))


sizes = st.lists(st.integers(1, 5_000), max_size=12)


@given(
    sizes=sizes,
    budget=st.integers(MIN_BUDGET_BYTES, 10_000),
    opened=st.integers(0, 3),
    past=st.none() | st.integers(0, 9_000),
)
def test_tail_and_past_fit_in_the_budget_whatever_was_said(
    sizes: list[int], budget: int, opened: int, past: int | None
):
    found = [Round(n * 2, n * 2 + 2, n, begins=True, size=size) for n, size in enumerate(sizes)]
    open_at = None if not opened or not found else found[-min(opened, len(found))].start
    room = divide(found, cut=0, open_at=open_at, budget=budget, low=budget // 2, past=past)
    closed = sum(one.size for one in found if one.start >= room.cut and (open_at is None or one.start < open_at))
    assert room.tail == closed
    assert closed + room.cap + PAIR_BYTES <= budget
    assert room.target <= max(room.cap, LEAST_BYTES)
    if found and open_at is not None:
        assert room.cut <= found[-1].start, "the newest round of the open turn stays"


@given(sizes=st.lists(st.integers(200, 900), min_size=20, max_size=40), turn=st.integers(0, 39))
def test_a_cut_inside_the_open_turn_leaves_less_and_as_many_lines_as_words(sizes: list[int], turn: int):
    found = [Round(n * 2, n * 2 + 2, 0, begins=not n, size=size) for n, size in enumerate(sizes)]
    open_at = found[min(turn, len(found) - 1)].start
    room = divide(found, cut=0, open_at=open_at, budget=8_000, low=4_000, past=8_000)
    kept = sum(one.size for one in found[:-1] if one.start >= room.cut)
    numerator, denominator = INSIDE
    if room.cut > open_at:
        assert kept + room.target <= 4_000 * numerator // denominator
        assert kept <= room.target
    else:
        assert kept + room.target <= 4_000
        assert kept > 8_000 // 4 - 900, "the newest quarter stays"


def test_words_of_the_turn_before_are_kept_as_long_as_the_open_turn_is_shorter_than_a_quarter():
    sizes = [100] * 60
    found = [Round(n, n + 1, n // 40, begins=n in (0, 40), size=size) for n, size in enumerate(sizes)]
    room = divide(found, cut=0, open_at=40, budget=8_000, low=4_000, past=8_000)
    assert (room.cut, room.target) == (39, 2_000)
    longer = divide(found, cut=0, open_at=38, budget=8_000, low=4_000, past=8_000)
    assert (longer.cut, longer.target) == (46, 2_666 - 1_300)
