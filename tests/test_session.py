"""What `conftest.py` promises for every test holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.connect", (None, ("192.0.2.1", 443))),
        ("socket.connect", (None, ("2001:db8::1", 443, 0, 0))),
        ("socket.sendto", (None, ("192.0.2.1", 53))),
        ("socket.getaddrinfo", ("example.org", 443, 0, 0, 0)),
        ("socket.getaddrinfo", (b"example.org", 443, 0, 0, 0)),
    ],
)
def test_a_socket_to_the_world_fails_the_test(event: str, arguments: tuple[object, ...]):
    with pytest.raises(pytest.fail.Exception, match="tests have no network"):
        sys.audit(event, *arguments)  # what the socket module says before it acts; nothing is sent


@pytest.mark.parametrize(
    "address", [("127.0.0.1", 1), ("::1", 1, 0, 0), ("localhost", 1), "/tmp/socket", b"\0abstract"]
)
def test_a_socket_within_the_machine_is_free(address: object):
    sys.audit("socket.connect", None, address)


PROGRAM = """
import pytest

@pytest.fixture
def unfit(): pytest.skip("no reason")

def test_skips_itself(): pytest.skip("no reason")

@pytest.mark.skip(reason="no reason")
def test_is_marked(): pass

def test_has_an_unfit_fixture(unfit): pass

@pytest.mark.parametrize("nothing", [])
def test_has_no_cases(nothing): pass

@pytest.mark.xfail
def test_is_expected_to_fail(): assert False
"""


def test_a_skip_fails_in_ci_and_only_there(tmp_path: Path):
    (tmp_path / "test_skipping.py").write_text(PROGRAM)
    outside, inside = run_pytest(tmp_path, ci="false"), run_pytest(tmp_path, ci="true")
    assert (outside.returncode, "4 skipped, 1 xfailed" in outside.stdout) == (0, True)
    assert (inside.returncode, inside.stdout.count("\nA skip in CI is a failure: ")) == (1, 4)


def test_a_module_that_skips_fails_in_ci(tmp_path: Path):
    (tmp_path / "test_skipping.py").write_text("import pytest\npytest.skip('no reason', allow_module_level=True)")
    finished = run_pytest(tmp_path, ci="true")
    assert finished.returncode != 0
    assert "A skip in CI is a failure: Skipped: no reason" in finished.stdout


def run_pytest(folder: Path, *, ci: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        str(folder),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {"CI": ci}
    return subprocess.run(
        [*command, f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
