"""What holds for every test: no network, no settings from outside, a skip in CI is a failure.

PostgreSQL comes from `tests.postgres`; only tests that ask for one of its fixtures start a server.
"""

import gc
import ipaddress
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings

from tests.postgres import postgres_database, postgres_server, postgres_url
from tests.tables import quick_tables, revisions

__all__ = ["postgres_database", "postgres_server", "postgres_url", "quick_tables", "revisions"]

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

for name in [
    name
    for name in os.environ
    if name.startswith("EVERLOG_") and name not in {"EVERLOG_DATA", "EVERLOG_LIVE", "EVERLOG_CLIENTS"}
]:
    del os.environ[name]

# Hundreds of processes start here: what they load is compiled once, whatever the shell says, and not by each of them.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def keep_in_memory(folder: Path = Path("/dev/shm"), room: int = 4 * 2**30) -> None:
    """Put temporary files on a disk in memory, unless the shell names another place or there is too little room.

    Databases ask for their bytes to be on the disk thousands of times, and a disk takes milliseconds for it. Here
    processes are killed, which loses nothing that was written; no test takes the power away.
    """
    if "TMPDIR" not in os.environ and os.access(folder, os.W_OK):
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize >= room and not disk.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"] = str(folder)
            tempfile.tempdir = None


keep_in_memory()

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50, stateful_step_count=30)
settings.register_profile("long", deadline=None, max_examples=1000, stateful_step_count=100, print_blob=True)
settings.register_profile("unshrunk", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
settings.load_profile("ci")  # `--hypothesis-profile=long` comes later and wins


def pytest_configure() -> None:
    sys.addaudithook(refuse_network)


def pytest_collection_finish() -> None:
    """Take what was collected out of the rounds of the garbage collector; it stays until the end."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have to tell, such as how often one was killed."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(f"{value}")


def refuse_network(event: str, args: tuple[Any, ...]) -> None:
    """Fail the test that names or reaches an address outside this machine."""
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        host = args[1][0] if isinstance(args[1], tuple) else "localhost"  # anything else is a Unix socket
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = args[0] or "localhost"
    else:
        return
    if not is_loopback(host.decode() if isinstance(host, bytes) else host):
        pytest.fail(f"a test tried to reach {host}; tests have no network")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return skip_is_failure((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return skip_is_failure((yield))


def skip_is_failure(report: Report) -> Report:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"A skip in CI is a failure: {reason}"
    return report
