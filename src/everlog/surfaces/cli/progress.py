"""A progress bar for people: on standard error, only where that is a terminal."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int, int], None]
"""Told how much is done, and of how much."""


@contextmanager
def bar(label: str) -> Iterator[Advance]:
    """Show how far something is while the block runs; give the block a function to say it with."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _silent
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    console = Console(file=sys.stderr)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, of: progress.update(task, completed=done, total=max(done, of))


def _silent(done: int, of: int) -> None:
    """Nobody is looking."""
