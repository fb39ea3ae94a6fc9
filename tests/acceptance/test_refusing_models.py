"""`everlog serve` in mode tree before models that refuse what memory adds: each talk goes on, and is tried once more at most
a few times; and what a client breaks of its prefix by itself is told to it.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from everlog.protocols import FORMATS
from everlog.protocols.shapes import array, record
from everlog.protocols.sse import Frames
from everlog.testing.upstream import Answer, Received, Refused
from tests.acceptance.cli import Everlog
from tests.acceptance.proxies import Proxy, Stage, serving
from tests.acceptance.test_relay_wire import ask
from tests.quick import Quick

HEADERS = {"content_type": "application/json", "X_Everlog_Budget": "1000", "X_Everlog_Debug": "on"}
WORDS = "The pilot boat goes out at the turn of the tide, and the harbour master writes down who came in. " * 3
TURNS = 14
LIMIT = 6500
PATHS = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.upstream:
        yield stage


@pytest.fixture
def proxy(stage: Stage, everlog: Everlog, quick: Quick) -> Iterator[Proxy]:
    with serving(stage.upstream.url, everlog.home, mode="tree", program=[quick.program]) as proxy:
        yield proxy


def talk(
    proxy: Proxy, protocol: str, *, instructions: Any = "Be brief.", stream: bool = False, **more: str
) -> list[dict[str, str]]:
    """Talk for some turns, and return the headers of the answers."""
    said: list[dict[str, str]] = []
    heads = []
    for turn in range(TURNS):
        said.append({"role": "user", "content": f"Question {turn}: {WORDS}"})
        told = instructions(turn) if callable(instructions) else instructions
        forms: dict[str, dict[str, Any]] = {
            "chat_completions": {"messages": [{"role": "system", "content": told}, *said]},
            "responses": {"instructions": told, "input": said, "store": False},
            "anthropic": {"system": told, "max_tokens": 100, "messages": said},
        }
        body = {"model": "m-1", "stream": stream, **forms[protocol]}
        status, headers, answer = ask(proxy, "POST", PATHS[protocol], json.dumps(body).encode(), **HEADERS | more)
        assert status == 200, answer
        text = _read(protocol, answer, stream=stream)
        said.append({"role": "assistant", "content": text})
        heads.append(headers)
    return heads


def _read(protocol: str, answer: bytes, *, stream: bool) -> str:
    if not stream:
        return FORMATS[protocol].parse_reply(json.loads(answer)).text
    heard = FORMATS[protocol].stream()
    for event in Frames().feed(answer):
        heard.feed(event)
    assert heard.fault is None
    return heard.reply().text


def roles(received: Received) -> list[str]:
    return [record(one).get("role", "") for one in array(received.body.get("messages"))]


def refuses_tools(received: Received) -> str:
    return "m-1 does not support tools" if received.body.get("tools") else ""


def refuses_long(received: Received) -> str:
    return (
        "This model's maximum context length is 900 tokens."
        if received.body.get("tools") and len(received.raw) > LIMIT
        else ""
    )


@pytest.mark.parametrize("refuses", [refuses_tools, refuses_long])
def test_a_talk_goes_on_before_a_model_that_refuses_and_that_is_remembered(stage: Stage, proxy: Proxy, refuses: Any):
    refused: list[str] = []

    def model(received: Received) -> Answer | Refused:
        why = refuses(received)
        refused.extend(one for one in [why] if one)
        return Refused(status=400, message=why) if why else Answer(text=f"Answer. {WORDS}")

    stage.play(model)
    talk(proxy, "chat_completions")
    assert len(refused) == 1
    assert len(stage.upstream.requests) == TURNS + 1
    broken = json.loads(ask(proxy, "GET", "/everlog/v1/stats")[2])["since_start"]["prefixes"]
    assert ("epoch:estimate" in broken) == (refuses is refuses_long)
    assert not [who for who in broken if who.startswith(("memory", "caller"))]


@pytest.mark.parametrize("protocol", sorted(PATHS))
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_memory_shows_is_less_where_a_model_cannot_go_on_behind_it(
    stage: Stage, proxy: Proxy, protocol: str, stream: bool
):
    called, refused = 0, 0

    def model(received: Received) -> Answer | Refused:
        nonlocal called, refused
        said = received.raw.decode()
        if "mem_1" in said and "answer now" not in said:
            refused += 1
            return Refused(status=400, message="This model's maximum context length is 1600 tokens.")
        if received.body.get("tools") and "mem_1" not in said:
            called += 1
            return Answer(calls=(("mem_1", "everlog_zoom", {"id": 0, "n": 1}),))
        return Answer(text=f"Answer. {WORDS}")

    stage.play(model)
    talk(proxy, protocol, stream=stream)
    assert refused == called > 0


@pytest.mark.parametrize("protocol", sorted(PATHS))
def test_a_window_that_nobody_knows_is_found_when_a_talk_outgrows_it(stage: Stage, proxy: Proxy, protocol: str):
    refused = 0

    def model(received: Received) -> Answer | Refused:
        nonlocal refused
        if len(received.raw) > LIMIT:
            refused += 1
            return Refused(status=400, message="This model's maximum context length is 1600 tokens.")
        return Answer(text=f"Answer. {WORDS}")

    stage.play(model)
    heads = talk(proxy, protocol, X_Everlog_Budget="20000")
    assert refused == 1
    assert len(stage.upstream.requests) == TURNS + 1
    told = [head.get("x-everlog-memory-off") for head in heads]
    assert told.index(None) > 2
    assert set(told[told.index(None) :]) == {None}


@pytest.mark.parametrize("protocol", sorted(PATHS))
def test_who_asks_for_too_long_an_answer_takes_memory_from_nobody(stage: Stage, proxy: Proxy, protocol: str):
    def model(received: Received) -> Answer | Refused:
        if any(received.body.get(name, 0) > 8_000 for name in ("max_tokens", "max_output_tokens")):
            return Refused(status=400, message="This model's maximum context length is 8192 tokens, you want 9000.")
        return Answer(text=f"Answer. {WORDS}")

    stage.play(model)
    said = {"role": "user", "content": WORDS}
    most = {"responses": "max_output_tokens"}.get(protocol, "max_tokens")
    body = {"model": "m-1", "input" if protocol == "responses" else "messages": [said], most: 9_000}
    status, headers, _ = ask(proxy, "POST", PATHS[protocol], json.dumps(body).encode(), **HEADERS)
    assert (status, headers.get("x-everlog-degraded")) == (400, None)
    heads = talk(proxy, protocol)
    told = [head.get("x-everlog-memory-off") for head in heads]
    assert told.index(None) > 2
    assert set(told[told.index(None) :]) == {None}
    assert not [head for head in heads if "x-everlog-degraded" in head]


def test_what_a_model_takes_no_system_message_for_begins_what_the_user_shows(stage: Stage, proxy: Proxy):
    refused = 0

    def model(received: Received) -> Answer | Refused:
        nonlocal refused
        if "Question 9" in received.raw.decode() and "system" in roles(received):
            refused += 1
            return Refused(status=400, message="System role not supported")
        return Answer(text=f"Answer. {WORDS}")

    stage.play(model)
    talk(proxy, "chat_completions")
    last = stage.upstream.requests[-1].body["messages"]
    assert refused == 1, "it is remembered"
    assert "system" not in {one["role"] for one in last}
    assert str(last[0]["content"]).startswith("Be brief.")


def test_an_error_that_nobody_knows_is_the_clients_as_it_is(stage: Stage, proxy: Proxy):
    stage.play(lambda _: Refused(status=400, message="The moon is full."))
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": "Hello"}]}).encode()
    status, _, answer = ask(proxy, "POST", "/v1/chat/completions", body, **HEADERS)
    assert (status, json.loads(answer)["error"]["message"]) == (400, "The moon is full.")
    assert len(stage.upstream.requests) == 1


@pytest.mark.parametrize("protocol", sorted(PATHS))
def test_prefixes_are_kept_but_for_epochs(stage: Stage, proxy: Proxy, protocol: str):
    stage.play(lambda _: Answer(text=f"Answer. {WORDS}"))
    told = [head.get("x-everlog-prefix", "") for head in talk(proxy, protocol)]
    assert any(one.startswith("kept; ") for one in told)
    broken = [one.rpartition("by=")[2] for one in told if one.startswith("broke")]
    assert broken
    assert all(one.startswith("epoch:") for one in broken), broken
    stats = json.loads(ask(proxy, "GET", "/everlog/v1/stats")[2])
    assert stats["since_start"]["modes"] == {"tree": TURNS}
    assert not [who for who in stats["since_start"]["prefixes"] if who.startswith(("memory", "caller"))]


def test_a_line_that_moves_with_each_request_turns_no_epoch_and_goes_nowhere_else(stage: Stage, proxy: Proxy):
    stage.play(lambda _: Answer(text=f"Answer. {WORDS}"))

    def instructions(turn: int) -> list[dict[str, str]]:
        line = f"x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch={turn:05x};"
        return [{"type": "text", "text": line}, {"type": "text", "text": "Be brief."}]

    heads = talk(proxy, "anthropic", instructions=instructions, X_Claude_Code_Session_Id="s-1")
    last = stage.upstream.requests[-1].body
    assert "billing" not in json.dumps(last)
    assert len(last["messages"]) < 2 * TURNS - 1, "memory began"
    broken = [
        one["x-everlog-prefix"].rpartition("by=")[2] for one in heads if "broke" in one.get("x-everlog-prefix", "")
    ]
    assert [one for one in broken if one not in {"caller:instructions", "epoch:first", "epoch:full"}] == []
    assert broken[-1].startswith("epoch:")
