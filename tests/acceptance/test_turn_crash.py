"""Law 6 for turns: killed at every commit, nothing that was answered is missing, nothing is there twice, and it goes on."""

import subprocess
from pathlib import Path

import pytest

import everlog
from everlog import TurnState
from everlog.log import rows
from everlog.testing import failpoints
from everlog.testing.failpoints import Death
from everlog.testing.upstream import Upstream
from tests.acceptance.cli import ROOT
from tests.acceptance.turn_script import answer, attached, script
from tests.quick import Quick


def states(log: "everlog.Everlog", thread: str) -> list[TurnState]:
    found = log.store.read("default", lambda unit: unit.rows(rows.TURNS, thread=thread, start=0, stop=1 << 20))
    return [TurnState(row[4]) for row in found]


def check(folder: Path, death: Death) -> None:
    path = folder / "answered"
    answered = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    with Upstream(answer) as upstream, everlog.open(folder / "everlog.db") as log:
        memory = attached(log, upstream, wait_s=0.5)
        assert memory.turn("and now").text.startswith("answer to and now"), f"{death}: the thread goes on at once"
        said = [(one.kind, one.text) for one in memory.thread.entries()]
        asked = [text for kind, text in said if kind == "user"]
        assert asked[-1] == "and now"
        assert len(set(asked)) == len(asked), f"{death}: nothing is there twice"
        for user, reply in answered:
            assert ("user", user) in said, f"{death}: what was said is there"
            assert ("assistant", reply) in said, f"{death}: and so is the answer"
        ended = states(log, memory.thread.id)
        assert TurnState.OPEN not in ended, f"{death}: what was left open is closed"
        assert ended[: len(answered)] == [TurnState.COMPLETE] * len(answered)
        assert ended[-1] == TurnState.COMPLETE
        assert [part.faults for part in memory.thread.verify() if part.faults] == []
        assert memory.context().memory_bytes <= 900
        memory.close()


@pytest.mark.timeout(240)
def test_a_turn_killed_at_every_commit_loses_nothing_and_the_next_goes_on():
    report = failpoints.run(script, check, hits=1)
    assert report.points >= 10


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_chat_killed_at_every_commit_loses_nothing():
    report = failpoints.run(script, check, hits=3)
    assert report.points >= 10


def test_two_processes_take_turns_in_one_thread(address: str, quick: Quick):
    everlog.open(address).close()
    code = f"from tests.acceptance.turn_script import talk; talk({address!r}, {{!r}}, 3)"
    both = [subprocess.Popen([quick.python, "-c", code.format(name)], cwd=ROOT) for name in ("one", "two")]
    assert [process.wait(60) for process in both] == [0, 0]
    with everlog.open(address) as log:
        thread = log.thread("day")
        said = [(one.kind, one.text) for one in thread.entries()]
        assert sorted(text for kind, text in said if kind == "user") == [
            f"{name} {n}" for name in ("one", "two") for n in range(3)
        ]
        for (kind, text), (after, reply) in zip(said[::2], said[1::2], strict=True):
            assert (kind, after) == ("user", "assistant")
            assert reply.startswith(f"answer to {text} ")
        assert set(states(log, thread.id)) == {TurnState.COMPLETE}
