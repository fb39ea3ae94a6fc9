"""Laws 4, 5 and 9 of compiled prompts, over random conversations that cross many epochs, in two processes at once.

Every request is compiled by one opening of the database and looked at through another, as a second process would; what
both come to must be the same bytes. The rules of the protocols are those of `tests/unit/protocols/rules.py`.
"""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from everlog import Everlog, context, log
from everlog.context import Consumer, Context, Head, Held, Terms
from everlog.context.codec import encode
from everlog.log import NewTurn, TurnState
from everlog.messages import JSON, Call, Message, Origin, Result
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Raw, Said, Settings, Usage
from everlog.store import Store, Unit
from tests.conformance.conftest import Database
from tests.unit.protocols.rules import RULES

BUDGET = 2_000
SYSTEM = Said(messages=(Message(kind="system", text="Be brief."),))
sizes = st.sampled_from([5, 60, 60, 200, 700, 3_000])
markings = st.sampled_from(["none", "breakpoints", "blocks"])


class Conversing(RuleBasedStateMachine):
    """One consumer's requests for a thread, and whatever else happens to it."""

    first: Store
    second: Store
    tenants: Iterator[str]
    seen: Counter[str]
    """Why epochs opened, over all runs."""

    @initialize(tail=st.booleans(), marking=markings, tokens=st.booleans())
    def begin(self, tail: bool, marking: context.Marking, tokens: bool) -> None:
        self.tenant = next(self.tenants)
        self.stores = [self.first, self.second]
        self.memory = Everlog(self.first, tenant=self.tenant)
        self.thread = self.memory.thread("talk")
        self.consumer = Consumer(
            mode="tree",
            budget=BUDGET // 4 if tokens else BUDGET,
            unit="tokens" if tokens else "bytes",
            renderer="test",
            family="m",
            tail=tail,
        )
        self.marking = marking
        self.instructions, self.tools = "Be brief.", b"[]"
        self.numbers = count()
        self.open_at: int | None = None
        self.calls: list[Message] = []
        self.sent: Context | None = None
        self.held_at: Counter[int] = Counter()
        self.undone: set[str] = set()

    # ---- what is said --------------------------------------------------------------------------------------------

    @precondition(lambda self: self.open_at is None)
    @rule(size=sizes, user=st.sampled_from(["u1", "u2"]))
    def ask(self, size: int, user: str) -> None:
        turn = NewTurn(messages=(said("user", size),), state=TurnState.OPEN, origin=Origin(user=user))
        self.open_at = self.thread.extend([turn]).first

    @precondition(lambda self: self.open_at is not None)
    @rule(size=sizes, calls=st.integers(1, 3), answered=st.booleans())
    def round(self, size: int, calls: int, answered: bool) -> None:
        """The model calls tools, and they answer; where one fails, its turn ends."""
        ids = [f"call_{next(self.numbers) % 7}" for _ in range(calls)]
        messages = [call(name, size) for name in ids] + [result(name, size) for name in ids[: None if answered else -1]]
        self.request()
        self.thread.extend([NewTurn(messages=tuple(messages), state=TurnState.OPEN, more=True)])
        if not answered:
            self.open_at = None

    @precondition(lambda self: self.open_at is not None)
    @rule(size=sizes)
    def look_closer(self, size: int) -> None:
        """The model uses the tools of memory, whose calls and results are no entries."""
        context_ = self.request()
        name = f"zoom_{next(self.numbers)}"
        said_ = (
            Said(messages=(call(name, 5),), raw=Raw(protocol="chat_completions", items=(wire_call(name),))),
            Said(messages=(result(name, size),)),
        )
        position = self.thread.row().next
        n = self.held_at[position]
        self.held_at[position] += 1
        self.hold(context_, [Held(position=position, n=n, kind="round", said=said_)])

    @precondition(lambda self: self.open_at is not None)
    @rule(size=sizes, counted=st.sampled_from([None, 3, 5]), raw=st.booleans())
    def answer(self, size: int, counted: int | None, raw: bool) -> None:
        context_ = self.request()
        words = said("assistant", size)
        held = []
        if raw:
            item: JSON = {"role": "assistant", "content": words.text, "annotations": [next(self.numbers)]}
            reply = Said(messages=(words,), raw=Raw(protocol="chat_completions", items=(item,)))
            position = self.thread.row().next
            held = [Held(position=position, n=self.held_at[position], kind="reply", covers=1, said=(reply,))]
            self.held_at[position] += 1
        usage = None if counted is None else Usage(input=context_.prompt_bytes // counted + 1)
        self.hold(context_, held, usage=usage)
        self.thread.extend([NewTurn(messages=(words,), more=True)])
        self.open_at = None

    @precondition(lambda self: self.open_at is not None)
    @rule()
    def fail(self) -> None:
        """The request went out, and nothing came of it."""
        self.request()
        self.open_at = None

    # ---- what else happens ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.sent is not None)
    @rule()
    def pump(self) -> None:
        self.thread.pump()

    @precondition(lambda self: self.sent is not None)
    @rule()
    def restart(self) -> None:
        """Whoever asks next has nothing in memory."""
        self.stores.reverse()
        self.memory = Everlog(self.stores[0], tenant=self.tenant)
        self.thread = self.memory.thread(self.thread.key)

    @precondition(lambda self: self.open_at is None and self.sent is not None)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        count_ = self.thread.row().next
        at = data.draw(st.integers(max(0, count_ - 6), count_))
        self.thread = self.thread.fork(at, f"fork-{next(self.numbers)}")
        self.sent = None

    @precondition(lambda self: self.sent is not None)
    @rule(words=st.sampled_from(["Be brief.", "Be kind."]), tools=st.sampled_from([b"[]", b"[1]"]))
    def say_otherwise(self, words: str, tools: bytes) -> None:
        self.instructions, self.tools = words, tools

    @precondition(lambda self: self.sent is not None and self.open_at is None)
    @rule(user=st.sampled_from(["u1", "u2"]))
    def erase(self, user: str) -> None:
        if self.memory.store.read(self.tenant, partial(log.has_turns_of, user=user)):
            self.memory.erase(user=user)
            self.undone = {"erased", "rebuilt"}

    @precondition(lambda self: self.sent is not None and self.open_at is None)
    @rule()
    def rebuild(self) -> None:
        self.thread.tree.rebuild()
        self.undone |= {"rebuilt"}

    # ---- what must hold ------------------------------------------------------------------------------------------

    def request(self) -> Context:
        terms = self.terms()
        thread = self.thread.id
        looked = context.look(self.stores[1], self.tenant, thread, terms)
        made = context.prepare(self.stores[0], self.tenant, thread, terms)
        assert encode(looked.said) == encode(made.said), "two processes compile two prompts"
        self.check(made)
        self.sent = made
        return made

    def check(self, made: Context) -> None:
        budget = made.epoch.budget
        assert made.memory_bytes <= budget, "law 4: above the budget"
        assert budget <= (BUDGET if self.consumer.unit == "bytes" else 2 * BUDGET)
        before = self.sent
        if made.turned is not None:
            assert made.turned not in {"erased", "rebuilt", "renderer"} - self.undone, "nothing of it was changed"
            self.undone = set()
            self.seen[made.turned] += 1
            inside = self.open_at is not None and made.epoch.cut > self.open_at
            self.seen["inside"] += inside
        elif before is not None:
            assert made.epoch.n == before.epoch.n
            assert made.said[: len(before.said)] == before.said or plain(made)[: len(before.said)] == plain(before)
        for name, rules in RULES.items():
            body = FORMATS[name].render_request(made.said, Settings(model="m"))
            assert rules(body) == [], f"law 9 in {name}"
            if made.turned is None and before is not None:
                older = FORMATS[name].render_request(before.said, Settings(model="m"))
                assert wire(body)[: len(wire(older))] == wire(older), f"law 5 on the wire of {name}"

    @invariant()
    def the_tail_is_whole(self) -> None:
        """What is in the tail is there word for word, unless it is too long."""
        if self.sent is not None:
            assert self.sent.hidden <= self.sent.epoch.cut

    def terms(self) -> Terms:
        head = Head(instructions=(Said(messages=(Message(kind="system", text=self.instructions),)),), tools=self.tools)
        return Terms(consumer=self.consumer, head=head, open_at=self.open_at, marking=self.marking)

    def hold(self, context_: Context, held: list[Held], usage: Usage | None = None) -> None:
        def act(unit: Unit) -> None:
            terms = self.terms()
            context.hold(unit, self.thread.id, terms, context_, held)
            context.answered(unit, self.thread.id, terms, context_, status="answered", usage=usage)

        self.stores[0].write(self.tenant, act, name="test.hold")


def said(kind, size: int) -> Message:
    return Message(kind=kind, text=(f"{kind} says " + "word " * size)[:size])


def call(name: str, size: int) -> Message:
    arguments = json.dumps({"q": "x" * size})
    return Message(
        kind="tool_call", text=f"look {arguments}", parts=(Call(call_id=name, name="look", arguments=arguments),)
    )


def result(name: str, size: int) -> Message:
    return Message(kind="tool_result", text="r" * size, parts=(Result(call_id=name, name="look"),))


def wire_call(name: str) -> JSON:
    function: JSON = {"name": "look", "arguments": '{"q":"xxxxx"}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }


def plain(made: Context) -> list[bytes]:
    return [encode([one]) for one in made.said]


def wire(body: dict) -> list[str]:
    """Return what is sent, part by part, without marks; a text and its only part are the same to a provider."""
    items = [body.get("instructions"), body.get("system"), *body.get("messages", body.get("input", ()))]
    return [json.dumps(bare(item)) for item in items]


def bare(value):
    if isinstance(value, dict):
        found = {
            name: bare(part) for name, part in value.items() if name not in ("cache_control", "prompt_cache_breakpoint")
        }
        content = found.get("content")
        if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
            found["content"] = content[0]["text"]
        return found
    return [bare(part) for part in value] if isinstance(value, list) else value


def effort(database: Database) -> settings:
    if settings.get_current_profile_name() == "long":
        return settings()
    fast = database.engine == "sqlite"
    return settings(
        max_examples=30 if fast else 6,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )


@pytest.mark.covers("A3", "A40", "A117", "A120", "A121")
def test_prompts_grow_at_their_end_within_their_budget_until_an_epoch_turns(database: Database, tenants: Iterator[str]):
    names = {"first": database.open(), "second": database.open(), "tenants": tenants, "seen": Counter()}
    machine = type("ConversingHere", (Conversing,), names)
    run_state_machine_as_test(machine, settings=effort(database))
