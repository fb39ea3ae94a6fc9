"""Real agent tools, unchanged but for the base URL: what the tool shows is as without a proxy, and the log holds each message
once; so does what upstream gets in mode record, and in mode tree it is lawful, however small the budget.
"""

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from everlog.messages import JSON
from everlog.testing.upstream import Answer, Received, Upstream
from tests.acceptance.cli import Everlog
from tests.acceptance.judging import Lawful
from tests.acceptance.proxies import serving, small
from tests.clients.agents import AGENTS, Agent, steady

pytestmark = pytest.mark.clients


@dataclass
class Model:
    """Reads the file again and again, and then says something; each text is another one.

    Where it is offered memory's tools it looks into memory too, before every fourth answer.
    """

    agent: Agent
    home: Path
    count: int = 0
    """How many answers it gave that the client has to see."""
    looked: set[int] = field(default_factory=set)

    def __call__(self, received: Received) -> Answer:
        agent = self.agent
        if not agent.is_main(received.body):
            return Answer(text="A title")
        number = self.count
        if number % 4 == 1 and number not in self.looked and "everlog_zoom" in json.dumps(received.body["tools"]):
            self.looked.add(number)
            return Answer(calls=((f"mem_{number:04}", "everlog_zoom", {"id": number, "n": 1}),))
        self.count += 1
        turn, place = divmod(number, agent.rounds + 1)
        if place == agent.rounds:
            return Answer(text=f"Done with turn {turn}.")
        name, told = agent.call
        arguments: dict[str, JSON] = {key: value.format(folder=self.home / "project") for key, value in told.items()}
        return Answer(text=f"Looking, {number}.", calls=((f"call_{number:04}", name, arguments),))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["record", "tree"])
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_long_talk_is_as_without_a_proxy_and_kept_once(
    agent: Agent, mode: str, tmp_path: Path, everlog: Everlog, record_property: Any
):
    """In mode record the upstream gets the same; in mode tree, at a budget that is far too small for the talk, what is lawful."""
    said = [f"Question {number}: what is in notes.txt?" for number in range(agent.turns)]
    home, kept = tmp_path / "home", tmp_path / "kept"
    kept.mkdir()
    with Upstream(Model(agent, home), models=("gpt-5.1-codex",)) as direct:
        shown = agent.talk(direct.url.removesuffix("/v1"), home, said)
    shutil.rmtree(home)
    model = Model(agent, home)
    with (
        Upstream(model, models=("gpt-5.1-codex",)) as upstream,
        serving(upstream.url, kept, mode=mode, **small(kept)) as proxy,
    ):
        shown_too = agent.talk(proxy.url, home, said)
    record_property("told", f"{agent.name} {agent.version}: {len(upstream.requests)} requests of {agent.protocol}")
    used = re.compile(r'"usage":\{[^}]*\}' if mode == "tree" else "$^")  # what hidden rounds took is told too
    assert [used.sub("", steady(text)) for text in shown_too] == [used.sub("", steady(text)) for text in shown]
    requests = agent.turns * (agent.rounds + 1)
    assert model.count == requests >= 60
    came = mains(agent, upstream)
    assert len(came) == requests + len(model.looked)
    if mode == "record":
        assert [asked(one) for one in came] == [asked(one) for one in mains(agent, direct)]
    else:
        assert len(model.looked) > requests / 8
        lawful = Lawful(agent.protocol)
        for one in came:
            lawful(one.body)
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
