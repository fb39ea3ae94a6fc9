"""What `deploy/` holds is taken by the programs it is for, and says what the command line knows."""

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.acceptance.cli import ROOT, Everlog

DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def commands() -> Iterator[list[str]]:
    """Yield what is said after `everlog`, in each file."""
    for unit in UNITS:
        yield re.findall(r"^ExecStart=\S+/everlog (.*)$", unit.read_text(), re.MULTILINE)[0].split()
    for service in compose()["services"].values():
        if service.get("image") == "everlog":
            yield list(service.get("command", ["serve"]))


def compose() -> Any:
    return yaml.safe_load(DEPLOY.joinpath("compose.yaml").read_text())


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_each_unit(unit: Path, tmp_path: Path):
    text = unit.read_text()
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(text)
    assert parsed["Service"]["EnvironmentFile"] == "/etc/everlog/environment"
    assert int(parsed["Service"]["TimeoutStopSec"]) > 30
    if verify := shutil.which("systemd-analyze"):
        here = tmp_path / unit.name
        here.write_text(text.replace("/opt/everlog/bin/everlog", sys.executable))
        done = subprocess.run([verify, "verify", str(here)], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_each_command_is_one_of_everlog(everlog: Everlog):
    found = list(commands())
    assert len(found) >= 6
    for command in found:
        words = [word for word in command if not word.startswith("-") and word.isalpha()]
        help_text = everlog.good(*words, "--help").text
        for flag in (word for word in command if word.startswith("--")):
            assert flag in help_text, command


def test_poolers_share_connections_by_transaction_and_the_proxies_prepare_nothing():
    whole = compose()
    for text in (DEPLOY.joinpath("pgbouncer.ini").read_text(), whole["configs"]["pgbouncer"]["content"]):
        parsed = configparser.ConfigParser()
        parsed.read_string(text)
        assert parsed["pgbouncer"]["pool_mode"] == "transaction"
    assert whole["services"]["proxy"]["environment"]["EVERLOG_DB"].endswith("@pgbouncer:6432/everlog?prepared=no")
    assert whole["services"]["proxy"]["deploy"]["replicas"] == 2
