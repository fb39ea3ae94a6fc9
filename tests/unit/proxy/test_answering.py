"""What a client hears between rounds, and what becomes of a round that nobody waits for any more."""

import asyncio

import pytest

from everlog.protocols import FORMATS
from everlog.surfaces.proxy.remembering.answering import Streamed
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.streams import events_of
from tests.hidden_rounds import CASES, results_of
from tests.unit.proxy.test_hidden_rounds import begun, each_protocol, folded, shown
from tests.unit.proxy.wire import STREAM_HEAD, Coming, within

CASE = CASES["text before"]
ALIVE_S = 0.01


class Gate:
    """A place where the answer stands until it is opened; it tells when that place is reached."""

    def __init__(self, *, is_open):
        self.reached, self.opened = asyncio.Event(), asyncio.Event()
        if is_open:
            self.opened.set()

    async def passed(self):
        self.reached.set()
        await self.opened.wait()


class Answering:
    """An answer of two rounds, with a gate before its tools and one before its second round."""

    def __init__(self, protocol, *, tools=True, second=True):
        self.tools, self.second = Gate(is_open=tools), Gate(is_open=second)
        bodies = [body_of(answer, protocol, "m", number) for number, answer in enumerate(CASE.rounds, 1)]
        self.comings = [Coming(headers=STREAM_HEAD, pieces=list(events_of(body, protocol))) for body in bodies]
        self.rounds = begun(protocol, CASE, stream=True)
        self.sent = 0
        self.streamed = Streamed(
            self.comings[0], FORMATS[protocol], self.rounds, self.run, self, lambda: None, alive_s=ALIVE_S
        )

    async def run(self, calls):
        await self.tools.passed()
        return results_of([call.call_id for call in calls])

    async def send(self, body=None):
        self.sent += 1
        await self.second.passed()
        return self.comings[1]

    async def rest(self):
        out = []
        while data := await self.streamed.read():
            out.append(data)
        return out


@each_protocol
@pytest.mark.parametrize("slow", ["tools", "second"])
def test_while_a_tool_or_the_next_round_is_slow_a_client_hears_that_it_is_waited_for(protocol, slow):
    async def play():
        answering = Answering(protocol, **{slow: False})
        alive = answering.rounds.keep_alive
        begun_ = []
        while not getattr(answering, slow).reached.is_set():
            begun_.append(await answering.streamed.read())
        assert await answering.streamed.read() == alive
        getattr(answering, slow).opened.set()
        rest = await answering.rest()
        return b"".join([*begun_, alive, *rest])

    told = asyncio.run(within(play()))
    assert shown(protocol, folded(protocol, told).body()) == (CASE.text, CASE.thinking, CASE.calls, CASE.finish)


@each_protocol
@pytest.mark.parametrize("at", ["tools", "second"])
def test_a_client_that_goes_between_rounds_leaves_no_task_and_no_connection(protocol, at):
    async def play():
        answering = Answering(protocol, **{at: False})
        gate = getattr(answering, at)
        while not gate.reached.is_set():
            await answering.streamed.read()
        answering.streamed.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        working = {one for one in others if "_further" in str(one.get_coro())}
        await asyncio.wait(working)
        assert all(one.cancelled() for one in working)
        assert answering.comings[0].is_closed
        assert answering.sent == (at == "second")

    asyncio.run(within(play()))


@each_protocol
def test_a_round_that_came_after_its_client_went_is_closed(protocol):
    async def play():
        answering = Answering(protocol, second=False)
        while not answering.second.reached.is_set():
            await answering.streamed.read()
        answering.second.opened.set()
        work = answering.streamed._work
        assert work is not None
        await asyncio.wait((work,))
        answering.streamed.close()
        await asyncio.sleep(0)
        assert answering.comings[1].is_closed

    asyncio.run(within(play()))
