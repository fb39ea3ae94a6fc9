"""What an erasure leaves in the files of a plain database, where pages were moved, split and merged before."""

import random
import re
import string
from datetime import timedelta
from pathlib import Path

import pytest

from everlog import Everlog, Origin
from everlog.store import open_store
from everlog.testing import FrozenClock

PIECE = 16
LETTERS = string.ascii_letters + string.digits + " "
RUN = re.compile(rb"[A-Za-z0-9 ]{%d,}" % PIECE)
THREADS = [f"t{k}" for k in range(6)]
MOVED = [(1, 120, (600, 900, 3000)), (11, 300, (900, 3000)), (5, 300, (20, 24, 40, 60, 200, 900, 3000, 9000))]
"""Seeds, messages, and their sizes in bytes, with which SQLite leaves copies in pages that it moved (measured)."""


def left(folder: Path, texts: list[str]) -> dict[str, int]:
    """Return how many pieces of the texts are in each file that has some."""
    wanted = {text[i : i + PIECE].encode() for text in texts for i in range(len(text) - PIECE + 1)}
    found = {}
    for path in folder.iterdir():
        runs = [run[0] for run in RUN.finditer(path.read_bytes())]
        found[path.name] = sum(run[i : i + PIECE] in wanted for run in runs for i in range(len(run) - PIECE + 1))
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize(("seed", "messages", "sizes"), MOVED, ids=["long", "many", "mixed"])
@pytest.mark.parametrize("target", ["thread", "user", "tenant"])
def test_no_words_of_what_was_erased_are_in_any_file_also_where_lines_were_derived(
    tmp_path: Path, target: str, seed: int, messages: int, sizes: tuple[int, ...]
):
    chance = random.Random(seed)
    letters = [LETTERS[n % len(LETTERS)] for n in range(256)]
    gone: list[str] = []
    clock = FrozenClock(step=timedelta(milliseconds=1))
    with Everlog(open_store(tmp_path / "everlog.db", clock=clock)) as memory:
        for _ in range(messages):
            key = f"t{chance.randrange(6)}"
            text, author = ("".join(letters[n] for n in chance.randbytes(size)) for size in (chance.choice(sizes), 24))
            memory.thread(key).append("user", text, author=author, origin=Origin(user=key))
            if key == "t0" or target == "tenant":
                gone += [text, author]
            if chance.random() < 0.05:
                memory.thread(key).pump()
        for key in THREADS:
            memory.thread(key).pump()
            memory.thread(key).tree.view(2000)
        assert left(tmp_path, gone)
        match target:
            case "thread":
                receipt = memory.erase(thread="t0")
            case "user":
                receipt = memory.erase(user="t0")
            case _:
                receipt = memory.erase_tenant()
        assert (receipt.state, receipt.holds) == ("done", ())
        assert left(tmp_path, gone) == {}
        if target != "tenant":
            assert {overview.key for overview in memory.threads()} >= {*THREADS[1:]}
    assert left(tmp_path, gone) == {}
