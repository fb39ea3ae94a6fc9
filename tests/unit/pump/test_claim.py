import os
import subprocess
import sys

import pytest

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
