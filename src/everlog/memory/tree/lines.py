"""A node's text, and the form in which it is shown: one line, that cannot close a tag or pass for another line.

The text of a leaf is `kind: words`; that of a node above is made of several such pieces, one a line. Words may hold
newlines and may look like a piece of their own, so a line knows where its true pieces start.

Shown, every line break is one space. `<chat` and `</chat` have their `<` written `&lt;`, and what looks like a label
(`7+1|` at the start of a word) has its `|` written `&#124;`; text that holds such an escape already gets one `amp;`
more. Everything else stays as it is, so `unescape` gives back every text exactly.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from everlog.messages import KINDS, Entry, Kind
from everlog.tokens import size_bytes, text_of, utf8

LIMIT_BYTES = 512
"""A source within it is its own node; a compacted line is to fit in it."""

PLACEHOLDER = "(not summarized yet: zoom it)"
"""Shown in place of a node that is not built yet."""

ERASED = "(erased)"
"""Stands for the words of an erased message."""

_TAG = r"(?=[\s/]*[cC][hH][aA][tT]\b)"
_TAG_OUT = re.compile(rf"(?:<|&((?:amp;)*)lt;){_TAG}")
_TAG_BACK = re.compile(rf"&((?:amp;)*)lt;{_TAG}")
_LABEL = r"(?<!\S)([0-9]+\+[0-9]+)"
_LABEL_OUT = re.compile(rf"{_LABEL}(?:\||&((?:amp;)*)#124;)")
_LABEL_BACK = re.compile(rf"{_LABEL}&((?:amp;)*)#124;")


@dataclass(frozen=True, slots=True)
class Line:
    """The text of one node."""

    text: str
    starts: tuple[int, ...] = (0,)
    """Where in the text a `kind: ` stands that is a true one, in characters; none in a line that a model wrote."""

    @property
    def pieces(self) -> list[tuple[Kind, str]]:
        """The true pieces, in order, as (kind, words); a line without any is one `note`."""
        if not self.starts:
            return [("note", self.text)]
        ends = (*(start - 1 for start in self.starts[1:]), len(self.text))
        found = []
        for start, end in zip(self.starts, ends, strict=True):
            kind, _, words = self.text[start:end].partition(": ")
            found.append((cast("Kind", kind), words))
        return found

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of the text as it is, which decide whether it is a node of its own."""
        return size_bytes(self.text)


def source(entry: Entry) -> Line:
    """Return what an entry is to the tree: `kind: text`."""
    return Line(f"{entry.kind}: {ERASED}" if entry.erased else entry.message.source)


def line_of(pieces: Iterable[tuple[str, str]]) -> Line:
    """Return the line made of these pieces."""
    texts = []
    starts = []
    at = 0
    for kind, words in pieces:
        if kind not in KINDS:
            raise ValueError(f"unknown kind {kind!r}")
        starts.append(at)
        texts.append(f"{kind}: {words}")
        at += len(texts[-1]) + 1
    return Line("\n".join(texts), tuple(starts))


def joined(left: Line, right: Line) -> Line:
    """Return the source of a node: its two halves, one newline between."""
    shift = len(left.text) + 1
    if not left.starts or not right.starts:
        return Line(f"{left.text}\n{right.text}", ())
    return Line(f"{left.text}\n{right.text}", left.starts + tuple(shift + start for start in right.starts))


def encode(line: Line) -> bytes:
    """Return a line as it is stored: where its pieces start, a bar, the text."""
    starts = ",".join(map(str, line.starts[1:])) if line.starts else "-"
    return utf8(f"{starts}|{line.text}")


def decode(stored: bytes) -> Line:
    """Return the line that `encode` stored."""
    head, _, text = text_of(stored).partition("|")
    if not head:
        return Line(text)
    return Line(text, () if head == "-" else (0, *map(int, head.split(","))))


def shown(text: str) -> str:
    """Return text as one line of a view."""
    return escape(flatten(text))


def flatten(text: str) -> str:
    """Return text with every line break made one space: CRLF, CR, LF, and what else Unicode breaks a line at."""
    return " ".join(f"{text}.".splitlines())[:-1]


def escape(text: str) -> str:
    """Return text that holds no `<chat` or `</chat` and no label at the start of a word."""
    if "<" in text or "lt;" in text:
        text = _TAG_OUT.sub(lambda m: "&lt;" if m[1] is None else f"&amp;{m[1]}lt;", text)
    if "+" in text and ("|" in text or "#124;" in text):
        text = _LABEL_OUT.sub(lambda m: f"{m[1]}&#124;" if m[2] is None else f"{m[1]}&amp;{m[2]}#124;", text)
    return text


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    text = _LABEL_BACK.sub(lambda m: f"{m[1]}&{m[2][4:]}#124;" if m[2] else f"{m[1]}|", text)
    return _TAG_BACK.sub(lambda m: f"&{m[1][4:]}lt;" if m[1] else "<", text)
