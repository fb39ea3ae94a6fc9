"""Seeded faults: each patch, made in a copy of the source, must make the tests that it names fail.

The `*.toml` files here hold them: `[[fault]]` with `name`, `file`, `old` (which occurs once), `new`, and `tests`, which is
the arguments of pytest as a command line or a list. `law` is what the fault breaks, by default what its file is called.
Those with `always = true` run in `make test`, all of them in `make test-long`.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TIMEOUT_S = 600
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=unshrunk")
"""That a test fails is all there is to know: an example need not become small, which can take minutes."""
TESTS_FAILED = 1
"""What pytest returns if it ran and a test failed; other numbers are a mistake in the patch or in `tests`."""
LAWS = ("law 1", "law 6", "law 8", "law 10", "erasure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    name: str
    file: str
    old: str
    new: str
    tests: str | list[str]
    law: str
    always: bool = False


FAULTS = [
    Fault(**{"law": path.stem.replace("_", " "), **fault})
    for path in sorted(HERE.glob("*.toml"))
    for fault in tomllib.loads(path.read_text("utf-8"))["fault"]
]


def seeded(fault: Fault, folder: Path) -> Path:
    """Return the folder of a copy of the source that has the fault."""
    shutil.copytree(ROOT / "src", folder / "src")  # with what is compiled already, which takes longer than many tests
    broken = folder / fault.file
    source = broken.read_text("utf-8")
    assert source.count(fault.old) == 1, f"`old` must occur once in {fault.file}"
    broken.write_text(source.replace(fault.old, fault.new), "utf-8")
    Path(cache_from_source(broken)).unlink(missing_ok=True)
    return folder / "src"


@pytest.mark.timeout(TIMEOUT_S + 60)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=f"{fault.law}: {fault.name}", marks=() if fault.always else pytest.mark.long)
        for fault in FAULTS
    ],
)
def test_the_tests_notice(fault: Fault, tmp_path: Path):
    tests = shlex.split(fault.tests) if isinstance(fault.tests, str) else fault.tests
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *tests],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(seeded(fault, tmp_path)), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == TESTS_FAILED, (
        f"pytest returned {ended.returncode}:\n{ended.stdout[-3000:]}{ended.stderr}"
    )


def test_each_law_of_the_log_has_three_faults_and_one_of_them_is_seeded_always():
    assert {law: count for law, count in Counter(fault.law for fault in FAULTS).items() if count < 3} == {}
    assert {fault.law for fault in FAULTS if fault.always} >= {*LAWS}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.law}: {fault.name}")
def test_each_fault_can_still_be_seeded(fault: Fault):
    assert (ROOT / fault.file).read_text("utf-8").count(fault.old) == 1
    assert fault.old != fault.new
