"""Images, sounds and files between our `Media` and the parts of the protocols."""

import base64
import re
from collections.abc import Callable

from everlog.errors import UnsupportedAttachment
from everlog.messages import JSON, Media, Message, Unknown
from everlog.protocols.shapes import Record, record, string

UNKNOWN_TYPE = "application/octet-stream"

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)


def data_url(media: Media) -> str:
    """Return where the part can be read: its own bytes as a data URL, else its URL."""
    if media.content is None:
        return media.url or ""
    return f"data:{media.media_type};base64,{base64_text(media)}"


def base64_text(media: Media) -> str:
    """Return the bytes as base64."""
    return base64.b64encode(media.content or b"").decode()


def from_base64(text: object, media_type: str, name: str | None = None) -> Media | None:
    """Return the part that base64 text stands for; None if it is not base64."""
    if not isinstance(text, str):
        return None
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return Media(media_type=media_type or UNKNOWN_TYPE, content=content, name=name)


def from_url(url: str, media_type: str, name: str | None = None) -> Media | None:
    """Return what a URL names, with its bytes if it is a data URL; None if there is no URL."""
    if match := _DATA_URL.fullmatch(url):
        return from_base64(match[2], match[1] or media_type, name)
    return Media(media_type=media_type, url=url, name=name) if url else None


def unsupported(media: Media, protocol: str) -> UnsupportedAttachment:
    """Return the error for a part that a protocol cannot carry."""
    where = "" if media.content is not None else " by reference"
    return UnsupportedAttachment(f"{protocol} takes no {media.media_type}{where}; send it as text, or to another model")


def pieces(
    message: Message, protocol: str, text_part: Callable[[str], Record], media_part: Callable[[Media], Record]
) -> list[JSON]:
    """Return a message's words and parts as the content parts of a protocol, each part at its place in the text.

    Unknown parts of the protocol itself are verbatim; those of others have no form here and are left out.
    """
    out: list[JSON] = []
    at = 0
    for part in message.parts:
        if isinstance(part, Media | Unknown):
            out += _words(message.text[at : part.offset], at, text_part)
            at = max(at, part.offset)
            if isinstance(part, Unknown):
                out += [part.value] if part.source == protocol else []
            elif part.content is None and not part.url:
                out.append(text_part(f"[{part.media_type}{' ' + part.name if part.name else ''}: no longer kept]"))
            else:
                out.append(media_part(part))
    return out + _words(message.text[at:], at, text_part)


def _words(text: str, at: int, text_part: Callable[[str], Record]) -> list[JSON]:
    if at:
        text = text.removeprefix("\n")
    return [text_part(text)] if text else []


def openai_image(part: Record) -> Media | None:
    """Return the image of an `image_url` or `input_image` part."""
    inner = part.get("image_url")
    return from_url(string(inner) or string(record(inner).get("url")), "image/*")
