"""What is sent, as bytes: for the hash of a prefix, and for what is held until an epoch turns.

Only what a renderer reads is in them: kind, words, parts, and raw blocks. Marks of what is to be cached are not, since
they move without changing what they mark.
"""

import json
from collections.abc import Sequence
from typing import Any

from everlog import jsonl
from everlog.chat.attachments import is_text
from everlog.errors import Damaged
from everlog.messages import JSON, Media, Message
from everlog.protocols.exchange import Raw, Said
from everlog.tokens import FRAME_BYTES, MEDIA_BYTES, size_bytes, text_of, utf8


def encode(said: Sequence[Said]) -> bytes:
    """Return what is said as bytes."""
    return utf8(jsonl.dumps([_render(one) for one in said]))


def decode(encoded: bytes) -> tuple[Said, ...]:
    """Return what was encoded.

    Raises:
        Damaged: it is not what `encode` makes.
    """
    try:
        return tuple(_parse(one) for one in json.loads(text_of(encoded)))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Damaged("what is held for a prompt is not what was stored; the next epoch does without it") from None


def weigh(said: Said) -> int:
    """Return how many bytes count for what is said."""
    if said.raw is not None:
        return size_bytes(jsonl.dumps(list(said.raw.items))) + FRAME_BYTES
    return sum(weigh_message(message) for message in said.messages)


def weigh_message(message: Message) -> int:
    """Return how many bytes count for a message."""
    call = message.call
    words = message.text if call is None else f"{call.name}{call.arguments}"
    media = sum(_weigh_media(part) for part in message.parts if isinstance(part, Media))
    return size_bytes(words) + media + FRAME_BYTES


def _weigh_media(part: Media) -> int:
    """Return what an attachment counts for: a text, which is sent in words, its bytes."""
    return len(part.content) if part.content is not None and is_text(part) else MEDIA_BYTES


def _render(said: Said) -> JSON:
    messages: list[JSON] = [
        [message.kind, message.text, message.author, [jsonl.render_part(part) for part in message.parts]]
        for message in said.messages
    ]
    raw = said.raw
    return [messages] if raw is None else [messages, raw.protocol, list(raw.items), raw.field]


def _parse(value: Any) -> Said:
    messages, *raw = value
    return Said(
        messages=tuple(
            Message(kind=kind, text=text, author=author, parts=jsonl.parse_parts(parts))
            for kind, text, author, parts in messages
        ),
        raw=Raw(protocol=raw[0], items=tuple(raw[1]), field=raw[2]) if raw else None,
    )
