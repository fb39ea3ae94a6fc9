"""A model named in a file of settings: who uses it, what it costs, and what is said of it."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.testing.upstream import Answer, Received, Refused, Upstream
from tests.acceptance.cli import Everlog, said

SETTINGS = """
required_protocol = "chat_completions"

[compactor]
model = "glm-5p3-flash"
provider = "openai"
protocol = "chat_completions"
base_url = "{url}"
assume_model_exists = true
api_key_env = "GLM_KEY"
at_once = 4
"""


def line(received: Received) -> Answer | Refused:
    """A line that says whose words the first item of the input is."""
    if received.headers.get("authorization") != "Bearer secret":
        return Refused(status=401)
    given = json.dumps(received.body, ensure_ascii=False).rpartition("<input")[2]
    tag = re.search(r">(?:\\n)?((?:user|assistant|tool_call|tool_result|note|system)(?: \([^()]*\))?): ", given)
    return Answer(text=f"{tag[1] if tag else 'user'}: what the model made of it", input_tokens=2_000)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(line) as upstream:
        yield upstream


@pytest.fixture
def folder(everlog: Everlog, upstream: Upstream, tmp_path: Path) -> Everlog:
    talk = said(*(f"message {n} " + f"word{n} " * 120 for n in range(10)))
    everlog.good("import", "-", "--thread", "harbour", stdin=talk)
    (everlog.home / "everlog.toml").write_text(SETTINGS.format(url=upstream.url))
    return everlog.at(everlog.home, GLM_KEY="secret")


def checks(folder: Everlog) -> dict[str, Any]:
    return {one["name"]: (one["state"], one["said"]) for one in folder("doctor", "--json").json["checks"]}


@pytest.mark.covers("A38", "A96")
def test_pump_and_worker_ask_the_model_of_the_settings_and_stats_and_doctor_say_what_it_took(
    folder: Everlog, upstream: Upstream
):
    shown = folder("view", "harbour", "--bytes", 2000)
    assert (shown.status, upstream.requests) == (0, [])
    assert "everlog pump" in shown.err
    assert folder.good("pump", "--json").json["remaining"] == 0
    asked = len(upstream.requests)
    assert asked > 0
    assert "what the model made of it" in folder.good("view", "harbour", "--bytes", 2000).text
    cost = folder.good("stats", "--json").json["cost"]
    assert (cost["memory"]["requests"], cost["memory"]["usd"], cost["talk"]["requests"]) == (asked, None, 0)
    found = checks(folder)
    assert found["compactor"][0] == "ok"
    assert found["compactor"][1].startswith("openai/glm-5p3-flash, in chat_completions (")
    assert found["compactor"][1].endswith("chat_completions is required")
    assert f"{asked:,} requests, the price of {asked:,} unknown" in found["cost"][1]
    folder.good("rebuild", "harbour", "--json")
    assert len(upstream.requests) > asked
    assert folder.good("worker", "--until-idle", "--json").json["failed"] == 0


def test_what_is_wrong_with_the_settings_or_the_key_is_one_line_and_nothing_is_kept(
    folder: Everlog, upstream: Upstream, tmp_path: Path
):
    own = folder.at(shutil.copytree(folder.home, tmp_path / "own"))  # a worker waits for what a pump could not ask
    tries: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
        ({"GLM_KEY": ""}, (), "in GLM_KEY, and that is not set"),
        ({"GLM_KEY": "wrong"}, (), "status 401"),
        ({}, ("--protocol", "responses"), "chat_completions is required"),
        ({}, ("--compactor", "extractive", "--provider", "openai"), "takes no options"),
    ]
    for environment, options, words in tries:
        for command, there in (("pump", folder), ("worker", own)):
            done = there(command, *options, **environment)
            assert (done.status, done.out) == (2, b""), (command, done)
            assert words in done.err
            assert "secret" not in done.err
    assert {one.headers["authorization"] for one in upstream.requests} == {"Bearer wrong"}
    assert checks(folder.at(folder.home, GLM_KEY=""))["compactor"][0] == "fail"
    for there in (folder, own):
        assert there.good("pump", "--compactor", "extractive", "--json").json["remaining"] == 0
