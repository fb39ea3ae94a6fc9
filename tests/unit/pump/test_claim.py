import os
import subprocess
import sys
from pathlib import Path

import pytest

from everlog.pump import claim
from everlog.pump.claim import is_gone, this_worker

MACHINE = this_worker().partition("-")[0]


def test_this_process_and_its_parent_are_there():
    assert not is_gone(this_worker())
    assert not is_gone(f"{MACHINE}-{os.getppid()}")


def test_a_process_that_has_ended_is_gone():
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    assert is_gone(f"{MACHINE}-{int(ended.stdout)}")


@pytest.mark.parametrize(
    "worker", ["", "elsewhere", "00000000-1", f"{MACHINE}-", f"{MACHINE}-x", f"{MACHINE}-{10**30}"]
)
def test_whoever_is_not_known_to_be_gone_is_there(worker: str):
    assert not is_gone(worker)


def test_a_name_fits_its_column():
    assert len(this_worker()) <= 32


def test_a_container_of_its_own_is_another_machine(monkeypatch: pytest.MonkeyPatch):
    """Numbers of processes are counted in each of them anew, and they may share a host's name and its disk."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    claim._machine.cache_clear()
    monkeypatch.setattr(Path, "readlink", lambda _: Path("pid:[1]"))
    there = this_worker().partition("-")[0]
    monkeypatch.undo()
    claim._machine.cache_clear()
    assert not is_gone(f"{there}-{int(ended.stdout)}")
