"""What a text can be cut into, word for word: its sentences, and the phrases that say what they are about.

A phrase is a run of words without a common one, within one sentence. A sentence that holds a negation, or is part of a
longer one that does, yields no phrase without it: what was not agreed must not be listed as agreed.

Each word has a worth: names, numbers, dates, decisions and rare words much, frequent words little, common ones nothing.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from everlog.memory.tree.lexicon import COMMON, DATES, DECISIONS, FREQUENT, NEGATIONS, NEGATIVE_PARTS
from everlog.tokens import size_bytes

GAP = "…"
"""Stands for what was left out."""

_LONGEST_CHARS = 200
_LONGEST_WORD_CHARS = 64
_LONGEST_PHRASE_CHARS = 64
_NUMBERING_CHARS = 12
_HEAD_CHARS, _TAIL_CHARS, _SLACK_CHARS = 48_000, 16_000, 2_000

_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_END = re.compile(
    rf"[.!?;…。！？；{_BREAKS}](?:(?<=[.!?;…])(?<![.!?;…].)[.!?;…]*+[\"')\]»”’*_]*+(?=\s)"
    rf"|(?<=[。！？；])[。！？；]*[」』”）]*|(?<=[{_BREAKS}])[{_BREAKS}]*)",
    re.DOTALL,
)
_PAUSE = re.compile(r"[,:—–]+\s|[，、：]")
_MARK = r"\s,;!?()\[\]{}<>\"“”«»|*`。，、！？；：…"
_WORD = re.compile(
    rf"[\w~/.$€£#@-](?:(?<=[^\W_])|(?<![^\s\"'(\[{{`=|].)[~/.$€£#@_-]{{0,2}}[^\W_])"
    rf"[^{_MARK}]*+(?:,(?<=\d,)(?=\d)[^{_MARK}]*+)*+",
    re.DOTALL,
)
"""A word with up to three marks before it. This and `_END` begin with a set of characters, so that places where neither
can begin are passed over quickly."""
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
_CLOSING = " \t\r\n,:;.!…—–"
_BETWEEN = ',.;:!?()[]"'
_ESCAPE = re.compile(r"(?<!\\)\\[nrt\"]")
_ENDING = ".:'’-"
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")

_NAME, _DECISION, _FREQUENT, _LESSER, _PAIR = 1.1, 1.2, 0.1, 0.5, 0.5
_KNOWN = {
    **dict.fromkeys(FREQUENT, _FREQUENT),
    **dict.fromkeys((*DATES, *NEGATIONS), 1.0),
    **dict.fromkeys(DECISIONS, _DECISION),
    **dict.fromkeys(COMMON, 0.0),
}


_Word: TypeAlias = tuple[int, int, str, float]
"""A word that is worth something: where it stands, its lower case, its worth."""

_Run: TypeAlias = tuple[int, int, Sequence[_Word]]
"""Words that are shown together, and where they begin and end."""


class Clause(NamedTuple):
    """A part of one piece of a source, as it can be shown."""

    piece: int
    """Which piece of the source it is from."""
    sentence: int
    """Where in the piece its sentence begins."""
    start: int
    end: int
    text: str
    words: dict[str, float]
    """What each of its words is worth, the first time it is shown."""
    size: int
    """UTF-8 bytes of the text."""
    whole: bool
    """Whether it is a sentence, and not a phrase."""
    negative: bool


def sentences(piece: int, words: str) -> Iterator[Clause]:
    """Yield the sentences of a text; of a long one that is negated only those parts that hold the negation."""
    for base, text in _texts(words):
        may_negate = negative(text)
        for start, end, guarded in _spans(text):
            said = text[start:end]
            negates = may_negate and negative(said)
            if (negates or not guarded) and (valued := _values(said)):
                plain = " ".join(said.split()).removesuffix(f" {GAP}")
                at = base + start
                yield Clause(piece, at, at, base + end, plain, valued, size_bytes(plain), True, negates)


def phrases(piece: int, words: str) -> Iterator[Clause]:
    """Yield the phrases of a text."""
    for base, text in _texts(words):
        may_negate = negative(text)
        bare = _ESCAPE.sub("  ", text) if '{"' in text else text
        for start, end, guarded in _spans(text):
            said = text[start:end]
            negates = may_negate and negative(said)
            if not negates and guarded:
                continue
            at = base + start
            found = _scan(bare[start:end])
            for first, last, run in _negated(said, found) if negates else _runs(said, found):
                part = said[first:last] if len(run) == 1 else " ".join(said[first:last].split())
                valued = {lower: worth for _, _, lower, worth in run}
                if not part.isascii():
                    valued = _paired(valued)
                yield Clause(piece, at, at + first, at + last, part, valued, size_bytes(part), False, negates)


def negative(text: str) -> bool:
    """Return whether a text holds a word, or part of one, that turns it round."""
    lower = bare = text.lower()
    for mark in _BETWEEN:
        bare = bare.replace(mark, " ")
    if not NEGATIONS.isdisjoint(bare.split()):
        return True
    return "n't" in lower if lower.isascii() else any(part in lower for part in NEGATIVE_PARTS)


def _texts(words: str) -> Iterator[tuple[int, str]]:
    """Yield what of a text is looked at, and where it begins: of a huge one its beginning and its end, cut at spaces."""
    size = len(words)
    if size <= _HEAD_CHARS + _TAIL_CHARS:
        yield 0, words
        return
    stop = words.rfind(" ", _HEAD_CHARS - _SLACK_CHARS, _HEAD_CHARS)
    yield 0, words[: stop if stop > 0 else _HEAD_CHARS]
    start = words.find(" ", size - _TAIL_CHARS, size - _TAIL_CHARS + _SLACK_CHARS)
    if start > 0:
        yield start, words[start:]


def _spans(words: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the sentences as (start, end, whether it is part of one whose negation it must hold)."""
    start = 0
    for match in _END.finditer(words):
        end = match.end()
        if end - start < _NUMBERING_CHARS and not _LETTER.search(words, start, end):
            continue
        if end - start <= _LONGEST_CHARS:
            yield start, end, False
        else:
            yield from _pieces_of(words, start, end)
        start = end
    yield from _pieces_of(words, start, len(words))


def _pieces_of(words: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield a sentence whole, or, if it is long, in parts that end at a pause or a space."""
    guarded = end - start > _LONGEST_CHARS and negative(words[start:end])
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


def _scan(text: str) -> list[_Word]:
    """Return the words of a text that are worth something, the marks at their ends left off."""
    found = []
    for match in _WORD.finditer(text):
        shown = match[0].rstrip(_ENDING)
        lower = shown.lower()
        worth = _KNOWN.get(lower)
        if worth is None:
            worth = _worth(shown)
        if worth:
            start = match.start()
            found.append((start, start + len(shown), lower, worth))
    return found


def _values(text: str) -> dict[str, float]:
    """Return what each word of a text is worth, unspaced ones as pairs of characters."""
    valued = {}
    for word in _WORD.findall(text):
        shown = word.rstrip(_ENDING)
        lower = shown.lower()
        worth = _KNOWN.get(lower)
        if worth is None:
            worth = _worth(shown)
        if worth:
            valued[lower] = worth
    return valued if text.isascii() else _paired(valued)


def _worth(word: str) -> float:
    if word.islower() and word.isalpha() and 1 < len(word) <= _LONGEST_WORD_CHARS:
        return 1.0  # most words
    if len(word) > _LONGEST_WORD_CHARS and not _UNSPACED.search(word):
        return 0.0
    if len(word) == 1 or (len(word) == 2 and word.isdigit()):
        return _LESSER if word.isascii() else 1.0
    return _NAME if word[0].isupper() or (not word.isalpha() and _DIGIT.search(word)) else 1.0


def _paired(valued: dict[str, float]) -> dict[str, float]:
    """Return words and what they are worth, with each pair of characters in place of an unspaced one."""
    for word in [word for word in valued if not word.isascii()]:
        if _UNSPACED.search(word):
            del valued[word]
            valued.update(dict.fromkeys(map("".join, pairwise(word)), _PAIR))
    return valued


def _runs(text: str, found: Sequence[_Word]) -> Iterator[_Run]:
    """Yield the words between common ones and marks, where one of them says something by itself."""
    run: list[_Word] = []
    begin = stop = 0
    telling = False
    for word in found:
        start, end, _, worth = word
        if run and (text[stop:start] != " " or end - begin > _LONGEST_PHRASE_CHARS):
            if telling:
                yield begin, stop, run
            run, telling = [], False
        if not run:
            begin = start
        run.append(word)
        stop = end
        telling = telling or worth > _LESSER
    if telling:
        yield begin, stop, run


def _negated(text: str, found: Sequence[_Word]) -> Iterator[_Run]:
    """Yield the parts of a sentence, between its pauses, that hold a negation, from the first word worth showing on."""
    pauses = [0, *(match.end() for match in _PAUSE.finditer(text)), len(text)]
    for first, last in pairwise(pauses):
        run = [word for word in found if word[0] >= first and word[1] <= last]
        if len(run) > 1 and negative(part := text[run[0][0] : last].rstrip(_CLOSING)):
            yield run[0][0], run[0][0] + len(part), run
