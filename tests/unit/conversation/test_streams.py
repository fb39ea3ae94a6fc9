"""Streams that are not read to their end, and threads that others have filled: no word is lost, and nobody waits for nothing."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from everlog import TurnState
from everlog.testing.upstream import Answer
from tests.unit.conversation.remembering import Remembering
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
