"""The compactor that needs no model: it picks clauses of its source, word for word.

Deterministic, for any script, and honest in what it leaves standing: a clause is shown with the kind of message it
comes from; words, names and numbers are copied whole; of a sentence that must be broken up, no part is shown without
its negation. What is left out between two clauses shows as `…`.

Each word is worth something the first time it is shown: numbers, dates, paths, names, decisions and negations more
than other words, and common words nothing. Clauses are taken by worth per byte until the line is full.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise

from everlog.memory.interface import Answer, Request
from everlog.memory.tree.lexicon import COMMON, DATES, DECISIONS, NEGATIONS, NEGATIVE_PARTS
from everlog.memory.tree.lines import LIMIT_BYTES, Line, line_of, parse_tag, tag_of
from everlog.tokens import cut, size_bytes

MODEL = "extractive@1"
"""Changes with every change of what the same source is compressed to."""

GAP = "…"
_JOINT_BYTES = size_bytes(f" {GAP} ")
_LONGEST_CHARS = 200
_LONGEST_WORD_CHARS = 64
_NUMBERING_CHARS = 12
_WORTH_CLIPPING_BYTES = 40
_HEAD_CHARS, _TAIL_CHARS, _SLACK_CHARS = 48_000, 16_000, 2_000

_END = re.compile(
    r"(?<![.!?;…])[.!?;…]++[\"')\]»”’*_]*+(?=\s)|[。！？；]+[」』”）]*|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+"
)
_PAUSE = re.compile(r"[,:—–]+\s|[，、：]")
_WORD = re.compile(r"[^\W_][^\s,;!?()\[\]{}<>\"“”«»|*`。，、！？；：…]*")
_DIGIT = re.compile(r"\d")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
_INNER = re.compile(r"[^\W_][./:@_\\#=][^\W_]")
_LETTER = re.compile(r"[^\W\d_]")
_BROKEN_NUMBER = re.compile(r"[\d.,:]+\Z")

_KIND_WORTH = {"user": 1.3, "assistant": 1.0, "note": 1.0, "tool_call": 0.8, "tool_result": 0.7, "system": 0.6}
_OPENING = 1.15


@dataclass(frozen=True, slots=True)
class _Clause:
    piece: int
    start: int
    end: int
    text: str
    words: dict[str, float]
    size: int
    negative: bool


class Extractive:
    """Answers every request with clauses of its source."""

    model = MODEL
    inline = True

    def __call__(self, request: Request) -> Answer:
        limit = LIMIT_BYTES if request.limit_bytes is None else request.limit_bytes
        line = extract([(tag_of(message.kind, message.author), message.text) for message in request.source], limit)
        return Answer(text=line.text, arguments={"pieces": [list(piece) for piece in line.pieces]}, model=self.model)


def extract(pieces: Sequence[tuple[str, str]], limit: int = LIMIT_BYTES) -> Line:
    """Return a line of at most `limit` bytes made of clauses of these (tag, words).

    Raises:
        ValueError: the limit leaves no room for a tag and a word, or there is nothing to extract from.
    """
    if limit < 32 or not pieces:
        raise ValueError(f"nothing can be said of {len(pieces)} pieces in {limit} bytes")
    clauses = [clause for n, (kind, words) in enumerate(pieces) for clause in _clauses(n, kind, words)]
    chosen: list[_Clause] = []
    seen: set[str] = set()
    clauses = _choose(clauses, pieces, chosen, seen, limit)
    clauses = _choose(clauses, pieces, chosen, seen, limit)  # the first counted gaps and tags that neighbours share
    _clip_one(clauses, pieces, chosen, limit)
    if not chosen:
        tag, words = pieces[0]
        return line_of([(tag, clip(words, limit - size_bytes(tag) - 2))])
    return line_of(_assembled(chosen, pieces))


def clip(words: str, limit: int) -> str:
    """Return the beginning of a text in `limit` bytes, a mark where it was cut: no half word, no half number."""
    words = " ".join(words[: limit * 2].split()) if len(words) > limit * 2 else " ".join(words.split())
    if size_bytes(words) <= limit:
        return words or GAP
    part = cut(words, limit - size_bytes(GAP))
    if not words[len(part)].isspace():
        whole, _, rest = part.rpartition(" ")
        part = whole if whole and len(rest) <= _LONGEST_WORD_CHARS else _BROKEN_NUMBER.sub("", part)
    return part.rstrip() + GAP


def _clauses(piece: int, kind: str, words: str) -> Iterator[_Clause]:
    worth = _KIND_WORTH.get(parse_tag(kind)[0], 1.0)
    for start, end, guarded in _spans(words):
        text = " ".join(words[start:end].split()).removesuffix(f" {GAP}")
        boost = worth * _OPENING if start == 0 else worth
        valued = _valued(text, boost)
        negative = _negative(text)
        if valued and (negative or not guarded):
            yield _Clause(piece, start, end, text, valued, size_bytes(text), negative)


def _spans(words: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the clauses as (start, end, whether it is part of a sentence whose negation it must hold)."""
    for first, last in _parts(words):
        start = first
        for match in _END.finditer(words, first, last):
            if match.end() - start < _NUMBERING_CHARS and not _LETTER.search(words, start, match.end()):
                continue
            yield from _pieces_of(words, start, match.end())
            start = match.end()
        yield from _pieces_of(words, start, last)


def _parts(words: str) -> tuple[tuple[int, int], ...]:
    """Return what of a text is looked at: of a huge one its beginning and its end, cut at spaces."""
    size = len(words)
    if size <= _HEAD_CHARS + _TAIL_CHARS:
        return ((0, size),)
    stop = words.rfind(" ", _HEAD_CHARS - _SLACK_CHARS, _HEAD_CHARS)
    start = words.find(" ", size - _TAIL_CHARS, size - _TAIL_CHARS + _SLACK_CHARS)
    return ((0, stop if stop > 0 else _HEAD_CHARS), (start, size) if start > 0 else (size, size))


def _pieces_of(words: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield a sentence whole, or, if it is long, in parts that end at a pause or a space."""
    if end - start <= _LONGEST_CHARS:
        if end > start:
            yield start, end, False
        return
    guarded = _negative(words[start:end])
    while end - start > _LONGEST_CHARS:
        middle, most = start + _LONGEST_CHARS // 3, start + _LONGEST_CHARS
        pauses = [match.end() for match in _PAUSE.finditer(words, middle, most)]
        stop = pauses[-1] if pauses else words.rfind(" ", middle, most) + 1
        if stop <= start:
            stop = next((at for at in range(most, middle, -1) if not words[at - 1 : at + 1].isalnum()), most)
            if stop == most and not _UNSPACED.search(words, start, most):
                stop = words.find(" ", most, end)
                stop = stop if stop > 0 else end
        yield start, stop, guarded
        start = stop
    if end > start:
        yield start, end, guarded


def _valued(text: str, boost: float) -> dict[str, float]:
    """Return what each word of a clause is worth."""
    worth: dict[str, float] = {}
    first = True
    for found in _WORD.findall(text):
        word = found.rstrip(".:'’-/%")
        lower = word.lower()
        if lower in COMMON or len(word) > _LONGEST_WORD_CHARS:
            first = False
            continue
        if not word.isascii() and _UNSPACED.search(word):
            worth.update(dict.fromkeys(map("".join, pairwise(lower)), 0.5 * boost))
        worth[lower] = _worth(word, lower, first=first) * boost
        first = False
    return worth


def _worth(word: str, lower: str, *, first: bool) -> float:
    if _DIGIT.search(word):
        return 3.0 if len(word) > 1 else 1.0
    if lower in DECISIONS or lower in DATES:
        return 2.0
    if lower in NEGATIONS:
        return 1.5
    if _INNER.search(word):
        return 2.5
    if word[0].isupper():
        return 1.2 if first else 2.2
    return 1.0 if len(word) > 2 else 0.3


def _negative(text: str) -> bool:
    lower = text.lower()
    return not NEGATIONS.isdisjoint(lower.split()) or any(part in lower for part in NEGATIVE_PARTS)


def _choose(
    clauses: list[_Clause], pieces: Sequence[tuple[str, str]], chosen: list[_Clause], seen: set[str], limit: int
) -> list[_Clause]:
    """Add to `chosen` the clauses of most new worth per byte that fit; return those that did not fit."""
    exact = bool(chosen)
    used = _size(chosen, pieces) + 1 if exact else 0
    open_pieces = {clause.piece for clause in chosen}
    left: list[_Clause] = []
    heap = [(-_density(clause, pieces, open_pieces, seen), n) for n, clause in enumerate(clauses)]
    heapify(heap)
    while heap:
        _, n = heappop(heap)
        clause = clauses[n]
        density = _density(clause, pieces, open_pieces, seen)
        if density <= 0:
            continue
        if heap and -density > heap[0][0]:
            heappush(heap, (-density, n))
            continue
        cost = _cost(clause, pieces, open_pieces)
        if used + (clause.size if exact else cost) > limit + 1 or (exact and _size([*chosen, clause], pieces) > limit):
            left.append(clause)
            continue
        used += cost
        chosen.append(clause)
        seen.update(clause.words)
        open_pieces.add(clause.piece)
    return left


def _size(chosen: list[_Clause], pieces: Sequence[tuple[str, str]]) -> int:
    return line_of(_assembled(chosen, pieces)).size_bytes


def _density(clause: _Clause, pieces: Sequence[tuple[str, str]], open_pieces: set[int], seen: set[str]) -> float:
    new = sum(worth for word, worth in clause.words.items() if word not in seen)
    return new / _cost(clause, pieces, open_pieces)


def _cost(clause: _Clause, pieces: Sequence[tuple[str, str]], open_pieces: set[int]) -> int:
    """Return the bytes a clause adds at most: itself, and either a gap or a new line with its tag."""
    return clause.size + (_JOINT_BYTES if clause.piece in open_pieces else size_bytes(pieces[clause.piece][0]) + 3)


def _clip_one(left: list[_Clause], pieces: Sequence[tuple[str, str]], chosen: list[_Clause], limit: int) -> None:
    """Fill what room remains with the beginning of the best clause that did not fit, if it negates nothing."""
    clause = next((clause for clause in left if not clause.negative), None)
    if clause is not None:
        room = limit - _size([*chosen, replace(clause, text="")], pieces)
        if room >= _WORTH_CLIPPING_BYTES:
            chosen.append(replace(clause, text=clip(clause.text, room)))


def _assembled(chosen: list[_Clause], pieces: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the chosen clauses as (kind, words), in the order of the source, neighbours of one kind as one."""
    result: list[tuple[str, str]] = []
    last: _Clause | None = None
    for clause in sorted(chosen, key=lambda clause: (clause.piece, clause.start)):
        kind = pieces[clause.piece][0]
        if result and result[-1][0] == kind:
            result[-1] = kind, f"{result[-1][1]}{_joint(last, clause, pieces[clause.piece][1])}{clause.text}"
        else:
            result.append((kind, clause.text))
        last = clause
    return result


def _joint(last: _Clause | None, clause: _Clause, words: str) -> str:
    """Return what stands between two clauses: what stood there, or the mark of a gap."""
    if last is None or last.piece != clause.piece or last.end != clause.start:
        return f" {GAP} "
    return (
        " " if words[clause.start - 1 : clause.start + 1].strip() != words[clause.start - 1 : clause.start + 1] else ""
    )
