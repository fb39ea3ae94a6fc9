"""Importing 100,000 messages of 120 bytes from a file, each time in a fresh process; and importing them again."""

import multiprocessing
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import everlog
from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, opened, write_everlog, write_openai

SIZE = 120
ROUNDS = 2
FORMS: dict[str, Callable[[Path, int, int], None]] = {"Everlog JSONL": write_everlog, "OpenAI JSONL": write_openai}


def measure(sheet: Sheet) -> None:
    """Measure both forms, plain and encrypted."""
    count = sheet.pick(100_000, 200)
    size = f"{count:,} × {SIZE} B"
    for form, write in FORMS.items():
        with folder() as place:
            source = place / "talk.jsonl"
            write(source, count, SIZE)
            for encrypted in sheet.pick((False, True), (True,)):
                rounds = [
                    _apart(source, place / f"{encrypted}-{n}.db", encrypted=encrypted)
                    for n in range(sheet.pick(ROUNDS, 1))
                ]
                times, resident = min(rounds, key=lambda one: one[0].seconds[0])
                name = engine(encrypted=encrypted)
                sheet.row(f"import, {form}", size, name, count / times.seconds[0], "msg/s", at_least=5_000)
                sheet.row(f"import, {form}, CPU alone", size, name, count / times.cpu[0], "msg/s")
                sheet.row(f"import, {form}, resident at most", size, name, resident / (1 << 20), "MB", at_most=300)
                sheet.row(f"import, {form}, again", size, name, count / times.seconds[1], "msg/s")


def _apart(source: Path, database: Path, *, encrypted: bool) -> tuple[Times, int]:
    """Import in a process of its own, since memory once used is never given back."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(bring, (source, database, encrypted))


def bring(source: Path, database: Path, encrypted: bool) -> tuple[Times, int]:
    """Import a file twice; return how long each took, and the most bytes that this process ever held."""
    times = Times()
    with opened(database, encrypted=encrypted) as memory:
        for n in range(2):
            brought, known = times.take(_add, memory, source)
            assert (known > 0, brought > 0) == (n == 1, n == 0), "the first brings all, the second nothing"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return times, peak * (1 if sys.platform == "darwin" else 1024)


def _add(memory: everlog.Everlog, source: Path) -> tuple[int, int]:
    brought = known = 0
    with everlog.read(source) as reading:
        for found in reading:
            assert isinstance(found, everlog.Conversation), "the file is without fault"
            added = memory.add(found)
            brought, known = brought + added.entries, known + added.known
    return brought, known


if __name__ == "__main__":
    raise SystemExit(fill("imports", measure))
