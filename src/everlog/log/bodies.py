"""How a message is laid out in its row: the sealed body, and the large parts that are stored beside it.

A body is a JSON array `[text, author, parts, id, meta]` in UTF-8, empty tail left out. The bytes of media are not in
it: they go to the thread's blobs under a keyed name, and the part keeps that name.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, assert_never

from everlog.errors import Damaged, expect
from everlog.messages import JSON, KINDS, Call, Kind, Media, Message, Part, Result, Unknown
from everlog.store.keys import digest
from everlog.tokens import text_of, utf8

KIND_NUMBER: Mapping[Kind, int] = {kind: number for number, kind in enumerate(KINDS)}

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_UNLIKE = (ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError)
_NOT_STORED = "a message is not what was stored; `everlog verify` says which"


@dataclass(frozen=True, slots=True)
class Body:
    """A message as it is stored: plain bytes, not sealed yet."""

    plain: bytes
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    """Bytes of its media by name."""


def encode(message: Message, secret: bytes) -> Body:
    """Lay a message out for storing; names of blobs are keyed with the tenant's secret."""
    if not (message.author or message.parts or message.id or message.meta):
        return Body(utf8(f"[{_encode(message.text)}]"))  # the same bytes as a list, without the walk over one
    blobs: dict[str, bytes] = {}
    parts = [_render(part, blobs, secret) for part in message.parts]
    fields: list[Any] = [message.text, message.author, parts, message.id, dict(message.meta)]
    while not fields[-1] and len(fields) > 1:
        fields.pop()
    return Body(utf8(_encode(fields)), blobs)


def decode(
    plain: bytes, kind: int, at: datetime, *, model: str | None, blob: Callable[[str], bytes | None] | None
) -> Message:
    """Return the message of a body; `blob` fetches the bytes of media by name, None leaves them out.

    Raises:
        Damaged: the body is not what was stored.
    """
    try:
        fields = json.loads(text_of(plain))
        text, author, parts, message_id, meta = fields + [None] * (5 - len(fields))
        return Message(
            kind=KINDS[kind],
            text=text,
            author=author,
            at=at,
            parts=tuple(_parse(part, blob) for part in parts or ()),
            id=message_id,
            model=model,
            meta=meta or {},
        )
    except _UNLIKE:
        raise Damaged(_NOT_STORED) from None


def words(plain: bytes) -> tuple[str, tuple[Part, ...]]:
    """Return the words of a body, and its parts without the bytes of media.

    Raises:
        Damaged: the body is not what was stored.
    """
    try:
        fields = json.loads(text_of(plain))
        parts = tuple(_parse(part, None) for part in fields[2] or ()) if len(fields) > 2 else ()
        expect(fields[0], str, "words are a str")
    except _UNLIKE:
        raise Damaged(_NOT_STORED) from None
    else:
        return fields[0], parts


def blob_name(content: bytes, secret: bytes) -> str:
    """Return the keyed name of a part's bytes: it tells equal parts, and nothing without the secret."""
    return digest(secret, b"blob", content).hex()


def _render(part: Part, blobs: dict[str, bytes], secret: bytes) -> list[JSON]:
    match part:
        case Media():
            name = None
            if part.content is not None:
                name = blob_name(part.content, secret)
                blobs[name] = part.content
            return ["m", part.media_type, part.url, part.name, part.offset, name]
        case Call():
            return ["c", part.call_id, part.name, part.arguments]
        case Result():
            return ["r", part.call_id, part.name, part.failed]
        case Unknown():
            return ["u", part.source, part.value, part.offset]
        case _:
            assert_never(part)


def _parse(part: list[Any], blob: Callable[[str], bytes | None] | None) -> Part:
    match part:
        case ["m", media_type, url, name, offset, blob_name]:
            content = blob(blob_name) if blob is not None and blob_name is not None else None
            return Media(media_type=media_type, content=content, url=url, name=name, offset=offset)
        case ["c", call_id, name, arguments]:
            return Call(call_id=call_id, name=name, arguments=arguments)
        case ["r", call_id, name, failed]:
            return Result(call_id=call_id, name=name, failed=failed)
        case ["u", source, value, offset]:
            return Unknown(source=source, value=value, offset=offset)
        case _:
            raise Damaged("a stored part has a form that this version does not know")
