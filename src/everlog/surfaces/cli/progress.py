"""A progress bar for people: on standard error, only where that is a terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from everlog.surfaces.cli.console import flat


class Bar:
    """How far something is; this one is told, and shows nothing."""

    def to(self, done: int, of: int) -> None:
        """Show how much is done."""

    def busy(self, words: str) -> None:
        """Show that something is being done whose end is not known."""


class _Shown(Bar):
    def __init__(self, progress: Progress, label: str) -> None:
        self._progress = progress
        self._label = label
        self._task = progress.add_task(label, total=None)

    def to(self, done: int, of: int) -> None:
        self._progress.update(self._task, description=self._label, completed=done, total=max(done, of))

    def busy(self, words: str) -> None:
        self._progress.reset(self._task, description=f"{self._label}: {words}", total=None, start=True)


@contextmanager
def bar(label: str) -> Iterator[Bar]:
    """Show how far something is while the block runs."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Bar()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(file=sys.stderr), transient=True) as progress:
        yield _Shown(progress, flat(label))
