"""Appending a turn of two entries of 1 KB, beside the same two rows in plain SQLite, one after the other in turns."""

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import Naive, engine, folder, opened, turn

SIZE = 1_000
ROUNDS = 3


def measure(sheet: Sheet) -> None:
    """Measure it plain and encrypted."""
    count, size = sheet.pick(1500, 20), "turn of 2 × 1 KB"
    for encrypted in (False, True):
        rounds = [_round(count, encrypted=encrypted) for _ in range(sheet.pick(ROUNDS, 1))]
        ours, naive, kept = zip(*rounds, strict=True)
        name, rival = engine(encrypted=encrypted), engine()
        sheet.row("append of a turn, p50", size, name, min(one.ms() for one in ours), "ms", at_most=1)
        sheet.row("append of a turn, p99", size, name, min(one.ms(0.99) for one in ours), "ms", at_most=30)
        sheet.row("append of a turn, CPU", size, name, min(one.cpu_ms() for one in ours), "ms")
        sheet.row("two rows in plain SQLite, p50", size, rival, min(one.ms() for one in naive), "ms")
        sheet.row("two rows in plain SQLite, p99", size, rival, min(one.ms(0.99) for one in naive), "ms")
        sheet.row("bytes on disk for an entry", "1 KB", name, min(kept), "B")


def _round(count: int, *, encrypted: bool) -> tuple[Times, Times, float]:
    """Return the durations of both sides, and the bytes that ours keeps an entry in."""
    ours, naive = Times(), Times()
    with folder() as place:
        plain = Naive(place / "naive.db", synchronous="NORMAL")
        with opened(place / "everlog.db", encrypted=encrypted) as memory:
            thread = memory.thread("talk")
            thread.turn(turn(0, SIZE))
            for i in range(1, count + 1):
                said = turn(i, SIZE)
                ours.take(thread.turn, said)
                naive.take(plain.append, "talk", i, said)
        plain.close()
        kept = sum(path.stat().st_size for path in place.glob("everlog.db*"))
    return ours, naive, kept / (2 * count)


if __name__ == "__main__":
    raise SystemExit(fill("append", measure))
