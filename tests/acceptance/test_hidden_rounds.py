"""The cases of memory's tools through the whole proxy, and what comes after: results, another question, a restart, a loss.

The history is longer than the budget, so memory is there. The upstream's answers are cut at random bytes, and each request
that reaches it is judged: lawful, and beginning with all of the one before.
"""

import asyncio
import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from everlog.messages import Message, Result
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Reply, Settings, said
from everlog.protocols.sse import Frames
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.testing.upstream import Answer
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.streams import events_of
from tests.acceptance.inside import Inside, protocol_of
from tests.acceptance.judging import Lawful, segments
from tests.acceptance.sessions import WORDS
from tests.hidden_rounds import CASES, PROTOCOLS, SAYS, TOOLS, Case
from tests.unit.proxy.wire import JSON_HEAD, STREAM_HEAD, Client, Coming

BUDGET = "4000"
OLD_TURNS = 14
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
MIXED = {name: case for name, case in CASES.items() if case.calls and case.run}
each_mixed = pytest.mark.parametrize("case", MIXED.values(), ids=MIXED)
SAME_IDS = CASES["the same ids in each round"]


@dataclass
class Model:
    """Answers what it is given to answer, in order, in pieces of any size, and remembers what it was asked."""

    chance: random.Random = field(default_factory=lambda: random.Random(7))
    script: list[Answer | Coming] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    piece: int | None = None
    """Bytes of a piece of a stream; by chance if None."""

    def __call__(self, outgoing: Outgoing) -> Coming:
        assert isinstance(outgoing.body, bytes)
        body = json.loads(outgoing.body)
        self.asked.append(body)
        answer = self.script.pop(0) if self.script else Answer(text="The script is over.")
        if isinstance(answer, Coming):
            return answer
        protocol = protocol_of(outgoing)
        made = body_of(answer, protocol, "m-1", next(self.numbers))
        if body.get("stream") is not True:
            return Coming(headers=JSON_HEAD, pieces=[json.dumps(made).encode()])
        return Coming(headers=STREAM_HEAD, pieces=list(self.cut(b"".join(events_of(made, protocol)))))

    def cut(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            size = self.piece or self.chance.randint(1, 60)
            yield data[at : at + size]
            at += size


class Talk:
    """A client's conversation that outgrew the budget."""

    numbers = count()

    def __init__(self, world: "World", protocol: str, case: Case, *, stream: bool) -> None:
        self.world, self.protocol, self.case, self.stream = world, protocol, case, stream
        self.format = FORMATS[protocol]
        name = f"t{next(Talk.numbers)}"
        self.session = {"X-Everlog-Budget": BUDGET, "X-Everlog-Session-ID": name}
        old: list[Message] = [Message(kind="system", text="Be brief.")]
        for turn in range(OLD_TURNS):
            words = " ".join(random.Random(f"{name} {turn}").choices(WORDS, k=150))
            old += [Message(kind="user", text=f"{name}, {turn}: {words}?"), Message(kind="assistant", text=f"{words}!")]
        old.append(Message(kind="user", text="What did I say of herons?"))
        self.settings = Settings(model="m-1", tools=TOOLS, stream=stream, **case.settings)
        self.body = self.format.render_request(said(old), self.settings)

    async def ask(self, script: Sequence[Answer | Coming]) -> tuple[Reply, list[dict[str, Any]]]:
        """Send what there is; return the answer, and all requests that went up for it."""
        model = self.world.model
        model.script, model.asked = list(script), []
        client = await self.world.proxy.ask(self.protocol, json.dumps(self.body).encode(), self.session)
        assert client.status == 200, client.body
        assert model.script == []
        assert not any(name.endswith(b"-degraded") for name, _ in client.answered), client.answered
        return self.read(client), model.asked

    def read(self, client: Client) -> Reply:
        """Return an answer, of which nothing is memory's."""
        told = client.body
        assert b"everlog_" not in told
        assert b"our_" not in told
        if not self.stream:
            return self.format.parse_reply(json.loads(told))
        reader = self.format.stream()
        for event in Frames().feed(told):
            reader.feed(event)
        assert reader.done
        return reader.reply()

    def goes_on(self, reply: Reply) -> None:
        """Add an answer, and the results of its calls, or another question."""
        calls = [one.call for one in reply.said.messages if one.call is not None]
        new = [
            Message(kind="tool_result", text=f"what {call.call_id} read", parts=(Result(call_id=call.call_id),))
            for call in calls
        ] or [Message(kind="user", text="And what else?")]
        there = self.format.parse_history(self.body)
        spoken = (reply.said,) if reply.said.messages else ()
        self.body = self.format.with_history(self.body, (*there, *spoken, *said(new)))

    async def first(self) -> list[dict[str, Any]]:
        """Ask the case's question; the client is shown what the case says. Return what went up."""
        reply, asked = await self.ask(self.case.rounds)
        assert _shown(reply) == (self.case.text, self.case.thinking, self.case.calls, self.case.finish)
        assert any("everlog_zoom" in json.dumps(tool) for tool in asked[0]["tools"])
        self.goes_on(reply)
        return asked

    async def second(self) -> list[dict[str, Any]]:
        """Go on; return what went up."""
        reply, asked = await self.ask([SAYS])
        assert _shown(reply) == (SAYS.text, "", (), "stop")
        return asked


@dataclass
class World:
    """A proxy on a database that outlives it."""

    database: Path
    model: Model
    proxy: Inside = field(init=False)

    def __post_init__(self) -> None:
        self.proxy = Inside(self.database, self.model)

    async def restart(self) -> None:
        """End the proxy, and begin another one."""
        await self.proxy.stop()
        self.proxy = Inside(self.database, self.model)

    def sql(self, statement: str) -> int:
        """Run a statement beside the proxy, and return how many rows it changed."""
        with sqlite3.connect(self.database) as database:
            changed = database.execute(statement).rowcount
        database.close()
        return changed


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def world(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    async def begin() -> World:
        return World(tmp_path_factory.mktemp("hidden") / "everlog.db", Model())

    world = runner.run(begin())
    yield world
    runner.run(world.proxy.stop())


def _shown(reply: Reply) -> tuple[Any, ...]:
    calls = tuple(
        (one.call.call_id, one.call.name, json.loads(one.call.arguments or "{}"))
        for one in reply.said.messages
        if one.call is not None
    )
    return reply.text, reply.thinking, calls, reply.finish


def _judged(protocol: str, case: Case, asked: Sequence[dict[str, Any]], *, grows: bool = True) -> None:
    lawful = Lawful(protocol)
    for body in asked:
        lawful(body)
    offered = [body for body in asked if "everlog_zoom" in json.dumps(body["tools"])]
    assert len(asked) - len(offered) <= (case is CASES["the cap is reached where a call is required"])
    for before, after in pairwise(offered):  # behind the cap memory's tools go, so that the client gets its call
        if grows and case is not SAME_IDS:  # ids are made unique as soon as they repeat
            assert segments(after)[: len(segments(before))] == segments(before)


def _ours(protocol: str, body: dict[str, Any]) -> list[str]:
    """Return the ids of memory's calls in a request, in order."""
    calls = [message.call for one in FORMATS[protocol].parse_history(body) for message in one.messages if message.call]
    return [call.call_id for call in calls if call.name.startswith("everlog_")]


@each_protocol
@each_case
@each_way
def test_a_client_sees_none_of_it_and_its_next_request_is_made_whole(
    world: World, runner: asyncio.Runner, protocol: str, case: Case, stream: bool
):
    async def play() -> None:
        talk = Talk(world, protocol, case, stream=stream)
        asked = await talk.first()
        asked += await talk.second()
        _judged(protocol, case, asked)
        run = [one for ids in case.run for one in ids]
        assert [one for one in _ours(protocol, asked[-1]) if one in run] == run or case is SAME_IDS

    runner.run(play())


@each_protocol
@each_mixed
@each_way
def test_another_proxy_makes_it_whole_as_the_one_would_have_that_is_gone(
    world: World, runner: asyncio.Runner, protocol: str, case: Case, stream: bool
):
    async def play() -> None:
        talk = Talk(world, protocol, case, stream=stream)
        asked = await talk.first()
        await world.restart()
        asked += await talk.second()
        _judged(protocol, case, asked)
        assert len(_ours(protocol, asked[-1])) >= sum(map(len, case.run))

    runner.run(play())


@each_protocol
@each_case
@each_way
def test_where_the_record_is_lost_the_clients_own_history_is_lawful(
    world: World, runner: asyncio.Runner, protocol: str, case: Case, stream: bool
):
    async def play() -> None:
        talk = Talk(world, protocol, case, stream=stream)
        asked = await talk.first()
        assert world.sql("delete from held") or not case.run
        asked += await talk.second()
        _judged(protocol, case, asked, grows=False)
        calls = [one[0] for one in case.calls]
        there = json.dumps(asked[-1])
        assert all(there.count(one) >= 2 for one in calls), "a call or a result of the client is gone"

    runner.run(play())


@each_protocol
@each_mixed
@each_way
def test_an_answer_that_is_asked_for_again_begins_with_the_same_request(
    world: World, runner: asyncio.Runner, protocol: str, case: Case, stream: bool
):
    """The first answer goes on in its branch, the second in its own; both are made whole with their own rounds."""

    async def play() -> None:
        talk = Talk(world, protocol, case, stream=stream)
        question = talk.body
        first = await talk.first()
        one = talk.body
        talk.body = question
        again = await talk.first()
        assert segments(again[0]) == segments(first[0])
        _judged(protocol, case, [*again, *await talk.second()])
        talk.body = one
        _judged(protocol, case, [*first, *await talk.second()], grows=False)

    runner.run(play())


class _Silence(asyncio.Event):
    """Nothing more comes; it tells when that is so."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.reached.set()
        return await super().wait()


GONE = {name: CASES[name] for name in ("ours only", "text before", "thinking before", "mixed", "three of ours at once")}


@each_protocol
@pytest.mark.parametrize("case", GONE.values(), ids=GONE)
def test_a_client_that_goes_takes_the_upstream_with_it_and_may_ask_again(
    world: World, runner: asyncio.Runner, protocol: str, case: Case
):
    """It goes in the middle of the first round, or of the second where there is one; what it asks again is answered."""

    async def play() -> None:
        talk = Talk(world, protocol, case, stream=True)
        number = len(case.rounds) - 1
        made = body_of(case.rounds[number], protocol, "m-1", 900)
        whole = b"".join(events_of(made, protocol))
        silence = _Silence()
        stuck = Coming(headers=STREAM_HEAD, pieces=[whole[: len(whole) * 2 // 3], silence])
        model = world.model
        model.script, model.asked = [*case.rounds[:number], stuck], []
        client = world.proxy.client(protocol, json.dumps(talk.body).encode(), talk.session)
        task = asyncio.ensure_future(client.ask(world.proxy.front))
        await asyncio.wait_for(silence.reached.wait(), 20)
        client.gone.set()
        await task
        assert stuck.is_closed
        assert b"everlog_" not in client.body
        _judged(protocol, case, [*await talk.first(), *await talk.second()])

    runner.run(play())


@pytest.mark.long
@each_protocol
@each_case
@pytest.mark.parametrize("piece", [1, 2, 3, 7])
def test_a_stream_may_be_cut_at_every_byte(world: World, runner: asyncio.Runner, protocol: str, case: Case, piece: int):
    async def play() -> None:
        talk = Talk(world, protocol, case, stream=True)
        world.model.piece = piece
        try:
            _judged(protocol, case, [*await talk.first(), *await talk.second()])
        finally:
            world.model.piece = None

    runner.run(play())
