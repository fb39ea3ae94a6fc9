"""A snapshot of a tree for the pump: the stretch of the log in which nodes are missing, and what is built around it.

A node becomes possible when its last entry is there. In that order (by last entry, halves first) the stretch begins at
the first node that is missing, and reaches a few hundred entries, or a few megabytes, further.

For a model that is shown more than the source, the snapshot holds that too, for the next few nodes that need it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from everlog import log
from everlog.log import ThreadRow
from everlog.memory.interface import Accept, Digest, Subject, Verdict
from everlog.memory.sight import Seen, seen
from everlog.memory.tree import pairs, tries
from everlog.memory.tree.echoes import recalled
from everlog.memory.tree.lines import LIMIT_BYTES, Line, joined, source
from everlog.memory.tree.nodes import children_of, cover, ending_within, level_of, stop_of
from everlog.memory.tree.questions import Context
from everlog.memory.tree.shelf import Shelf, first_missing
from everlog.memory.tree.tries import Tried
from everlog.messages import Call, Entry
from everlog.store import Unit
from everlog.tokens import size_bytes

WINDOW = 240
"""Entries that one snapshot reaches over: as many as have 500 nodes at most, what one transaction of the pump keeps, so
that no line is read again while its window is built."""

WINDOW_BYTES = 4 << 20
"""Text after which a snapshot takes in no further entries."""


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
    calls: Mapping[int, Line] = field(default_factory=dict)
    """Of those entries that are tools' results, the call that each answers."""
    tried: Mapping[int, Tried] = field(default_factory=dict)
    """Earlier tries at nodes."""
    contexts: Mapping[int, Context] | None = None
    """What is shown beside the sources of the next few nodes; None where a source alone is enough."""
    digests: dict[tuple[int, str, str | None], Digest] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    """Digests of the inputs of nodes for a model and a prompt, kept since planning and judging both ask for them."""
    made: dict[int, Line] = field(init=False, default_factory=dict, compare=False, repr=False)
    """Sources above the leaves, put together once."""

    def after(self, verdicts: Sequence[Verdict]) -> Self | None:
        """Return the snapshot with the accepted nodes in it; None once a model that is shown more has answered."""
        accepted = [row for verdict in verdicts if isinstance(verdict, Accept) for row in verdict.rows]
        if self.contexts is not None and any(node.model is not None for node in accepted):
            return None
        later = replace(self, lines={**self.lines, **{node.nid: node.line for node in accepted}})
        later.digests.update(self.digests)  # a node that is accepted changes no source
        later.made.update(self.made)
        return later

    def line(self, nid: int) -> Line | None:
        """Return a node that is built, or is its own source."""
        built = self.lines.get(nid)
        if built is not None:
            return built
        made = self.source(nid)
        return None if made is None or made.size_bytes > LIMIT_BYTES else made

    def source(self, nid: int) -> Line | None:
        """Return what a node is made of, or None as long as one of its halves is missing."""
        if not level_of(nid):
            return self.sources.get(nid)
        made = self.made.get(nid)
        if made is None:
            left, right = children_of(nid)
            if (one := self.line(left)) is None or (other := self.line(right)) is None:
                return None
            made = self.made[nid] = joined(one, other)
        return made

    def given(self, nid: int, made: Line) -> Line:
        """Return the source of a node as it is given: a tool's result with the call before it."""
        return joined(self.calls[nid], made) if nid in self.calls else made

    def stands_on_built(self, nid: int) -> bool:
        """Return whether a node's halves are built, and not only about to be."""
        return level_of(nid) == 0 or all(half in self.lines for half in children_of(nid))

    def asking(self) -> Iterator[int]:
        """Yield the missing nodes that can be made now and are not their own source."""
        for nid in ending_within(self.start, self.stop):
            if nid not in self.lines and (made := self.source(nid)) is not None and made.size_bytes > LIMIT_BYTES:
                yield nid


def window(unit: Unit, subject: Subject) -> Window:
    """Take the snapshot of a thread."""
    thread = log.load(unit, subject.key)
    missing = first_missing(unit, thread)
    start = thread.next if missing is None else stop_of(missing) - 1
    stop = min(start + WINDOW, thread.next)
    lines = Shelf(unit, thread).lines([*cover(0, start), *ending_within(start, stop)])
    entries: dict[int, Entry] = {}
    size = 0
    for some in _doubling([i for i in range(start, stop) if i not in lines]):
        found = log.at(unit, thread, some)
        entries |= found
        size += sum(size_bytes(entry.text) for entry in found.values())
        if size > WINDOW_BYTES:
            stop = some[-1] + 1
            break
    sources, calls = _sources(unit, thread, entries)
    state = Window(subject, thread.next, start, stop, seen(unit, thread, stop), lines, sources, unit.secret(), calls)
    return replace(state, tried=tries.load(unit, thread, list(state.asking())))


def _sources(unit: Unit, thread: ThreadRow, entries: Mapping[int, Entry]) -> tuple[dict[int, Line], dict[int, Line]]:
    """Return the sources of entries, and the calls that tools' results among them answer."""
    sources: dict[int, Line] = {}
    answered: dict[int, Line] = {}
    before = _calls_before(unit, thread, entries)
    for i, entry in sorted(entries.items()):
        call = pairs.call_of(entry, before)
        ours = None if call is None else recalled(call)
        if ours is None and call is not None:
            answered[i] = pairs.shown_call(call)
        sources[i] = source(entry) if ours is None else ours
        if entry.message.call is not None:
            before[entry.message.call.call_id] = entry.message.call
    return sources, answered


def _calls_before(unit: Unit, thread: ThreadRow, entries: Mapping[int, Entry]) -> dict[str, Call]:
    """Return the calls that stand a little before the results among these entries, and not among them."""
    wanted = {
        j
        for i, entry in entries.items()
        if entry.message.result is not None
        for j in range(max(0, i - pairs.REACH), i)
        if j not in entries
    }
    found = log.at(unit, thread, sorted(wanted)) if wanted else {}
    return {call.call_id: call for _, entry in sorted(found.items()) if (call := entry.message.call) is not None}


def _doubling(positions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield positions in pieces that grow, since nobody knows how large a message is before it is read."""
    begin, length = 0, 8
    while begin < len(positions):
        yield positions[begin : begin + length]
        begin, length = begin + length, length * 2
