"""Building a tree: the rate at which its rows are written, in batches, and at which the whole pump makes them."""

from collections.abc import Callable
from typing import Any

from benchmarks._sheet import Sheet, Times, fill
from benchmarks._stock import engine, folder, grow, opened
from everlog import Everlog


def measure(sheet: Sheet) -> None:
    """Measure it plain and encrypted, with the built-in compactor."""
    count, size = sheet.pick(20_000, 100), 120
    shape = f"{count:,} × {size} B"
    for encrypted in (False, True):
        whole = Times()
        with folder() as place, opened(place / "everlog.db", encrypted=encrypted) as memory:
            thread = memory.thread("talk")
            grow(thread, count, size)
            writes = _watched(memory)
            ran = whole.take(thread.pump)
        name = engine(encrypted=encrypted)
        sheet.row(
            "node writes alone, 500 a unit", shape, name, ran.steps / sum(writes.seconds), "nodes/s", at_least=20_000
        )
        sheet.row("node writes alone, CPU", shape, name, ran.steps / sum(writes.cpu), "nodes/s")
        sheet.row("pump: read, extract, judge, write", shape, name, ran.steps / whole.best, "nodes/s")
        sheet.row("pump: read, extract, judge, write, CPU", shape, name, ran.steps / sum(whole.cpu), "nodes/s")


def _watched(memory: Everlog) -> Times:
    """Return the durations of the pump's writes from now on."""
    times = Times()
    write: Callable[..., Any] = memory.store.write

    def watched(tenant: str, act: Callable[..., Any], *, name: str) -> Any:
        return times.take(write, tenant, act, name=name) if name == "pump.write" else write(tenant, act, name=name)

    memory.store.write = watched  # type: ignore[method-assign]
    return times


if __name__ == "__main__":
    raise SystemExit(fill("nodes", measure))
