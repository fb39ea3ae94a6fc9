"""Both drivers do the same with the same programs (chat B.7; A.1 39, 42, 44; D92)."""

import asyncio
import contextvars
import threading
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.chat.drivers import AsyncDriver, SyncDriver
from everlog.chat.effects import Abandoned, Begin, Drop, Emit, Invoke, Next, Outcome

colour = contextvars.ContextVar("colour", default="none")
MODES = ["threads", "fibers"]


def returned(value):
    """A program that asks for nothing."""
    yield from ()
    return value


async def later(value):
    await asyncio.sleep(0)
    return value


def test_a_program_gets_what_its_effects_give_and_returns(calling):
    def program():
        first = yield Invoke(lambda x, y: x + y, (1,), {"y": 2})
        second = yield Invoke(later, (first * 2,))
        third = yield Invoke(partial(later, second + 1), blocking=True)
        yield Emit("dropped")
        return third

    assert calling.run(program()) == 7


def test_what_an_effect_raises_is_raised_where_it_was_asked_for(calling):
    def program():
        try:
            yield Invoke(int, ("no number",))
        except ValueError as error:
            yield Emit(type(error).__name__)
        yield Invoke(int, ("nor this",), blocking=True)

    emitted: list[str] = []
    with pytest.raises(ValueError, match="nor this"):
        calling.stream(program(), emitted)
    assert emitted == ["ValueError"]


def test_a_stream_hands_out_in_order_and_ends_with_the_result(calling):
    def program():
        for number in range(5):
            yield Emit((yield Invoke(later, (number,))))
        return "the end"

    assert calling.stream(program()) == ([0, 1, 2, 3, 4], "the end")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_program_whose_stream_nobody_reads_on_cleans_up(is_async):
    told: list[int | str] = []

    def program():
        try:
            yield Emit(1)
            yield Emit(2)
        except Abandoned:
            yield Invoke(told.append, ("cleaned up",))
            raise

    async def read():
        stream = AsyncDriver().stream(program())
        told.append(await anext(stream))
        await stream.aclose()

    if is_async:
        asyncio.run(read())
    else:
        stream = SyncDriver().stream(program())
        told.append(next(stream))
        stream.close()
    assert told == [1, "cleaned up"]


def test_a_stream_that_ends_before_it_emits_anything_is_empty(calling):
    assert calling.stream(returned(3)) == ([], 3)


def batch_of(programs, mode, limit=8):
    """A program: run these, and collect how they end."""
    batch = yield Begin(programs=tuple(programs), mode=mode, limit=limit)
    outcomes = []
    while outcome := (yield Next(batch)):
        outcomes.append(outcome)
    return outcomes


@pytest.mark.parametrize("mode", MODES)
def test_programs_of_a_batch_come_back_in_the_order_in_which_they_end(calling, mode):
    """Each waits for the one after it, so that they end backwards; A.1 42."""
    ended = [threading.Event() for _ in range(4)]
    ended[3].set()

    def program(number):
        yield Invoke(ended[number].wait, (10,), blocking=True)
        return number

    def collected():
        batch = yield Begin(programs=tuple(partial(program, number) for number in range(4)), mode=mode)
        values = []
        while outcome := (yield Next(batch)):
            values.append(outcome.value)
            ended[outcome.index - 1].set()
        return values

    assert calling.run(collected()) == [3, 2, 1, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_reports_errors_and_goes_on(calling, mode):
    def failing():
        yield Invoke(later, (1,))
        raise LookupError("x")

    outcomes = calling.run(batch_of([failing, lambda: returned("fine")], mode))
    found = {one.index: (one.value, type(one.error)) for one in outcomes}
    assert found == {0: (None, LookupError), 1: ("fine", type(None))}


@pytest.mark.parametrize("mode", MODES)
def test_no_more_programs_run_at_once_than_allowed(calling, mode):
    running, most, lock = 0, 0, threading.Lock()
    beside = threading.Barrier(3)

    def work():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        beside.wait(10)
        with lock:
            running -= 1

    def program():
        yield Invoke(work, blocking=True)

    assert len(calling.run(batch_of([program] * 6, mode, limit=3))) == 6
    assert most == 3


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_that_is_given_up_begins_nothing_more(calling, mode):
    begun, second, go = [], threading.Event(), threading.Event()

    def work(number):
        begun.append(number)
        if number == 1:
            second.set()
            go.wait(10)

    def program(number):
        yield Invoke(work, (number,), blocking=True)

    def given_up():
        programs = tuple(partial(program, number) for number in range(5))
        batch = yield Begin(programs=programs, mode=mode, limit=1)
        first = yield Next(batch)
        yield Invoke(second.wait, (10,), blocking=True)
        threading.Timer(0.05, go.set).start()
        yield Drop(batch)
        return first

    assert calling.run(given_up()) == Outcome(0)
    assert begun == [0, 1]


@pytest.mark.parametrize("mode", MODES)
def test_programs_see_the_context_variables_of_whoever_began_them(calling, mode):
    colour.set("green")

    def program():
        plain = yield Invoke(colour.get, blocking=True)
        return plain, (yield Invoke(read_colour))

    async def read_colour():
        return colour.get()

    assert [one.value for one in calling.run(batch_of([program], mode))] == [("green", "green")]


def test_an_async_function_may_use_a_blocking_driver_in_its_turn():
    async def outer():
        return SyncDriver().run(inner())

    def inner():
        return (yield Invoke(later, ("inside",)))

    def program():
        return (yield Invoke(outer))

    assert SyncDriver().run(program()) == "inside"


def test_a_blocking_driver_works_inside_a_running_loop():
    def program():
        return (yield Invoke(later, (1,)))

    async def main():
        return SyncDriver().run(program())

    assert asyncio.run(main()) == 1


def test_plain_functions_that_block_do_not_hold_up_the_loop():
    inside, go = threading.Event(), threading.Event()

    def program():
        yield Invoke(inside.set)
        yield Invoke(go.wait, (10,), blocking=True)

    async def main():
        task = asyncio.create_task(AsyncDriver().run(program()))
        assert await asyncio.to_thread(inside.wait, 10)
        go.set()
        await task

    asyncio.run(main())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers()),
        st.tuples(st.just("call"), st.integers()),
        st.tuples(st.just("await"), st.integers()),
        st.tuples(st.just("fail"), st.booleans()),
    ),
    max_size=12,
)


@given(steps)
def test_any_program_has_the_same_outcome_with_both_drivers(plan):
    def program():
        total = 0
        for what, value in plan:
            try:
                match what:
                    case "emit":
                        yield Emit(value)
                    case "call":
                        total += yield Invoke(int, (value,))
                    case "await":
                        total += yield Invoke(later, (value,))
                    case _:
                        yield Invoke(int, ("x",))
            except ValueError:
                total -= 1
                if value:
                    raise
        return total

    def outcome(run):
        emitted: list[int] = []
        result: list[int | str] = []
        try:
            run(emitted, result)
        except ValueError as error:
            result.append(str(error))
        return emitted, result

    def blocking(emitted, result):
        def read():
            result.append((yield from SyncDriver().stream(program())))

        for value in read():
            emitted.append(value)

    def on_a_loop(emitted, result):
        async def read():
            async for value in AsyncDriver().stream(program(), result.append):
                emitted.append(value)

        asyncio.run(read())

    wanted, found = outcome(blocking), outcome(on_a_loop)
    assert wanted == found
