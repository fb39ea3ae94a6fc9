"""`everlog serve` before a provider of one protocol: the official clients of the others hold conversations with it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.protocols.shapes import array
from tests.acceptance.proxies import Proxy, Stage, serving
from tests.acceptance.talks import chat_talk, claude_talk, notes, question, responses_talk, talking
from tests.quick import Quick

PATHS = {"chat_completions": "/v1/chat/completions", "anthropic": "/v1/messages"}
OTHERS = {"chat_completions": [claude_talk, responses_talk], "anthropic": [chat_talk, responses_talk]}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.upstream:
        yield stage


@pytest.fixture(scope="module", params=sorted(PATHS))
def speaking(
    request: Any, stage: Stage, quick: Quick, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Proxy]]:
    home: Path = tmp_path_factory.mktemp("home")
    settings = home / "settings.yaml"
    settings.write_text(f"upstream: {{protocols: [{request.param}]}}\n")
    with serving(stage.upstream.url, home, program=[quick.program], EVERLOG_CONFIG=str(settings)) as proxy:
        yield request.param, proxy


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turns", [3, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("place", [0, 1])
def test_a_client_of_another_protocol_talks_with_tools(
    stage: Stage, speaking: tuple[str, Proxy], place: int, stream: bool, turns: int
):
    protocol, proxy = speaking
    upstream = stage.play(talking)
    came = OTHERS[protocol][place](proxy.url, turns, stream=stream)
    assert len([one for one in came if isinstance(one, dict) and one.get("usage")]) == 2 * turns
    assert {one.path for one in upstream.requests} == {PATHS[protocol]}
    assert len(upstream.requests) == 2 * turns
    longest = array(upstream.requests[-1].body["messages"])
    words = json.dumps(longest)
    for turn in range(turns):
        for text in (question(turn)["content"], f"Let me look, {turn}.", notes(turn, 0)):
            assert words.count(text) == 1
    for one in upstream.requests:
        assert longest[: len(array(one.body["messages"]))] == one.body["messages"]
    name = "authorization" if protocol == "chat_completions" else "x-api-key"
    assert all(one.headers[name].removeprefix("Bearer ").startswith("sk-") for one in upstream.requests)
