"""Several proxies and a worker on one PostgreSQL server."""

import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.testing.upstream import Answer, Received, Upstream
from tests.acceptance.cli import finish
from tests.acceptance.proxies import serving
from tests.acceptance.talks import open_ai
from tests.quick import Quick

TURNS = 12
WAIT_S = 30


def answered(received: Received) -> Answer:
    """Answer each question by its number."""
    return Answer(text=f"Answer {received.raw.count(b'Question ')}.")


def wait_until_kept(url: str, entries: int) -> None:
    """Wait for what one proxy keeps before the other is asked; on a busy machine it may take longer than an answer waits."""
    until = time.monotonic() + WAIT_S
    with everlog.open(url) as memory:
        while sum(thread.entries for thread in memory.threads()) < entries:
            assert time.monotonic() < until, "it was not kept"


def test_a_talk_that_alternates_between_two_proxies_is_one_thread_with_each_message_once(
    request: pytest.FixtureRequest, quick: Quick, postgres_url: str, tmp_path: Path
):
    here = request.getfixturevalue("everlog").at(tmp_path, EVERLOG_DB=postgres_url)
    one_in: Any = {"mode": "record", "program": [quick.program]}
    here.good("db", "upgrade")
    worker = here.begin("worker")
    with (
        Upstream(answered) as upstream,
        serving(upstream.url, tmp_path, **one_in, EVERLOG_DB=postgres_url) as one,
        serving(upstream.url, tmp_path, **one_in, EVERLOG_DB=f"{postgres_url}?prepared=no") as two,
    ):
        clients = [open_ai(one.url), open_ai(two.url)]
        said: list[Any] = []
        for number in range(TURNS):
            said.append({"role": "user", "content": f"Question {number}? " + "Which sea is warm in June? " * 20})
            answer = clients[number % 2].chat.completions.create(model="m-1", messages=said)
            said.append(answer.choices[0].message)
            wait_until_kept(postgres_url, len(said))
    worker.send_signal(signal.SIGTERM)
    assert finish(worker).status == 0
    (thread,) = here.good("threads", "--json").json
    assert thread["entries"] == 2 * TURNS
    lines = here.good("export", thread["key"]).text.splitlines()
    texts = Counter(json.loads(line)["text"].partition("?")[0] for line in lines)
    assert texts == {**{f"Question {n}": 1 for n in range(TURNS)}, **{f"Answer {n + 1}.": 1 for n in range(TURNS)}}
    here.good("worker", "--until-idle")
    assert len(here.good("view", thread["key"], "--bytes", 2000).out) <= 2000
    assert here.good("verify", "--json").json["faults"] == []
