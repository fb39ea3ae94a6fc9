"""The table that all benchmarks fill: one row a result, with its size, its engine, and the bound it has to keep."""

import argparse
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

HEADING = f"{'NAME':11} {'what':43} {'size':22} {'engine':25} {'measured':>14}  {'must be':15}".rstrip()


@dataclass(slots=True)
class Sheet:
    """Prints rows as they come and remembers whether a bound was missed."""

    name: str
    quick: bool
    """Whether this is the short form, in which no bound is judged."""
    missed: int = field(default=0, init=False)

    def pick(self, full: T, quick: T) -> T:
        """Return one of two sizes: of the full form, or of the short one."""
        return quick if self.quick else full

    def row(
        self,
        what: str,
        size: str,
        engine: str,
        value: float | str,
        unit: str = "",
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        counted: bool = False,
    ) -> None:
        """Print one result; a number with a bound is judged by it, in the short form if it was counted, not measured."""
        bound = verdict = ""
        if isinstance(value, float | int):
            if at_most is not None:
                bound, kept = f"≤ {_shown(at_most)} {unit}".rstrip(), value <= at_most
            elif at_least is not None:
                bound, kept = f"≥ {_shown(at_least)} {unit}".rstrip(), value >= at_least
            else:
                kept = True
            if bound and (counted or not self.quick):
                verdict = "ok" if kept else "MISSED"
                self.missed += not kept
            value = f"{_shown(value)} {unit}".rstrip()
        print(f"{self.name:11} {what:43} {size:22} {engine:25} {value:>14}  {bound:15} {verdict}".rstrip(), flush=True)


def fill(name: str, measure: Callable[[Sheet], None]) -> int:
    """Run one benchmark as a program; return its exit code, 1 if a bound was missed."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("--quick", action="store_true", help="the short form, which judges nothing")
    parser.add_argument("--no-heading", action="store_true", help="print rows only")
    chosen = parser.parse_args()
    if not chosen.no_heading:
        print(HEADING)
    sheet = Sheet(name, chosen.quick)
    measure(sheet)
    return 1 if sheet.missed else 0


@dataclass(slots=True)
class Times:
    """Durations of many runs of one thing, in seconds."""

    seconds: list[float] = field(default_factory=list)
    """By the clock on the wall."""
    cpu: list[float] = field(default_factory=list)
    """Of the whole process, all threads together."""

    def take(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it once and note how long it took."""
        cpu, wall = time.process_time(), time.perf_counter()
        result = act(*args, **kwargs)
        self.seconds.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        return result

    @property
    def best(self) -> float:
        """The shortest, by the clock on the wall."""
        return min(self.seconds)

    def ms(self, share: float = 0.5) -> float:
        """Return the duration that a share of the runs did not exceed, in milliseconds: 0.5 is the median."""
        return percentile(self.seconds, share) * 1000

    def cpu_ms(self, share: float = 0.5) -> float:
        """Return the same in CPU time."""
        return percentile(self.cpu, share) * 1000


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least a share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, bisect_left(range(1, len(ordered) + 1), share * len(ordered)))]


def _shown(value: float) -> str:
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
