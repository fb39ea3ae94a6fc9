"""`everlog serve` in mode tree: agent sessions that outgrow any window are as without it, for the client and by all judges.

The model looks into memory at times, so a session has rounds that its client never sees; the same session straight to the
provider has none. What goes up is judged request by request: lawful, within the budget, and beginning like the one before.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.testing.upstream import Upstream
from everlog.tokens import bytes_for
from tests.acceptance.judging import Kept, Lawful, breaks, kept, listed, memory_bytes, named
from tests.acceptance.looking import OUTPUT_TOKENS, Asked, Looking
from tests.acceptance.proxies import Proxy, Stage, serving
from tests.acceptance.sessions import ASIDE, CLIENTS, Plan, Session, Shown
from tests.quick import Quick

SHORT = 40
BUDGET = 2_000
"""Tokens of the short session."""
OWN_REASONS = {"first", "full", "landed"}
"""Why an epoch opens where the caller changes nothing."""

each_protocol = pytest.mark.parametrize("protocol", sorted(CLIENTS))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.upstream:
        yield stage


@pytest.fixture
def proxy(stage: Stage, tmp_path: Path, quick: Quick) -> Iterator[Proxy]:
    with serving(stage.upstream.url, tmp_path, mode="tree", program=[quick.program]) as proxy:
        yield proxy


@each_protocol
def test_a_session_of_forty_turns_is_as_without_memory_and_each_request_is_lawful(
    protocol: str, stage: Stage, proxy: Proxy, tmp_path: Path
):
    _session(Plan(turns=SHORT, words=12), BUDGET, protocol, stage, proxy, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
@each_protocol
def test_a_session_of_three_hundred_turns_is_as_without_memory_and_each_request_is_lawful(
    protocol: str, stage: Stage, proxy: Proxy, tmp_path: Path
):
    _session(Plan(turns=300, words=60), 20_000, protocol, stage, proxy, tmp_path)


def _session(plan: Plan, budget: int, protocol: str, stage: Stage, proxy: Proxy, home: Path) -> None:
    direct = _direct(plan, protocol)
    model = Looking([plan])
    stage.play(model)
    session = Session(plan, CLIENTS[protocol](proxy.url, {"X-Everlog-Budget": str(budget)}))
    shown = session.run()
    assert proxy.stop().status == 0
    assert shown == direct
    _is_as_the_client_sent_it_until_memory_begins(model.asked, bytes_for(budget))
    _is_used_as_the_upstream_counted(shown, model.asked)
    _is_lawful_and_within(model.asked, plan, protocol, budget)
    [thread] = kept(home / "everlog.db")
    _is_kept_once(thread, plan)
    reasons = named(breaks(model.asked), thread.epochs)
    assert set(reasons.values()) <= OWN_REASONS
    assert len(thread.epochs) > 2
    assert len(reasons) == len(thread.epochs), "an epoch that no request needed"
    _results_tell_what_was_said(model.asked, thread, protocol)


def _direct(plan: Plan, protocol: str) -> list[Shown]:
    """What a client is shown without anybody between."""
    with Upstream(Looking([plan], keeps=False)) as upstream:
        session = Session(plan, CLIENTS[protocol](upstream.url.removesuffix("/v1")))
        for turn in range(plan.turns):
            session.turn(turn)
            upstream.requests.clear()
        return session.shown


def _is_as_the_client_sent_it_until_memory_begins(asked: list[Asked], budget_bytes: int) -> None:
    before = [len(one.received.raw) for one in asked if not one.is_offered]
    begins = next(n for n, one in enumerate(asked) if one.is_offered)
    assert len(before) == begins, "memory ended again"
    assert budget_bytes / 2 < before[-1] < 2 * budget_bytes


def _is_used_as_the_upstream_counted(shown: list[Shown], asked: list[Asked]) -> None:
    """Input is that of the last round, output that of all."""
    rounds: list[list[Asked]] = []
    for one in asked:
        if one.hidden:
            rounds[-1].append(one)
        else:
            rounds.append([one])
    counted = [(len(one[-1].received.raw) // 4, OUTPUT_TOKENS * len(one)) for one in rounds]
    assert [one.usage for one in shown] == counted
    assert max(map(len, rounds)) == 3


def _is_lawful_and_within(asked: list[Asked], plan: Plan, protocol: str, budget: int) -> None:
    lawful, largest = Lawful(protocol), 0
    for one in asked:
        body = one.received.body
        lawful(body)
        size = memory_bytes(body, plan.question(one.turn))
        assert size <= bytes_for(budget), (one.turn, one.step, one.hidden)
        largest = max(largest, size)
    assert largest > bytes_for(budget) / 2, "the budget is hardly used"


def _is_kept_once(thread: Kept, plan: Plan) -> None:
    """Each message is in the log once, in order, and no round of memory is; words before such a round are the client's."""
    told = list(plan.told())
    found = [(kind, "" if kind == "tool_call" else _without_aside(text)) for kind, text in thread.entries]
    assert [one for one in found if one[1] or one[0] == "tool_call"] == told


def _without_aside(text: str) -> str:
    return text.removeprefix(ASIDE).strip()


def _results_tell_what_was_said(asked: list[Asked], thread: Kept, protocol: str) -> None:
    """Where the model opened an old message, it was given the very words."""
    opened = 0
    for one in asked:
        if one.hidden:
            results = _memory_results(listed(one.received.body), protocol)
            opened += sum(any(text in result for _, text in thread.entries if text) for result in results)
    assert opened > SHORT / 10


def _memory_results(items: list[Any], protocol: str) -> list[str]:
    """Results of memory's tools at the end of a request."""
    last = items[-1]
    if protocol == "anthropic":
        return [str(block["content"]) for block in last["content"] if str(block.get("tool_use_id")).startswith("mem_")]
    return [str(last.get("content") or last.get("output"))]
