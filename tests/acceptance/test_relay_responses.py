"""Clients of Responses that send only what is new, and name the answer before it, through `everlog serve` in mode tree."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from everlog.protocols.responses import FORMAT
from everlog.testing.upstream import Received
from tests.acceptance.cli import Everlog
from tests.acceptance.proxies import Stage, serving
from tests.acceptance.talks import TOOL_RESPONSES, notes, open_ai, output_items, parts_of, question, talking, told
from tests.quick import Quick

TURNS = 20
BUDGET = 1_000
SMALL = {"x-everlog-budget": str(BUDGET)}
OURS = "resp_evl_"
MOST_BYTES = 12_000
"""The budget of memory, and what is the caller's own: the newest turn, and the memory's words and tools."""

LONG: Any = {"role": "user", "content": question(0)["content"] + " I looked everywhere." * 400}
"""More than the budget: memory makes the request at once."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.upstream:
        yield stage


class Talk:
    """A client that names the answer before."""

    def __init__(self, url: str, *, stream: bool, **headers: str) -> None:
        self.answers: list[Any] = []
        self.stream = stream
        self.at(url, **headers)

    def at(self, url: str, **headers: str) -> None:
        """Go on at another address."""
        self.client = open_ai(url, default_headers=SMALL | headers)

    def ask(self, new: list[Any], **more: Any) -> list[str]:
        if self.answers:
            more["previous_response_id"] = self.answers[-1].id
        body: Any = {"model": "m-1", "tools": [TOOL_RESPONSES], "input": new, **more}
        if self.stream:
            with self.client.responses.stream(**body) as events:
                for _ in events:
                    pass
                answer: Any = events.get_final_response()
        else:
            answer = self.client.responses.create(**body)
        self.answers.append(answer)
        return [item.call_id for item in answer.output if item.type == "function_call"]

    def turn(self, number: int) -> None:
        calls = self.ask([question(number)])
        assert len(calls) == parts_of(number)
        results = [(id_, notes(number, place)) for place, id_ in enumerate(calls)]
        assert self.ask(output_items(results)) == []


def is_lawful(received: Received) -> bool:
    """Whether a request is whole: each call has its result, and nothing of it is named only."""
    body: dict[str, Any] = received.body
    calls = [one["call_id"] for one in body["input"] if one.get("type") == "function_call"]
    results = [one["call_id"] for one in body["input"] if one.get("type") == "function_call_output"]
    return calls == results and FORMAT.repair(body) is body and body["store"] is False


@pytest.mark.parametrize("stream", [False, True])
def test_a_talk_by_ids_outgrows_any_window_and_goes_on_after_a_restart(
    stage: Stage, everlog: Everlog, quick: Quick, stream: bool
):
    upstream = stage.play(talking)
    with serving(stage.upstream.url, everlog.home, mode="tree", program=[quick.program]) as proxy:
        talk = Talk(proxy.url, stream=stream)
        for number in range(TURNS):
            talk.turn(number)
    with serving(stage.upstream.url, everlog.home, mode="tree", program=[quick.program]) as proxy:
        talk.at(proxy.url)
        talk.turn(TURNS)
        for answer in talk.answers:
            if answer.id.startswith(OURS):
                shown = talk.client.responses.retrieve(answer.id)
                assert (shown.output_text, shown.previous_response_id) == (answer.output_text, _before(talk, answer))
                assert _calls(shown) == _calls(answer)
        listed = list(talk.client.responses.input_items.list(talk.answers[-1].id, order="asc", limit=1))
        assert [one.to_dict()["output"] for one in listed] == [notes(TURNS, place) for place in range(parts_of(TURNS))]
    said = [answer.output_text for answer in talk.answers]
    assert said == [text for number in range(TURNS + 1) for text in _said(number)], "as without a proxy"
    compiled = [one for one in upstream.requests if "previous_response_id" not in one.body][1:]
    assert len(compiled) == sum(answer.id.startswith(OURS) for answer in talk.answers) > TURNS // 2
    assert all(map(is_lawful, compiled))
    assert max(len(one.raw) for one in compiled) < MOST_BYTES
    (thread,) = [one["key"] for one in everlog.good("threads", "--json").json]
    assert [one["kind"] for one in everlog.good("show", thread, "--json").json] == [kind for kind, _ in told(TURNS + 1)]
    assert everlog("verify").status == 0


def _calls(answer: Any) -> list[tuple[str, ...]]:
    return [(one.id, one.call_id, one.name, one.arguments) for one in answer.output if one.type == "function_call"]


def _before(talk: Talk, answer: Any) -> str:
    return str(talk.answers[talk.answers.index(answer) - 1].id)


def _said(number: int) -> list[str]:
    return [f"Let me look, {number}.", f"Milk, {number}. " * 12]


def test_an_answer_can_be_deleted_and_its_words_stay_in_the_log(stage: Stage, everlog: Everlog, quick: Quick):
    stage.play(talking)
    with serving(stage.upstream.url, everlog.home, mode="tree", program=[quick.program]) as proxy:
        talk = Talk(proxy.url, stream=True)
        talk.ask([LONG])
        last = talk.answers[-1].id
        talk.client.responses.delete(last)
        for look in (talk.client.responses.retrieve, talk.client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                look(last)
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            talk.ask([question(0)])
    (thread,) = [one["key"] for one in everlog.good("threads", "--json").json]
    assert talk.answers[-1].output_text in [one["text"] for one in everlog.good("show", thread, "--json").json]


def test_two_keys_see_nothing_of_each_other(stage: Stage, everlog: Everlog, quick: Quick):
    keys = [everlog.good("keys", "create", "--json").json["token"] for _ in range(2)]
    settings = everlog.home / "everlog.yaml"
    settings.write_text("keys:\n  required: true\n")
    upstream = stage.play(talking)
    environment = {"EVERLOG_CONFIG": str(settings)}
    with serving(stage.upstream.url, everlog.home, mode="tree", program=[quick.program], **environment) as proxy:
        mine, theirs = (Talk(proxy.url, stream=False, **{"x-everlog-key": key}) for key in keys)
        mine.ask([LONG])
        last = mine.answers[-1].id
        assert last.startswith(OURS)
        assert mine.client.responses.retrieve(last).id == last
        with pytest.raises(openai.NotFoundError):
            theirs.client.responses.retrieve(last)
        theirs.answers.append(mine.answers[-1])
        asked = len(upstream.requests)
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            theirs.ask([question(0)])
        assert len(upstream.requests) == asked
