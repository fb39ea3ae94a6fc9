"""Equal messages of a log and a history, in pairs that rise on both sides; what the pairs mean is for `align` to say.

Found like a patient reader would: first what both sides have exactly once, in the order that weighs most, then what stands
around it. Messages that repeat ("ok", "Done.") are never looked up, so they cannot draw a match to the wrong place,
and cost nothing: O(n log n), whatever is in the histories.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from everlog.log.fingerprints import Print
from everlog.messages import Kind

DEPTH = 3
"""How often what lies between matches is looked at again, for messages that are alone there."""

VOICE_WEIGHT = 2**20
"""What a byte of a voice weighs against one of another message, when matches cross each other."""

VOICES: frozenset[Kind] = frozenset({"assistant", "tool_call", "note"})
"""Kinds whose words clients do not write anew."""

Pair: TypeAlias = tuple[int, int]
"""Place in the log, place in the history."""


def matches(old: Sequence[Print], new: Sequence[Print], known: int) -> Iterator[Pair]:
    """Yield the places of equal messages beyond the first `known`, which are equal on both sides."""
    return _between(old, new, ((known, len(old)), (known, len(new))), DEPTH)


def _same(old: Print, new: Print) -> bool:
    """Whether two messages are one beyond the common beginning, where calls and results are known by the call's id."""
    if None in (old.call, new.call):
        return old.fp == new.fp
    return old.call == new.call and (old.fp == new.fp or old.kind == new.kind == "tool_result")


def _between(old: Sequence[Print], new: Sequence[Print], spans: tuple[Pair, Pair], depth: int) -> Iterator[Pair]:
    """Yield pairs of equal messages in a span of each side, rising on both.

    What both spans have once are anchors; around them stand equal neighbours, which may be messages that repeat; what is
    left between is looked at again, `depth` times in all; and where there is no anchor, what stands in the same place.
    """
    (at, stop), (start, end) = spans
    if at == stop or start == end:
        return
    anchors = _heaviest(_anchors(old, new, spans), new, spans) if depth else []
    if not anchors:
        shorter = min(stop - at, end - start)
        yield from ((at + n, start + n) for n in range(shorter) if _same(old[at + n], new[start + n]))
        return
    for a, b in (*anchors, (stop, end)):
        while at < a and start < b and _same(old[at], new[start]):
            yield at, start
            at, start = at + 1, start + 1
        back = 0
        while a < stop and a - back > at and b - back > start and _same(old[a - back - 1], new[b - back - 1]):
            back += 1
        yield from _between(old, new, ((at, a - back), (start, b - back)), depth - 1)
        yield from ((a - n, b - n) for n in range(back, -1, -1) if a < stop)
        at, start = a + 1, b + 1


def _anchors(old: Sequence[Print], new: Sequence[Print], spans: tuple[Pair, Pair]) -> list[Pair]:
    """Return the pairs of what both spans have exactly once, in the order of the history."""
    pairs: set[Pair] = set()
    for key in (_words, _answer):
        mine, theirs = (_once(side, range(*span), key) for side, span in zip((old, new), spans, strict=True))
        pairs |= {(mine[name], b) for name, b in theirs.items() if name in mine and _same(old[mine[name]], new[b])}
    return sorted(pairs, key=lambda pair: (pair[1], -pair[0]))


def _once(prints: Sequence[Print], places: range, key: Callable[[Print], bytes | None]) -> dict[bytes, int]:
    """Return where the keys stand that occur once in some places."""
    found: dict[bytes, int] = {}
    for i in places:
        if (name := key(prints[i])) is not None:
            found[name] = -1 if name in found else i
    return {name: i for name, i in found.items() if i >= 0}


def _words(one: Print) -> bytes:
    return one.fp


def _answer(one: Print) -> bytes | None:
    return one.call if one.kind == "tool_result" else None


def _heaviest(pairs: Sequence[Pair], new: Sequence[Print], spans: tuple[Pair, Pair]) -> list[Pair]:
    """Return the pairs, rising on both sides, that weigh most: the words of voices, and where these are equal, all words.

    A Fenwick tree over the log's side keeps the heaviest chain that ends at or before each place.
    """
    first, stop = spans[0]
    tree: list[tuple[int, int]] = [(0, -1)] * (stop - first + 1)
    before: list[int] = []
    heaviest = (0, -1)
    for n, (a, b) in enumerate(pairs):
        chain, i = (0, -1), a - first
        while i > 0:
            chain = max(chain, tree[i])
            i -= i & -i
        before.append(chain[1])
        chain = (chain[0] + (new[b].size * VOICE_WEIGHT if new[b].kind in VOICES else new[b].size), n)
        heaviest = max(heaviest, chain)
        i = a - first + 1
        while i < len(tree):
            tree[i] = max(tree[i], chain)
            i += i & -i
    found: list[Pair] = []
    n = heaviest[1]
    while n >= 0:
        found.append(pairs[n])
        n = before[n]
    return found[::-1]
