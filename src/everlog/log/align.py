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
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias, TypeVar

from everlog.log.fingerprints import ERASED, QUOTE_BYTES, Print
from everlog.messages import Kind

PROOF_BYTES = 64
"""So much must match for a match to count by itself: no message of that length occurs twice in LoCoMo and BEAM."""

VOICES: frozenset[Kind] = frozenset({"assistant", "tool_call", "note"})
"""Kinds whose words clients do not write anew."""

Thread = TypeVar("Thread")
Pair: TypeAlias = tuple[int, int]


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
    unless a session names the thread, memory may be read up to here only."""
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
    old, new = _loud(log), _loud(incoming)
    mine, theirs = [log[i] for i in old], [incoming[i] for i in new]
    known = sum(1 for _ in takewhile(lambda pair: pair[0].fp == pair[1].fp, zip(mine, theirs, strict=False)))
    quote = None if quoted is None else bisect_left(new, quoted)
    joined = _joined(mine, theirs, known, quote) if known < min(len(old), len(new)) else []
    at = 1 + max((*old[:known], *(old[a] for a, _ in joined)), default=-1)
    start = 1 + max((*new[:known], *(new[b] for _, b in joined)), default=-1)
    matched = [*theirs[:known], *(theirs[b] for a, b in joined if mine[a].fp == theirs[b].fp)]
    shown = Shown(
        size_bytes=sum(one.size for one in matched),
        whole=not joined and known == sum(1 for i in old if i < at),
        spoken=any(one.kind in VOICES for one in matched),
    )
    if quoted is not None and quoted >= start and old:
        shown = Shown(size_bytes=shown.size_bytes + QUOTE_BYTES, spoken=True)
        return Compacted(note=quoted, start=quoted + 1, shown=shown)
    if old and new and not at:
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


def _loud(prints: Sequence[Print]) -> list[int]:
    """Return the places of all that are not quiet, with the results of one round in the order of their calls."""
    loud: list[int] = []
    asked: dict[bytes, int] = {}
    begun = 0
    for i, one in enumerate(prints):
        if one.quiet:
            continue
        if one.kind != "tool_result":
            _sort_results(prints, loud, begun, asked)
            begun = len(loud) + 1
            if one.kind == "user":
                asked.clear()
            elif one.call is not None:
                asked[one.call] = i
        loud.append(i)
    _sort_results(prints, loud, begun, asked)
    return loud


def _sort_results(prints: Sequence[Print], loud: list[int], begun: int, asked: dict[bytes, int]) -> None:
    """Put the results from `begun` on in the order of their calls, if all calls are known."""
    if len(loud) - begun > 1:
        calls = [asked.get(call) for i in loud[begun:] if (call := prints[i].call) is not None]
        places = [place for place in calls if place is not None]
        if len(places) == len(loud) - begun:
            loud[begun:] = [i for _, i in sorted(zip(places, loud[begun:], strict=True))]


def _joined(old: Sequence[Print], new: Sequence[Print], known: int, quote: int | None) -> list[Pair]:
    """Return the pairs of equal messages beyond the first `known`, up to the last that counts."""
    voices = VOICES if any(one.kind in VOICES for one in (*old, *new)) else None
    pairs = list(_filled(_heaviest(_anchors(old, new, known), old, new, known), old, new, known))
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


def _same(old: Print, new: Print) -> bool:
    """Whether two messages are one beyond the common beginning, where a call made again has its id."""
    if old.fp == new.fp:
        return old.kind != "tool_call" or None in (old.call, new.call) or old.call == new.call
    return old.kind == new.kind == "tool_result" and old.call is not None and old.call == new.call


def _anchors(old: Sequence[Print], new: Sequence[Print], known: int) -> list[Pair]:
    """Return the pairs of what each side has exactly once beyond the common beginning, in the order of the history."""
    pairs = _once(((one.fp, i) for i, one in enumerate(old)), ((one.fp, i) for i, one in enumerate(new)), known)
    pairs |= _once(_answers(old), _answers(new), known)
    return sorted(((a, b) for a, b in pairs if _same(old[a], new[b])), key=lambda pair: (pair[1], -pair[0]))


def _answers(prints: Sequence[Print]) -> Iterator[tuple[bytes, int]]:
    return ((one.call, i) for i, one in enumerate(prints) if one.kind == "tool_result" and one.call is not None)


def _once(old: Iterator[tuple[Hashable, int]], new: Iterator[tuple[Hashable, int]], known: int) -> set[Pair]:
    """Return the places of the keys that both sides have exactly once beyond the common beginning."""
    sides: list[dict[Hashable, int | None]] = [{}, {}]
    for side, keys in zip(sides, (old, new), strict=True):
        for key, i in keys:
            if i >= known:
                side[key] = None if key in side else i
    return {(a, b) for key, b in sides[1].items() if b is not None and (a := sides[0].get(key)) is not None}


def _heaviest(pairs: Sequence[Pair], old: Sequence[Print], new: Sequence[Print], known: int) -> list[Pair]:
    """Return the pairs, rising on both sides, that weigh most: a voice its bytes, anything else a trifle.

    A Fenwick tree over the log's side keeps the heaviest chain that ends at or before each place.
    """
    size = len(old) - known
    tree: list[tuple[int, int]] = [(0, -1)] * (size + 1)
    before: list[int] = []
    heaviest = (0, -1)
    for n, (a, b) in enumerate(pairs):
        chain, i = (0, -1), a - known
        while i > 0:
            chain = max(chain, tree[i])
            i -= i & -i
        before.append(chain[1])
        chain = (chain[0] + 1 + (new[b].size if new[b].kind in VOICES else 0), n)
        heaviest = max(heaviest, chain)
        i = a - known + 1
        while i <= size:
            tree[i] = max(tree[i], chain)
            i += i & -i
    found: list[Pair] = []
    n = heaviest[1]
    while n >= 0:
        found.append(pairs[n])
        n = before[n]
    return found[::-1]


def _filled(chain: Sequence[Pair], old: Sequence[Print], new: Sequence[Print], known: int) -> Iterator[Pair]:
    """Yield the pairs of a chain, their equal neighbours, and in what is left between what stands in the same place.

    Both add messages that repeat, which are no anchors.
    """
    at = start = known
    for a, b in (*chain, (len(old), len(new))):
        while at < a and start < b and _same(old[at], new[start]):
            yield at, start
            at, start = at + 1, start + 1
        back = 0
        while a < len(old) and a - back > at and b - back > start and _same(old[a - back - 1], new[b - back - 1]):
            back += 1
        gap = min(a - at, b - start) - back
        yield from ((at + n, start + n) for n in range(gap) if _same(old[at + n], new[start + n]))
        yield from ((a - n, b - n) for n in range(back, -1, -1) if a < len(old))
        at, start = a + 1, b + 1
