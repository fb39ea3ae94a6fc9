"""What a model's answer is worth: a line whose every item says truly what kind of message it comes from, or a reason.

Copied label heads and rulers are taken off. What is empty, was cut off, calls a tool, or is an error of the model's
server is no line. Each item begins with a tag that its source has; a speaker's name that the source makes certain is
filled in, and what is not certain is asked for again, never guessed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from everlog.memory.escapes import disclose
from everlog.memory.interface import Answer
from everlog.memory.tree.lines import LIMIT_BYTES, Line, flatten, line_of, parse_tag
from everlog.memory.tree.questions import MARK
from everlog.messages import JSON, KINDS
from everlog.tokens import size_bytes

TOO_LONG = "it is too long"
NO_SHORTER = "it is no shorter than the input"
EMPTY = "it says nothing"
CUT_OFF = "it was cut off before its end"
TOOL = "it calls a tool, and there are none here"
FILTERED = "it was withheld by a filter"
ERROR = "it is an error message and not an entry"
UNTAGGED = "an item does not begin with the kind of message it comes from"
UNTRUE = "it has an item of a kind, or by a speaker, that the input does not have"

_HEAD = re.compile(r"\s*[0-9]+\+[0-9]+\|")
_RULER = re.compile(r"-{24,}")
_TAG = re.compile(rf"(?:[-*•] +)?(?P<kind>{'|'.join(KINDS)})(?: \((?P<name>[^()\n]*)\))?:(?: |$)", re.IGNORECASE)
_INLINE = re.compile(rf"[;|•] (?=(?:{'|'.join(KINDS)})(?: \([^()\n]*\))?: )")
_SERVER = re.compile(
    r"\W{0,3}(?:api|http|server|request|provider|upstream|overloaded|rate.?limit|internal server)?[ _-]?error\b"
    r"(?=[^\w]{0,3}(?:code |status )?(?:\d{3}\b|\{|overloaded|rate|time|internal|unavailable|connection))"
    r"|\{\s*\"(?:error|type\"\s*:\s*\"error)\"",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer, read."""

    line: Line | None
    """The line, where it is true and shorter than its source; it may be over the limit."""
    reason: str = ""
    """Why it cannot be kept, in the words in which the model is told; empty where it can."""
    text: str = ""
    """What is kept of it as a try."""


def judge(answer: Answer, made: Line, given: Line) -> Judged:
    """Return what an answer is worth.

    Args:
        answer: the answer.
        made: the source, which the line must be shorter than.
        given: the source as it was given, a result with its call; its tags are the true ones.
    """
    reason = {"length": CUT_OFF, "tool_calls": TOOL, "filtered": FILTERED}.get(answer.finish, "")
    line = None if reason else _of_pieces(answer.arguments, given)
    if line is None:
        text = _cleaned(answer.text, made)
        if not reason:
            line, reason = _of_text(text, given)
        if line is None:
            return Judged(None, reason, text)
    if line.size_bytes >= made.size_bytes:
        return Judged(None, NO_SHORTER, line.text)
    return Judged(line, TOO_LONG if line.size_bytes > LIMIT_BYTES else "", line.text)


def reread(text: str, made: Line, given: Line) -> Line | None:
    """Return the line of a try that was too long, or None if the try was of no use."""
    line, _ = _of_text(text, given)
    return line if line is not None and line.size_bytes < made.size_bytes else None


def _cleaned(text: str, made: Line) -> str:
    """Return an answer without labels at the head of its lines, without a ruler, and with its escapes undone."""
    kept = []
    for row in text.replace(MARK, "").splitlines():
        said = _HEAD.sub("", row)
        if _RULER.search(said) and not _RULER.search(made.text):
            said = _RULER.sub("", said)
        if said.strip():
            kept.append(disclose(said.strip()))
    return "\n".join(kept)


def _of_text(text: str, given: Line) -> tuple[Line | None, str]:
    """Return the line that a text gives, or the reason why it gives none."""
    if not text:
        return None, EMPTY
    if _SERVER.match(text.partition(": ")[2] if _TAG.match(text) else text) and not _SERVER.search(given.text):
        return None, ERROR
    pieces: list[tuple[str, str]] = []
    for row in _items(text, given):
        match = _TAG.match(row)
        if match is None:
            if not pieces:
                return None, UNTAGGED
            pieces[-1] = pieces[-1][0], f"{pieces[-1][1]} {row}"
            continue
        tag = _true_tag(match["kind"].lower(), match["name"], given)
        if tag is None:
            return None, UNTRUE
        words = flatten(row[match.end() :]).strip()
        if pieces and pieces[-1][0] == tag:
            pieces[-1] = tag, f"{pieces[-1][1]} {words}".rstrip()
        else:
            pieces.append((tag, words))
    if not any(words for _, words in pieces):
        return None, EMPTY
    return line_of((tag, words) for tag, words in pieces if words), ""


def _items(text: str, given: Line) -> Iterator[str]:
    """Yield the items of an answer: its lines, and what is parted by `; user: ` within one, unless the source says so."""
    for row in text.split("\n"):
        start = 0
        for match in _INLINE.finditer(row):
            tag = row[match.end() :].partition(": ")[0]
            if f"{match[0]}{tag}: " not in given.text:
                yield row[start : match.start()].strip()
                start = match.end()
        yield row[start:].strip()


def _true_tag(kind: str, name: str | None, given: Line) -> str | None:
    """Return the tag of the source that an item's stands for; None where there is none, or more than one."""
    tags = [tag for tag in dict.fromkeys(tag for tag, _ in given.pieces) if parse_tag(tag)[0] == kind]
    if name is not None:
        named = [tag for tag in tags if parse_tag(tag)[1] == name.strip()]
        return named[0] if named else None
    if kind in tags or len(tags) == 1:
        return kind if kind in tags else tags[0]
    return None


def _of_pieces(arguments: JSON, given: Line) -> Line | None:
    """Return the line of an answer in pieces, each with a tag that its source has."""
    pieces = arguments.get("pieces") if isinstance(arguments, dict) else None
    if not isinstance(pieces, list) or not pieces:
        return None
    tags = {tag for tag, _ in given.pieces}
    found = []
    for piece in pieces:
        match piece:
            case [str(tag), str(words)] if tag in tags and words:
                found.append((tag, words))
            case _:
                return None
    return line_of(found)


def shortest(tries: Sequence[str], made: Line, given: Line) -> Line | None:
    """Return the shortest line among tries that were only too long, the earliest of equals; None if there is none."""
    lines = [line for text in tries if (line := reread(text, made, given)) is not None]
    return min(lines, key=lambda line: size_bytes(line.text)) if lines else None
