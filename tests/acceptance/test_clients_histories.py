"""Clients that cut, clear, or sum up their own histories, or run subagents in one session, through mode tree.

What goes up is made of the log, not of what a client sent of it: its own changes break no prefix, and the first words stay
within reach, whatever is left of them in its history.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from everlog.protocols import FORMATS
from everlog.testing.upstream import Answer, Received, Upstream
from tests.acceptance.judging import Kept, Lawful, breaks, kept, memory_bytes, named
from tests.acceptance.looking import Asked, Looking
from tests.acceptance.proxies import Proxy, Stage, serving, small
from tests.acceptance.sessions import ASIDE, CLIENTS, Plan, Sending, Session, Shown
from tests.quick import Quick

BUDGET = 1_500
TURNS = 40
LAST = 10
"""Messages that a client keeps which trims its history."""
NEW = 3
"""Turns whose results of tools a client keeps which clears older ones."""
CLEARED = "[Old tool result content cleared]"

each_protocol = pytest.mark.parametrize("protocol", sorted(CLIENTS))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.upstream:
        yield stage


@pytest.fixture
def proxy(stage: Stage, tmp_path: Path, quick: Quick) -> Iterator[Proxy]:
    told = small(tmp_path, BUDGET)
    with serving(stage.upstream.url, tmp_path, mode="tree", program=[quick.program], **told) as proxy:
        yield proxy


def trimmed(history: list[Any]) -> list[Any]:
    """Send the newest messages, from one of a user on."""
    start = max(0, len(history) - LAST)
    while start and not _opens(history[start]):
        start -= 1
    return history[start:]


def cleared(history: list[Any]) -> list[Any]:
    """Send all of it, without what tools found some turns ago."""
    turns = [n for n, one in enumerate(history) if _opens(one)]
    old = turns[-NEW] if len(turns) >= NEW else 0
    return [_without_results(one) if n < old else one for n, one in enumerate(history)]


def _opens(one: Any) -> bool:
    return one.get("role") == "user" and isinstance(one["content"], str)


def _without_results(one: Any) -> Any:
    if one.get("role") == "tool":
        return {**one, "content": CLEARED}
    if one.get("type") == "function_call_output":
        return {**one, "output": CLEARED}
    if one.get("role") == "user" and isinstance(one["content"], list):
        return {**one, "content": [{**block, "content": CLEARED} for block in one["content"]]}
    return one


@dataclass
class Compacting:
    """Sends what came since the client summed everything up, behind the summary that the model gave of it."""

    client: Any
    every: int = 30
    """Messages after which it does."""
    start: int = 0
    summary: str | None = None
    summaries: list[str] = field(default_factory=list)

    def __call__(self, history: list[Any]) -> list[Any]:
        if len(history) - self.start > self.every and _opens(history[-1]):
            asked = [*self._sent(history[:-1]), self.client.user(SUM_UP)]
            [self.summary] = self.client.ask(asked, stream=False).texts
            self.start = len(history) - 1
            self.summaries.append(self.summary)
        return self._sent(history)

    def _sent(self, history: list[Any]) -> list[Any]:
        since = history[self.start :]
        if self.summary is None:
            return since
        begun = f"This conversation goes on from an earlier one. Its summary:\n{self.summary}"
        return [self.client.user(begun), {"role": "assistant", "content": "I go on."}, *since]


SUM_UP = "Sum all of it up, so that you can go on from it."
SUMMARY = (
    "The keeper of the harbour asked for notes, and was told of them, one by one; nothing is left to be done. " * 5
)


def summing(model: Looking) -> Callable[[Received], Answer]:
    """Return a model that sums up, where that is asked for."""

    def answer(received: Received) -> Answer:
        assert received.protocol is not None
        last = FORMATS[received.protocol].parse_history(received.body)[-1].messages[-1]
        if last.kind != "user" or not last.text.startswith(SUM_UP):
            return model(received)
        is_offered = "everlog_zoom" in str(received.body["tools"])
        asked = Asked(received=received, at=time.time(), who="", turn=0, step=0, hidden=0, is_offered=is_offered)
        model.asked.append(asked)
        return Answer(text=f"{SUMMARY}{len(model.asked)}")

    return answer


SENDINGS: dict[str, Sending] = {"trimmed": trimmed, "cleared": cleared}


@each_protocol
@pytest.mark.parametrize("how", SENDINGS)
def test_what_a_client_cuts_from_its_history_is_not_cut_from_the_prompt(
    how: str, protocol: str, stage: Stage, proxy: Proxy, tmp_path: Path
):
    plan = Plan(turns=TURNS)
    session = {"X-Everlog-Session-ID": "s-1"}
    with Upstream(Looking([plan])) as upstream:
        direct = Session(plan, CLIENTS[protocol](upstream.url.removesuffix("/v1")), SENDINGS[how]).run()
    model = Looking([plan])
    stage.play(model)
    shown = Session(plan, CLIENTS[protocol](proxy.url, session), SENDINGS[how]).run()
    assert proxy.stop().status == 0
    assert shown == direct
    [thread] = kept(tmp_path / "everlog.db")
    _is_all_of(thread, plan)
    _is_well(model.asked, thread, protocol, plan)


def _is_all_of(thread: Kept, plan: Plan) -> None:
    """Every message is in the log once, with its own words."""
    found = [(kind, text.removeprefix(ASIDE).strip()) for kind, text in thread.entries if kind != "tool_call"]
    assert [one for one in found if one[1]] == [one for one in plan.told() if one[0] != "tool_call"]


def _is_well(asked: list[Asked], thread: Kept, protocol: str, plan: Plan) -> None:
    """All is lawful and within the budget; prefixes break where an epoch opened; the first turn is in sight."""
    lawful = Lawful(protocol)
    offered = [one for one in asked if one.is_offered]
    for one in offered:
        lawful(one.received.body)
        assert memory_bytes(one.received.body, plan.question(one.turn)) <= 4 * BUDGET
        assert "<chat>" in str(one.received.body)
    assert CLEARED not in str([one.received.raw for one in offered])
    assert set(named(breaks(offered), thread.epochs).values()) <= {"full", "landed"}
    assert len(offered) > len(asked) / 2


@each_protocol
def test_a_client_that_sums_its_past_up_goes_on_in_the_same_prompt(
    protocol: str, stage: Stage, proxy: Proxy, tmp_path: Path
):
    plan = Plan(turns=TURNS)
    model = Looking([plan])
    stage.play(summing(model))
    client = CLIENTS[protocol](proxy.url, {"X-Everlog-Session-ID": "s-1"})
    compacting = Compacting(client)
    shown = Session(plan, client, compacting).run()
    assert proxy.stop().status == 0
    assert len(compacting.summaries) > 2
    assert [one.texts[-1] for one in shown if not one.calls] == [plan.answer(turn) for turn in range(TURNS)]
    thread, *others = kept(tmp_path / "everlog.db")
    assert not others, [one.entries[:3] for one in others]
    texts = [text.removeprefix(ASIDE).strip() for kind, text in thread.entries if kind != "tool_call"]
    for kind, text in plan.told():
        assert kind == "tool_call" or texts.count(text) == 1, (kind, text[:40])
    lawful = Lawful(protocol)
    offered = [one for one in model.asked if one.is_offered]
    for one in offered:
        lawful(one.received.body)
        assert "<chat>" in str(one.received.body)
    assert set(named(breaks(offered), thread.epochs).values()) <= {"full", "landed"}
    assert len(offered) > len(model.asked) / 2


@each_protocol
def test_subagents_of_a_session_have_prompts_of_their_own(protocol: str, stage: Stage, proxy: Proxy, tmp_path: Path):
    """Three histories in one session, turn by turn: none shows a word of another, and each grows as if it were alone."""
    plans = [Plan(turns=TURNS // 2, who=who) for who in ("main", "seek", "test")]
    direct: list[list[Shown]] = []
    with Upstream(Looking(plans)) as upstream:
        for plan in plans:
            client = CLIENTS[protocol](upstream.url.removesuffix("/v1"), instructions=f"You are {plan.who}.")
            direct.append(Session(plan, client).run())
    model = Looking(plans)
    stage.play(model)
    named_ = {"X-Everlog-Session-ID": "s-1", "X-Everlog-Budget": "1000"}
    sessions = [
        Session(plan, CLIENTS[protocol](proxy.url, named_, instructions=f"You are {plan.who}.")) for plan in plans
    ]
    for turn in range(TURNS // 2):
        for session in sessions:
            session.turn(turn)
    assert proxy.stop().status == 0
    assert [session.shown for session in sessions] == direct
    threads = kept(tmp_path / "everlog.db")
    assert len(threads) == len(plans)
    for plan in plans:
        [thread] = [one for one in threads if one.entries[0][1] == plan.question(0)]
        _is_all_of(thread, plan)
        asked = [one for one in model.asked if one.who == plan.who]
        assert any(one.is_offered for one in asked)
        others = [f"{other.who}{turn}" for other in plans if other is not plan for turn in range(3)]
        assert not [one for one in asked if any(word in str(one.received.body) for word in others)]
        assert set(named(breaks(asked), thread.epochs).values()) <= {"first", "full", "landed"}
