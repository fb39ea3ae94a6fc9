"""Exporting a thread as lines of JSON: each entry is read, opened if it is sealed, and written."""

from pathlib import Path

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, grow, opened
from everlog import Thread

ROUNDS = 3


def measure(sheet: Sheet) -> None:
    """Measure it plain and encrypted."""
    count, size = sheet.pick(100_000, 200), 120
    for encrypted in (False, True):
        times = Times()
        with folder() as place, opened(place / "everlog.db", encrypted=encrypted) as memory:
            thread = memory.thread("talk")
            grow(thread, count, size)
            for _ in range(sheet.pick(ROUNDS, 1)):
                times.take(_write, thread, place / "talk.jsonl")
        sheet.row("export", f"{count:,} × {size} B", engine(encrypted=encrypted), count / times.best, "msg/s")


def _write(thread: Thread, path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(thread.export())


if __name__ == "__main__":
    raise SystemExit(fill("export", measure))
