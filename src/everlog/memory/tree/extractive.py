"""The compactor that needs no model: it picks sentences and phrases of its source, word for word.

Deterministic, for any script, and honest in what it leaves standing: everything is shown with the kind of message it
comes from; words, names and numbers are copied whole; of a sentence with a negation no part is shown without it.

What is compressed for the first time keeps its best sentences, ` … ` between those that did not stand together; of a
long text half the line, and phrases after them. What was compressed before, which its `…` tells, becomes a list of
phrases, `; ` between them, gathered by speaker: so the higher a line is, the more it is an index of what lies below. A
line without `…` is whole. Each word counts the first time it is shown, by its worth; sentences and phrases are taken by
worth per byte until the line is full. Measured in docs/decisions/0007-extractive.md.
"""

import re
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from everlog.memory.interface import Answer, Request
from everlog.memory.tree.clauses import GAP, Clause, phrases, sentences
from everlog.memory.tree.lines import LIMIT_BYTES, Line, line_of, parse_tag, tag_of
from everlog.tokens import cut, size_bytes

MODEL = "extractive@2"
"""Changes with every change of what the same source is compressed to."""

_GAPPED = f" {GAP}"
_GAPPED_BYTES = size_bytes(_GAPPED)
_LISTED = "; "
_LONGEST_WORD_CHARS = 64
_KEPT_IN_SENTENCES, _WORTH_LISTING = 2.0, 0.8
_WORTH_CLIPPING_BYTES = 40
_BROKEN_NUMBER = re.compile(r"[\d.,:]+\Z")
_KIND_WORTH = {"user": 1.3, "assistant": 1.0, "note": 1.0, "tool_call": 0.8, "tool_result": 0.7, "system": 0.6}


class Extractive:
    """Answers every request with sentences and phrases of its source."""

    model = MODEL
    inline = True

    def __call__(self, request: Request) -> Answer:
        limit = LIMIT_BYTES if request.limit_bytes is None else request.limit_bytes
        line = extract([(tag_of(message.kind, message.author), message.text) for message in request.source], limit)
        return Answer(text=line.text, arguments={"pieces": [list(piece) for piece in line.pieces]}, model=self.model)


def extract(pieces: Sequence[tuple[str, str]], limit: int = LIMIT_BYTES) -> Line:
    """Return a line of at most `limit` bytes made of sentences and phrases of these (tag, words).

    Raises:
        ValueError: the limit leaves no room for a tag and a word, or there is nothing to extract from.
    """
    if limit < 32 or not pieces:
        raise ValueError(f"nothing can be said of {len(pieces)} pieces in {limit} bytes")
    total = sum(len(words) for _, words in pieces)
    share = min(1.0, _KEPT_IN_SENTENCES * limit / max(1, total))
    fresh: list[Clause] = []
    listed: list[Clause] = []
    for n, (_, words) in enumerate(pieces):
        compressed = GAP in words
        if not compressed:
            fresh += sentences(n, words)
        if compressed or share < _WORTH_LISTING:
            listed += phrases(n, words)
    draft = _Draft(pieces, limit, gathered=bool(listed))
    left = draft.take(fresh, int(limit * share * sum(one.end - one.start for one in fresh) / max(1, total)))
    left = draft.take(listed, limit) or left
    draft.clip_one(left)
    line = draft.line()
    if line is not None:
        return line
    tag, words = pieces[0]
    return line_of([(tag, clip(words, limit - size_bytes(tag) - 2))])


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


class _Draft:
    """A line that is being put together."""

    def __init__(self, pieces: Sequence[tuple[str, str]], limit: int, *, gathered: bool) -> None:
        self._pieces = pieces
        self._limit = limit
        self._chosen: list[Clause] = []
        self._seen: set[str] = set()
        first: dict[str, int] = {}
        self._group = [first.setdefault(tag, n) if gathered else n for n, (tag, _) in enumerate(pieces)]
        self._heads = [size_bytes(tag) + len(": \n") + gathered * _GAPPED_BYTES for tag, _ in pieces]
        self._boosts = [_KIND_WORTH.get(parse_tag(tag)[0], 1.0) for tag, _ in pieces]
        self._open: set[int] = set()

    def take(self, offered: Sequence[Clause], room: int) -> list[Clause]:
        """Take those of most new worth per byte while the line stays within `room` bytes; return what did not fit.

        A phrase is only taken if its sentence is not there.
        """
        shown = {(one.piece, one.sentence) for one in self._chosen}
        offered = [one for one in offered if (one.piece, one.sentence) not in shown]
        used = self._size() or _GAPPED_BYTES
        least = min((one.size for one in offered), default=0) + len(_LISTED)
        left: list[Clause] = []
        heap = [(-self._density(clause), n) for n, clause in enumerate(offered)]
        heapify(heap)
        while heap:
            _, n = heappop(heap)
            clause = offered[n]
            density = self._density(clause)
            if density <= 0:
                continue
            if heap and -density > heap[0][0]:
                heappush(heap, (-density, n))
            elif used + (cost := self._cost(clause)) > room:
                left.append(clause)
                if used + least > room and not (clause.whole and clause.negative):
                    break  # nothing else fits, and of what is left nobody asks for more than this one
            else:
                used += cost
                self._add(clause)
        return left

    def clip_one(self, left: Iterable[Clause]) -> None:
        """Fill what room remains with the beginning of the best sentence that did not fit, if it negates nothing."""
        clause = next((clause for clause in left if clause.whole and not clause.negative), None)
        if clause is not None:
            room = self._limit - self._size() - self._cost(clause) + clause.size
            if room >= _WORTH_CLIPPING_BYTES:
                self._add(clause._replace(text=clip(clause.text, room)))

    def line(self) -> Line | None:
        """Return the line as it stands; what was taken last is left out until it fits."""
        while self._chosen:
            line = line_of(self._assembled())
            if line.size_bytes <= self._limit:
                return line
            self._chosen.pop()
        return None

    def _size(self) -> int:
        return line_of(self._assembled()).size_bytes if self._chosen else 0

    def _add(self, clause: Clause) -> None:
        self._chosen.append(clause)
        self._seen.update(clause.words)
        self._open.add(self._group[clause.piece])

    def _density(self, clause: Clause) -> float:
        if self._seen.isdisjoint(clause.words):
            new = sum(clause.words.values())
        else:
            new = sum([worth for word, worth in clause.words.items() if word not in self._seen])
        return new * self._boosts[clause.piece] / self._cost(clause)

    def _cost(self, clause: Clause) -> int:
        """Return the bytes that a clause adds: itself, and either what joins it or a new line with its tag."""
        if self._group[clause.piece] not in self._open:
            return clause.size + self._heads[clause.piece]
        return clause.size + (_GAPPED_BYTES + 1 if clause.whole else len(_LISTED))

    def _assembled(self) -> list[tuple[str, str]]:
        """Return the chosen as (tag, words), neighbours of one tag as one.

        Within a tag sentences come before phrases, and either in the order of the source.
        """
        result: list[tuple[str, str]] = []
        last: Clause | None = None
        for clause in sorted(
            self._chosen, key=lambda one: (self._group[one.piece], not one.whole, one.piece, one.start)
        ):
            tag = self._pieces[clause.piece][0]
            if last is not None and result[-1][0] == tag:
                result[-1] = tag, f"{result[-1][1]}{self._joint(last, clause)}{clause.text}"
            else:
                if last is not None and not last.whole:
                    result[-1] = result[-1][0], result[-1][1] + _GAPPED
                result.append((tag, clause.text))
            last = clause
        if last is not None and (not last.whole or not any(GAP in words for _, words in result)):
            result[-1] = result[-1][0], result[-1][1] + _GAPPED
        return result

    def _joint(self, last: Clause, clause: Clause) -> str:
        """Return what stands between two clauses: what stood there, or the mark of a gap."""
        if not last.whole and not clause.whole:
            return _LISTED
        if last.piece != clause.piece or last.end != clause.start:
            return " " if last.text.endswith(GAP) else f"{_GAPPED} "
        words = self._pieces[clause.piece][1]
        before, after = words[clause.start - 1], words[clause.start]
        if before.isspace() and not before.isprintable():
            return "\n"
        return " " if before.isspace() or after.isspace() else ""
