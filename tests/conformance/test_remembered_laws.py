"""Laws 1, 4, 5 and 9 of prompts that are compiled for clients, over whatever clients do to their histories, in every store.

A client says more, edits, asks again, sends a window of its history or a summary of it, and uses tools. Each text is said once
only, so that nothing can be taken for anything else.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlog import context, log
from everlog.context import Consumer, Context, Head, Terms
from everlog.context.codec import encode
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.presence import Presence
from everlog.conversation.alignment.values import Answer, Caller, Request
from everlog.conversation.remembering.asking import Asked, ask
from everlog.conversation.remembering.wire import Wire
from everlog.memory.tree import Tree
from everlog.memory.tree.extractive import Extractive
from everlog.messages import Call, Message, Origin, Result
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Settings, said
from everlog.pump import run
from everlog.store import Store
from tests.conformance.conftest import Database
from tests.unit.protocols.rules import RULES

BUDGET = 1_500
CONSUMER = Consumer(mode="tree", budget=BUDGET, renderer="test", family="m")
EXTRACTIVE = Extractive()
SYSTEM = Message(kind="system", text="Be brief.")
acts = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "say", "tools", "edit", "again", "window", "summary", "pump"]),
        st.sampled_from([20, 200, 200, 700, 3_000]),
    ),
    min_size=4,
    max_size=16,
)


class Client:
    """A client that keeps its own history, and what is compiled of it."""

    def __init__(self, store: Store, tenant: str, protocol: str) -> None:
        self.store, self.tenant, self.protocol = store, tenant, protocol
        self.history: list[Message] = []
        self.numbers = count()
        self.said: set[str] = set()
        """All that was ever said."""
        self.sent: dict[str, Context] = {}
        """The newest prompt of each thread."""
        self.entries: dict[str, list[str]] = {}

    def text(self, size: int) -> str:
        """Return a text that nobody said before."""
        return (f"number {next(self.numbers)} " + "harbour " * size)[:size].strip()

    def act(self, what: str, size: int) -> None:
        """Do something, and take in what the model answers."""
        if what == "pump":
            for thread in self.sent:
                run(self.store, self.tenant, thread, Tree.of(EXTRACTIVE), EXTRACTIVE)
            return
        asked_at = [n for n, one in enumerate(self.history) if one.kind == "user"]
        if what == "edit" and asked_at:
            del self.history[asked_at[-1] :]
        if what == "again" and asked_at:
            del self.history[asked_at[-1] + 1 :]
        else:
            if what == "summary":
                self.history = [Message(kind="user", text=f"Summary: {self.text(200)}")]
                self.history.append(Message(kind="assistant", text=f"Understood. {self.text(40)}"))
                self.said |= {one.text for one in self.history}
            self.history.append(Message(kind="user", text=self.text(size)))
        shown = asked_at[-3] if what == "window" and len(asked_at) > 3 else 0
        if what == "tools":
            called = f"call_{next(self.numbers)}"
            self.request(shown, call(called))
            result = Result(call_id=called, name="look")
            self.history.append(Message(kind="tool_result", text=self.text(size), parts=(result,)))
        self.request(shown, Message(kind="assistant", text=self.text(size)))

    def request(self, shown: int, answer: Message) -> None:
        """Send what the client shows, and keep the answer."""
        form = FORMATS[self.protocol]
        body = form.render_request(said([SYSTEM, *self.history[shown:]]), Settings(model="m"))
        history = form.parse_history(named(body) if self.protocol == "chat_completions" else body)
        messages = tuple(message for one in history for message in one.messages)
        request = Request(
            messages=messages,
            name=f"proxy:{next(self.numbers)}",
            caller=Caller(key="k"),
            model="m",
            origin=Origin(request=f"r{next(self.numbers)}"),
            session="s",
        )
        presence = Presence(request, unchanged)
        wire = Wire.of(history, unchanged)
        asked = ask(self.store, self.tenant, request, presence, wire)
        assert asked is not None
        self.compile(asked, wire)
        told = Answer(messages=(answer,))
        kept = record(self.store, self.tenant, request, told, redact=unchanged, presence=presence)
        assert kept.thread == asked.thread
        self.history.append(answer)
        self.said |= {one.text for one in self.history[shown:]}
        self.grew(asked.thread)

    def compile(self, asked: Asked, wire: Wire) -> None:
        """Compile a prompt, and judge it."""
        terms = Terms(
            consumer=CONSUMER,
            head=Head(instructions=wire.leading),
            open_at=asked.open_at,
            own=asked.own,
            outgrown=True,
        )
        made = context.prepare(self.store, self.tenant, asked.thread, terms)
        assert made.memory_bytes <= made.epoch.budget <= BUDGET, "law 4"
        shown = {message.text for one in made.said for message in one.messages}
        assert self.history[-1].text in shown, "the turn that is open is the caller's, and goes up whole"
        before = self.sent.get(asked.thread)
        if before is not None and made.turned is None:
            assert each(made)[: len(before.said)] == each(before), "law 5"
        assert made.turned is None or before is None or made.epoch.n > before.epoch.n
        self.sent[asked.thread] = made
        for name, rules in RULES.items():
            assert rules(FORMATS[name].render_request(made.said, Settings(model="m"))) == [], f"law 9 in {name}"

    def grew(self, thread: str) -> None:
        """Judge that the thread is what it was, and more; and that nothing is lost."""
        now = self.store.read(self.tenant, lambda unit: [one.text for one in log.read(unit, log.load(unit, thread))])
        before = self.entries.get(thread, [])
        assert now[: len(before)] == before, "law 1"
        self.entries[thread] = now
        assert self.said <= {text for texts in self.entries.values() for text in texts}, "a message is in no thread"


def named(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body of Chat Completions whose users have names: blocks that the log's words do not give."""
    return {**body, "messages": [{**one, "name": "ann"} if one["role"] == "user" else one for one in body["messages"]]}


def unchanged(message: Message) -> Message:
    return message


def each(made: Context) -> list[bytes]:
    return [encode([one]) for one in made.said]


def call(name: str) -> Message:
    return Message(kind="tool_call", text='look {"q":1}', parts=(Call(call_id=name, name="look", arguments='{"q":1}'),))


@pytest.mark.covers("A40", "A117", "A120", "A121")
def test_whatever_clients_do_prompts_keep_the_laws_and_no_message_is_lost(database: Database, tenants: Iterator[str]):
    store = database.open()
    is_long = settings.get_current_profile_name() == "long"
    examples = 200 if is_long else 25 if database.engine == "sqlite" else 5

    @settings(max_examples=examples, deadline=None, suppress_health_check=[*HealthCheck])
    @given(acts=acts, protocol=st.sampled_from(sorted(FORMATS)))
    def play(acts: list[tuple[str, int]], protocol: str) -> None:
        client = Client(store, next(tenants), protocol)
        for what, size in acts:
            client.act(what, size)

    play()
