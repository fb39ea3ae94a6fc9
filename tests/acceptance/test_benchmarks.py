"""The benchmarks run, in their short form. How fast anything is, is not judged here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks._sheet import Sheet, percentile
from everlog.testing.upstream import Answer, Upstream
from tests.acceptance.cli import Everlog

ROOT = Path(__file__).parents[2]
COUNTED = {"crowd": {"ok"}, "stalls": {"ok"}}
"""Benchmarks that count what must not be, on any machine: messages that are lost, callbacks that take too long."""

NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    strict = {**os.environ, "PYTHONWARNINGS": "error", **variables}
    return subprocess.run(command, check=False, cwd=ROOT, env=strict, capture_output=True, text=True)


@pytest.mark.parametrize("name", NAMES)
def test_each_benchmark_runs_in_its_short_form_and_judges_only_what_is_counted(name: str, everlog: Everlog):
    ran = everlog.at(ROOT)("--quick", module=f"benchmarks.{name}", PYTHONWARNINGS="error")
    rows = [line for line in ran.text.splitlines() if line.startswith(f"{name} ")]
    assert ran.status == 0, ran.err
    assert rows
    assert {row.rpartition(" ")[2] for row in rows if row.endswith((" ok", "MISSED"))} == COUNTED.get(name, set())


def test_findability_asks_a_model_that_is_named_as_users_name_one(tmp_path: Path):
    (tmp_path / "locomo").mkdir()
    said = [f"{n} is the number that I like best" + ", and I say so again" * 40 for n in range(8)]
    talk = {
        "sample_id": "t-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Bob",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": ("Ada", "Bob")[n % 2], "dia_id": f"D1:{n}", "text": text} for n, text in enumerate(said)
            ],
        },
        "qa": [{"question": "Which number do I like?", "answer": "3", "evidence": ["D1:3"], "category": 1}],
    }
    (tmp_path / "locomo" / "locomo1.json").write_text(json.dumps([talk]))
    line = Answer(text="user (Ada): numbers")
    with Upstream(lambda received: line, models=("small",)) as upstream:
        (tmp_path / "local.toml").write_text(
            f'[compactor]\nprovider = "ollama"\nbase_url = "{upstream.url}"\nassume_model_exists = true\n'
        )
        ran = run(
            "findability",
            EVERLOG_DATA=str(tmp_path),
            EVERLOG_CONFIG=str(tmp_path / "local.toml"),
            EVERLOG_COMPACTOR="small",
            EVERLOG_MESSAGES="6",
        )
    assert not ran.stderr
    assert [line for line in ran.stdout.splitlines() if " small " in line and "evidence opened" in line]
    assert {received.body["model"] for received in upstream.requests} == {"small"}
    assert len(upstream.requests) >= 6


def test_there_is_a_benchmark_for_each_number_that_was_promised():
    assert {
        "append",
        "cache",
        "crowd",
        "export",
        "findability",
        "folding",
        "growth",
        "imports",
        "nodes",
        "postgres",
        "proxy",
        "recording",
        "scan",
        "search",
        "stalls",
        "startup",
        "turns",
        "writers",
    } <= set(NAMES)


def test_an_unknown_benchmark_is_refused_by_name():
    ran = run("speed")
    assert ran.returncode == 2
    assert "no benchmark speed" in ran.stderr


@pytest.mark.parametrize(
    ("bound", "kept"),
    [
        ({"at_most": 2}, True),
        ({"at_most": 1.9}, False),
        ({"at_least": 2}, True),
        ({"at_least": 2.1}, False),
        ({}, True),
    ],
)
def test_a_missed_bound_is_marked_and_counted(bound: dict[str, Any], kept: bool, capsys: pytest.CaptureFixture[str]):
    sheet = Sheet("scan", quick=False)
    sheet.row("read", "two rows", "SQLite", 2, "ms", **bound)
    assert sheet.missed == (0 if kept else 1)
    assert ("MISSED" in capsys.readouterr().out) == (not kept)


@pytest.mark.parametrize(("counted", "missed"), [(True, 1), (False, 0)])
def test_the_short_form_judges_what_is_counted_and_nothing_else(counted: bool, missed: int):
    sheet = Sheet("crowd", quick=True)
    sheet.row("lost", "two rows", "SQLite", 1, at_most=0, counted=counted)
    assert sheet.missed == missed


def test_a_percentile_is_a_value_that_was_measured():
    values = [4.0, 1.0, 3.0, 2.0]
    assert [percentile(values, share) for share in (0.25, 0.5, 0.75, 0.99, 1)] == [1.0, 2.0, 3.0, 4.0, 4.0]
