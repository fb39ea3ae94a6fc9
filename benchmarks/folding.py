"""Importing a file and folding it with the built-in compactor, into one database: from the words to a whole tree."""

from pathlib import Path

import everlog
from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, opened, write_everlog
from everlog.memory.tree.nodes import nodes_in

ROUNDS = 2


def measure(sheet: Sheet) -> None:
    """Measure it for short messages and for long ones."""
    for count, size, bound in ((sheet.pick(20_000, 100), 120, 2_000), (sheet.pick(6_000, 40), 1_000, 500)):
        with folder() as place:
            source = place / "talk.jsonl"
            write_everlog(source, count, size)
            rounds = [_once(source, place / f"{n}.db", count) for n in range(sheet.pick(ROUNDS, 1))]
        wall, cpu = (min(taken) for taken in zip(*rounds, strict=True))
        shape = f"{count:,} × {size:,} B"
        sheet.row("import and fold with Extractive", shape, engine(), count / wall, "msg/s", at_least=bound)
        sheet.row("import and fold with Extractive, CPU alone", shape, engine(), count / cpu, "msg/s")


def _once(source: Path, database: Path, count: int) -> tuple[float, float]:
    """Import and fold once; return how long both took together, by the clock on the wall and of CPU."""
    times = Times()
    with opened(database) as memory:
        (key,) = times.take(_add, memory, source)
        ran = times.take(memory.thread(key).pump)
        assert (ran.steps, ran.done) == (nodes_in(count), True), "the tree is whole"
    return sum(times.seconds), sum(times.cpu)


def _add(memory: everlog.Everlog, source: Path) -> list[str]:
    with everlog.read(source) as reading:
        return [memory.add(found).key for found in reading if isinstance(found, everlog.Conversation)]


if __name__ == "__main__":
    raise SystemExit(fill("folding", measure))
