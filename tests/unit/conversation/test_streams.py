"""Streams that are not read to their end, and threads that others have filled: no word is lost, and nobody waits for nothing."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from everlog import Busy, ProviderTrouble, TurnState, tool
from everlog.testing.upstream import Answer, Broken
from tests.unit.conversation.remembering import PROTOCOLS, Remembering
from tests.unit.conversation.test_trouble import texts

COMPLETE, PARTIAL = TurnState.COMPLETE, TurnState.PARTIAL

SEA = Answer(text="The sea is warm in June.")


def thrown_into(made, error):
    """The words of a stream until an error is thrown into it, which comes out again."""
    stream = made.memory.stream("When?")
    if made.driver == "sync":
        words = next(stream).text
        with pytest.raises(type(error)):
            stream.throw(error)
        return words

    async def run():
        words = (await anext(stream)).text
        with pytest.raises(type(error)):
            await stream.athrow(error)
        return words

    return made._runner.run(run())


@pytest.mark.parametrize("error", [ValueError("stop"), KeyboardInterrupt()])
def test_what_came_of_a_stream_is_kept_where_an_error_is_thrown_into_it(remembering, error):
    made = remembering(SEA, *texts("Yes."), wait_s=0.05)
    words = thrown_into(made, error)
    assert words
    assert made.logged == [("user", "When?"), ("assistant", words)]
    assert made.states == [PARTIAL]
    assert made.turn("Really?").text == "Yes."


def test_a_turn_goes_on_where_all_threads_of_its_loop_are_busy(memory):
    made = Remembering("async", memory, *texts("1"), pump="none")
    free = threading.Event()

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, free.wait, 20)
        try:
            reply = await asyncio.wait_for(made.memory.turn("one"), 10)
            await asyncio.wait_for(made.memory.context(), 10)
            return reply
        finally:
            free.set()
            await busy

    assert made._runner.run(run()).text == "1"
    made.close()


SECOND = "gpt-5.6-luna"


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_words_of_a_model_that_broke_off_stand_apart_from_the_answer_of_the_next(remembering, protocol, calls):
    events = 8 if protocol == "responses" else 4
    second = Answer(thinking="Hm.", calls=(("z", "zoom", {"id": 0}),)) if calls else SEA
    broken = Broken(answer=Answer(text="It is warm, I think."), events=events)
    made = remembering(broken, second, SEA, SEA, protocol=protocol)
    made.chat.with_fallbacks(f"openai/{SECOND}")
    handed_out = made.stream("When?")
    words = handed_out.removesuffix(SEA.text)
    assert words
    assert "It is warm, I think.".startswith(words)
    assert made.logged == [("user", "When?"), ("assistant", words), ("assistant", SEA.text)]
    assert [one.message.model for one in made.memory.thread.entries()][1:] == [
        "m-1",
        "m-1" if calls else SECOND,
    ]
    assert made.states == [COMPLETE]
    made.again()
    made.turn("Really?")
    assert str(made.bodies[-1]).count(SEA.text) == 1


def test_words_of_two_models_that_broke_off_are_two_entries(remembering):
    made = remembering(*[Broken(answer=SEA, events=events) for events in (4, 6)])
    made.chat.with_fallbacks(f"openai/{SECOND}")
    with pytest.raises(ProviderTrouble):
        made.stream("When?")
    assert [kind for kind, _ in made.logged] == ["user", "assistant", "assistant"]
    assert all(SEA.text.startswith(text) and text for kind, text in made.logged if kind == "assistant")
    assert made.states == [PARTIAL]


def begun(made):
    """A stream of which one piece was read."""
    stream = made.memory.stream("one")
    if made.driver == "sync":
        next(stream)
        return stream

    async def run():
        await anext(stream)

    made._runner.run(run())
    return stream


def test_a_turn_that_would_wait_for_a_stream_which_its_own_thread_reads_says_so_at_once(memory):
    made = Remembering("sync", memory, SEA, *texts("2"), wait_s=600)
    stream = begun(made)
    with pytest.raises(Busy, match="a stream of thread 'k' was begun here and is not read to its end"):
        made.turn("two")
    assert "".join(chunk.text for chunk in stream)
    assert made.turn("two").text == "2"
    assert [text for kind, text in made.logged if kind == "user"] == ["one", "two"]
    made.close()


def test_a_turn_that_would_wait_for_a_stream_which_its_own_task_reads_says_so_at_once(memory):
    made = Remembering("async", memory, SEA, *texts("2"), wait_s=600)

    async def run():
        stream = made.memory.stream("one")
        await anext(stream)
        with pytest.raises(Busy, match="a stream of thread 'k' was begun here"):
            await made.memory.turn("two")
        await stream.aclose()
        return await made.memory.turn("two")

    assert made._runner.run(run()).text == "2"
    assert made.states == [PARTIAL, COMPLETE]
    made.close()


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_turn_waits_for_a_stream_that_others_read(memory, driver):
    made = Remembering(driver, memory, SEA, *texts("2"), wait_s=600)

    async def on_loop():
        stream = made.memory.stream("one")
        await anext(stream)
        second = asyncio.create_task(made.memory.turn("two"))
        await asyncio.sleep(0)
        assert [chunk async for chunk in stream]
        return await second

    def in_threads():
        stream = begun(made)
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(made.turn, "two")
            assert list(stream)
            return second.result(20)

    reply = in_threads() if driver == "sync" else made._runner.run(on_loop())
    assert reply.text == "2"
    assert made.states == [COMPLETE, COMPLETE]
    made.close()


def test_a_stream_that_nobody_has_any_more_holds_no_turn_up(memory):
    made = Remembering("sync", memory, SEA, *texts("2"), wait_s=600)
    begun(made)
    assert made.turn("two").text == "2"
    assert made.states == [PARTIAL, COMPLETE]
    made.close()


def test_a_tool_that_takes_a_turn_of_its_own_thread_is_told_that_it_would_wait_for_itself(remembering):
    async def on_loop() -> str:
        """Ask."""
        return str((await made.memory.turn("inside")).text)

    def blocking() -> str:
        """Ask."""
        return str(made.memory.turn("inside").text)

    made = remembering(lambda received: Answer(calls=(("c", "ask", {}),)), wait_s=600)
    made.chat.with_tools(tool(name="ask")(blocking if made.driver == "sync" else on_loop))
    with pytest.raises(Busy, match="it would wait for itself"):
        made.turn("one")
    assert [text for kind, text in made.logged if kind == "user"] == ["one"]


def test_who_waits_too_long_for_a_stream_that_nobody_reads_on_is_told_what_to_do(memory):
    made = Remembering("async", memory, SEA, *texts("2"), wait_s=0.05)
    stream = begun(made)
    with pytest.raises(Busy, match="in this process was not read to its end within"):
        made.turn("two")
    made._runner.run(stream.aclose())
    assert made.turn("two").text == "2"
    made.close()
