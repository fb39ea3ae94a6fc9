"""Eight writers at once with `synchronous=FULL`, beside eight naive ones that poll for SQLite's lock.

What group commit saves is waiting for the disk, so what it gains depends on how long that takes. On a disk that syncs in
no time at all there is nothing to gain. So each commit is also measured with a sleep of 4 ms, about what a solid-state
disk of a server takes, on all sides; there the promise is judged. As it is, the disk at hand is shown as well.

A naive writer stores two plain rows; a lone one stores all that we do, in a database of its own on the same file.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._sheet import Sheet, Times, fill, percentile
from benchmarks._stock import Naive, connecting, engine, folder, opened, turn
from everlog import Message
from everlog.errors import EverlogError

WRITERS = 8
SIZE = 1_000
SYNC_S = 0.004
ROUNDS = 3

Append = Callable[[int, tuple[Message, Message]], Any]


class SlowDisk(sqlite3.Connection):
    """A connection whose commits take 4 ms longer."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            time.sleep(SYNC_S)
        return super().execute(sql, *parameters)


@dataclass(slots=True)
class Tally:
    """What a side did in all of its rounds."""

    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Turns a second."""
        return len(self.waits) / self.seconds

    def ms(self, share: float) -> float:
        """Return how long a share of the appends took at most."""
        return percentile(self.waits, share) * 1000


def measure(sheet: Sheet) -> None:
    """Measure both disks, plain and encrypted."""
    with folder() as place:
        sheet.row(
            "sync of 4 KB on this disk, p50", "fdatasync", "", _sync(place / "sync", sheet.pick(200, 5)).ms(), "ms"
        )
    seconds = sheet.pick(2.0, 0.1)
    for encrypted, slow in ((False, True), (True, True), (False, False)):
        ours, naive, lone = Tally(), Tally(), Tally()
        for _ in range(sheet.pick(ROUNDS, 1)):
            with folder() as place, connecting(SlowDisk) if slow else nullcontext():
                _naive(place, seconds, naive)
                _ours(place, seconds, ours, encrypted=encrypted)
                _lone(place, seconds, lone)
        size = f"{WRITERS} × turns of 2 × 1 KB"
        name = engine(encrypted=encrypted, synchronous="FULL")
        disk = "a sync takes 4 ms" if slow else "this disk"
        sheet.row(f"8 writers, {disk}", size, name, ours.rate, "turns/s")
        sheet.row(f"8 naive writers, {disk}", size, engine(synchronous="FULL"), naive.rate, "turns/s")
        sheet.row(f"ours / naive, {disk}", size, name, ours.rate / naive.rate, "×", at_least=2 if slow else None)
        if not encrypted:
            sheet.row(f"8 lone writers, {disk}", size, name, lone.rate, "turns/s")
            sheet.row(f"ours / lone, {disk}", size, name, ours.rate / lone.rate, "×", at_least=2 if slow else None)
            sheet.row(f"8 lone writers, longest, {disk}", size, name, lone.ms(1), "ms")
        sheet.row(f"8 writers, p99, {disk}", size, name, ours.ms(0.99), "ms", at_most=100)
        sheet.row(f"8 naive writers, longest, {disk}", size, engine(synchronous="FULL"), naive.ms(1), "ms")
        sheet.row(f"8 writers, errors, {disk}", size, name, len(ours.errors), "", at_most=0)


def _sync(path: Path, count: int) -> Times:
    times = Times()
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(bytes(4096))
            times.take(os.fdatasync, file.fileno())
    return times


def _naive(place: Path, seconds: float, tally: Tally) -> None:
    rivals = [Naive(place / "naive.db", synchronous="FULL") for _ in range(WRITERS)]

    def writer(k: int) -> Append:
        return lambda i, said: rivals[k].append(f"talk {k}", i, said)

    _drive(writer, seconds, tally)
    for rival in rivals:
        rival.close()


def _ours(place: Path, seconds: float, tally: Tally, *, encrypted: bool) -> None:
    with opened(place / "everlog.db", encrypted=encrypted, synchronous="FULL") as memory:
        threads = [memory.thread(f"talk {k}") for k in range(WRITERS)]
        _drive(lambda k: lambda _, said: threads[k].turn(said), seconds, tally)


def _lone(place: Path, seconds: float, tally: Tally) -> None:
    with ExitStack() as stack:
        rivals = [stack.enter_context(opened(place / "lone.db", synchronous="FULL")) for _ in range(WRITERS)]
        threads = [memory.thread(f"talk {k}") for k, memory in enumerate(rivals)]
        _drive(lambda k: lambda _, said: threads[k].turn(said), seconds, tally)


def _drive(writer: Callable[[int], Append], seconds: float, tally: Tally) -> None:
    """Let all writers append for some seconds."""
    began = time.perf_counter()

    def work(k: int) -> None:
        append, i = writer(k), 0
        while (before := time.perf_counter()) < began + seconds:
            try:
                append(i, turn(i, SIZE))
            except (EverlogError, sqlite3.Error) as error:
                tally.errors.append(error)
            else:
                tally.waits.append(time.perf_counter() - before)
            i += 1

    workers = [threading.Thread(target=work, args=(k,)) for k in range(WRITERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    tally.seconds += time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(fill("writers", measure))
