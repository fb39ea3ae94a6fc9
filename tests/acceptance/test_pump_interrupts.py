"""Ctrl-C at every moment of a run: another worker goes on at once, though the process that was interrupted lives on."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import everlog
from everlog.memory.tree.nodes import nodes_in
from everlog.pump import rows as pump_rows
from everlog.testing import EchoModel
from everlog.testing.failpoints import heard
from tests.quick import Quick

COUNT = 8
POINTS = [
    f"{name}.{moment}"
    for name in ("pump.claim", "pump.try", "pump.write", "pump.finish", "pump.release")
    for moment in ("before_commit", "after_commit")
] + ["pump.ask.before", "pump.ask.after"]


@contextlib.contextmanager
def program(quick: Quick, address: str) -> Iterator["subprocess.Popen[str]"]:
    command: list[str | Path] = [quick.python, "-m", "tests.acceptance.interrupt_script", address]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), *sys.path]))}
    with subprocess.Popen(
        command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]", *words: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(" ".join(words) + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def lease(memory: everlog.Everlog, thread: str) -> tuple[object, object]:
    row = memory.store.read("default", lambda unit: unit.row(pump_rows.DUE, memory="tree", subject=thread))
    assert row is not None
    return row[3], row[4]


@pytest.mark.timeout(120)
def test_after_ctrl_c_at_any_point_of_a_run_another_worker_goes_on_at_once(address: str, quick: Quick):
    with everlog.open(address) as memory, program(quick, address) as process:
        for point in POINTS:
            thread = memory.thread(point)
            for n in range(COUNT):
                thread.append("user", f"message {n} " + f"word{n} " * 120)
            assert said(process, point, point) == "interrupted", point
            assert lease(memory, thread.id) == (None, None), f"{point}: nobody has it"
            ran = thread.pump(EchoModel())
            assert (ran.done, ran.busy, ran.remaining) == (True, False, 0), point
            assert len(thread.tree.view_lines(100_000)) == COUNT, point
            assert process.poll() is None, "the process that was interrupted lives on"


def test_these_are_all_the_points_that_a_run_has(tmp_path: Path):
    with everlog.open(tmp_path / "everlog.db") as memory, heard() as points:
        thread = memory.thread("talk")
        for n in range(COUNT):
            thread.append("user", f"message {n} " + f"word{n} " * 120)
        assert thread.pump(EchoModel()).steps == nodes_in(COUNT)
    assert {point for point in points if point.startswith("pump.")} <= set(POINTS)
