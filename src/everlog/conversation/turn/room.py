"""What the turns of one memory share."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from everlog.chat.async_chat import AsyncChat
from everlog.chat.chat import Chat
from everlog.conversation.options import Options
from everlog.conversation.recording.recollection import Recollection
from everlog.conversation.recording.recorder import Recorder
from everlog.conversation.recording.spending import Purse
from everlog.conversation.turn.bench import Bench
from everlog.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the turns of one memory share."""

    options: Options
    recorder: Recorder
    recollection: Recollection
    purse: Purse
    redact: Callable[[Message], Message]
    allow: Callable[[Chat | AsyncChat], object]
    """Makes sure that a chat may be asked: it may have been changed since it was looked at last."""
    bench: Bench
    place: Hashable
    """The thread, as this process knows it."""
