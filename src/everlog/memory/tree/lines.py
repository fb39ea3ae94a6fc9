"""A node's text, and the form in which it is shown: one line, that cannot close a tag or pass for another line.

The text of a leaf is `kind: words`, or `kind (name): words` where the speaker has a name; that of a node above is made
of several such pieces, one a line. Words may hold newlines and may look like a piece of their own, so a line knows where
its true pieces start. What stands before the colon is a piece's tag.

Shown, every line break is one space, and what could close a tag or look like a label is escaped (`escapes.py`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from everlog.errors import Damaged
from everlog.memory.escapes import escape, seen
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

_STARTS = re.compile(r"(?:-|[0-9]{1,9}(?:,[0-9]{1,9})*)?")
_UNREADABLE = "a line of a tree is stored in no form that can be read; `everlog rebuild` makes it again"


@dataclass(frozen=True, slots=True)
class Line:
    """The text of one node."""

    text: str
    starts: tuple[int, ...] = (0,)
    """Where in the text a tag stands that is a true one, in characters; none in a line of which nobody knows."""

    @property
    def pieces(self) -> list[tuple[str, str]]:
        """The true pieces, in order, as (tag, words); a line without any is one `note`.

        Raises:
            Damaged: they are none, since it was stored otherwise.
        """
        if not self.starts:
            return [("note", self.text)]
        ends = (*(start - 1 for start in self.starts[1:]), len(self.text))
        found = []
        for start, end in zip(self.starts, ends, strict=True):
            tag, _, words = self.text[start:end].partition(": ")
            if parse_tag(tag)[0] not in KINDS:
                raise Damaged(_UNREADABLE)
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

    Tools' names are left out, since a result is shown with its call; so is a name that only repeats the kind, as
    exports of some programs have it, or that nobody can see. A name is shown in at most 40 bytes, without what could
    end a tag.
    """
    if author is None or kind not in _NAMED:
        return kind
    name = cut(" ".join(_NOT_IN_NAMES.sub(" ", author).split()), NAME_BYTES).rstrip()
    return kind if seen(name).strip().casefold() in {"", kind} else f"{kind} ({name})"


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
    starts = () if head == "-" else (0, *map(int, head.split(",")))
    if any(start <= before for before, start in pairwise(starts)) or (starts and starts[-1] > len(text)):
        raise Damaged(_UNREADABLE)
    return Line(text, starts)


def decode_text(stored: bytes) -> str:
    """Return the text alone of the line that `encode` stored.

    Raises:
        Damaged: it stored no such thing.
    """
    return _parted(stored)[1]


def _parted(stored: bytes) -> tuple[str, str]:
    try:
        head, bar, text = text_of(stored).partition("|")
    except UnicodeDecodeError:
        raise Damaged(_UNREADABLE) from None
    if not bar or _STARTS.fullmatch(head) is None:
        raise Damaged(_UNREADABLE)
    return head, text


def shown(text: str) -> str:
    """Return text as one line of a view."""
    return escape(flatten(text))


def flatten(text: str) -> str:
    """Return text with every line break made one space: CRLF, CR, LF, and what else Unicode breaks a line at."""
    return " ".join(f"{text}.".splitlines())[:-1]
