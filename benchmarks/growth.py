"""What a thread costs as it grows to a million entries: an append, and a view, also where next to nothing is built.

Appends to the long thread and to one of a thousand entries are measured in turns, each in a database of its own. The
tree is built by a compactor that only clips, since what it says does not matter here.
"""

import sqlite3
from typing import Any, ClassVar

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import connecting, engine, folder, grow, opened, turn
from everlog import Thread
from everlog.memory.interface import Answer, Request
from everlog.tokens import cut

SIZE = 120
BUDGET = 80_000
OTHER_BUDGET = 70_000
UNBUILT_BUDGET = 75_000
VIEWS = 30
LINE_BYTES = 400


class Counting(sqlite3.Connection):
    """A connection that counts the statements that ask or change something."""

    statements: ClassVar[list[str]] = []

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")):
            self.statements.append(sql)
        return super().execute(sql, *parameters)


class Clipping:
    """A compactor that takes the beginning of what it is given."""

    model = "clip"

    def __call__(self, request: Request) -> Answer:
        said = request.source[0]
        return Answer(text="", arguments={"pieces": [[said.kind, cut(said.text, LINE_BYTES)]]}, model=self.model)


def measure(sheet: Sheet) -> None:
    """Grow one thread in steps; view it at each but the first, and compare appends at the end."""
    first, *later = sheet.pick((1_000, 100_000, 1_000_000), (20, 200, 400))
    with (
        folder() as place,
        connecting(Counting),
        opened(place / "short.db") as brief,
        opened(place / "long.db") as memory,
    ):
        short, long = brief.thread("talk"), memory.thread("talk")
        grow(short, first, SIZE)
        start = 0
        for count in later:
            _grown(sheet, long, start, count)
            _viewed(sheet, long, count)
            start = count
        _appended(sheet, short, long, first, later[-1])


def _grown(sheet: Sheet, thread: Thread, start: int, count: int) -> None:
    grown, pumped = Times(), Times()
    grown.take(grow, thread, count, SIZE, start=start)
    _viewed_unbuilt(sheet, thread, start, count)
    ran = pumped.take(thread.pump, Clipping())
    size = f"{count:,} × {SIZE} B"
    sheet.row(f"append in units of 1,000, from {start:,}", size, engine(), (count - start) / grown.best, "msg/s")
    sheet.row("pump with a compactor that clips", size, engine(), ran.steps / pumped.best, "nodes/s")


def _viewed_unbuilt(sheet: Sheet, thread: Thread, built: int, count: int) -> None:
    times = Times()
    for _ in range(5):
        text = times.take(thread.tree.view, UNBUILT_BUDGET)
        assert len(text.encode()) <= UNBUILT_BUDGET, "a budget is a promise"
    what, size = f"view of {UNBUILT_BUDGET:,} bytes, {built:,} built", f"{count:,} × {SIZE} B"
    sheet.row(what, size, engine(), times.ms(), "ms", at_most=250)


def _viewed(sheet: Sheet, thread: Thread, count: int) -> None:
    first, again = Times(), Times()
    size = f"{count:,} × {SIZE} B"
    text = first.take(thread.tree.view, BUDGET)
    assert len(text.encode()) <= BUDGET, "a budget is a promise"
    thread.tree.view(BUDGET)
    Counting.statements.clear()
    for _ in range(VIEWS):
        again.take(thread.tree.view, BUDGET)
    asked = len(Counting.statements) / VIEWS
    own = sum(table in sql for sql in Counting.statements for table in ("FROM node", "FROM saved_view")) / VIEWS
    sheet.row(f"view of {BUDGET:,} bytes, p50", size, engine(), again.ms(), "ms", at_most=5)
    sheet.row(f"first fold to {BUDGET:,} bytes", size, engine(), first.ms(), "ms", at_most=10_000)
    other = Times()
    other.take(thread.tree.view, OTHER_BUDGET)
    sheet.row(f"first fold to {OTHER_BUDGET:,} bytes, a new budget", size, engine(), other.ms(), "ms", at_most=10_000)
    sheet.row("statements of a view: of the tree", size, engine(), own, "", at_most=2)
    sheet.row("statements of a view: all", size, engine(), asked)


def _appended(sheet: Sheet, short: Thread, long: Thread, few: int, many: int) -> None:
    little, much = Times(), Times()
    for i in range(sheet.pick(600, 5)):
        said = turn(i, SIZE)
        little.take(short.turn, said)
        much.take(long.turn, said)
    sheet.row("append of a turn, p50", f"at {few:,} entries", engine(), little.ms(), "ms")
    sheet.row("append of a turn, p50", f"at {many:,} entries", engine(), much.ms(), "ms", at_most=1)
    sheet.row(
        "the long thread / the short one", f"{many:,} / {few:,}", engine(), much.ms() / little.ms(), "×", at_most=1.5
    )


if __name__ == "__main__":
    raise SystemExit(fill("growth", measure))
