"""Law 6: killed at every commit in turn, nothing acknowledged is missing, nothing is there twice, and all of it ends.

`crash_script.py` is killed (SIGKILL) once at each failpoint that it hits, before or after a commit in its plain form and at
the other moment in its encrypted one; in a long run at all of them in both, and at the last hit of each. Then the log is
opened again and must be whole; the same script, run again from where it was acknowledged, must come to the very same
threads, byte for byte, as a run that nobody killed.
"""

import contextlib
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from everlog import Everlog
from everlog.errors import KeyTrouble
from everlog.store import open_store
from everlog.testing.failpoints import Death, Report, run
from tests.acceptance import crash_script as script
from tests.conformance.log_model import dump

PIECE = 8
WORDS = script.everything()
RUN = re.compile(b"[%s]{%d,}" % (script.LETTERS.encode(), PIECE))
PIECES = {text[i : i + PIECE].encode() for text in WORDS for i in range(len(text) - PIECE + 1)}

GONE_WITH_CHAT = [f"answered {n}" for n in range(2, 5)]
"""Words of the thread that is erased, of which no fork has a share."""
GONE_WITH_U2 = ["own 1", "own 1 answered", "branch 0", "branch 0 answered", "inside goes on"]


def exports(memory: Everlog) -> dict[str, bytes]:
    """Return every thread as it is exported."""
    return {overview.key: b"".join(memory.thread(overview.key).export()) for overview in memory.threads()}


def shown(memory: Everlog) -> dict[str, list[str]]:
    return {overview.key: [e.text for e in memory.thread(overview.key).entries()] for overview in memory.threads()}


def whole(memory: Everlog) -> None:
    """Every thread is whole, and no message is there twice."""
    assert [fault for part in memory.verify() for fault in part.faults] == []
    for texts in shown(memory).values():
        spoken = [text for text in texts if text]
        assert len(set(spoken)) == len(spoken)


def nothing_missing(memory: Everlog, done: list[str]) -> None:
    """What was acknowledged is there, unless an erasure took it that was acknowledged or under way."""
    found = shown(memory)
    if "import" in done and "retire" not in done:
        said = [message.text for message in script.chat(5 if "grown import" in done else 4).messages[1:]]
        assert found["chat"][: len(said)] == said
    if "turn 0" in done:
        assert found["own"][:2] == [script.words("own 0", 700), script.words("own 0 answered")]
    if "turn 1" in done and "retire" not in done:
        assert found["own"][2:4] == [script.words("own 1", 700), script.words("own 1 answered")]
    if "fork of chat" in done:
        assert found["branch"][:6] == [message.text for message in script.chat(4).messages[1:7]]
    if "turn in branch" in done:
        assert len(found["branch"]) == 8
    if "turn at last" in done:
        assert found["own"][4:] == [script.words("own 2", 700), script.words("own 2 answered")]


def nothing_left(memory: Everlog, done: list[str]) -> None:
    """Of what was erased no row has a word, and everything else was derived."""
    rows = repr(dump(memory.store, memory.name))
    gone = [*GONE_WITH_CHAT] * ("erase thread" in done) + GONE_WITH_U2 * ("erase user" in done)
    assert [name for name in gone if script.words(name)[:PIECE] in rows] == []


def pieces_in(folder: Path) -> set[bytes]:
    """Return every piece of 8 bytes of any words in any file of a folder."""
    runs = [run[0] for path in folder.iterdir() for run in RUN.finditer(path.read_bytes())]
    return {run[i : i + PIECE] for run in runs for i in range(len(run) - PIECE + 1)} & PIECES


@contextlib.contextmanager
def opened_plain(folder: Path) -> Iterator[Everlog]:
    """Open a file that may be plain, encrypted, or on the way."""
    file = script.home(folder) / "everlog.db"
    try:
        store = open_store(file)
    except KeyTrouble:
        store = open_store(file, keys=script.KEYS, encrypting=True)
    with Everlog(store) as memory:
        yield memory


@contextlib.contextmanager
def opened_sealed(folder: Path) -> Iterator[Everlog]:
    with Everlog(open_store(script.home(folder) / "everlog.db", keys=script.NEW_KEYS)) as memory:
        yield memory


def sizes(memory: Everlog) -> list[str]:
    """Return the sizes of all lines, by which two trees are compared."""
    return sorted(str(row["size"]) for row in dump(memory.store, memory.name)["node"])


Opened = Callable[[Path], contextlib.AbstractContextManager[Everlog]]


def killed(
    live: Callable[[Path], None],
    opened: Opened,
    *,
    hits: int,
    only: str | Callable[[str], bool] = "",
    prepare: Callable[[Path], None] | None = None,
    looked_at: Callable[[Path, list[str]], None],
    reference: Path,
) -> Report:
    """Kill the script everywhere, and compare what comes of it with a run that nobody killed."""
    if prepare is not None:
        prepare(reference)
    live(reference)
    with opened(reference) as memory:
        wanted = exports(memory)
        lines = sizes(memory)
    assert set(wanted) == {"own", "inside", "branch"}

    def check(folder: Path, death: Death) -> None:
        done = script.acknowledged(folder)
        looked_at(folder, done)
        with opened(folder) as memory:
            whole(memory)
            nothing_missing(memory, done)
            nothing_left(memory, done)
        live(folder)
        looked_at(folder, script.acknowledged(folder))
        with opened(folder) as memory:
            assert exports(memory) == wanted, death
            whole(memory)
            memory.resume()
            assert {*script.receipts(memory)} == {"done" if memory.store.engine.dialect == "sqlite" else "pending"}
            for overview in memory.threads():
                assert memory.thread(overview.key).pump().done
            assert sizes(memory) == lines

    return run(live, check, hits=hits, only=only, prepare=prepare)


def nothing_to_see(folder: Path, done: list[str]) -> None:
    """Plain files hold plain words until they are encrypted."""
    if "encrypted" in done:
        assert pieces_in(script.home(folder)) == set()


def no_words_at_all(folder: Path, done: list[str]) -> None:
    assert pieces_in(script.home(folder)) == set()


EVERYWHERE = {
    *("upgrade", "import.begin", "import.page", "log.append", "log.fork", "log.retire"),
    *("pump.claim", "pump.write", "pump.finish", "tree.view"),
    *("erase.begin", "erase.turns", "erase.mark", "erase.copy", "erase.hand_over", "erase.entries", "erase.rows"),
    *("erase.key", "erase.rows_gone", "erase.receipt"),
}
"""Every unit of work that this script is killed in, before and after its commit."""
ENCRYPTING = {"encrypt.state", "encrypt.secret", "encrypt.rows"}
ROTATING = {
    *("rotate.tenant_key", "rotate.secret", "rotate.key", "rotate.rows", "rotate.drop_keys", "rotate.left"),
    "rotate.drop_tenant_key",
}


MOMENTS = ("before_commit", "after_commit")


def at_one_moment(units: set[str], turn: int, point: str) -> bool:
    """Whether a unit is killed at this point where it is at one of its two moments: which one it is changes with the turn."""
    unit, _, moment = point.rpartition(".")
    if unit not in units or moment not in MOMENTS:
        return True
    return MOMENTS.index(moment) == (zlib.crc32(unit.encode()) + turn) % 2


def test_a_plain_log_survives_a_death_at_every_commit_and_is_encrypted_in_the_end(
    tmp_path: Path, hits: int, is_long: bool, record_property: Callable[[str, object], None]
):
    only: Any = "" if is_long else partial(at_one_moment, EVERYWHERE, 0)
    report = killed(script.plain, opened_plain, hits=hits, only=only, looked_at=nothing_to_see, reference=tmp_path)
    record_property("told", f"plain: {report}")
    assert {death.point.rpartition(".")[0] for death in report.deaths} == EVERYWHERE | ENCRYPTING


def test_of_an_encrypted_log_no_file_ever_holds_a_word_wherever_it_is_killed(
    tmp_path: Path, hits: int, is_long: bool, record_property: Callable[[str, object], None]
):
    only: Any = "" if is_long else partial(at_one_moment, EVERYWHERE, 1)
    report = killed(script.sealed, opened_sealed, hits=hits, only=only, looked_at=no_words_at_all, reference=tmp_path)
    record_property("told", f"encrypted: {report}")
    assert {death.point.rpartition(".")[0] for death in report.deaths} == EVERYWHERE | ROTATING


@pytest.fixture
def hits(is_long: bool) -> int:
    """How often to kill at each point: in a long run more often, and at its last hit."""
    return 3 if is_long else 1


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    """Whether to kill everywhere in each form of the log."""
    return bool(request.config.getoption("--hypothesis-profile") == "long")
