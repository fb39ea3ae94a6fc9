"""Appending a turn of two entries of 1 KB, beside the same two rows in plain SQLite, one after the other in turns."""

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import Naive, engine, folder, opened, turn

SIZE = 1_000
ROUNDS = 3


def measure(sheet: Sheet) -> None:
    """Measure it plain and encrypted."""
    for encrypted in (False, True):
        best = min(
            (_round(sheet.pick(1500, 20), encrypted=encrypted) for _ in range(ROUNDS)), key=lambda one: one[0].ms()
        )
        ours, naive = best
        size, name = "turn of 2 × 1 KB", engine(encrypted=encrypted)
        sheet.row("append of a turn, p50", size, name, ours.ms(), "ms", at_most=1)
        sheet.row("append of a turn, p99", size, name, ours.ms(0.99), "ms", at_most=30)
        sheet.row("append of a turn, CPU", size, name, ours.cpu_ms(), "ms")
        sheet.row("two rows in plain SQLite, p50", size, engine(), naive.ms(), "ms")
        sheet.row("two rows in plain SQLite, p99", size, engine(), naive.ms(0.99), "ms")


def _round(count: int, *, encrypted: bool) -> tuple[Times, Times]:
    ours, naive = Times(), Times()
    with folder() as place, opened(place / "everlog.db", encrypted=encrypted) as memory:
        plain = Naive(place / "naive.db", synchronous="NORMAL")
        thread = memory.thread("talk")
        thread.turn(turn(0, SIZE))
        for i in range(1, count + 1):
            said = turn(i, SIZE)
            ours.take(thread.turn, said)
            naive.take(plain.append, "talk", i, said)
        plain.close()
    return ours, naive


if __name__ == "__main__":
    raise SystemExit(fill("append", measure))
