"""What `deploy/` holds is taken by the programs it is for, and says what the command line knows."""

import configparser
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from everlog import open as open_log
from everlog.surfaces.proxy.settings.schema import Server
from tests.acceptance.cli import ROOT, Everlog
from tests.postgres import PostgresDatabase, free_port, hand_over, identity

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


def test_each_variable_is_one_that_everlog_reads():
    read = {name for file in (ROOT / "src").rglob("*.py") for name in NAMED.findall(file.read_text())}
    said = {name for file in (DEPLOY / "compose.yaml", *UNITS) for name in NAMED.findall(file.read_text())}
    assert len(said) >= 4
    assert said <= read


NAMED = re.compile(r"\bEVERLOG_[A-Z_]+")


def test_all_that_services_name_is_there():
    whole = compose()
    for name, service in whole["services"].items():
        assert {*service.get("depends_on", {})} <= {*whole["services"]}, name
        assert {one["source"] for one in service.get("configs", [])} <= {*whole["configs"]}, name
        assert {one.partition(":")[0] for one in service.get("volumes", [])} <= {*whole["volumes"]}, name
        build = service.get("build", {})
        assert "dockerfile" not in build or (DEPLOY / build["context"] / build["dockerfile"]).is_file(), name
    targets = {one["source"]: one["target"] for one in whole["services"]["pgbouncer"]["configs"]}
    assert f"auth_file = {targets['users']}\n" in whole["configs"]["pgbouncer"]["content"]
    assert targets["pgbouncer"] in str(whole["services"]["pgbouncer"]["build"])


def test_ports_are_those_that_are_listened_on():
    whole, image = compose(), DEPLOY.joinpath("Dockerfile").read_text()
    port = Server().port
    assert whole["services"]["proxy"]["ports"] == [f"{port}-{port + 1}:{port}"], "one for each replica"
    assert f"EXPOSE {port}\n" in image
    for content in (whole["configs"]["pgbouncer"]["content"], DEPLOY.joinpath("pgbouncer.ini").read_text()):
        assert "listen_port = 6432\n" in content


def test_the_image_is_made_of_files_that_are_there_and_runs_a_command_that_is_one(everlog: Everlog):
    image = DEPLOY.joinpath("Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)$", image, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), line
    ((program, said),) = re.findall(
        r'^ENTRYPOINT \["(\w+)"\]\nCMD \["serve", "(--host)", "0.0.0.0"\]$', image, re.MULTILINE
    )
    assert program == "everlog"
    assert said in everlog.good("serve", "--help").text


def test_a_pooler_with_our_settings_shares_its_connections(postgres_database: PostgresDatabase, everlog: Everlog):
    """Where pgbouncer is installed it stands before a real server; elsewhere only the address is tried."""
    plain = everlog.at(everlog.home, EVERLOG_DB=postgres_database.url)
    plain.good("db", "upgrade")
    program, port = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin"), free_port()
    with tempfile.TemporaryDirectory(prefix="everlog-pool-") as name:
        pooled = f"{postgres_database.url}?prepared=no"
        if program:
            pool = Path(name)
            server = urlsplit(postgres_database.url)
            (pool / "users").write_text(f'"{server.username}" "{server.password}"\n')
            settings = DEPLOY.joinpath("pgbouncer.ini").read_text()
            for old, new in (
                ("everlog = host=127.0.0.1 port=5432 dbname=everlog", f"* = host=127.0.0.1 port={server.port}"),
                ("listen_port = 6432", f"listen_port = {port}"),
                ("/etc/pgbouncer/userlist.txt", str(pool / "users")),
                ("default_pool_size = 20", "default_pool_size = 2"),
            ):
                assert settings.count(old) == 1, old
                settings = settings.replace(old, new)
            (pool / "ini").write_text(settings)
            hand_over(pool)
            pooled = pooled.replace(f":{server.port}/", f":{port}/")
        with pooling(program, Path(name), port):
            with contextlib.ExitStack() as stack:
                homes = [stack.enter_context(open_log(pooled)) for _ in range(4)]
                for n, home in enumerate([*homes, *homes]):
                    home.thread("day").append("user", f"message {n} " * 60)
                homes[0].thread("day").pump()
                assert [entry.text.split()[1] for entry in homes[1].thread("day").entries()] == [*map(str, range(8))]
            assert everlog.good("verify", "--json", EVERLOG_DB=pooled).json["faults"] == []


@contextlib.contextmanager
def pooling(program: str | None, folder: Path, port: int) -> Iterator[None]:
    """Run pgbouncer while the block runs, if there is one."""
    if program is None:
        yield
        return
    said = subprocess.DEVNULL
    with subprocess.Popen([program, "-q", str(folder / "ini")], stdout=said, stderr=said, **identity()) as process:
        try:
            until = time.monotonic() + 20
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert process.poll() is None, "pgbouncer ended"
                assert time.monotonic() < until, "pgbouncer does not listen"
                time.sleep(0.02)
            yield
        finally:
            process.terminate()
