"""A snapshot of a tree for the pump: the stretch of the log in which nodes are missing, and what is built around it.

A node becomes possible when its last entry is there. In that order (by last entry, halves first) the stretch begins at
the first node that is missing, and reaches a few hundred entries, or a few megabytes, further.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from everlog import log
from everlog.log import ThreadRow
from everlog.memory.interface import Accept, Digest, Subject, Verdict
from everlog.memory.tree.lines import LIMIT_BYTES, Line, joined, source
from everlog.memory.tree.nodes import children_of, cover, ending_within, level_of, stop_of
from everlog.memory.tree.shelf import Shelf, first_missing
from everlog.store import Unit

WINDOW = 512
"""Entries that one snapshot reaches over."""

WINDOW_BYTES = 4 << 20
"""Text after which a snapshot takes in no further entries."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Whose rows were read, and under which generations; if that has changed, what was read must not be written."""

    segments: tuple[tuple[str, int], ...]
    generations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Node:
    """A node to be kept."""

    nid: int
    line: Line
    inputs: Digest
    seen: Seen
    model: str | None = None
    """What made it; None if it is its own source."""
    prompt: str | None = None
    """Id of the prompt that it was made with, if there was one."""
    fallback: bool = False
    """Whether it stands in for answers that could not be used."""


@dataclass(frozen=True, slots=True)
class Window:
    """A snapshot."""

    subject: Subject
    count: int
    """Entries of the thread."""
    start: int
    stop: int
    seen: Seen
    lines: Mapping[int, Line]
    """What is built: nodes that end in the stretch, and the roots of what comes before it."""
    sources: Mapping[int, Line]
    """Entries of the stretch whose leaf is missing."""
    secret: bytes = field(repr=False)
    """Keys the digests, so that they say nothing of the text."""
    _free: dict[int, Line] = field(default_factory=dict, compare=False, repr=False)

    def after(self, verdicts: Sequence[Verdict]) -> Self:
        """Return the snapshot with the accepted nodes in it."""
        accepted = [row for verdict in verdicts if isinstance(verdict, Accept) for row in verdict.rows]
        return replace(self, lines={**self.lines, **{node.nid: node.line for node in accepted}}, _free={})

    def line(self, nid: int) -> Line | None:
        """Return a node that is built, or is its own source."""
        if nid in self.lines:
            return self.lines[nid]
        if nid not in self._free:
            made = self.source(nid)
            if made is None or made.size_bytes > LIMIT_BYTES:
                return None
            self._free[nid] = made
        return self._free[nid]

    def source(self, nid: int) -> Line | None:
        """Return what a node is made of, or None as long as one of its halves is missing."""
        if not level_of(nid):
            return self.sources.get(nid)
        left, right = children_of(nid)
        one, other = self.line(left), self.line(right)
        return None if one is None or other is None else joined(one, other)


def window(unit: Unit, subject: Subject) -> Window:
    """Take the snapshot of a thread."""
    thread = log.load(unit, subject.key)
    missing = first_missing(unit, thread)
    start = thread.next if missing is None else stop_of(missing) - 1
    stop = min(start + WINDOW, thread.next)
    lines = Shelf(unit, thread).lines([*cover(0, start), *ending_within(start, stop)])
    sources: dict[int, Line] = {}
    size = 0
    for some in _doubling([i for i in range(start, stop) if i not in lines]):
        for i, entry in log.at(unit, thread, some).items():
            sources[i] = source(entry)
            size += sources[i].size_bytes
        if size > WINDOW_BYTES:
            stop = some[-1] + 1
            break
    return Window(subject, thread.next, start, stop, seen(unit, thread, stop), lines, sources, unit.secret())


def seen(unit: Unit, thread: ThreadRow, stop: int) -> Seen:
    """Return whose rows entries up to `stop` are, and under which generations.

    Raises:
        Erased: one of them was erased, and its heir has not taken over yet.
    """
    owners = {owner for owner, _, _ in thread.spans(0, stop)} - {thread.id}
    generations = {owner: log.load(unit, owner).generation for owner in sorted(owners)}
    return Seen(thread.segments, {thread.id: thread.generation, **generations})


def _doubling(positions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield positions in pieces that grow, since nobody knows how large a message is before it is read."""
    begin, length = 0, 8
    while begin < len(positions):
        yield positions[begin : begin + length]
        begin, length = begin + length, length * 2
