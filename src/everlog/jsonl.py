"""Everlog's own file form: a thread as lines of JSON, one entry a line, and back, without a loss.

    {"i":0,"kind":"user","author":"Ada","text":"…","time":"2026-01-05T09:12:00.000000Z","thread":"boat","turn":0}
    {"i":1,"kind":"assistant","author":null,"text":"…","time":"2026-01-05T09:12:08.000000Z","turn":0,"model":"…"}

`i kind author text time` are in every line, the rest where there is something to say. The first line of a thread names
it: `thread`, `title`, `fork` with the thread it was forked `of` and the position `at` which, and `instructions`, which
are what the model was told before the conversation and no entries. Only a thread without entries has a line without
one, which says so: `{"thread":"boat","entries":0}`. Lines are UTF-8 without
a BOM; what is not ASCII is written as it is, lone halves of surrogate pairs as `\\ud83d`. Lines are whole values: they
can be cut, filtered and joined with tools that know lines.

What a rendered entry holds comes back equal; a message without a time of its own comes back with its entry's.
Rendering and parsing are pure; files are the business of others.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_never

from everlog.clock import isoformat
from everlog.messages import (
    JSON,
    KINDS,
    Call,
    Conversation,
    Entry,
    Media,
    Message,
    Origin,
    Part,
    Result,
    Unknown,
    joined_surrogates,
)

REQUIRED = ("i", "kind", "author", "text", "time")
"""What each line says."""

ENTRY = b'{"i":'
"""How the line of an entry begins when it is written here."""

ORIGIN = ("request", "session", "user", "project", "cwd")

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BadLine(ValueError):
    """A line, or a value in it, is not of this form; the message never holds its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript(Conversation):
    """A thread as it was exported: a conversation that also knows its turns, origins and erasures."""

    entries: tuple[Entry, ...]
    """One for each of `messages`."""
    instructions: tuple[str, ...] = ()
    """What stands beside the thread, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: an entry, and, on the first line of a thread, what the thread is."""

    entry: Entry | None
    """Its `turn` is -1 where the line does not say; None where the line stands for a thread without entries."""
    thread: str | None = None
    """Key of the thread."""
    title: str | None = None
    parent: str | None = None
    """Key of the thread it was forked of."""
    shared: int = 0
    """Position of the fork."""
    instructions: tuple[str, ...] = ()


def dumps(value: JSON) -> str:
    """Return value as compact JSON; it may hold lone surrogates, which only `encoded` can make bytes of."""
    return _encode(value)


def encoded(text: str) -> bytes:
    """Return JSON text as UTF-8, with lone surrogates as the escapes that JSON has for them."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def lines(
    entries: Iterable[Entry],
    *,
    key: str | None = None,
    title: str | None = None,
    parent: str | None = None,
    shared: int = 0,
    instructions: Sequence[str] = (),
) -> Iterator[bytes]:
    """Yield a thread's entries as lines, each with its line break; the keywords go into the first.

    Without entries there is a line if there is a key.
    """
    first: dict[str, JSON] = {}
    if key is not None:
        first["thread"] = key
    if title is not None:
        first["title"] = title
    if parent is not None:
        first["fork"] = {"of": parent, "at": shared}
    if instructions:
        first["instructions"] = list(instructions)
    empty = key is not None
    for entry in entries:
        yield encoded(dumps(render_entry(entry, first))) + b"\n"
        first, empty = {}, False
    if empty:
        yield encoded(dumps(first | {"entries": 0})) + b"\n"


def is_empty_thread(value: JSON) -> bool:
    """Whether a line's object stands for a thread without entries."""
    return isinstance(value, dict) and value.get("entries") == 0 and "thread" in value and "i" not in value


def render_entry(entry: Entry, thread: Mapping[str, JSON] | None = None) -> dict[str, JSON]:
    """Return an entry as the object of its line; `thread` is what its first line says of the thread."""
    message = entry.message
    line: dict[str, JSON] = {
        "i": entry.i,
        "kind": message.kind,
        "author": message.author,
        "text": message.text,
        "time": isoformat(entry.at),
        **(thread or {}),
        "turn": entry.turn,
    }
    if message.id is not None:
        line["id"] = message.id
    if message.model is not None:
        line["model"] = message.model
    if message.meta:
        line["meta"] = dict(message.meta)
    if origin := {name: value for name in ORIGIN if (value := getattr(entry.origin, name)) is not None}:
        line["origin"] = origin
    if entry.erased:
        line["erased"] = True
    if message.parts:
        line["parts"] = [render_part(part) for part in message.parts]
    return line


def render_part(part: Part) -> dict[str, JSON]:
    """Return what is not text as an object: bytes in base64, the rest under the names of its fields."""
    match part:
        case Media():
            media: dict[str, JSON] = {"type": "media", "media_type": part.media_type}
            if part.content is not None:
                media["content"] = base64.b64encode(part.content).decode()
            if part.url is not None:
                media["url"] = part.url
            if part.name is not None:
                media["name"] = part.name
            return media | {"offset": part.offset}
        case Call():
            return {"type": "call", "call_id": part.call_id, "name": part.name, "arguments": part.arguments}
        case Result():
            return {"type": "result", "call_id": part.call_id, "name": part.name, "failed": part.failed}
        case Unknown():
            return {"type": "unknown", "source": part.source, "value": part.value, "offset": part.offset}
        case _:
            assert_never(part)


def parse_line(value: JSON) -> Line:
    """Return what one line says; a time without a zone is taken as UTC.

    Raises:
        BadLine: it is not an object of this form.
    """
    if not isinstance(value, dict):
        raise BadLine("it is not an object")
    entry = None if is_empty_thread(value) else parse_entry(value)
    fork = value.get("fork")
    if fork is not None and not isinstance(fork, dict):
        raise BadLine("fork is not an object")
    told = value.get("instructions", [])
    if not isinstance(told, list) or not all(isinstance(text, str) for text in told):
        raise BadLine("instructions is not a list of texts")
    return Line(
        entry=entry,
        thread=_text(value, "thread"),
        title=_text(value, "title"),
        parent=None if fork is None else _string(fork, "of"),
        shared=0 if fork is None else _number(fork, "at"),
        instructions=tuple(joined_surrogates(text) for text in told if isinstance(text, str)),
    )


def parse_entry(value: Mapping[str, Any]) -> Entry:
    """Return the entry of one line's object; `turn` is -1 where it is missing.

    Raises:
        BadLine: a field is missing or of another form.
    """
    kind = _string(value, "kind")
    if kind not in KINDS:
        raise BadLine(f"kind is none of {', '.join(KINDS)}")
    at = parse_time(_string(value, "time"))
    if "author" not in value:
        raise BadLine("author is missing")
    meta = value.get("meta")
    if meta is not None and type(meta) is not dict:
        raise BadLine("meta is not an object")
    parts = value.get("parts")
    origin = value.get("origin")
    erased = value.get("erased", False)
    if type(erased) is not bool:
        raise BadLine("erased is neither true nor false")
    message = Message(
        kind=kind,
        text=_string(value, "text"),
        author=_text(value, "author"),
        at=at,
        parts=parse_parts(parts) if parts is not None else (),
        id=_text(value, "id"),
        model=_text(value, "model"),
        meta=meta or {},
    )
    return Entry(
        i=_number(value, "i"),
        turn=_number(value, "turn") if "turn" in value else -1,
        message=message,
        at=at,
        origin=parse_origin(origin) if origin is not None else _NOWHERE,
        erased=erased,
    )


def parse_time(text: str) -> datetime:
    """Return the moment that an ISO 8601 text names, in UTC, which is also assumed where it names no zone."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadLine("time is not a date of ISO 8601") from None


def parse_origin(value: object) -> Origin:
    """Return where an entry came from."""
    if not isinstance(value, dict):
        raise BadLine("origin is not an object")
    return Origin(**{name: _text(value, name) for name in ORIGIN})


def parse_parts(value: object) -> tuple[Part, ...]:
    """Return the parts of a line, in order."""
    if not isinstance(value, list):
        raise BadLine("parts is not a list")
    return tuple(map(parse_part, value))


def parse_part(value: object) -> Part:
    """Return one part from its object."""
    if not isinstance(value, dict):
        raise BadLine("a part is not an object")
    offset = _number(value, "offset") if "offset" in value else 0
    match value.get("type"):
        case "media":
            return Media(
                media_type=_string(value, "media_type"),
                content=_content(value),
                url=_text(value, "url"),
                name=_text(value, "name"),
                offset=offset,
            )
        case "call":
            return Call(
                call_id=_string(value, "call_id"), name=_string(value, "name"), arguments=_string(value, "arguments")
            )
        case "result":
            failed = value.get("failed", False)
            if type(failed) is not bool:
                raise BadLine("failed is neither true nor false")
            return Result(call_id=_string(value, "call_id"), name=_text(value, "name"), failed=failed)
        case "unknown":
            if "value" not in value:
                raise BadLine("value is missing")
            return Unknown(source=_string(value, "source"), value=value["value"], offset=offset)
        case _:
            raise BadLine("a part is neither media, call, result nor unknown")


_NOWHERE = Origin()


def _text(value: Mapping[str, Any], name: str) -> str | None:
    found = value.get(name)
    if found is not None and type(found) is not str:
        raise BadLine(f"{name} is not a text")
    return found


def _string(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if type(found) is not str:
        raise BadLine(f"{name} is not a text" if name in value else f"{name} is missing")
    return found


def _number(value: Mapping[str, Any], name: str) -> int:
    found = value.get(name)
    if type(found) is not int or found < 0:
        raise BadLine(f"{name} is not a number of at least 0" if name in value else f"{name} is missing")
    return found


def _content(value: Mapping[str, Any]) -> bytes | None:
    content = _text(value, "content")
    try:
        return None if content is None else base64.b64decode(content, validate=True)
    except ValueError:
        raise BadLine("content is not base64") from None
