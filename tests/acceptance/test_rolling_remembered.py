"""Mode rolling through the whole proxy: a talk that outgrew its budget goes up as a summary and its newest messages.

A model writes the summary beside the requests. Where none is there, or it is down, the talk goes on.
"""

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from time import time

import pytest

from everlog import log
from everlog.clock import monotonic
from everlog.conversation.pumping import memory_of
from everlog.memory.interface import Answer as Told
from everlog.memory.interface import Compactor, Failure, Request
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Settings, said
from everlog.pump import run
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.testing import EchoSummary
from everlog.testing.upstream import Answer, Received
from everlog.testing.upstream.answers import body_of
from everlog.tokens import bytes_for
from tests.acceptance.inside import Inside, protocol_of
from tests.acceptance.judging import Lawful, breaks, kept, memory_bytes, named
from tests.acceptance.looking import Asked
from tests.acceptance.sessions import Plan
from tests.hidden_rounds import PROTOCOLS
from tests.unit.proxy.wire import JSON_HEAD, Client, Coming

BUDGET = 1_000
TURNS = 24
PLAN = Plan(turns=TURNS, words=30)
BUILD_S = 30
NOTE = "of this conversation are not shown"
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


class Down:
    """A model for summaries that gives no answer."""

    model = "summary@1"

    def __call__(self, request: Request) -> Told | Failure:
        """Fail."""
        return Failure(kind="unavailable")


@dataclass
class Talk:
    """A client that keeps its history, before a proxy in mode rolling."""

    protocol: str
    proxy: Inside
    came: list[Client] = field(default_factory=list)
    went: list[bytes] = field(default_factory=list)
    """What the client sent."""
    said: list[Message] = field(default_factory=lambda: [Message(kind="system", text="Be brief.")])

    async def turn(self, number: int) -> Client:
        """Ask, and take in the answer."""
        self.said.append(Message(kind="user", text=PLAN.question(number)))
        form = FORMATS[self.protocol]
        body = json.dumps(form.render_request(said(self.said), Settings(model="m-1"))).encode()
        self.went.append(body)
        client = await self.proxy.ask(self.protocol, body, {"X-Everlog-Session-ID": "talk", "X-Everlog-Debug": "on"})
        await self.proxy.kept()
        assert client.status == 200, client.body
        assert b"prepare" not in client.header(b"x-everlog-degraded")
        reply = form.parse_reply(json.loads(client.body))
        assert reply.text == PLAN.answer(number)
        self.said += reply.said.messages
        self.came.append(client)
        return client

    @property
    def bodies(self) -> list[bytes]:
        """What went up."""
        return [one.body for one in self.proxy.upstream.sent if isinstance(one.body, bytes)]

    def summarised(self, compactor: Compactor) -> None:
        """Wait until all is summarised that can be: here, or by the proxy, whoever has it."""
        home = self.proxy.home
        memory = memory_of("rolling", compactor, BUDGET, lambda: None)
        assert memory is not None
        [(thread, _)] = home.store.read(home.name, log.names)
        until = monotonic() + BUILD_S
        while run(home.store, home.name, thread, memory, compactor).busy:
            assert monotonic() < until


@dataclass
class Model:
    """Answers by the plan, and remembers what it was asked."""

    asked: list[Asked] = field(default_factory=list)

    def __call__(self, outgoing: Outgoing) -> Coming:
        protocol = protocol_of(outgoing)
        assert isinstance(outgoing.body, bytes)
        received = Received(method="POST", path="", headers={}, raw=outgoing.body)
        turn = max(map(int, re.findall(r"Question (\d+):", outgoing.body.decode())))
        offered = b"everlog_" in outgoing.body
        self.asked.append(Asked(received=received, at=time(), who="", turn=turn, step=0, hidden=0, is_offered=offered))
        made = body_of(Answer(text=PLAN.answer(turn)), protocol, "m-1", len(self.asked))
        return Coming(headers=JSON_HEAD, pieces=[json.dumps(made).encode()])


async def talked(protocol: str, database: Path, compactor: Compactor | None) -> tuple[Talk, list[Asked]]:
    """Return a talk of many turns, whose proxy has ended, and what its model was asked."""
    model = Model()
    proxy = Inside(database, model, mode="rolling", budget_tokens=BUDGET, compactor=compactor)
    talk = Talk(protocol, proxy)
    try:
        for number in range(TURNS):
            await talk.turn(number)
            if compactor is not None:
                await asyncio.to_thread(talk.summarised, compactor)
    finally:
        await proxy.stop()
    return talk, model.asked


@each_protocol
def test_a_talk_that_outgrew_its_budget_goes_up_as_a_summary_and_its_newest_messages(protocol: str, tmp_path: Path):
    database = tmp_path / "everlog.db"
    talk, asked = asyncio.run(talked(protocol, database, EchoSummary()))
    begins = next(n for n, (went, up) in enumerate(zip(talk.went, talk.bodies, strict=True)) if went != up)
    assert bytes_for(BUDGET) / 2 < len(talk.went[begins - 1]) < 2 * bytes_for(BUDGET)
    lawful = Lawful(protocol)
    for one in asked[begins:]:
        assert not one.is_offered, "memory of this mode has no tools"
        lawful(one.received.body)
        assert memory_bytes(one.received.body, PLAN.question(one.turn)) <= bytes_for(BUDGET)
        assert NOTE not in one.received.raw.decode(), "words fell out of sight, and no summary stands for them"
    last = asked[-1].received.raw.decode()
    assert PLAN.question(0) not in last
    assert PLAN.answer(TURNS - 2) in last
    [thread] = kept(database)
    assert [text for _, text in thread.entries] == [one.text for one in talk.said[1:]]
    reasons = named(breaks(asked), thread.epochs)
    assert set(reasons.values()) <= {"first", "full", "landed"}
    assert len(reasons) == len(thread.epochs) > 2


@each_protocol
def test_without_a_model_for_summaries_requests_go_up_as_they_came(protocol: str, tmp_path: Path):
    talk, _ = asyncio.run(talked(protocol, tmp_path / "everlog.db", None))
    assert talk.bodies == talk.went
    assert len(talk.went[-1]) > 2 * bytes_for(BUDGET)
    off = [client.header(b"x-everlog-memory-off") for client in talk.came]
    assert off[0] == [b"below"]
    assert off[-1] == [b"no_compactor"]
    [thread] = kept(tmp_path / "everlog.db")
    assert [text for _, text in thread.entries] == [one.text for one in talk.said[1:]]
    assert thread.epochs == ()


@each_protocol
def test_while_the_model_for_summaries_is_down_the_talk_goes_on_and_its_prompt_says_what_is_not_shown(
    protocol: str, tmp_path: Path
):
    _, asked = asyncio.run(talked(protocol, tmp_path / "everlog.db", Down()))
    assert NOTE in asked[-1].received.raw.decode()
    assert memory_bytes(asked[-1].received.body, PLAN.question(TURNS - 1)) <= bytes_for(BUDGET)
