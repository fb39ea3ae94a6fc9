"""Law 2 with real processes: workers killed and started again at random build each node once, with the same bytes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import everlog
from everlog import Everlog as Memory
from everlog.memory.tree.nodes import nodes_in
from everlog.pump import rows as pump_rows
from everlog.pump import run
from everlog.testing import EchoModel
from tests.acceptance import pump_script as script
from tests.acceptance.cli import HARBOUR, TIMEOUT_S, Everlog, finish, start
from tests.conformance.log_model import dump
from tests.quick import Quick

SIZES = [100, 5, 130, 5, 70, 200, 5, 5, 90]
COUNT = 90
THREADS = 3


def talk(memory: Memory, key: str, *, tenant: str) -> None:
    thread = memory.tenant(tenant).thread(key)
    for n in range(COUNT):
        thread.append("user", f"message {n} " + f"word{n} " * SIZES[n % len(SIZES)])


@contextlib.contextmanager
def working(quick: Quick, folder: Path, address: str) -> Iterator["subprocess.Popen[str]"]:
    command: list[str | Path] = [quick.python, "-m", "tests.acceptance.pump_script", str(folder), address, ""]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), *sys.path]))}
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def due(memory: Memory, tenant: str, thread: str) -> Any:
    return memory.store.read(tenant, lambda unit: unit.row(pump_rows.DUE, memory="tree", subject=thread))


def ids(memory: Memory) -> list[tuple[str, str]]:
    return [(f"tenant-{n % 2}", memory.tenant(f"tenant-{n % 2}").thread(f"talk-{n}").id) for n in range(THREADS)]


def lines(memory: Memory, tenant: str, thread: str) -> list[tuple[Any, ...]]:
    """Return what there is of each line that does not depend on the tenant."""
    found = [row for row in dump(memory.store, tenant)["node"] if row["thread"] == thread]
    return sorted((row["nid"], row["size"], row["model"], row["prompt"], row["fallback"], row["body"]) for row in found)


def asked(folder: Path) -> int:
    """Return how often a model was asked so far, by all workers."""
    try:
        return (folder / "asked").stat().st_size
    except FileNotFoundError:
        return 0


def wait_until(true: Callable[[], bool]) -> None:
    """Look again and again, for processes of their own cannot be waited for otherwise."""
    until = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < until, "it did not come in time"
        time.sleep(0.005)


def test_two_workers_killed_and_started_again_at_random_build_each_node_once(
    address: str, quick: Quick, tmp_path: Path
):
    random = Random(address.partition(":")[0])
    kills = 6
    with everlog.open(address) as memory:
        for n in range(THREADS):
            talk(memory, f"talk-{n}", tenant=f"tenant-{n % 2}")
        talk(memory, "whole", tenant="apart")
        model = EchoModel(script.MODEL, line_bytes=300)
        whole = memory.tenant("apart").thread("whole").id
        assert run(memory.store, "apart", whole, script.memory(model), model).done
        wanted = lines(memory, "apart", whole)
        assert len(wanted) == nodes_in(COUNT)
        subjects = ids(memory)
    by_a_model = sum(row[2] is not None for row in wanted)
    share = THREADS * by_a_model // (kills + 1)
    with contextlib.ExitStack() as stack:
        memory = stack.enter_context(everlog.open(address))

        def unfinished() -> bool:
            return any(due(memory, *one)[1] is not None for one in subjects)

        crew = [stack.enter_context(working(quick, tmp_path, address)) for _ in range(2)]
        for n in range(kills):
            at, victim = n * share + random.randrange(1, share), random.randrange(2)
            wait_until(lambda at=at: asked(tmp_path) >= at)  # type: ignore[misc]
            crew[victim].send_signal(signal.SIGKILL)
            crew[victim].wait(TIMEOUT_S)
            assert unfinished(), "it was killed at its work"
            crew[victim] = stack.enter_context(working(quick, tmp_path, address))
        wait_until(lambda: not unfinished())
    with everlog.open(address) as memory:
        for tenant, thread in subjects:
            assert lines(memory, tenant, thread) == wanted
            assert due(memory, tenant, thread)[1] is None
    lost = asked(tmp_path) - THREADS * by_a_model
    assert 0 <= lost <= kills * 8, "nothing but what was out when a worker died was asked again"


@pytest.fixture
def folder(everlog: Everlog) -> Everlog:
    everlog.good("import", HARBOUR)
    return everlog


def lease(home: Path) -> Any:
    with everlog_at(home) as memory:
        row = due(memory, "default", memory.thread("harbour").id)
    return row[3], row[4], row[5]


def everlog_at(home: Path) -> Memory:
    return everlog.open(home / "everlog.db")


def test_ctrl_c_stops_a_plain_pump_which_lets_go_of_its_thread(folder: Everlog):
    stopped = folder("pump", dies_at=("pump.write.before_commit", 1), by=signal.SIGINT)
    assert stopped.status == 130
    owner, until, _ = lease(folder.home)
    assert (owner, until) == (None, None)
    assert folder.good("pump", "--json").json["unfinished"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_worker_ends_cleanly_when_it_is_told_to(folder: Everlog, number: int):
    done = folder("worker", dies_at=("pump.write.after_commit", 1), by=number)
    assert done.status == 0, done
    assert "1 run" in done.text
    assert "SIGTERM or Ctrl-C stops" in done.err
    assert lease(folder.home) == (None, None, 0)
    folder.good("pump")
    assert folder.good("worker", "--until-idle", "--json").json == {"runs": 0, "lines": 0, "failed": 0}


def test_a_worker_in_a_fresh_process_ends_at_once_when_it_is_told_to(folder: Everlog):
    process = start("worker", "--json", home=folder.home)
    said = process.stderr.readline()
    assert b"stops" in said
    process.send_signal(signal.SIGTERM)
    done = finish(process)
    assert done.status == 0
    assert set(done.json) == {"runs", "lines", "failed"}


def test_a_worker_builds_what_every_tenant_has_and_one_tenants_alone_if_it_is_named(folder: Everlog):
    folder.good("import", HARBOUR, "--tenant", "acme")
    assert folder.good("worker", "--until-idle", "--tenant", "acme", "--json").json["runs"] == 1
    assert folder.good("worker", "--until-idle", "--json").json["runs"] == 1
    assert folder.good("pump", "--json").json["lines"] == 0


def test_a_compactor_of_ones_own_is_named_by_its_module(folder: Everlog):
    made = folder.good("pump", "harbour", "--compactor", "everlog.testing:EchoModel", "--json").json
    assert made["lines"] > 0
    assert made["remaining"] == 0
    assert "#" in folder.good("view", "harbour", "--bytes", 2000, "--as-is").text


@pytest.mark.parametrize("name", ["best", "no.such:thing", "everlog.testing:none", "everlog:open", ":x", "json:"])
def test_a_compactor_that_is_none_is_named_in_one_line(folder: Everlog, name: str):
    for command in ("pump", "worker"):
        done = folder(command, "--compactor", name)
        assert (done.status, done.out) == (2, b"")
        assert name in done.err
        assert done.err.count("\n") == 1


def test_a_compactor_that_only_raises_is_reported_and_what_is_left_is_counted(folder: Everlog, tmp_path: Path):
    module = tmp_path / "faulty.py"
    module.write_text(
        "class Faulty:\n    model = 'faulty'\n    def __call__(self, request):\n        raise KeyError(1)\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = folder("pump", "--compactor", "faulty:Faulty", PYTHONPATH=path)
    assert done.status == 1
    assert "harbour: KeyError" in done.text
    assert "left" in done.text
