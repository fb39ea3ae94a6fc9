"""Law 6 on a server: the same script as in `tests/acceptance/test_crash.py` is killed at every commit."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from everlog import Everlog
from everlog.store import open_store
from everlog.testing.failpoints import Death, run
from tests.acceptance import crash_script as script
from tests.acceptance.test_crash import EVERYWHERE, at_one_moment, is_long, killed

__all__ = ["is_long"]


@contextlib.contextmanager
def opened_server(folder: Path) -> Iterator[Everlog]:
    keys = script.KEYS if (folder / "encrypted").exists() else None
    with Everlog(open_store((folder / "address").read_text(), keys=keys)) as memory:
        yield memory


@pytest.fixture(params=["plain", pytest.param("encrypted", marks=pytest.mark.long)])
def prepare(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], None]]:
    """Return what puts the address of an empty database of a server into a folder."""
    with contextlib.ExitStack() as stack:
        keys = script.KEYS if request.param == "encrypted" else None

        def prepare(folder: Path) -> None:
            stack.close()
            taken = stack.enter_context(request.getfixturevalue("postgresql")(keys))
            (folder / "address").write_text(taken.address)
            if keys is not None:
                (folder / "encrypted").touch()

        yield prepare


def test_a_log_on_a_server_survives_too(
    prepare: Callable[[Path], None], tmp_path: Path, request: pytest.FixtureRequest
):
    is_long = request.config.getoption("--hypothesis-profile") == "long"
    report = killed(
        script.server,
        opened_server,
        hits=1,
        only="" if is_long else partial(at_one_moment, EVERYWHERE, 0),
        prepare=prepare,
        looked_at=lambda folder, done: None,
        reference=tmp_path,
    )
    assert {death.point.rpartition(".")[0] for death in report.deaths} >= EVERYWHERE - {"upgrade"}


def acknowledging(folder: Path) -> None:
    with Everlog(open_store(folder / "everlog.db")) as memory:
        for n in range(5):
            memory.thread("t").append("user", f"{n}")
            script.tell(folder, f"{n}")


def test_a_log_in_a_file_has_what_it_acknowledged():
    """A point after a commit is hit when what was committed is there for others, and not before."""

    def check(folder: Path, death: Death) -> None:
        with Everlog(open_store(folder / "everlog.db")) as memory:
            texts = [entry.text for one in memory.threads() for entry in memory.thread(one.key).entries()]
        done = script.acknowledged(folder)
        assert texts[: len(done)] == done
        if death.point == "log.append.after_commit":
            assert len(texts) == death.hit
        if death.point == "log.append.before_commit":
            assert len(texts) == death.hit - 1

    assert run(acknowledging, check, hits=5).points == 4
