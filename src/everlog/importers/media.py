"""Images, sounds and files as exports name them."""

import base64
import re
from pathlib import PurePosixPath

from everlog.messages import Media

UNKNOWN_TYPE = "application/octet-stream"

_TYPES = {
    ".bmp": "image/bmp",
    ".csv": "text/csv",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".gif": "image/gif",
    ".html": "text/html",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".ogg": "audio/ogg",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".wav": "audio/wav",
    ".webm": "video/webm",
    ".webp": "image/webp",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".zip": "application/zip",
}
"""By file name. Not the standard library's table: that one depends on the machine."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
)

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?P<other>(?:;[^;,]*)*),(?P<payload>.*)", re.DOTALL)


def media_type(name: str | None = None, content: bytes | None = None, stated: str | None = None) -> str:
    """Return the MIME type: as stated, else by the content's first bytes, else by the name's ending."""
    if stated is not None and "/" in stated:
        return stated
    for magic, found in _MAGIC:
        if content is not None and content.startswith(magic):
            return found
    if content is not None and content[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(content[8:12], UNKNOWN_TYPE)
    suffix = PurePosixPath(name.partition("?")[0]).suffix.lower() if name else ""
    return _TYPES.get(suffix, UNKNOWN_TYPE)


def from_base64(text: object) -> bytes | None:
    """Return the bytes that base64 text stands for; None if it is not base64."""
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def from_url(url: str, *, name: str | None = None, stated: str | None = None, offset: int = 0) -> Media:
    """Return what a URL names: with its bytes if it is a data URL in base64, else by reference only."""
    data = _DATA_URL.fullmatch(url) if url.startswith("data:") else None
    content = from_base64(data["payload"]) if data and data["other"].endswith(";base64") else None
    if data and content is not None:
        found = media_type(name, content, data["type"] or stated)
        return Media(media_type=found, content=content, name=name, offset=offset)
    return Media(media_type=media_type(name or url, None, stated), url=url, name=name, offset=offset)
