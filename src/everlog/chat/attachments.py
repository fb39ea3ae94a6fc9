"""Attachments: images, sounds and files from a path, a URL, an open file or bytes, and texts made part of the words.

A path is read and a URL is handed to the provider: who passes on what a stranger wrote lets the stranger read files.
Check such input before it comes here.
"""

import mimetypes
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from everlog.errors import Mistake, PartTooLarge
from everlog.messages import Media, Message, Part
from everlog.protocols.exchange import Said
from everlog.protocols.shapes import Record, record

UNKNOWN = "application/octet-stream"

MOST_BYTES = 50 * 2**20
"""The most that any provider takes within a request: OpenAI's limit for all files of one."""

INLINE_BYTES = {"anthropic": 24 * 2**20}
"""Where it is less: Anthropic takes requests of 32 MB, and a file is a third larger in them."""

_URL = re.compile(r"https?://", re.IGNORECASE)

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)

_TEXTS = {"application/json", "application/xml", "application/x-yaml", "application/toml", "application/javascript"}

_TYPES = {".md": "text/markdown", ".toml": "application/toml", ".yaml": "application/x-yaml", ".webp": "image/webp"}


def attachment(source: Any, *, media_type: str | None = None, name: str | None = None) -> Media:
    """Return an attachment from a path, an http(s) URL, an open file, bytes, or another attachment.

    Files are read now, open ones from their beginning; URLs are not fetched, the provider reads them.

    Raises:
        PartTooLarge: it is larger than any provider takes within a request.
        Mistake: it is none of these, or a file that cannot be read.
    """
    if isinstance(source, Media):
        return source
    if isinstance(source, str) and _URL.match(source):
        end = source.partition("?")[0].partition("#")[0].rsplit("/", 1)[-1]
        return Media(media_type=media_type or _by_name(end) or "image/*", url=source, name=name or end or None)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        content, name = _read(path), name or path.name
    elif isinstance(source, bytes | bytearray | memoryview):
        _refuse_large(memoryview(source).nbytes, "the attachment")
        content = bytes(source)
    elif callable(getattr(source, "read", None)):
        content, found = _from_open(source)
        name = name or found
    else:
        raise Mistake(f"an attachment is a path, a URL, an open file or bytes, not {type(source).__name__}")
    return Media(media_type=media_type or _by_name(name or "") or sniffed(content), content=content, name=name)


def attachments(given: Any) -> tuple[Media, ...]:
    """Return the attachments of one source, a list of them, or the values of a mapping; None and "" are none."""
    return tuple(attachment(one) for one in _flat(given))


def _flat(given: Any) -> Iterator[Any]:
    if given is None or (isinstance(given, str) and not given.strip()):
        return
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, list | tuple):
        for one in given:
            yield from _flat(one)
    else:
        yield given


def _read(path: Path) -> bytes:
    """Return what is in a regular file; whatever else a path may name is not waited for."""
    if not _can_be_named(path):
        raise Mistake("the path of an attachment has characters that no file name can have")
    try:
        _refuse_irregular(path.stat(), path)
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            _refuse_irregular(os.fstat(file.fileno()), path)
            return _all_of(file, f"the attachment {path.name}")
    except OSError as error:
        raise Mistake(f"the attachment {path.name} cannot be read: {error.strerror}") from None


def _can_be_named(path: Path) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _refuse_irregular(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
        raise Mistake(f"the attachment {path.name} cannot be read: it is {kind}, not a file")


def _from_open(file: Any) -> tuple[bytes, str | None]:
    if callable(getattr(file, "seek", None)) and (not callable(getattr(file, "seekable", None)) or file.seekable()):
        file.seek(0)
    named = getattr(file, "name", None)
    return _all_of(file, "the open file"), Path(named).name if isinstance(named, str) else None


def _all_of(file: Any, what: str) -> bytes:
    """Return what an open file holds, of bytes or of text, and read no more than can be attached."""
    pieces: list[bytes] = []
    left = MOST_BYTES
    while left >= 0 and (piece := file.read(left + 1)):
        pieces.append(piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else bytes(piece))
        left -= len(pieces[-1])
    _refuse_large(MOST_BYTES - left, what)
    return b"".join(pieces)


def _refuse_large(size: int, what: str) -> None:
    if size > MOST_BYTES:
        raise PartTooLarge(
            f"{what} is larger than {MOST_BYTES} bytes, the most that a provider takes within a request; give a URL"
        )


def refuse_large(said: Said, protocol: str) -> None:
    """Make sure that a protocol carries what is attached.

    Raises:
        PartTooLarge: one is larger than it takes within a request.
    """
    most = INLINE_BYTES.get(protocol, MOST_BYTES)
    for message in said.messages:
        for part in message.parts:
            if isinstance(part, Media) and part.content is not None and len(part.content) > most:
                raise PartTooLarge(
                    f"an attachment of {len(part.content)} bytes is larger than {most}, the most that {protocol} takes "
                    "within a request; give a URL"
                )


def _by_name(name: str) -> str | None:
    ending = Path(name).suffix.lower()
    return _TYPES.get(ending) or mimetypes.guess_type(name)[0]


def sniffed(content: bytes) -> str:
    """Return the type that the first bytes tell."""
    for start, kind in _MAGIC:
        if content.startswith(start):
            return kind
    if content[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(content[8:12], UNKNOWN)
    if content[4:8] == b"ftyp":
        return "video/mp4"
    return "text/plain" if b"\0" not in content[:4096] and _is_text(content[:4096]) else UNKNOWN


def _is_text(start: bytes) -> bool:
    try:
        start.decode()
    except UnicodeDecodeError as error:
        return error.start > len(start) - 4 and error.reason == "unexpected end of data"
    return True


def is_text(media: Media) -> bool:
    """Whether the attachment is a text whose words we have."""
    kind = media.media_type
    return media.content is not None and (
        kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))
    )


def inlined(said: Said) -> Said:
    """Return what was said with texts that were attached as tagged blocks behind the words."""
    if not any(isinstance(part, Media) and is_text(part) for one in said.messages for part in one.parts):
        return said
    return replace(said, messages=tuple(_inlined(one) for one in said.messages))


def as_documents(said: Said) -> Said:
    """Return what was said with texts that were attached as plain ones, whatever they are: documents that can be cited."""
    return replace(said, messages=tuple(replace(one, parts=tuple(map(_plain, one.parts))) for one in said.messages))


def _plain(part: Part) -> Part:
    return replace(part, media_type="text/plain") if isinstance(part, Media) and is_text(part) else part


def cited(body: Record) -> Record:
    """Return a body of Anthropic's Messages in which answers may cite each document of a user's message."""
    return {**body, "messages": [_citable(message) for message in body["messages"]]}


def _citable(message: Record) -> Record:
    blocks = message.get("content")
    if message.get("role") != "user" or not isinstance(blocks, list):
        return message
    marked = [
        {**one, "citations": {"enabled": True}} if record(one).get("type") == "document" else one for one in blocks
    ]
    return {**message, "content": marked}


def _inlined(message: Message) -> Message:
    texts = [part for part in message.parts if isinstance(part, Media) and is_text(part)]
    words = "\n".join([message.text] * bool(message.text) + [_block(media) for media in texts])
    return replace(message, text=words, parts=tuple(part for part in message.parts if part not in texts))


def _block(media: Media) -> str:
    """Return a text as a block that nothing in it can close."""
    name = re.sub(r'[<>"\n]', "_", media.name or "text")
    words = re.sub("</(?=file)", r"<\\/", (media.content or b"").decode("utf-8", "replace"), flags=re.IGNORECASE)
    return f'<file name="{name}" type="{media.media_type}">\n{words}\n</file>'
