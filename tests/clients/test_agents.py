"""Real agent tools, unchanged but for the base URL: what upstream gets and the tool shows is as without a proxy, and the
log holds each message once.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.messages import JSON
from everlog.testing.upstream import Answer, Received, Upstream
from tests.acceptance.cli import Everlog
from tests.acceptance.proxies import serving
from tests.clients.agents import AGENTS, Agent, steady

pytestmark = pytest.mark.clients


def model(agent: Agent, home: Path) -> Callable[[Received], Answer]:
    """Return a model that reads the file again and again, and then says something; each text is another one."""
    count = 0

    def answer(received: Received) -> Answer:
        nonlocal count
        if not agent.is_main(received.body):
            return Answer(text="A title")
        number, count = count, count + 1
        turn, place = divmod(number, agent.rounds + 1)
        if place == agent.rounds:
            return Answer(text=f"Done with turn {turn}.")
        name, told = agent.call
        arguments: dict[str, JSON] = {key: value.format(folder=home / "project") for key, value in told.items()}
        return Answer(text=f"Looking, {number}.", calls=((f"call_{number:04}", name, arguments),))

    return answer


@pytest.mark.timeout(900)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_long_talk_is_as_without_a_proxy_and_kept_once(
    agent: Agent, tmp_path: Path, everlog: Everlog, record_property: Any
):
    said = [f"Question {number}: what is in notes.txt?" for number in range(agent.turns)]
    home, kept = tmp_path / "home", tmp_path / "kept"
    kept.mkdir()
    with Upstream(model(agent, home), models=("gpt-5.1-codex",)) as direct:
        shown = agent.talk(direct.url.removesuffix("/v1"), home, said)
    shutil.rmtree(home)
    with (
        Upstream(model(agent, home), models=("gpt-5.1-codex",)) as upstream,
        serving(upstream.url, kept, mode="record") as proxy,
    ):
        shown_too = agent.talk(proxy.url, home, said)
    record_property("told", f"{agent.name} {agent.version}: {len(upstream.requests)} requests of {agent.protocol}")
    assert [steady(text) for text in shown_too] == [steady(text) for text in shown]
    assert [asked(one) for one in mains(agent, upstream)] == [asked(one) for one in mains(agent, direct)]
    requests = agent.turns * (agent.rounds + 1)
    assert len(mains(agent, upstream)) == requests >= 60
    here = everlog.at(kept)
    texts = Counter(kept_texts(here))
    looked = [f"Looking, {n}." for n in range(requests) if (n + 1) % (agent.rounds + 1)]
    for text in [*said, *looked, *(f"Done with turn {n}." for n in range(agent.turns))]:
        assert texts[text] == 1, (text, texts[text])
    assert here.good("verify", "--json").json["faults"] == []


def mains(agent: Agent, upstream: Upstream) -> list[Received]:
    return [one for one in upstream.requests if one.protocol == agent.protocol and agent.is_main(one.body)]


def asked(received: Received) -> str:
    """What a request says, as far as it is the same in each run."""
    return steady(f"{received.path} {json.dumps(received.body, sort_keys=True)}")


def kept_texts(here: Everlog) -> list[str]:
    """All texts of all threads, without the quotes that OpenCode puts around what it is told."""
    texts = []
    for thread in here.good("threads", "--json").json:
        lines = here.good("export", thread["key"]).text.splitlines()
        texts += [str(json.loads(line).get("text", "")).strip().strip('"') for line in lines]
    return texts
