"""Laws 4, 5 and 9 and the truth of the log, end to end: random conversations through `attach`, in two processes at once.

The model, its tools and its failures follow a plan that stands in the user's words, so that what the log must hold is
known beforehand. What was sent is what came out of the wire; the rows of requests say in which epoch each was.
"""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from everlog import Everlog, TurnState
from everlog.context import rows as context_rows
from everlog.context import stored
from everlog.log import rows
from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.store import Store
from everlog.testing.upstream import Answer, Cut, Manner, Received, Refused, Upstream
from everlog.testing.upstream.failures import Failure
from tests.conformance.conftest import Database
from tests.conformance.test_context_laws import wire
from tests.conformance.turns_script import Speaker
from tests.unit.protocols.rules import RULES

ROOT = Path(__file__).parents[2]
BUDGET = 1_200
FIRST = "talk"
ERRORS = {"!": "ProviderFailed", "/": "ConnectionFailed", "x": "RuntimeError"}
"""How a plan can end badly, and what is raised then."""

LONG = "300"
"""Bytes of an answer that breaks off."""

plans = st.tuples(st.text("zlb", max_size=4), st.sampled_from([".", ".", ".", "!", "/", "x"])).map("".join)
sizes = st.sampled_from([5, 80, 80, 300, 1_500])


class Model:
    """What the upstream says: each user's message holds the plan of its turn."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.missed: list[str] = []
        """Rounds that a later request of their turn did not show."""

    def __call__(self, received: Received) -> Answer | Failure:
        text = next(text for role, text in reversed(spoken(received.body)) if role == "user" and is_plan(text))
        number, plan, size, _ = text.split(" ", 3)
        step = self.asked[text]
        self.asked[text] += 1
        if step and not shows(received.body, text, plan[step - 1]):
            self.missed.append(f"{number} {plan}, round {step - 1}")
        look: tuple[str, str, JSON] = (f"call_{step}", "look", {"q": size})
        zoom: tuple[str, str, JSON] = (f"zoom_{step}", "zoom", {"id": 0, "n": 1 << step % 3})
        match plan[step]:
            case "z":
                return Answer(calls=(zoom,), thinking="Hm.")
            case "l":
                return Answer(calls=(look,))
            case "b":
                return Answer(text="I look closer.", calls=(look, zoom), thinking="Hm.")
            case "x":
                return Answer(calls=((f"call_{step}", "look", {"q": "raise"}),))
            case "!":
                return Refused(status=500, message="out of order")
            case "/":
                return Cut(answer=Answer(text=reply(number, LONG)), events=8)
            case _:
                return Answer(text=reply(number, size))


class Speaking(RuleBasedStateMachine):
    """Turns of two processes in some threads of one tenant."""

    database: Database
    model: Model
    upstream: Upstream
    other: "subprocess.Popen[str]"
    tenants: Iterator[str]
    seen: Counter[str]
    """What happened, over all runs."""

    @initialize(
        protocol=st.sampled_from(["chat_completions", "responses", "anthropic"]),
        tail=st.sampled_from([None, None, 0]),
        tokens=st.booleans(),
        pump=st.sampled_from(["inline", "inline", "none"]),
    )
    def begin(self, protocol: str, tail: int | None = None, tokens: bool = False, pump: str = "inline") -> None:
        size = {"tokens": BUDGET // 4} if tokens else {"budget": BUDGET}
        self.how: dict[str, Any] = {
            "address": self.database.address,
            "url": self.upstream.url,
            "tenant": next(self.tenants),
            "options": {**size, "protocol": protocol, "tail": tail, "pump": pump, "wait_s": 60},
            "sealed": self.database.encrypted,
        }
        self.model.asked.clear()
        self.model.missed.clear()
        self.protocol = protocol
        self.said: dict[str, list[tuple[str, str]]] = {FIRST: []}
        """What each log must hold."""
        self.sent: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        """The bodies of the requests of each thread."""
        self.key = FIRST
        self.numbers = count()
        self.forks = count()
        self.here = Speaker(**self.how)
        self.tell({"do": "open", "how": self.how})

    def teardown(self) -> None:
        if hasattr(self, "here"):
            self.here.close()
            self.tell({"do": "close"})

    # ---- what happens --------------------------------------------------------------------------------------------

    @rule(plan=plans, size=sizes, stream=st.booleans(), here=st.booleans())
    def turn(self, plan: str, size: int, stream: bool = False, here: bool = True) -> None:
        text = self.words(plan, size)
        before = len(self.upstream.requests)
        error = self.here.turn(self.key, text, stream=stream) if here else self.tell(self.order(text, stream))
        assert error == ERRORS.get(plan[-1])
        self.note(before)
        self.check([(text, stream)])

    @rule(one=plans, another=plans, size=sizes)
    def both(self, one: str, another: str, size: int) -> None:
        """Two processes say something at the same time; one waits for the other."""
        mine, theirs = self.words(one, size), self.words(another, size)
        before = len(self.upstream.requests)
        self.send(self.order(theirs, stream=False))
        assert self.here.turn(self.key, mine, stream=False) == ERRORS.get(one[-1])
        assert self.hear() == ERRORS.get(another[-1])
        self.note(before)
        self.check([(mine, False), (theirs, False)])

    @rule()
    def restart(self) -> None:
        """This process remembers nothing but what is in the database."""
        self.here.close()
        self.here = Speaker(**self.how)

    @precondition(lambda self: self.said[self.key])
    @rule(back=st.integers(0, 6))
    def fork(self, back: int) -> None:
        at = max(0, len(self.said[self.key]) - back)
        key = f"fork-{next(self.forks)}"
        self.here.memory(self.key).fork(at, key=key)
        self.said[key] = self.said[self.key][:at]
        self.key = key

    @rule()
    def pump(self) -> None:
        """Another process builds what is missing."""
        if self.said[self.key]:
            self.log.thread(self.key).pump()

    # ---- what must hold ------------------------------------------------------------------------------------------

    def check(self, turns: list[tuple[str, bool]]) -> None:
        """Look at the log, and at what was sent in turns that have just ended."""
        thread = self.log.thread(self.key)
        said: list[tuple[str, str]] = [(entry.kind, entry.text) for entry in thread.entries()]
        before = len(self.said[self.key])
        assert said[:before] == self.said[self.key], "what was said before is there as it was"
        told = said[before:]
        order = sorted(turns, key=lambda one: told.index(("user", one[0])))
        for text, stream in order:
            whole = expected(text)
            if text.split(" ")[1].endswith("/"):
                whole = [*whole[:-1], *([begun(told[len(whole) - 1], whole[-1])] if stream else [])]
            assert told[: len(whole)] == whole, f"the log is true of {text[:20]}"
            told = told[len(whole) :]
        assert told == []
        self.said[self.key] = said
        assert [part.faults for part in thread.verify() if part.faults] == []
        assert TurnState.OPEN not in states(self.store, self.how["tenant"], thread.id)
        self.check_requests(thread.id)

    def check_requests(self, thread: str) -> None:
        """Law 5: in an epoch each request begins with the one before. Law 4: memory keeps to its budget. Law 9: pairs."""
        store, tenant, bodies = self.store, self.how["tenant"], self.sent[self.key]
        params = {"thread": thread, "limit": 1 << 20}
        noted = store.read(tenant, lambda unit: unit.rows(context_rows.REQUESTS, **params))[::-1]
        names = [column.name for column in context_rows.request.columns]
        requests = [dict(zip(names, row, strict=True)) for row in noted]
        assert len(requests) == len(bodies), "each request has a row"
        assert self.model.missed == []
        consumers = {request["consumer"] for request in requests}
        epochs = {
            (name, epoch.n): epoch
            for name in consumers
            for epoch in store.read(tenant, partial(stored.epochs, thread=thread, consumer=name))
        }
        for request, body in zip(requests, bodies, strict=True):
            budget = epochs[request["consumer"], request["epoch"]].budget
            assert budget <= (BUDGET if "budget" in self.how["options"] else 2 * BUDGET)
            assert memory_bytes(body) <= budget, "law 4: above the budget"
            assert RULES[self.protocol](body) == [], "law 9"
        for (one, older), (another, newer) in pairwise(zip(requests, bodies, strict=True)):
            if (one["consumer"], one["epoch"]) == (another["consumer"], another["epoch"]):
                assert wire(newer)[: len(wire(older))] == wire(older) != wire(newer), "law 5"
                assert newer["tools"] == older["tools"], "law 5: tools"
            else:
                self.seen["inside"] += one["turn"] == another["turn"]
        self.seen["epochs"] = max(self.seen["epochs"], len(epochs))
        self.seen.update(epoch.reason for epoch in epochs.values())

    # ---- how it is done ------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """A third opening of the database, that only looks."""
        return self.database.opened[0]

    @property
    def log(self) -> Everlog:
        return Everlog(self.store, tenant=self.how["tenant"])

    def words(self, plan: str, size: int) -> str:
        """What a user says, with the plan of the turn in it."""
        return f"{next(self.numbers)} {plan} {size} {'word ' * (size // 5)}"

    def order(self, text: str, stream: bool) -> dict[str, Any]:
        return {"do": "turn", "key": self.key, "text": text, "stream": stream}

    def note(self, before: int) -> None:
        self.sent[self.key] += [one.body for one in self.upstream.requests[before:]]

    def send(self, order: dict[str, Any]) -> None:
        assert self.other.stdin is not None
        self.other.stdin.write(json.dumps(order) + "\n")
        self.other.stdin.flush()

    def hear(self) -> Any:
        assert self.other.stdout is not None
        return json.loads(self.other.stdout.readline())

    def tell(self, order: dict[str, Any]) -> Any:
        self.send(order)
        return self.hear()


def expected(text: str) -> list[tuple[str, str]]:
    """Return what the log must hold of a turn; an answer that breaks off is here as it would have been."""
    number, plan, size, _ = text.split(" ", 3)
    found = [("user", text)]
    for step in plan:
        if step == "b":
            found.append(("assistant", "I look closer."))
        if step in "lb":
            found += [("tool_call", f'look {{"q":"{size}"}}'), ("tool_result", f"found {size}: {'r' * int(size)}")]
        if step == "x":
            found.append(("tool_call", 'look {"q":"raise"}'))
        if step in "./":
            found.append(("assistant", reply(number, size if step == "." else LONG)))
    return found


def begun(entry: tuple[str, str], whole: tuple[str, str]) -> tuple[str, str]:
    """Return an entry, which is the beginning of a whole one."""
    assert entry[0] == whole[0]
    assert entry[1]
    assert whole[1].startswith(entry[1])
    return entry


def reply(number: str, size: str) -> str:
    return f"To {number}: {'answer ' * (int(size) // 7)}."


def shows(body: dict[str, Any], text: str, round_: str) -> bool:
    """Return whether a request ends with a round of the turn that a user's message began."""
    said = spoken(body)
    since = said[len(said) - said[::-1].index(("user", text)) :]
    called = [part.partition("{")[0] for _, part in since if part.startswith(("look{", "zoom{"))]
    wanted = {"z": ["zoom"], "l": ["look"], "b": ["look", "zoom"]}[round_]
    return called[-len(wanted) :] == wanted


def is_plan(text: str) -> bool:
    return text.split(" ", 1)[0].isdigit() and text.count(" ") >= 3


def spoken(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the words of a request in order, with who says them; calls and results are nobody's."""
    found = []
    for item in body.get("messages", body.get("input", ())):
        content = item.get("content")
        found += [
            (item.get("role", ""), part) for part in texts(content if content is not None else item.get("output"))
        ]
        calls = [call["function"] for call in item.get("tool_calls") or ()]
        found += [("", call["name"] + call["arguments"]) for call in calls]
        if item.get("type") == "function_call":
            found.append(("", item["name"] + item["arguments"]))
    return found


def texts(content: Any) -> list[str]:
    if isinstance(content, list):
        return [text for part in content for text in texts(part)]
    if isinstance(content, dict):
        if content["type"] == "tool_use":
            return [content["name"] + json.dumps(content["input"], separators=(",", ":"))]
        return texts(content.get("text", content.get("content")))
    return [content] if content else []


def memory_bytes(body: dict[str, Any]) -> int:
    """Return the bytes of the words before the open turn that are not instructions."""
    said = spoken(body)
    began = max(at for at, (role, text) in enumerate(said) if role == "user" and is_plan(text))
    return sum(len(text.encode()) for role, text in said[:began] if role not in ("system", "developer"))


def states(store: Store, tenant: str, thread: str) -> list[TurnState]:
    found = store.read(tenant, lambda unit: unit.rows(rows.TURNS, thread=thread, start=0, stop=1 << 20))
    return [TurnState(row[4]) for row in found]


@pytest.fixture(scope="module")
def other() -> Iterator["subprocess.Popen[str]"]:
    """The other process."""
    command = [sys.executable, "-m", "tests.conformance.turns_script"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield process
        process.communicate(timeout=20)


@pytest.fixture
def speaking(database: Database, other: "subprocess.Popen[str]", tenants: Iterator[str]) -> Iterator[type[Speaking]]:
    """The machine, on a database that is open already."""
    database.open(clock=None)
    model = Model()
    with Upstream(model, manner=Manner(piece=4)) as upstream:
        parts = {"database": database, "model": model, "upstream": upstream, "other": other}
        yield type("SpeakingHere", (Speaking,), {**parts, "tenants": tenants, "seen": Counter()})


@pytest.mark.parametrize("database", ["sqlite-plain"], indirect=True)
@pytest.mark.parametrize("protocol", FORMATS)
@pytest.mark.covers("A25", "A121", "tree fault 19")
def test_a_conversation_crosses_epochs_in_two_processes_one_of_them_inside_a_turn(
    speaking: type[Speaking], protocol: str
):
    machine = speaking()
    machine.begin(protocol)
    for here in (True, False, True, False):
        machine.turn(".", 300, here=here)
    machine.turn("lzbll.", 300)
    machine.restart()
    machine.turn("zbz!", 80, here=False)
    machine.fork(2)
    machine.both("l.", "b.", 80)
    machine.turn("/", 300, stream=True)
    machine.turn("lx", 80, here=False)
    machine.turn(".", 5)
    machine.teardown()
    assert machine.seen["epochs"] >= 3, "so many of one thread"
    assert machine.seen["inside"] >= 1
    assert machine.seen["full"] >= 1


@pytest.mark.parametrize("database", ["sqlite-plain", "postgresql-encrypted"], indirect=True)
@pytest.mark.covers("A3", "A25", "A40", "A121", "tree fault 79", "tree fault 81")
def test_whatever_happens_prompts_grow_at_their_end_within_their_budget_and_the_log_is_true(speaking: type[Speaking]):
    long = settings.get_current_profile_name() == "long"
    effort = settings(
        max_examples=60 if long else 5,
        stateful_step_count=40 if long else 12,
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    run_state_machine_as_test(speaking, settings=effort)
    assert speaking.seen["full"]
