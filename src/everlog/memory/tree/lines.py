"""A node's text, and the form in which it is shown: one line, that cannot close a tag or pass for another line.

The text of a leaf is `kind: words`, or `kind (name): words` where the speaker has a name; that of a node above is made
of several such pieces, one a line. Words may hold newlines and may look like a piece of their own, so a line knows where
its true pieces start. What stands before the colon is a piece's tag.

Shown, every line break is one space. `<chat` and `</chat` have their `<` written `&lt;`, and what looks like a label
(`7+1|` at the start of a word) has its `|` written `&#124;`; text that holds such an escape already gets one `amp;`
more. Everything else stays as it is, so `unescape` gives back every text exactly.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from everlog.errors import Damaged
from everlog.messages import KINDS, Entry, Kind, Media, Message, Unknown
from everlog.tokens import cut, size_bytes, text_of, utf8

LIMIT_BYTES = 512
"""A source within it is its own node; a compacted line is to fit in it."""

PLACEHOLDER = "(not summarized yet: zoom it)"
"""Shown in place of a node that is not built yet."""

ERASED = "(erased)"
"""Stands for the words of an erased message."""

NAME_BYTES = 40
"""The most of a speaker's name that enters a tag."""

_NAMED = ("user", "assistant", "note")
_NOT_IN_NAMES = re.compile(r"[():|<>]+")

_STARTS = re.compile(r"-|[0-9]+(?:,[0-9]+)*")

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
    """Where in the text a tag stands that is a true one, in characters; none in a line of which nobody knows."""

    @property
    def pieces(self) -> list[tuple[str, str]]:
        """The true pieces, in order, as (tag, words); a line without any is one `note`."""
        if not self.starts:
            return [("note", self.text)]
        ends = (*(start - 1 for start in self.starts[1:]), len(self.text))
        found = []
        for start, end in zip(self.starts, ends, strict=True):
            tag, _, words = self.text[start:end].partition(": ")
            found.append((tag, words))
        return found

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of the text as it is, which decide whether it is a node of its own."""
        return size_bytes(self.text)


def source(entry: Entry) -> Line:
    """Return what an entry is to the tree: its tag and its words, or what it holds in place of words."""
    if entry.erased:
        return Line(f"{entry.kind}: {ERASED}")
    message = entry.message
    words = message.text if message.text.strip() else _parts(message) or message.text
    return Line(f"{tag_of(message.kind, message.author)}: {words}")


def tag_of(kind: Kind, author: str | None) -> str:
    """Return the tag of a message: two people of one kind are told apart by their names.

    Tools' names are left out, since a result is shown with its call. A name is shown in at most 40 bytes, without what
    could end a tag.
    """
    if author is None or kind not in _NAMED:
        return kind
    name = cut(" ".join(_NOT_IN_NAMES.sub(" ", author).split()), NAME_BYTES).rstrip()
    return f"{kind} ({name})" if name else kind


def parse_tag(tag: str) -> tuple[Kind, str | None]:
    """Return the kind and the name that a tag is made of."""
    kind, _, name = tag.partition(" (")
    return cast("Kind", kind), name.removesuffix(")") or None


def _parts(message: Message) -> str:
    """Return one readable word group for each part of a message without words."""
    said = []
    for part in message.parts:
        match part:
            case Media():
                facts = (part.media_type.partition("/")[0] or "file", part.media_type, part.name)
                said.append(f"({' '.join(fact for fact in facts if fact)})")
            case Unknown():
                said.append("(something of an unknown form)")
            case _:
                pass
    return " ".join(said)


def line_of(pieces: Iterable[tuple[str, str]]) -> Line:
    """Return the line made of these (tag, words)."""
    texts = []
    starts = []
    at = 0
    for tag, words in pieces:
        if parse_tag(tag)[0] not in KINDS:
            raise ValueError(f"unknown kind {tag!r}")
        starts.append(at)
        texts.append(f"{tag}: {words}")
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
    """Return the line that `encode` stored.

    Raises:
        Damaged: it stored no such thing.
    """
    head, text = _parted(stored)
    if not head:
        return Line(text)
    return Line(text, () if head == "-" else (0, *map(int, head.split(","))))


def decode_text(stored: bytes) -> str:
    """Return the text alone of the line that `encode` stored.

    Raises:
        Damaged: it stored no such thing.
    """
    return _parted(stored)[1]


def _parted(stored: bytes) -> tuple[str, str]:
    head, bar, text = text_of(stored).partition("|")
    if not bar or (head and _STARTS.fullmatch(head) is None):
        raise Damaged("a line of a tree is stored in no form that can be read; `everlog rebuild` makes it again")
    return head, text


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
