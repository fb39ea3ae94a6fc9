"""Two people behind one key, and one behind another: none ever sees a word of another's, in whatever order they ask.

Each word that somebody says, or is answered, tells whose it is. The provider looks at each request that reaches it, rounds of
memory included: there is nothing in it but words of the one who asks, and what that one was told. They begin their talks
with the same words, show histories that are cut, edited, or answered anew, say what they overheard of each other, and name
sessions and responses of each other.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.testing.upstream import Answer, Manner
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.streams import events_of
from tests.acceptance.inside import PATHS, Inside, protocol_of
from tests.unit.proxy.wire import JSON_HEAD, STREAM_HEAD, Coming

PEOPLE = ("ann", "bob", "eve")
"""The first two behind one key."""
WORD = re.compile(r"\b(?:ann|bob|eve)\d+x")
LONG_WORDS = 300
"""Of a message: three of them are more than the budget."""
SHARED = "hello "
BUDGET = "1000"

ACTS = ("say", "say", "say", "open", "trim", "again", "edit", "overheard", "steal", "chain")


@dataclass(frozen=True, slots=True)
class Step:
    """What somebody does."""

    who: str
    act: str
    chat: int
    n: int
    """How far back, where that matters."""
    stream: bool
    is_common: bool
    """Whether the words of it, and those of the answer, are the same for everybody."""
    looks: bool
    """Whether the model looks into memory, where it can."""


steps = st.builds(
    Step,
    who=st.sampled_from(PEOPLE),
    act=st.sampled_from(ACTS),
    chat=st.integers(0, 1),
    n=st.integers(0, 6),
    stream=st.booleans(),
    is_common=st.booleans(),
    looks=st.booleans(),
)


@dataclass
class Person:
    """Somebody, with two chats."""

    name: str
    known: set[str] = field(default_factory=set)
    """Words that this one said or was told."""
    chats: list[list[dict[str, str]]] = field(default_factory=lambda: [[], []])
    responses: list[str | None] = field(default_factory=lambda: [None, None])
    """Id of the last answer of Responses, by chat."""


class Table:
    """All of them, before one proxy."""

    def __init__(self) -> None:
        self.proxy = Inside(":memory:", self.answer, needs_keys=True)
        self.numbers = count()
        self.asker = Person("nobody")
        self.step: Step | None = None
        self.strange: set[str] = set()
        """Words that went up for somebody who does not know them."""
        self.remembered = 0
        """How many requests went up with memory in them."""

    def words(self, who: Person, many: int = LONG_WORDS) -> str:
        """Return words of somebody that nobody said before."""
        word = f"{who.name}{next(self.numbers)}x"
        who.known.add(word)
        return " ".join([word] * many)

    def answer(self, outgoing: Outgoing) -> Coming:
        """Be the provider: see whose words came, and answer with words of the one who asks."""
        assert isinstance(outgoing.body, bytes)
        self.strange |= set(WORD.findall(outgoing.body.decode())) - self.asker.known
        body = json.loads(outgoing.body)
        return _coming(
            self._said(body), protocol_of(outgoing), next(self.numbers), is_stream=body.get("stream") is True
        )

    def _said(self, body: dict[str, Any]) -> Answer:
        assert self.step is not None
        is_offered = "everlog_zoom" in json.dumps(body.get("tools"))
        self.remembered += is_offered
        looked = json.dumps(body).count("mem_") // 2
        if is_offered and self.step.looks and looked < 2:
            number = next(self.numbers)
            return Answer(calls=((f"mem_{number}", "everlog_zoom", {"id": self.step.n, "n": 1 + looked}),))
        return Answer(text=SHARED * LONG_WORDS if self.step.is_common else self.words(self.asker))


def _coming(answer: Answer, protocol: str, number: int, *, is_stream: bool) -> Coming:
    body = body_of(answer, protocol, "m", number)
    if is_stream:
        return Coming(headers=STREAM_HEAD, pieces=[b"".join(events_of(body, protocol, Manner(piece=10_000)))])
    return Coming(headers=JSON_HEAD, pieces=[json.dumps(body).encode()])


class Talk:
    """One interleaving: three people who are new, two of them behind one key."""

    def __init__(self, table: Table, protocol: str, *, has_ids: bool) -> None:
        self.table, self.protocol, self.has_ids = table, protocol, has_ids
        family, strange = table.proxy.key(), table.proxy.key()
        self.keys = {"ann": family, "bob": family, "eve": strange}
        self.people = {name: Person(name) for name in PEOPLE}
        self.number = next(table.numbers)

    async def play(self, step: Step) -> None:
        """Let somebody do something."""
        me = self.people[step.who]
        other = self.people[PEOPLE[(PEOPLE.index(step.who) + 1 + step.n % 2) % len(PEOPLE)]]
        chat = me.chats[step.chat]
        sent, session, more = chat, f"{step.who}-{step.chat}", {}
        match step.act:
            case "open":
                chat.clear()
                self._say(me, chat, step)
            case "say":
                self._say(me, chat, step)
            case "trim":
                self._say(me, chat, step)
                sent = _from_a_user(chat, -1 - step.n)
            case "again":
                while chat and chat[-1]["role"] == "assistant":
                    chat.pop()
                if not chat:
                    self._say(me, chat, step)
            case "edit":
                places = [n for n, one in enumerate(chat) if one["role"] == "user"]
                del chat[places[step.n % len(places)] if places else 0 :]
                self._say(me, chat, step)
            case "overheard":
                chat[:] = _from_a_user(other.chats[step.chat], -1 - step.n)
                me.known |= set(WORD.findall(json.dumps(chat)))
                self._say(me, chat, step)
            case "steal":
                self._say(me, chat, step)
                sent = _from_a_user(chat, -1 - step.n)
                if self._may_steal(me, other):
                    session = f"{other.name}-{step.chat}"
            case _:
                self._say(me, chat, step)
                whose = other if me.responses[step.chat] is None and self._may_steal(me, other) else me
                if self.protocol == "responses" and (id_ := whose.responses[step.chat]):
                    sent, more = chat[-1:], {"previous_response_id": id_}
        await self._ask(me, step, sent, session, more)

    def _say(self, me: Person, chat: list[dict[str, str]], step: Step) -> None:
        text = SHARED * LONG_WORDS if step.is_common else self.table.words(me)
        chat.append({"role": "user", "content": text})

    def _may_steal(self, me: Person, other: Person) -> bool:
        """Whether what the other's ids name must stay closed: behind one key without users, an id is who one is."""
        return self.keys[me.name] != self.keys[other.name] or self.has_ids

    def _is_anothers(self, me: Person, id_: str) -> bool:
        """Whether an id that the proxy gave out is of an answer to somebody else."""
        return id_.startswith("resp_evl_") and id_ not in me.responses

    async def _ask(self, me: Person, step: Step, sent: Sequence[Any], session: str, more: dict[str, Any]) -> None:
        table = self.table
        place = "input" if self.protocol == "responses" else "messages"
        body = {"model": "m", place: list(sent), "stream": step.stream, "max_tokens": 1000, **more}
        headers = {"authorization": f"Bearer {self.keys[me.name]}", "x-everlog-budget": BUDGET}
        if self.has_ids or step.act == "steal" or step.n == 0:
            headers["x-everlog-session-id"] = f"{session}-{self.number}"
        if self.has_ids:
            headers["x-everlog-user-id"] = me.name
        table.asker, table.step, table.strange = me, step, set()
        client = await table.proxy.ask(self.protocol, json.dumps(body).encode(), headers)
        assert not table.strange, f"{me.name} was given words of another"
        if client.status == 400 and more and self._is_anothers(me, more["previous_response_id"]):
            assert b"previous_response_not_found" in client.body
            return
        assert client.status == 200, client.body
        said = client.body.decode()
        assert set(WORD.findall(said)) <= me.known, f"{me.name} was answered with words of another"
        assert client.is_whole
        text = (WORD.findall(said) or [SHARED.strip()])[0]
        me.chats[step.chat].append({"role": "assistant", "content": " ".join([text] * LONG_WORDS)})
        if self.protocol == "responses":
            me.responses[step.chat] = re.findall(r'"id": ?"(resp_\w+)"', said)[-1]


def _from_a_user(chat: Sequence[dict[str, str]], start: int) -> list[dict[str, str]]:
    """Return the end of a chat from so far back, or a bit earlier, where a user speaks."""
    at = max(0, len(chat) + start)
    while at and chat[at]["role"] != "user":
        at -= 1
    return list(chat[at:])


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def _interleave(table: Table, runner: asyncio.Runner, protocol: str, plan: Sequence[Step], *, has_ids: bool) -> None:
    async def play() -> None:
        talk = Talk(table, protocol, has_ids=has_ids)
        for step in plan:
            await talk.play(step)

    runner.run(play())


@pytest.fixture(scope="module")
def table(runner: asyncio.Runner) -> Iterator[Table]:
    table = Table()
    yield table
    runner.run(table.proxy.stop())


def _proven(table: Table, runner: asyncio.Runner, examples: int, *, has_ids: bool) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(protocol=st.sampled_from(sorted(PATHS)), plan=st.lists(steps, min_size=4, max_size=16))
    def prove(protocol: str, plan: list[Step]) -> None:
        _interleave(table, runner, protocol, plan, has_ids=has_ids)

    before = table.remembered
    prove()
    assert table.remembered - before > examples, "memory was hardly there"


@pytest.mark.covers("law 8")
@pytest.mark.parametrize("has_ids", [False, True], ids=["without ids", "with ids"])
def test_nobody_is_shown_a_word_of_anybody_else(table: Table, runner: asyncio.Runner, has_ids: bool):
    _proven(table, runner, 150, has_ids=has_ids)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("has_ids", [False, True], ids=["without ids", "with ids"])
def test_nobody_is_shown_a_word_of_anybody_else_in_ten_thousand_interleavings(
    table: Table, runner: asyncio.Runner, has_ids: bool
):
    _proven(table, runner, 5_000, has_ids=has_ids)
