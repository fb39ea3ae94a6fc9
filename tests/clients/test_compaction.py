"""Agent tools that sum their past up: the log goes on in the same thread, and has neither the question nor a message twice."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from everlog.testing.upstream import Answer, Received, Upstream
from tests.acceptance.cli import Everlog
from tests.acceptance.proxies import serving
from tests.clients.agents import AGENTS, MODEL
from tests.clients.test_agents import kept_texts

pytestmark = pytest.mark.clients

TURNS = 8
FULL = 30_000
"""Tokens with which the window is so full that the past is summed up."""


def small(base: str) -> Mapping[str, str]:
    """Settings of pi with a small window."""
    models = [{"id": MODEL, "contextWindow": 40_000, "maxTokens": 4_000}]
    there = {"baseUrl": f"{base}/v1", "api": "openai-completions", "apiKey": "any", "models": models}
    compaction = {"enabled": True, "reserveTokens": 16_384, "keepRecentTokens": 100}
    return {
        ".pi/agent/models.json": json.dumps({"providers": {"there": there}}),
        ".pi/agent/settings.json": json.dumps({"compaction": compaction}),
    }


def model(received: Received) -> Answer:
    """Read the file in each turn; after the fourth the window is full."""
    if not received.body.get("tools"):
        return Answer(text="## Goal\nThe user wants to know what is in the notes, which are about milk and bread. " * 3)
    last = received.body["messages"][-1]
    turn = received.raw.rpartition(b"Question ")[2].partition(b":")[0].decode()
    if last["role"] == "tool":
        return Answer(text=f"Milk and bread, {turn}.", input_tokens=FULL if turn == "3" else 300)
    return Answer(text=f"Let me look, {turn}.", calls=((f"call_{turn}", "read", {"path": "notes.txt"}),))


def test_a_talk_that_pi_sums_up_is_one_thread_with_each_message_once(tmp_path: Path, everlog: Everlog):
    kept = tmp_path / "kept"
    kept.mkdir()
    [pi] = [replace(agent, files=small) for agent in AGENTS if agent.name == "pi"]
    said = [f"Question {turn}: what is in notes.txt?" for turn in range(TURNS)]
    with Upstream(model, models=(MODEL,)) as upstream, serving(upstream.url, kept, mode="record") as proxy:
        pi.talk(proxy.url, tmp_path / "home", said)
    assert any(not one.body.get("tools") for one in upstream.requests)
    here = everlog.at(kept)
    assert len(here.good("threads", "--json").json) == 1
    texts = Counter(kept_texts(here))
    for turn, text in enumerate(said):
        for message in (text, f"Let me look, {turn}.", f"Milk and bread, {turn}."):
            assert texts[message] == 1, message
    assert not any(text.startswith("<conversation>") for text in texts)
