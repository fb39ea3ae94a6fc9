"""A source as a stream of JSON values, whatever their layout: a list, lines, or one object.

The values are made by the standard library's decoder, one at a time, from a window that moves over the text: it keeps
lone surrogates and numbers of any size, as the streaming parsers built on yajl do not. At most one value is in memory.
"""

import codecs
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Self

from everlog.errors import BadImport
from everlog.importers.report import Problem
from everlog.importers.source import Document, Source
from everlog.messages import JSON

CHUNK_BYTES = 1 << 18
PROBED_LINES = 20

_WORDS = ("true", "false", "null", "NaN", "Infinity", _LONGEST_WORD := "-Infinity")

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of a source."""

    where: str
    """Name of the document it stands in."""
    position: int
    """Which line, or which element of the list: 1 is the first."""
    value: JSON


def values(source: Source) -> Generator[Value | Problem]:
    """Yield the values of a source in order: elements of lists, lines, or the one object that a document is.

    A line that is not JSON is a `Problem`, and the next ones follow.

    Raises:
        BadImport: a document is not JSON, ends too early, is not UTF-8, or holds a value above the limit.
    """
    for document in source.documents():
        yield from _values(document)


def _values(document: Document) -> Iterator[Value | Problem]:
    with document.open(progress=False) as reader:
        pieces = (piece.lstrip(b" \t\r\n") for piece in iter(lambda: reader.read1(CHUNK_BYTES), b""))
        head = next(filter(None, pieces), b"")
    match head[:1]:
        case b"[":
            yield from _elements(document)
        case b"{":
            yield from _lines(document) if _is_lines(document) else _object(document)
        case b"":
            raise BadImport(f"{document.path} holds nothing but white space")
        case _:
            raise BadImport(f"{document.path} is not JSON in UTF-8: it starts with neither {{ nor [")


def _is_lines(document: Document) -> bool:
    """Whether each line is a value of its own; a lone object on one line is both, and counts as lines."""
    with document.open(progress=False) as reader:
        first, *others = _some_lines(document, reader)
    if _is_object(first):
        return True
    if not any(map(_is_object, others)):
        return False
    with document.open(progress=False) as reader:  # a broken first line, or an object that is laid out over several
        return not _is_object(reader.read(document.limits.value_bytes))


def _some_lines(document: Document, reader: IO[bytes]) -> list[bytes]:
    lines: list[bytes] = []
    while len(lines) < PROBED_LINES and (line := reader.readline(document.limits.value_bytes)):
        if line.strip():
            lines.append(line)
    return lines


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _lines(document: Document) -> Iterator[Value | Problem]:
    limit = document.limits.value_bytes
    decode = _DECODER.decode
    with document.open() as reader:
        start = document.mark_bytes
        for number, line in enumerate(iter(lambda: reader.readline(limit + 1), b""), 1):
            if len(line) > limit:
                raise _too_large(document, f"line {number}")
            found: Value | Problem | None = None
            try:
                text = line.decode()
                if not text.isspace():
                    found = Value(where=document.name, position=number, value=decode(text))
            except UnicodeDecodeError as error:
                raise _not_utf8(document, start + error.start) from None
            except (ValueError, RecursionError) as error:
                found = Problem(where=document.name, reason=_reason(error), position=number)
            start += len(line)
            if found is not None:
                yield found


def _object(document: Document) -> Iterator[Value]:
    with _Window(document) as window:
        window.char()
        yield Value(where=document.name, position=1, value=window.value("its object"))
        window.end("its object")


def _elements(document: Document) -> Iterator[Value]:
    with _Window(document) as window:
        window.char()
        window.step()
        number = 0
        mark = window.char()
        while mark != "]":
            number += 1
            window.char()
            yield Value(where=document.name, position=number, value=window.value(f"element {number}"))
            mark = window.char()
            if mark not in {",", "]"}:
                raise window.broken(f"element {number}", cut=not mark)
            if mark == ",":
                window.step()
        window.step()
        window.end("its list")


class _Window:
    """A piece of a document's text that moves forward and grows only as far as the value under it needs."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._reader = document.open()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._read_bytes = document.mark_bytes
        self._before = 0
        self._text = ""
        self._at = 0

    @property
    def position(self) -> int:
        """Which character of the document we are at; 1 is the first."""
        return self._before + self._at + 1

    def char(self) -> str:
        """Return the next character that is not white space, without passing it; empty at the end."""
        while True:
            self._at = self._skip(self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def end(self, what: str) -> None:
        """Make sure that nothing follows.

        Raises:
            BadImport: something does.
        """
        if self.char():
            raise BadImport(
                f"{self._document.path} is not JSON: {what} ends before character {self.position:,}, but more follows"
            )

    def step(self) -> None:
        """Pass one character."""
        self._at += 1

    def value(self, what: str) -> JSON:
        """Return the value that starts here, and pass it."""
        while True:
            value: JSON
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                near_the_end = error.pos >= len(self._text) - len(_LONGEST_WORD)
                if not (near_the_end or error.msg.startswith("Unterminated")) or not self._more():
                    raise self.broken(what, cut=_is_cut(error, self._text), at=error.pos) from None
            except (ValueError, RecursionError) as error:
                raise BadImport(f"{self._document.path}: {what} cannot be read: {_reason(error)}") from None
            else:
                whole = isinstance(value, dict | list | str) or end < len(self._text) - len("e-")  # a number may go on
                if whole or not self._more():
                    self._at = end
                    return value

    def broken(self, what: str, *, cut: bool, at: int | None = None) -> BadImport:
        """Return the error for text that does not go on as JSON does."""
        if cut:
            return BadImport(f"{self._document.path} ends too early, within {what}; export or copy it again")
        position = self.position if at is None else self._before + at + 1
        return BadImport(f"{self._document.path} is not JSON: {what} is broken at character {position:,}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._reader.close()

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        assert match is not None
        return match.end()

    def _more(self) -> bool:
        """Make the window start here and twice as long; return whether there was more."""
        rest = self._text[self._at :]
        if len(rest) > self._document.limits.value_bytes:
            raise _too_large(self._document, f"the value at character {self.position:,}")
        chunk = self._reader.read(max(CHUNK_BYTES, len(rest)))
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise _not_utf8(self._document, self._read_bytes - pending + error.start) from None
        self._read_bytes += len(chunk)
        if not chunk:
            return False
        self._before += self._at
        self._text, self._at = rest + text, 0
        return True


def _is_cut(error: json.JSONDecodeError, text: str) -> bool:
    """Whether text that is all there is breaks off, rather than goes on wrongly."""
    rest = text[error.pos :].strip()
    if error.msg.startswith("Unterminated") or not rest:
        return True
    return any(word.startswith(rest) for word in _WORDS) or (rest[0] in "\\u" and len(rest) < len(r"\u0000"))


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON at character {error.pos + 1:,}"
    return "it holds a number of too many digits"


def _too_large(document: Document, what: str) -> BadImport:
    return BadImport(f"{document.path}: {what} is larger than {document.limits.value_bytes:,} bytes")


def _not_utf8(document: Document, offset: int) -> BadImport:
    return BadImport(f"{document.path} is not UTF-8: the byte at offset {offset:,} is invalid")
