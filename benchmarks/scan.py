"""Reading and verifying every entry of a thread, beside the rows alone, as SQLite gives them."""

import sqlite3
from pathlib import Path

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, grow, opened
from everlog import Thread

ROUNDS = 3


def measure(sheet: Sheet) -> None:
    """Measure it plain and encrypted."""
    count, size = sheet.pick(20_000, 200), 500
    shape = f"{count:,} × {size} B"
    for encrypted in (False, True):
        rows, read, verified = Times(), Times(), Times()
        with folder() as place, opened(place / "everlog.db", encrypted=encrypted) as memory:
            thread = memory.thread("talk")
            grow(thread, count, size)
            for _ in range(sheet.pick(ROUNDS, 1)):
                rows.take(_rows, place / "everlog.db")
                read.take(_read, thread)
                verified.take(_verify, thread)
        name = engine(encrypted=encrypted)
        sheet.row("rows alone, as SQLite gives them", shape, name, rows.best * 1000, "ms")
        sheet.row("read all entries", shape, name, read.best * 1000, "ms", at_most=2_000)
        sheet.row("read all entries", shape, name, count / read.best, "msg/s")
        sheet.row("verify all entries", shape, name, count / verified.best, "msg/s")


def _rows(path: Path) -> None:
    raw = sqlite3.connect(path)
    for _ in raw.execute("SELECT i, kind, turn, at, request, model, body FROM entry ORDER BY tenant, thread, i"):
        pass
    raw.close()


def _read(thread: Thread) -> None:
    for _ in thread.entries():
        pass


def _verify(thread: Thread) -> None:
    assert not [fault for checked in thread.verify() for fault in checked.faults], "the thread is whole"


if __name__ == "__main__":
    raise SystemExit(fill("scan", measure))
