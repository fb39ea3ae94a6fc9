"""The official SDK for Node, which runs tools itself, through the proxy."""

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from everlog.testing.upstream import Answer, Received, Upstream
from tests.acceptance.cli import Everlog
from tests.acceptance.judging import Lawful
from tests.acceptance.proxies import serving, small
from tests.clients.agents import INSTALLED

pytestmark = pytest.mark.clients

TURNS = 60


def talking(received: Received) -> Answer:
    """Call the tool for what a user says, and answer its result; each answer is another one.

    Every third time it looks into memory first, where it is offered that.
    """
    messages = received.body["messages"]
    last, asked = messages[-1], next(str(one["content"]) for one in reversed(messages) if one["role"] == "user")
    number = int(re.findall(r"Question (\d+)", asked)[-1]) + 1
    is_ours = str(last.get("tool_call_id")).startswith("mem_")
    if number % 3 == 1 and last["role"] == "user" and b"everlog_zoom" in received.raw:
        return Answer(calls=((f"mem_{number}", "everlog_zoom", {"id": number, "n": 1}),))
    if last["role"] == "tool" and not is_ours:
        return Answer(text=f"Milk, {number}.")
    return Answer(text=f"Let me look, {number}.", calls=((f"call_{number}", "read", {}),))


def talk(base: str, folder: Path, form: str) -> str:
    script = folder / "talk.mjs"
    script.write_text(Path(__file__).with_name("talk.mjs").read_text())
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(INSTALLED / "node_modules")
    search = f"{INSTALLED}/bin{os.pathsep}{os.environ['PATH']}"
    asked = ["node", str(script), base, str(TURNS), form]
    done = subprocess.run(asked, env={"PATH": search}, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("mode", ["record", "tree"])
@pytest.mark.parametrize("form", ["stream", "whole"])
def test_a_talk_of_sixty_turns_with_tools_is_as_without_a_proxy_and_kept_once(
    form: str, mode: str, tmp_path: Path, everlog: Everlog
):
    kept = tmp_path / "kept"
    kept.mkdir()
    with Upstream(talking) as direct:
        shown = talk(direct.url.removesuffix("/v1"), tmp_path, form)
    with Upstream(talking) as upstream, serving(upstream.url, kept, mode=mode, **small(kept)) as proxy:
        shown_too = talk(proxy.url, tmp_path, form)
    assert json.loads(shown_too)["messages"] == json.loads(shown)["messages"]
    hidden = [one for one in upstream.requests if str(one.body["messages"][-1].get("tool_call_id")).startswith("mem_")]
    if mode == "record":
        assert shown_too == shown
        answers = [one for one in json.loads(shown)["came"] if one["object"] == "chat.completion"]
        assert [one["usage"]["total_tokens"] for one in answers] == [120] * 2 * TURNS
        assert [one.raw for one in upstream.requests] == [one.raw for one in direct.requests]
    else:
        assert len(hidden) > TURNS / 10
        lawful = Lawful("chat_completions")
        for one in upstream.requests:
            lawful(one.body)
    assert len(upstream.requests) == 2 * TURNS + len(hidden)
    here = everlog.at(kept)
    (thread,) = here.good("threads", "--json").json
    entries = [json.loads(line) for line in here.good("export", thread["key"]).text.splitlines()]
    texts = Counter(entry.get("text") for entry in entries)
    for number in range(TURNS):
        assert texts[f"Question {number}: what is in my notes?"] == 1
        assert texts[f"Milk, {number + 1}."] == texts[f"Let me look, {number + 1}."] == 1
    assert thread["entries"] == 5 * TURNS
