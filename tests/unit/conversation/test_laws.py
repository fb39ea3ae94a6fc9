"""Laws 4, 5, 7 and 9 of whole conversations: tools, failures, restarts, forks and a database that comes and goes.

What each request held is read from the wire; what was said is what the test knows.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, assert_never

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everlog import BadRequest, Chat, Everlog, Mistake, StoreUnavailable
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.context import rows
from everlog.store import Unit, open_store
from everlog.testing import failpoints
from everlog.testing.upstream import Answer, Refused, Upstream

BUDGET = 1_500
DOWN = StoreUnavailable("the disk is gone")
POINTS = ("context.prepare", "turn.begin", "turn.record", "turn.spool")


@dataclass(frozen=True, slots=True)
class Say:
    """A turn: sizes of what is said and answered, rounds of tools, and what goes wrong in it."""

    size: int
    rounds: tuple[tuple[int, bool], ...] = ()
    """Of each round the size of its result, and whether memory is opened in it too."""
    is_refused: bool = False
    away: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Restart:
    """Another process goes on."""


@dataclass(frozen=True, slots=True)
class Again:
    """The last turn is asked for again."""


@dataclass(frozen=True, slots=True)
class Fork:
    """The conversation goes on in a fork, from so many entries before its end."""

    back: int


sizes = st.integers(0, 700)
says = st.builds(
    Say,
    size=sizes,
    rounds=st.lists(st.tuples(sizes, st.booleans()), max_size=4).map(tuple),
    is_refused=st.integers(0, 7).map(lambda n: n == 0),
)
calm = st.lists(
    st.one_of(says, says, says, st.just(Restart()), st.just(Again()), st.builds(Fork, st.integers(0, 3))),
    min_size=4,
    max_size=14,
)
rough = st.lists(
    st.one_of(says, st.builds(Say, size=sizes, away=st.frozensets(st.sampled_from(POINTS)), rounds=says.map(lambda one: one.rounds)), st.just(Restart())),
    min_size=3,
    max_size=9,
)  # fmt: skip


@dataclass
class Talk:
    """A conversation, and what the test knows of it."""

    upstream: Upstream
    home: Everlog
    told: deque[Any]
    keys: Any = field(default_factory=count)
    said: list[str] = field(default_factory=list)
    memory: Any = None
    memories: list[Any] = field(default_factory=list)

    def attach(self, key: str) -> None:
        config = ChatConfig(base_urls={"openai": self.upstream.url}, environ={}, retry=Retry(retries=0))
        chat = Chat("m-1", provider="openai", protocol="chat_completions", assume_model_exists=True, config=config)
        chat.with_instructions("You are terse.").with_tools(self.look)
        if self.memory is not None:
            self.memory.close()
        self.memory = self.home.attach(chat, key=key, budget=BUDGET, pump="inline")
        self.memories.append(self.memory)

    def look(self, n: int) -> str:
        """Look something up."""
        result = f"result {n} " + "r" * self.told_sizes[n]
        self.said.append(result)
        return result

    was_refused: bool = False
    told_sizes: dict[int, int] = field(default_factory=dict)

    def say(self, one: Say) -> None:
        numbers = self.keys
        words = f"user {next(numbers)} " + "u" * one.size
        for size, opens in one.rounds:
            n = next(numbers)
            self.told_sizes[n] = size
            calls: list[Any] = [(f"c{n}", "look", {"n": n})]
            self.told.append(
                Answer(text=f"round {n}", calls=(*calls, *([(f"z{n}", "zoom", {"id": 0})] if opens else ())))
            )
        reply = f"reply {next(numbers)} " + "a" * (one.size // 2)
        self.told.append(Refused(status=400) if one.is_refused else Answer(text=reply))
        self.said.append(words)
        before, self.was_refused = len(self.said), one.is_refused
        try:
            with failpoints._listening(lambda name: fail(name, one.away)):
                self.memory.turn(words)
        except BadRequest:
            assert one.is_refused
        else:
            self.said.append(reply)
        assert len(self.said) == before + len(one.rounds) + (not one.is_refused)
        assert not self.told

    def again(self) -> None:
        """Ask again, if the last turn was refused."""
        if not self.was_refused:
            with pytest.raises(Mistake, match="no turn waits"):
                self.memory.resume()
            return
        self.told.append(Answer(text=f"reply {next(self.keys)}"))
        self.said.append(self.memory.resume().text)
        self.was_refused = False

    def fork(self, back: int) -> None:
        if not self.said:
            return
        self.was_refused = False
        entries = list(self.memory.thread.entries())
        at = max(1, len(entries) - back)
        key = f"k{next(self.keys)}"
        self.memory.thread.fork(at, key)
        self.attach(key)
        kept = [entry.text for entry in entries[:at] if entry.kind in ("user", "tool_result") or "reply" in entry.text]
        self.said = [text for text in kept if not text.startswith("round")]

    @property
    def logged(self) -> list[str]:
        if not self.said:
            return []
        return [
            entry.text
            for entry in self.memory.thread.entries()
            if entry.kind in ("user", "tool_result") or entry.text.startswith("reply")
        ]


def fail(name: str, away: frozenset[str]) -> None:
    if name.removesuffix(".before_commit") in away:
        raise DOWN


Action = Say | Restart | Fork | Again


def act(upstream: Upstream, actions: list[Action], told: deque[Any]) -> Talk:
    talk = Talk(upstream, Everlog(open_store(":memory:")), told)
    talk.attach("k")
    for one in actions:
        match one:
            case Say():
                talk.say(one)
            case Restart():
                talk.attach(talk.memory.key)
            case Again():
                talk.again()
            case Fork(back):
                talk.fork(back)
            case _:
                assert_never(one)
    return talk


def requests(talk: Talk) -> list[tuple[Any, ...]]:
    """Thread, consumer and epoch of each request, in order."""
    store, home = talk.home.store, talk.home
    found: list[tuple[Any, ...]] = []
    for thread in dict(home.keys()):
        found += store.read(home.name, partial(Unit.rows, statement=rows.REQUESTS, thread=thread, limit=1_000))
    return [(row[1], row[5], row[6]) for row in sorted(found, key=lambda row: row[2])]


def is_paired(messages: list[Any]) -> bool:
    """Whether each call has its result right behind it, and each result its call."""
    waiting: set[str] = set()
    for one in messages:
        if one["role"] == "tool":
            if one["tool_call_id"] not in waiting:
                return False
            waiting.discard(one["tool_call_id"])
            continue
        if waiting:
            return False
        waiting = {call["id"] for call in one.get("tool_calls", ())}
    return not waiting


def memory_bytes(messages: list[Any], words: list[str]) -> int:
    """Bytes of all words between the instructions and the newest message of the user's."""
    users = [n for n, one in enumerate(messages) if one["role"] == "user" and one["content"] in words]
    return sum(len((one.get("content") or "").encode()) for one in messages[2 : users[-1]])


REFUSED_TWICE = [
    Say(300, ((300, True), (400, False)), is_refused=True),
    Restart(),
    Again(),
    Say(600, ((600, False), (600, True)), is_refused=True),
    Again(),
    Say(3),
]
"""Turns that go on after they failed, one of them past the end of an epoch."""

CUT_IN_A_TURN = [
    Say(0, ((0, False),), is_refused=True),
    Say(481, ((21, False), (279, False), (490, False), (165, False))),
    Fork(1),
    Say(223, ((0, False),), is_refused=True),
]
"""A cut inside a turn that is over: the message that it repeats counts as memory."""


@pytest.mark.covers("report 10", "report 11")
@example(CUT_IN_A_TURN)
@example(REFUSED_TWICE)
@given(calm)
def test_prompts_only_grow_within_an_epoch_and_memory_stays_within_its_budget(actions):
    told: deque[Any] = deque()
    with Upstream(lambda received: told.popleft()) as upstream:
        talk = act(upstream, actions, told)
        bodies = [one.body["messages"] for one in upstream.requests]
        known = requests(talk)
        assert len(known) == len(bodies)
        last: dict[Any, Any] = {}
        for epoch, messages in zip(known, bodies, strict=True):
            before = last.get(epoch, [])
            assert messages[: len(before)] == before
            last[epoch] = messages
            assert is_paired(messages)
        assert talk.logged == talk.said
        words = [text for text in talk.said if text.startswith("user")]
        for messages in bodies:
            if any(one["content"] in words for one in messages if one["role"] == "user"):
                assert memory_bytes(messages, words) <= BUDGET
        talk.memory.close()
        talk.home.close()


@given(rough)
def test_a_database_that_comes_and_goes_stops_no_turn_and_loses_no_word(actions):
    told: deque[Any] = deque()
    with Upstream(lambda received: told.popleft()) as upstream:
        talk = act(upstream, [*(one for one in actions if not isinstance(one, Restart)), Say(3)], told)
        assert talk.memory.status().waiting == 0
        assert talk.logged == talk.said
        assert all(is_paired(one.body["messages"]) for one in upstream.requests)
        assert all(len(str(one.body["messages"])) < 40_000 for one in upstream.requests)
        talk.memory.close()
        talk.home.close()
