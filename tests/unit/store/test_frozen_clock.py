"""The clock that tests hold in their hands."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from everlog.clock import new_id
from everlog.testing import FrozenClock

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_it_stands_until_it_is_moved():
    clock = FrozenClock(NOON)
    assert clock.now() == clock.now() == NOON
    clock.advance(timedelta(hours=1))
    assert clock.now() == NOON + timedelta(hours=1)
    clock.advance(timedelta(days=-1))
    clock.set(datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))))
    assert (clock.now(), clock.now().tzinfo) == (NOON, UTC)


def test_it_can_step_by_itself():
    clock = FrozenClock(NOON, step=timedelta(seconds=1))
    assert [clock.now() - NOON for _ in range(3)] == [timedelta(seconds=n) for n in range(3)]


def test_ids_and_random_bytes_are_a_function_of_the_seed():
    one, same, other = FrozenClock(), FrozenClock(), FrozenClock(seed=1)
    assert [new_id(one), one.random(5)] == [new_id(same), same.random(5)]
    assert one.random(32) != other.random(32)
    assert len({one.random(8) for _ in range(1000)}) == 1000
    assert [len(one.random(size)) for size in (0, 1, 1000)] == [0, 1, 1000]


def test_threads_never_draw_the_same_bytes():
    clock = FrozenClock()
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: clock.random(16), range(5000)))) == 5000


def test_a_time_without_a_zone_is_refused():
    for act in (lambda: FrozenClock(datetime(2026, 1, 1)), lambda: FrozenClock().set(datetime(2026, 1, 1))):  # noqa: DTZ001
        with pytest.raises(ValueError, match="has no zone"):
            act()


def test_ids_made_within_a_millisecond_sort_by_their_microseconds():
    clock = FrozenClock(NOON, step=timedelta(microseconds=1))
    ids = [new_id(clock) for _ in range(2000)]
    assert ids == sorted(ids)
    assert {(made[12], made[16] in "89ab") for made in ids} == {("7", True)}
