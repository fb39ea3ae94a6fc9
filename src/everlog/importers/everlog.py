"""Everlog's own export (see `everlog.jsonl`): one thread or several, one after the other.

A thread begins at position 0, is a line of its own where it is empty, or where a line names another one. Its positions must follow each other: a thread with a
hole is not what was exported, and is reported instead of taken.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from everlog.importers.records import Value
from everlog.importers.report import Problem, Tally
from everlog.importers.shapes import record
from everlog.importers.source import Source
from everlog.importers.times import NO_ZONE
from everlog.jsonl import REQUIRED, BadLine, Line, Transcript, is_empty_thread, parse_line
from everlog.messages import JSON, Entry, Origin

KEY = "everlog"

_ZONE = re.compile(r"[+-]\d\d(:?\d\d)*$")


def knows(value: JSON) -> bool:
    """Whether value is a line of this form."""
    return record(value).keys() >= set(REQUIRED) or is_empty_thread(value)


def conversations(records: Iterable[Value | Problem], source: Source, tally: Tally) -> Iterator[Transcript | Problem]:
    """Yield each thread as a `Transcript`; one that does not name itself is named after the file."""
    thread: _Thread | None = None
    unnamed = 0
    broken = False
    for item in records:
        line = _line(item, tally)
        if not isinstance(line, Line) or not isinstance(item, Value):
            broken = True
            if isinstance(line, Problem):
                yield line
            continue
        if thread is None or line.entry is None or thread.is_over(line, line.entry, broken=broken):
            if thread is not None:
                yield thread.ended()
            unnamed += line.thread is None
            stem = f"{KEY}:{source.path.stem}"
            thread = _Thread(line, stem if unnamed == 1 else f"{stem}:{unnamed}", item)
        if line.entry is None:
            yield thread.ended()
            thread = None
        else:
            thread.add(line.entry)
        broken = False
    if thread is not None:
        yield thread.ended()


def _line(item: Value | Problem, tally: Tally) -> Line | Problem:
    if isinstance(item, Problem):
        return item
    try:
        line = parse_line(item.value)
    except BadLine as error:
        return Problem(where=item.where, reason=str(error), position=item.position)
    time = record(item.value).get("time", "Z")
    if not time.endswith("Z") and not _ZONE.search(time):
        tally.assumed[NO_ZONE] += 1
    return line


class _Thread:
    """A thread under way."""

    def __init__(self, first: Line, name: str, item: Value) -> None:
        self._first = first
        self._key = first.thread or name
        self._item = item
        self._entries: list[Entry] = []
        self._missing: int | None = None

    def is_over(self, line: Line, entry: Entry, *, broken: bool) -> bool:
        """Whether the line is of another thread; `broken` if one before it could not be read and may have begun it."""
        expected = self._entries[-1].i + 1
        other = line.thread not in {None, self._key}
        return other or entry.i < expected or (broken and entry.i == expected)

    def add(self, entry: Entry) -> None:
        """Take in the next entry."""
        expected = self._entries[-1].i + 1 if self._entries else 0
        if entry.i != expected and self._missing is None:
            self._missing = expected
        if entry.turn < 0:
            turn = self._entries[-1].turn + (entry.kind == "user") if self._entries else 0
            entry = replace(entry, turn=turn)
        self._entries.append(entry)

    def ended(self) -> Transcript | Problem:
        """Return the whole of it."""
        if self._missing is not None:
            reason = f"a thread of it has a hole: position {self._missing} is missing"
            return Problem(where=self._item.where, reason=reason, position=self._item.position)
        return Transcript(
            key=self._key,
            title=self._first.title,
            messages=tuple(entry.message for entry in self._entries),
            parent=self._first.parent,
            shared=self._first.shared,
            origin=self._entries[0].origin if self._entries else Origin(),
            instructions=self._first.instructions,
            entries=tuple(self._entries),
        )
