"""Which thread a history belongs to, and what of it is new: pure, over prints, without any text.

A person's edit cuts the continuation; a client that renders a message anew keeps it. So a difference with a match after
it leaves the log as it is, a difference without one is a fork, and what follows the last match is appended. When a match
counts as one is in `_Stretch.counts`; why, in `docs/decisions/0003-alignment.md`. Quiet prints (system messages, blanks,
erased entries) take no part: they neither match nor differ.

A retry and a regeneration are the same bytes, so both are `Nothing`; the caller knows whether the log's message at that
place was answered to its end, and then forks there once the new answer is in.

Cost: one pass where the log is a prefix of the history, else O(n log n), however often messages repeat.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import TypeAlias, TypeVar

from everlog.log.fingerprints import ERASED, QUOTE_BYTES, Print
from everlog.log.matches import VOICES, Pair, matches
from everlog.messages import Kind

PROOF_BYTES = 64
"""So much must match for a match to count by itself: no message of that length occurs twice in LoCoMo and BEAM."""

Thread = TypeVar("Thread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How much of a log a history shows."""

    size_bytes: int = 0
    """Bytes of the log's messages that it repeats word for word."""
    whole: bool = False
    """Whether it shows all of the log before the place where it joins, in order, word for word."""
    spoken: bool = False
    """Whether any of it is the assistant's."""


UNSHOWN = Shown()


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """The thread goes on."""

    start: int
    """Place in the history of the first message to append; all after it are new as well."""
    shown: Shown = field(default=UNSHOWN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The history goes another way than the log: something was edited, or answered again."""

    at: int
    """Position of the first entry that the fork does not share."""
    start: int
    """Place in the history of the first message of the new branch."""
    shown: Shown = field(default=UNSHOWN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """All is in the log already."""

    at: int
    """Position after the last entry it shows. Before the log's end it is a retry, or a regeneration that forks there;
    unless a session names the thread, memory may be read up to here only. After an erased entry, the last message of a
    live request may be new all the same."""
    shown: Shown = field(default=UNSHOWN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The client has put a summary of its own in the place of the past: the thread goes on."""

    note: int
    """Place in the history of the summary, to be stored as a `note` by author `client`."""
    start: int
    """Place of the first message to append after it; it may be the history's end."""
    shown: Shown = field(default=UNSHOWN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """Another conversation: a thread of its own, in the same session if one is named."""

    shown: Shown = field(default=UNSHOWN, compare=False)


Decision: TypeAlias = Append | Fork | Nothing | Compacted | Sibling

_RANK = (Fork, Compacted, Nothing, Append)


def align(log: Sequence[Print], incoming: Sequence[Print], *, quoted: int | None = None) -> Decision:
    """Decide what a history adds to one thread.

    Args:
        log: prints of the thread's entries, from position 0.
        incoming: prints of the history, without its leading system messages.
        quoted: place of the first message that quotes a reply given in this thread (`fingerprints.quoted`). It need be
            looked for only if the decision without it is `Fork` or `Sibling`, or does not show the log whole.
    """
    pairs, exact = _pairs(log, incoming, quoted)
    at = 1 + max((i for i, _ in pairs), default=-1)
    start = 1 + max((j for _, j in pairs), default=-1)
    matched = [incoming[j] for i, j in pairs if log[i].fp == incoming[j].fp]
    proof = QUOTE_BYTES if quoted is not None and all(j != quoted for _, j in pairs) else 0
    shown = Shown(
        size_bytes=sum(one.size for one in matched) + proof,
        whole=exact and not proof and len(pairs) == sum(not one.quiet for one in log[:at]),
        spoken=any(one.kind in VOICES for one in matched),
    )
    if quoted is not None and quoted >= start and _any_loud(log, 0):
        return Compacted(note=quoted, start=quoted + 1, shown=shown)
    if not pairs and _any_loud(log, 0) and _any_loud(incoming, 0):
        return Sibling()
    return _decided(log, incoming, *_past_the_quiet(log, incoming, at, start), shown)


def best(candidates: Sequence[tuple[Thread, Decision]], *, named: bool = True) -> tuple[Thread, Decision] | None:
    """Return the thread that the history belongs to, with the decision: the one it shows most of; None for a new one.

    Args:
        candidates: threads, the newest first, each with what `align` decides for it.
        named: whether the request names its session, or its key stands for one person. If not, a thread is reached only
            by showing all of it up to where the history joins, an answer of the assistant's among it.
    """
    reached = [
        (thread, decision)
        for thread, decision in candidates
        if not isinstance(decision, Sibling) and (named or (decision.shown.whole and decision.shown.spoken))
    ]
    return max(reached, key=lambda one: (one[1].shown.size_bytes, _RANK.index(type(one[1]))), default=None)


def _decided(log: Sequence[Print], incoming: Sequence[Print], at: int, start: int, shown: Shown) -> Decision:
    if not _any_loud(log, at):
        return Append(start=start, shown=shown) if start < len(incoming) else Nothing(at=at, shown=shown)
    if _any_loud(incoming, start):
        return Fork(at=at, start=start, shown=shown)
    return Nothing(at=at, shown=shown)


def _past_the_quiet(log: Sequence[Print], incoming: Sequence[Print], at: int, start: int) -> Pair:
    """Step over the quiet entries after a match, and over as many quiet messages as stand for them.

    At the log's end an erased entry stands for any message of its kind, so that its words do not come back.
    """
    at_end = not _any_loud(log, at)
    while at < len(log) and log[at].quiet:
        if start < len(incoming):
            was_it = at_end and log[at].fp == ERASED and log[at].kind == incoming[start].kind
            start += incoming[start].quiet or was_it
        at += 1
    return at, start


def _any_loud(prints: Sequence[Print], start: int) -> bool:
    return any(not prints[i].quiet for i in range(start, len(prints)))


def _pairs(log: Sequence[Print], incoming: Sequence[Print], quoted: int | None) -> tuple[list[Pair], bool]:
    """Return the places of what is equal on both sides and counts, and whether all of it is a common beginning."""
    old = [i for i, one in enumerate(log) if not one.quiet]
    new = [j for j, one in enumerate(incoming) if not one.quiet]
    shorter = min(len(old), len(new))
    known = _common(log, incoming, old, new)
    if known < shorter:
        old, new = _in_order(log, old), _in_order(incoming, new)
        known = _common(log, incoming, old, new)
    common = list(zip(old[:known], new[:known], strict=True))
    if known == shorter:
        return common, True
    quote = None if quoted is None else bisect_left(new, quoted)
    joined = _joined([log[i] for i in old], [incoming[j] for j in new], known, quote)
    return [*common, *((old[a], new[b]) for a, b in joined)], not joined


def _common(log: Sequence[Print], incoming: Sequence[Print], old: Sequence[int], new: Sequence[int]) -> int:
    """Return how many of the places have the same print on both sides, from the first on."""
    same = takewhile(lambda pair: log[pair[0]].fp == incoming[pair[1]].fp, zip(old, new, strict=False))
    return sum(1 for _ in same)


def _in_order(prints: Sequence[Print], places: Sequence[int]) -> list[int]:
    """Return the places with the results of one round, which come in any order, sorted by the calls they answer."""
    ordered: list[int] = []
    asked: set[bytes | None] = set()
    for kind, run in groupby(places, key=lambda i: prints[i].kind):
        row = list(run)
        if kind == "user":
            asked.clear()
        elif kind == "tool_call":
            asked.update(prints[i].call for i in row)
        elif kind == "tool_result" and asked.issuperset(prints[i].call for i in row):
            row.sort(key=lambda i: prints[i].call or b"")
        ordered += row
    return ordered


def _joined(old: Sequence[Print], new: Sequence[Print], known: int, quote: int | None) -> list[Pair]:
    """Return the pairs of equal messages beyond the first `known`, up to the last that counts."""
    voices = VOICES if any(one.kind in VOICES for one in (*old, *new)) else None
    pairs = list(matches(old, new, known))
    anchored = known > 0 or quote is not None
    stretch = _Stretch(voices)
    counted, at, start = 0, known, known
    for n, (a, b) in enumerate(pairs, 1):
        compacted = quote is not None and start <= quote
        stretch.cross(old[at:a], () if compacted else new[start:b])
        stretch.take(new[b], equal=old[a].fp == new[b].fp)
        at, start = a + 1, b + 1
        if stretch.counts(anchored, at_end=at == len(old)):
            counted, anchored, stretch = n, True, _Stretch(voices)
    return pairs[:counted]


@dataclass(slots=True)
class _Stretch:
    """What matched, and what did not, since the last match that counts."""

    voices: frozenset[Kind] | None
    """Kinds whose words count; None if all do, since no model takes part."""
    pairs: int = 0
    words: int = 0
    kept: int = 0
    """Of the words that match, those of the voices."""
    changed: int = 0
    """Words of the voices that the log does not have."""
    gaps: int = 0
    inserted: bool = False
    in_place: bool = True
    """Whether each gap has as many messages on both sides, or none on one."""

    def cross(self, gone: Sequence[Print], came: Sequence[Print]) -> None:
        """Go over a gap: entries that the history lacks, and messages that the log lacks."""
        self.gaps += bool(gone or came)
        self.inserted |= bool(came)
        self.in_place &= not gone or not came or len(gone) == len(came)
        counted = came if self.voices else came[1:]
        self.changed += sum(one.size for one in counted if self._voiced(one))

    def take(self, one: Print, *, equal: bool) -> None:
        """Go over a match; a result known by the id of its call alone adds no words."""
        self.pairs += 1
        if equal:
            self.words += one.size
            self.kept += one.size if self._voiced(one) else 0

    def counts(self, anchored: bool, *, at_end: bool) -> bool:
        """Whether the matches tell that the gaps before them were renderings, not edits.

        Anchored is a stretch after another match; without one a history must show more: words of the assistant's, or
        the log's last messages as its first.
        """
        if self.kept < self.changed:
            return False
        if not anchored:
            window = at_end and not self.inserted and self.gaps <= 1 and self.pairs > 1 and self.kept > 0
            return window or (self.kept >= PROOF_BYTES and (self.voices is not None or self.pairs > 1))
        return not self.gaps or self.words >= PROOF_BYTES or (at_end and self.in_place)

    def _voiced(self, one: Print) -> bool:
        return self.voices is None or one.kind in self.voices
