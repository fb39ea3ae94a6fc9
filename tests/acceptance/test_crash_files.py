"""Files that processes share and leave behind: locks that an erasure must not drop, a log that outlives its database."""

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.acceptance.cli import ENVIRONMENT, HARBOUR, Everlog
from tests.quick import Quick

KEY = base64.b64encode(bytes(range(32))).decode()

WRITER = """
import base64, os, sys
import everlog

key = base64.b64decode(os.environ.get("EVERLOG_MASTER_KEY", ""))
memory = everlog.open("everlog.db", keys=everlog.MasterKeys(keys=[key]) if key else None)

def told(word):
    print(word, flush=True)
    sys.stdin.readline()

memory.thread("kept").append("user", "before")
memory.thread("gone").append("user", "words that are erased while others have the file open")
if "erase" in sys.argv:
    assert memory.erase(thread="gone").state == "done"
told("ready")
for n in range(100):
    memory.thread("kept").append("user", f"acknowledged {n}")
told("acknowledged")
"""
SAID = ["before", *(f"acknowledged {n}" for n in range(100))]


@pytest.fixture(params=["", KEY], ids=["plain", "encrypted"])
def here(everlog: Everlog, request: pytest.FixtureRequest) -> Everlog:
    """The command in an empty folder, plain and encrypted."""
    return everlog.at(everlog.home, EVERLOG_MASTER_KEY=request.param)


@contextmanager
def writer(quick: Quick, here: Everlog, *args: str) -> Iterator["Writer"]:
    """Start a process that opens the database and writes when it is told to; it ends by SIGKILL."""
    with subprocess.Popen(
        [quick.python, "-c", WRITER, *args],
        cwd=here.home,
        env=ENVIRONMENT | here.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Writer(process.stdin, process.stdout)
        finally:
            process.kill()


class Writer:
    """What a test says to the process, and hears from it."""

    def __init__(self, stdin: IO[str], stdout: IO[str]) -> None:
        self._stdin, self._stdout = stdin, stdout

    def hear(self, word: str) -> None:
        assert self._stdout.readline() == word + "\n"

    def go_on(self) -> None:
        self._stdin.write("\n")
        self._stdin.flush()


def texts(here: Everlog, key: str) -> list[str]:
    return [entry["text"] for entry in here.good("show", key, "--json").json]


@pytest.mark.parametrize("act", ["erase", "write"])
def test_what_is_acknowledged_after_an_erasure_survives_a_kill_though_others_opened_and_closed_the_file(
    here: Everlog, quick: Quick, act: str
):
    """Who closes a file as the last one that holds a lock deletes its log, and all that stands in it alone."""
    with writer(quick, here, act) as process:
        process.hear("ready")
        assert {thread["key"]: thread["entries"] for thread in here.good("threads", "--json").json}["kept"] == 1
        assert here.home.joinpath("everlog.db-wal").exists()
        process.go_on()
        process.hear("acknowledged")
        assert texts(here, "kept") == SAID
        assert here.home.joinpath("everlog.db-wal").stat().st_size > 0
    assert texts(here, "kept") == SAID
    assert here.good("verify", "--json").json["faults"] == []


def test_two_processes_that_have_both_erased_write_on_and_the_file_stays_whole(here: Everlog, quick: Quick):
    with writer(quick, here, "erase") as one:
        one.hear("ready")
        here.good("threads")
        with writer(quick, here, "erase") as other:
            other.hear("ready")
            for process in (one, other):
                process.go_on()
            for process in (one, other):
                process.hear("acknowledged")
    found = texts(here, "kept")
    assert len(found) == 2 * len(SAID)
    assert {*found} == {*SAID}
    assert here.good("verify", "--json").json["faults"] == []


def test_a_log_left_by_a_killed_process_is_never_replayed_into_what_is_restored_in_its_place(
    here: Everlog, quick: Quick
):
    here.good("--db", "other.db", "import", HARBOUR)
    here.good("--db", "other.db", "backup", "copy")
    with writer(quick, here) as process:
        process.hear("ready")
        process.go_on()
        process.hear("acknowledged")
    log = here.home / "everlog.db-wal"
    assert log.stat().st_size > 0
    here.home.joinpath("everlog.db").unlink()
    before = log.read_bytes()

    done = here("restore", "copy")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert f"{log} is left of a database that was here" in done.err
    assert log.read_bytes() == before
    assert not here.home.joinpath("everlog.db").exists()

    for ending in ("-wal", "-shm"):
        os.replace(f"{here.home / 'everlog.db'}{ending}", here.home / f"moved{ending}")  # noqa: PTH105
    here.good("restore", "copy")
    assert here.good("export", "--all").out == here.good("--db", "other.db", "export", "--all").out


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_any_file_that_sqlite_keeps_beside_a_database_is_a_left_over(everlog: Everlog, ending: str):
    everlog.good("--db", "other.db", "import", HARBOUR)
    everlog.good("--db", "other.db", "backup", "copy")
    left = Path(f"{everlog.home / 'everlog.db'}{ending}")
    left.write_bytes(b"left")
    done = everlog("restore", "copy")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert str(left) in done.err
    assert left.read_bytes() == b"left"
