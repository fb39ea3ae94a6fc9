"""Attachments of a thread that a protocol does not carry: refused when they are said, named in words from then on.

A thread outlives its models. What one of them took, another may not take, and a request must not fail for ever because of
a file that was shown once.
"""

from collections.abc import Sequence
from dataclasses import replace

from everlog.chat.attachments import inlined, refuse_large
from everlog.errors import PartTooLarge, UnsupportedAttachment
from everlog.messages import Media, Message
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Said, Settings


def refuse(message: Message, protocol: str) -> None:
    """Make sure that what is about to be said can be sent.

    Raises:
        UnsupportedAttachment: the protocol does not carry one of its attachments.
        PartTooLarge: one is larger than it takes.
    """
    if any(isinstance(part, Media) for part in message.parts):
        _render(message, protocol)


def carried(said: Sequence[Said], protocol: str) -> tuple[Said, ...]:
    """Return a prompt in which attachments that the protocol does not carry are named, and not there."""
    return tuple(_carried(one, protocol) for one in said)


def _carried(said: Said, protocol: str) -> Said:
    if said.raw_in(protocol) is not None or not any(_media(message) for message in said.messages):
        return said
    messages = tuple(_named(message, protocol) for message in said.messages)
    return said if messages == said.messages else replace(said, messages=messages)


def _named(message: Message, protocol: str) -> Message:
    lost = [part for part in _media(message) if not _is_carried(part, protocol)]
    if not lost:
        return message
    names = "\n".join(f"[attachment {part.name or part.media_type}: this model does not take it]" for part in lost)
    kept = tuple(part for part in message.parts if part not in lost)
    return replace(message, text=f"{message.text}\n{names}".strip(), parts=kept)


def _is_carried(part: Media, protocol: str) -> bool:
    try:
        _render(Message(kind="user", parts=(replace(part, offset=0),)), protocol)
    except (UnsupportedAttachment, PartTooLarge):
        return False
    return True


def _render(message: Message, protocol: str) -> None:
    said = inlined(Said(messages=(message,)))
    refuse_large(said, protocol)
    FORMATS[protocol].render_request([said], Settings(model="any"))


def _media(message: Message) -> list[Media]:
    return [part for part in message.parts if isinstance(part, Media)]
