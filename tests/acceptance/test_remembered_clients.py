"""What goes up in mode tree for clients that keep their history in ways of their own: rules beside the first message, marks
and reminders that move, thoughts with signatures, results that are cleared, windows that are trimmed, pictures.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from everlog import context, log
from everlog.context.stored import consumers
from everlog.protocols import FORMATS
from everlog.protocols.shapes import dumps
from everlog.store import Unit
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.testing.upstream import Answer
from everlog.testing.upstream.answers import body_of
from tests.acceptance.inside import Inside
from tests.unit.proxy.wire import JSON_HEAD, Client, Coming

BUDGET = "1000"
LONG = 40
"""Words of each message: a dozen of them are more than the budget."""
RULES = "<system-reminder>\nAs the project says: never push to main.\n</system-reminder>"
HEADERS = {"x-claude-code-session-id": "5f7c9a3e-0000-4000-8000-000000000001", "x-everlog-budget": BUDGET}


def words(text: str) -> str:
    return f"{text} " + "harbour " * LONG


class Proxy:
    """The proxy, with a model that says what it is told to."""

    def __init__(self) -> None:
        self.script: Callable[[dict[str, Any]], Answer] = lambda _: Answer(text=words("Fine."))
        self.runner = asyncio.Runner()
        self.inside = Inside(":memory:", self._answer)
        self.bodies: list[dict[str, Any]] = []
        self.raw: list[bytes] = []

    def _answer(self, outgoing: Outgoing) -> Coming:
        assert isinstance(outgoing.body, bytes)
        self.raw.append(outgoing.body)
        self.bodies.append(json.loads(outgoing.body))
        protocol = next(name for name, one in FORMATS.items() if outgoing.url.endswith(one.path))
        body = body_of(self.script(self.bodies[-1]), protocol, "m", len(self.bodies))
        return Coming(headers=JSON_HEAD, pieces=[json.dumps(body).encode()])

    def ask(self, protocol: str, body: dict[str, Any], **headers: str) -> Client:
        given = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        client = self.runner.run(self.inside.ask(protocol, json.dumps(body).encode(), given))
        assert client.status == 200, client.body
        return client

    def threads(self) -> list[list[str]]:
        home = self.inside.home
        return [[entry.text for entry in home.thread(str(one.key)).entries()] for one in home.threads()]

    def epochs(self) -> int:
        """Return how many epochs opened."""

        def read(unit: Unit) -> int:
            return sum(
                len(context.epochs(unit, thread, key)) for thread in log.ids(unit) for key in consumers(unit, thread)
            )

        home = self.inside.home
        return home.store.read(home.name, read)

    def close(self) -> None:
        self.runner.run(self.inside.stop())
        self.runner.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


def user(text: str, *more: str, marked: bool = False) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": one} for one in (*more, text)]
    if marked:
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return {"role": "user", "content": blocks}


def without_marks(body: dict[str, Any]) -> list[str]:
    """Return what a body says, message by message, without marks of what is to be cached."""
    plain = dumps(body["messages"]).replace(',"cache_control":{"type":"ephemeral"}', "")
    return [dumps(one) for one in json.loads(plain)]


def breaks(bodies: Sequence[dict[str, Any]]) -> int:
    """Return how often a body did not begin with all of the one before it."""
    said = [without_marks(body) for body in bodies]
    return sum(after[: len(before)] != before for before, after in pairwise(said))


def claude(proxy: Proxy, turns: int) -> list[list[dict[str, Any]]]:
    """Play a client as Claude Code is: rules in the first message, a reminder and a mark in the newest; return what it sent."""
    history: list[dict[str, Any]] = []
    sent = []
    for turn in range(turns):
        history.append(user(words(f"Question {turn}.")))
        shown = [dict(one) for one in history]
        shown[0] = user(history[0]["content"][0]["text"], RULES)
        reminder = f"<system-reminder>\nThe list has {turn} entries.\n</system-reminder>"
        shown[-1] = user(shown[-1]["content"][-1]["text"], *([RULES] if turn == 0 else []), reminder, marked=True)
        system = [{"type": "text", "text": "You write code.", "cache_control": {"type": "ephemeral"}}]
        body = {"model": "claude-sonnet-4-5", "max_tokens": 1000, "system": system, "messages": shown}
        said = json.loads(proxy.ask("anthropic", body).body)
        history.append({"role": "assistant", "content": said["content"]})
        sent.append(shown)
    return sent


@pytest.mark.covers("alignment")
def test_rules_beside_the_first_message_go_up_long_after_it_is_folded(proxy: Proxy):
    claude(proxy, 30)
    last = dumps(proxy.bodies[-1])
    assert "Question 0." not in dumps(proxy.bodies[-1]["messages"][2:])
    assert last.count("never push to main") == 1
    assert "The list has 29 entries" in last


def test_marks_and_reminders_that_move_break_no_prefix_but_where_an_epoch_opens(proxy: Proxy):
    claude(proxy, 40)
    grown = [body for body in proxy.bodies if "<chat>" in dumps(body) or body.get("tools")]
    assert len(grown) > 25
    home = proxy.inside.home
    assert breaks(grown) == proxy.epochs() - 1
    marks = [dumps(body).count('"cache_control"') for body in grown]
    assert max(marks) <= 4
    assert len(proxy.threads()) == 1
    assert not [one for one in home.threads() if one.entries != 80]


def test_no_prefix_is_broken_by_memory_itself(proxy: Proxy):
    claude(proxy, 40)
    recorder = proxy.inside.front._site.recorder
    assert recorder is not None
    prefixes = recorder.watch.totals.of(None).prefixes
    assert prefixes["nobody"] > 20
    assert not [who for who in prefixes if who.startswith("memory")]


class Round:
    """A client of Anthropic's in a turn with tools, behind a talk that outgrew its budget."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.history: list[dict[str, Any]] = []
        for turn in range(14):
            self.history += [user(words(f"Question {turn}.")), {"role": "assistant", "content": words("Fine.")}]
        self.history.append(user(words("And now look.")))
        self.steps = 0

    @property
    def body(self) -> dict[str, Any]:
        tools = [{"name": "read", "input_schema": {"type": "object"}}]
        thinking = {"type": "enabled", "budget_tokens": 1024}
        said = {"messages": self.history, "tools": tools, "thinking": thinking}
        return {"model": "claude-sonnet-4-5", "max_tokens": 2000, **said}

    def call(self, *beside: str) -> None:
        """Have the model think and call a tool, and answer it, with texts beside."""
        n, self.steps = self.steps, self.steps + 1
        self.proxy.script = lambda _: Answer(thinking=f"Step {n}.", calls=((f"toolu_{n}", "read", {"n": n}),))
        self.history.append(
            {"role": "assistant", "content": json.loads(self.proxy.ask("anthropic", self.body).body)["content"]}
        )
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{n}",
            "content": [{"type": "text", "text": words(f"Result {n}.")}],
        }
        self.history.append({"role": "user", "content": [result, *({"type": "text", "text": one} for one in beside)]})

    def end(self) -> Any:
        """Have the model answer; return what went up."""
        self.proxy.script = lambda _: Answer(text="Done.")
        self.proxy.ask("anthropic", self.body)
        return self.proxy.bodies[-1]["messages"]


def test_thoughts_with_their_signatures_stand_in_the_open_turn_as_they_came(proxy: Proxy):
    talk = Round(proxy)
    for _ in range(3):
        talk.call()
    said = talk.end()
    assert [*said[-6:-1], {"role": "user", "content": _plain(said[-1]["content"])}] == talk.history[-6:]
    assert FORMATS["anthropic"].repair(proxy.bodies[-1]) is proxy.bodies[-1]
    assert len(proxy.threads()) == 1


def test_a_reminder_beside_a_result_goes_up_and_is_no_turn(proxy: Proxy):
    talk = Round(proxy)
    for step in range(3):
        talk.call(f"<system-reminder>\nFile {step} changed.\n</system-reminder>")
    assert talk.end()[-6:] == talk.history[-6:]
    home = proxy.inside.home
    (thread,) = home.threads()
    entries = list(home.thread(str(thread.key)).entries())
    assert len({entry.turn for entry in entries}) == 15
    assert not [entry for entry in entries if entry.kind == "user" and not entry.text.strip()]


def test_words_beside_a_result_keep_the_thoughts_of_its_round(proxy: Proxy):
    talk = Round(proxy)
    talk.call("Stop, and say why.")
    assistant, result, text = talk.end()[-3:]
    assert [assistant, {"role": "user", "content": [*result["content"], *_plain(text["content"])]}] == talk.history[-2:]


def _plain(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return blocks without marks."""
    return [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks]


def test_a_window_that_a_client_trimmed_goes_up_with_what_came_before_it(proxy: Proxy):
    history: list[dict[str, str]] = []
    for turn in range(30):
        history.append({"role": "user", "content": words(f"Question {turn}.")})
        proxy.ask("chat_completions", {"model": "m", "messages": history[-9:]}, x_everlog_session_id="trimmed")
        history.append({"role": "assistant", "content": words("Fine.")})
    assert len(proxy.threads()) == 1
    last = proxy.bodies[-1]["messages"]
    assert "<chat>" in dumps(last)
    assert dumps(last).count("Question 28.") == 1


def test_a_result_that_a_client_cleared_stays_as_it_was_sent(proxy: Proxy):
    history: list[dict[str, Any]] = []
    for turn in range(24):
        history.append({"role": "user", "content": words(f"Question {turn}.")})
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        history.append({"role": "assistant", "content": None, "tool_calls": [call]})
        history.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": words(f"Result {turn}.")})
        cleared = [
            {**one, "content": "[cleared]"} if one["role"] == "tool" and n < len(history) - 5 else one
            for n, one in enumerate(history)
        ]
        proxy.ask("chat_completions", {"model": "m", "messages": cleared})
        history.append({"role": "assistant", "content": words("Fine.")})
    grown = [body for body in proxy.bodies if body.get("tools")]
    assert len(grown) > 12
    assert "[cleared]" not in dumps(proxy.bodies[-1])
    assert breaks(grown) == proxy.epochs() - 1


def test_below_the_threshold_the_very_bytes_go_up(proxy: Proxy):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "odd": {"b": 1, "a": [1.50, "ä"]}}
    raw = json.dumps(body, ensure_ascii=False, indent=1).encode()
    proxy.runner.run(proxy.inside.ask("chat_completions", raw, HEADERS))
    assert proxy.raw == [raw]
