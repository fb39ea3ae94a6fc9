"""Whether words occur in a message: whole words, compared without case, width or form. Pure; the rules are seed 000's.

A word of letters matches as a whole word, and from five letters on also as the beginning of one. A word with a digit or
a symbol matches a whole token only: what stands between spaces, apart from symbols at its ends. So `12345` is found in
`#12345,` and never in `123456789`, `12345.678` or `id:12345`.

Where a script puts no spaces between words (Chinese, Japanese, Thai …), a word may begin and end anywhere: the seed
says nothing of them, and with its rule for letters nothing in them could be found.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category, normalize

MIN_CHARACTERS, MAX_WORDS, PREFIX_LETTERS = 2, 8, 5

_WIDE = re.compile("[\u3000\uff01-\uff5e]")
_NARROW = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {"\u3000": " "}
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class Term:
    """A word that is looked for, folded."""

    text: str
    token: bool = False
    """Whether it must be a whole token, for it has a digit or a symbol."""
    prefix: bool = False
    """Whether it may also be the beginning of a longer word."""

    def occurs(self, folded: str) -> bool:
        """Return whether it is in a folded text."""
        begin = folded.find(self.text)
        while begin >= 0:
            end = begin + len(self.text)
            if self.token:
                if _is_token(folded, begin, end):
                    return True
            elif _edge(folded, begin) and (self.prefix or _edge(folded, end)):
                return True
            begin = folded.find(self.text, begin + 1)
        return False


def fold(text: str) -> str:
    """Return text in the form in which it is compared: NFKC, then case-folded."""
    if text.isascii():
        return text.lower()
    if _WIDE.search(text):  # by hand, since these alone make most Japanese slow to normalise (measured: 4 times)
        text = _WIDE.sub(lambda found: _NARROW[found[0]], text)
    return normalize("NFKC", text).casefold()


def terms(words: str) -> tuple[Term, ...]:
    """Return what to look for: each word once, at most eight, without symbols at its ends; short ones are left out."""
    found: dict[str, Term] = {}
    for word in map(_bare, fold(words).split()):
        if len(word) >= MIN_CHARACTERS and word not in found:
            letters = all(map(_is_letter, word))
            found[word] = Term(word, token=not letters, prefix=letters and len(word) >= PREFIX_LETTERS)
    return tuple(found.values())[:MAX_WORDS]


def matched(wanted: Sequence[Term], folded: str) -> int:
    """Return how many of the words are in a folded text."""
    return sum(term.text in folded and term.occurs(folded) for term in wanted)


def _bare(word: str) -> str:
    begin, end = 0, len(word)
    while begin < end and _is_symbol(word[begin]):
        begin += 1
    while begin < end and _is_symbol(word[end - 1]):
        end -= 1
    return word[begin:end]


def _is_token(text: str, begin: int, end: int) -> bool:
    """Whether only symbols stand between a stretch of text and the next space, or end, on either side."""
    while begin and not text[begin - 1].isspace():
        if not _is_symbol(text[begin - 1]):
            return False
        begin -= 1
    while end < len(text) and not text[end].isspace():
        if not _is_symbol(text[end]):
            return False
        end += 1
    return True


def _edge(text: str, at: int) -> bool:
    """Whether a word can begin or end here."""
    if at in (0, len(text)):
        return True
    before, after = text[at - 1], text[at]
    if not (_in_word(before) and _in_word(after)):
        return True
    if before.isascii() and after.isascii():
        return False
    return not _is_mark(after) and bool(_UNSPACED.match(before) or _UNSPACED.match(after))


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_" or _is_mark(char)


def _is_symbol(char: str) -> bool:
    return not char.isalnum() and not _is_mark(char)


def _is_letter(char: str) -> bool:
    return char.isalpha() or _is_mark(char)


def _is_mark(char: str) -> bool:
    return not char.isascii() and category(char)[0] == "M"
