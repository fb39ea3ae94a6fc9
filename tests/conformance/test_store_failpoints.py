"""The driver that kills a script at each failpoint."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from everlog.store import open_store
from everlog.store.failpoints import hit
from everlog.testing import failpoints
from everlog.testing.failpoints import Death, Survived, run
from tests.unit.store.sample import names, put


def three_commits(folder: Path) -> None:
    with open_store(folder / "x.db") as store:
        for name in "abc":
            put(store, "ada", name)


def test_a_script_is_killed_at_every_point_and_what_it_left_is_checked():
    left: dict[tuple[str, int], list[str]] = {}

    def check(folder: Path, death: Death) -> None:
        with open_store(folder / "x.db") as store:
            left[death.point, death.hit] = names(store, "ada")

    report = run(three_commits, check, only="put.")
    assert left == {
        ("put.before_commit", 1): [],
        ("put.before_commit", 3): ["a", "b"],
        ("put.after_commit", 1): ["a"],
        ("put.after_commit", 3): ["a", "b", "c"],
    }
    assert (report.points, str(report)) == (2, "killed at 2 failpoints, 4 times")


def test_the_making_of_a_database_is_killed_too():
    def check(folder: Path, death: Death) -> None:
        with open_store(folder / "x.db") as store:
            assert len(names(store, "ada")) <= 3

    report = run(three_commits, check, hits=1)
    assert {death.point for death in report.deaths} == {
        "upgrade.before_commit",
        "upgrade.after_commit",
        "put.before_commit",
        "put.after_commit",
    }


def hit_once_more_each_time(folder: Path) -> None:
    count = folder.parent / "everlog-crash-count"
    if not count.exists():
        count.touch()
        hit("point")


def test_a_script_that_does_not_do_the_same_again_is_found_out():
    count = Path(os.environ.get("TMPDIR", "/tmp")) / "everlog-crash-count"
    count.unlink(missing_ok=True)
    try:
        with pytest.raises(Survived, match="not killed at Death"):
            run(hit_once_more_each_time, lambda folder, death: None)
    finally:
        count.unlink(missing_ok=True)


def fail(folder: Path) -> None:
    raise LookupError(str(folder.name))


def test_a_script_that_fails_is_shown():
    with pytest.raises(RuntimeError, match=r"the script failed(?s:.*)LookupError"):
        run(fail, lambda folder, death: None)


def test_points_are_heard_and_made_to_raise_or_call_inside_a_block_only():
    called: list[str] = []
    with failpoints.heard() as names_heard:
        hit("a")
        hit("b")
    with failpoints.raising("b", LookupError("mine"), hit=2):
        hit("a")
        hit("b")
        with pytest.raises(LookupError, match="mine"):
            hit("b")
        hit("b")
    with failpoints.calling("a", lambda: called.append("a")), failpoints.heard() as also_heard:
        hit("a")
        hit("a")
    hit("a")
    assert (names_heard, called, also_heard) == (["a", "b"], ["a"], ["a", "a"])


def test_a_process_kills_itself_at_the_hit_that_it_was_told():
    program = (
        "from everlog.store.failpoints import hit; from everlog.testing.failpoints import kill_at\n"
        "kill_at('a', 2); hit('a'); hit('b'); print('once', flush=True); hit('a'); print('twice')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "once\n")
