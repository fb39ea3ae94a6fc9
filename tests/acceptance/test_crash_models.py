"""As `test_crash.py`, where a model makes the lines, what was opened is counted, and a tenant is erased in the end."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog import Everlog
from everlog.store import open_store
from everlog.testing.failpoints import Death, run
from tests.acceptance import crash_model_script as script
from tests.acceptance.crash_script import KEYS, acknowledged, home, receipts, words
from tests.acceptance.test_crash import ENCRYPTING, EVERYWHERE, PIECE, ROTATING, RUN, at_one_moment, is_long, whole
from tests.acceptance.test_crash_asking import ASKING
from tests.acceptance.test_crash_keys import WITH_KEYS
from tests.conformance.log_model import dump

__all__ = ["is_long"]

PIECES = {text[i : i + PIECE].encode() for text in script.everything() for i in range(len(text) - PIECE + 1)}
WITH_A_MODEL = {
    *("upgrade", "log.append", "pump.claim", "pump.ask", "pump.try", "pump.write", "pump.release", "pump.finish"),
    *("tree.digs", "tree.rebuild", "erase.begin", "erase.tenant", "erase.rows_gone", "erase.receipt"),
}
"""Every unit of work that this script is killed in."""


def pieces_in(folder: Path) -> set[bytes]:
    """Return every piece of 8 bytes of any words in any file of a folder."""
    runs = [found[0] for path in folder.iterdir() for found in RUN.finditer(path.read_bytes())]
    return {found[i : i + PIECE] for found in runs for i in range(len(found) - PIECE + 1)} & PIECES


@pytest.mark.parametrize("live", [script.plain, script.sealed], ids=["plain", "encrypted"])
def test_lines_of_a_model_survive_a_death_at_every_commit_and_a_tenant_goes_whole(
    live: Callable[[Path], None], is_long: bool, record_property: Callable[[str, object], None]
):
    keys = KEYS if live is script.sealed else None
    only: Any = "" if is_long else partial(at_one_moment, WITH_A_MODEL, 0 if keys is None else 1)

    def check(folder: Path, death: Death) -> None:
        look(folder, keys is not None)
        with Everlog(open_store(home(folder) / "everlog.db", keys=keys)) as memory:
            whole(memory)
            done = acknowledged(folder)
            if "said" in done and not receipts(memory):
                assert [entry.text for entry in memory.thread("long").entries()] == script.said()
            if "made again" in done and not receipts(memory):
                assert len(dump(memory.store, memory.name)["node"]) == 2 * script.MESSAGES - 1
        live(folder)
        look(folder, keys is not None)
        with Everlog(open_store(home(folder) / "everlog.db", keys=keys)) as memory:
            whole(memory)
            texts = {one.key: [entry.text for entry in memory.thread(one.key).entries()] for one in memory.threads()}
            assert texts == {"after": [words("after", 60)]}, death
            assert {*receipts(memory)} == {"done"}
            assert {name for name, rows in dump(memory.store, memory.name).items() if rows} <= LEFT

    report = run(live, check, hits=1, only=only)
    record_property("told", f"{live.__name__}, with a model: {report}")
    assert {death.point.rpartition(".")[0] for death in report.deaths} == WITH_A_MODEL


WAITING = {"pump.renew"}
"""Only where a request takes long: `test_pump_crash.py`."""

TALKING = {
    *("turn.abort", "turn.begin", "turn.record", "turn.release", "turn.renew", "turn.spool", "turn.take"),
    *("context.prepare", "pump.spend", "rolling.rebuild"),
}
"""Of a conversation: `test_turn_crash.py`, `test_turn_trouble.py`; the last drops what the pump makes again."""

LEFT = {"tenant", "thread", "entry", "turn", "due", "wrapped_key"}
"""The tables that a tenant with one thread of one message has rows in."""


def look(folder: Path, sealed: bool) -> None:
    """No file holds a piece of any words if it is sealed, nor of those that were erased if it is not."""
    found = pieces_in(home(folder))
    if sealed:
        assert found == set()
    elif "erased" in acknowledged(folder):
        after = words("after", 60).encode()
        assert all(piece in after for piece in found)


def test_every_unit_that_commits_is_killed_in_one_of_the_crash_tests():
    source = Path(everlog.__file__).parent
    ours = (path for path in source.rglob("*.py") if "testing" not in path.parts)
    named = {name for path in ours for name in NAMED.findall(path.read_text("utf-8"))}
    assert named | {"upgrade", "pump.ask"} == (
        EVERYWHERE | ENCRYPTING | ROTATING | WITH_A_MODEL | WAITING | TALKING | WITH_KEYS | ASKING
    )


NAMED = re.compile(r'\bname="([a-z]+\.[a-z_]+)"')
