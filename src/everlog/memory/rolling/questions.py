"""What a model is asked for one piece: rules, the summary so far, and the messages since, numbered and fenced.

A message that is larger than its share of a piece is shown with its beginning, how much is left out, and its end. Words
of the conversation close no tag and pass for no head of a message. A further try goes on in the same conversation.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from everlog.memory.escapes import enclose
from everlog.memory.interface import Request, Try
from everlog.memory.prompts import Prompt, identity, load
from everlog.memory.rolling.markdown import numbered
from everlog.memory.rolling.outline import ITEM_CHARS, Outline
from everlog.memory.rolling.schemas import SCHEMA
from everlog.memory.rolling.settings import Settings
from everlog.messages import Call, Entry, Kind, Message
from everlog.tokens import cut, size_bytes, text_of, utf8

RECALLED = "(recalled from this conversation)"
"""Stands for what a tool of our own brought back: memory is not made into memory again."""

_NAMES: dict[Kind, str] = {
    "system": "System",
    "user": "User",
    "assistant": "Assistant",
    "tool_call": "Tool call",
    "tool_result": "Tool result",
    "note": "Note",
}
_NONE = "(nothing yet)"
_GAP_BYTES = 60
"""Room for the line that says how much is left out."""
_NO_AUTHOR = re.compile(r"[\[\](){}<>#|\s]+")
_HEAD = re.compile(r"\[(?:#|&((?:amp;)*)#35;)(?=\d)")
_HEAD_BACK = re.compile(r"\[&((?:amp;)*)#35;(?=\d)")
_PACKAGE = "everlog.memory.rolling"
_REPLY_SHOWN_BYTES = 16_000


@dataclass(frozen=True, slots=True)
class Prompts:
    """The words in which a model is asked."""

    system: Prompt
    before: Prompt
    fold: Prompt
    retry: Prompt

    @property
    def id(self) -> str:
        """Stored with every summary that was made with them."""
        return identity((self.system, self.before, self.fold, self.retry))


def prompts(folder: Path | None = None) -> Prompts:
    """Return the prompts of the rolling summary; files of the same names in a folder replace them.

    Raises:
        Mistake: a file there has an unknown slot.
    """
    return Prompts(*(load(_PACKAGE, name, folder) for name in ("system", "before", "fold", "retry")))


def request(
    words: Prompts, before: Outline, piece: Sequence[Entry], settings: Settings, recalled: "Recalled"
) -> Request:
    """Return the first request for a piece."""
    said = [entry for entry in piece if entry.kind != "system" and not entry.erased]
    texts = [shown(entry, said, recalled) for entry in said]
    heads = [head(entry) for entry in said]
    room = settings.piece_bytes - sum(size_bytes(one) + 2 for one in heads)
    shares = share([size_bytes(text) for text in texts], room)
    source = "\n".join(
        f"{one} {_escaped(clipped(text, most))}" for one, text, most in zip(heads, texts, shares, strict=True)
    )
    messages = (
        Message(kind="system", text=words.system.render(item=min(ITEM_CHARS, settings.cap_chars // 4))),
        Message(kind="user", text=words.before.render(summary=enclose(numbered(before)) or _NONE)),
        Message(kind="user", text=words.fold.render(first=piece[0].i, last=piece[-1].i, source=source or _NONE)),
    )
    given = tuple(
        Message(kind=entry.kind, text=text, author=entry.author) for entry, text in zip(said, texts, strict=True)
    )
    return Request(source=given, messages=messages, schema=SCHEMA, limit_bytes=4 * settings.cap_chars)


def further(words: Prompts, first: Request, tries: Sequence[Try]) -> Request:
    """Return the request that carries earlier tries along: each answer, and what is wrong with it."""
    messages = list(first.messages)
    for attempt in tries:
        if attempt.text:
            messages.append(Message(kind="assistant", text=cut(enclose(attempt.text), _REPLY_SHOWN_BYTES)))
        messages.append(Message(kind="user", text=words.retry.render(reason=attempt.reason)))
    return Request(source=first.source, messages=tuple(messages), schema=first.schema, limit_bytes=first.limit_bytes)


Recalled = Callable[[Call], bool]
"""Whether a call is of a tool of our own, so that its result shows again what is in the log."""


def shown(entry: Entry, piece: Sequence[Entry], recalled: Recalled) -> str:
    """Return the words of an entry as they are summarised."""
    result = entry.message.result
    if result is not None:
        calls = [call for one in piece if (call := one.message.call) is not None and call.call_id == result.call_id]
        if calls and recalled(calls[-1]):
            return RECALLED
    return entry.text


def head(entry: Entry) -> str:
    """Return what stands before an entry: its number and who speaks."""
    author = _NO_AUTHOR.sub(" ", entry.author or "").strip()[:40]
    named = f" ({author})" if author and entry.kind in {"user", "assistant", "note"} else ""
    return f"[#{entry.i} {_NAMES[entry.kind]}{named}]"


def share(sizes: Sequence[int], room: int) -> list[int]:
    """Return how many bytes each of some texts may take, so that all fit: only the largest give way, to one size."""
    if sum(sizes) <= room:
        return list(sizes)
    left, most = room, 0
    for n, size in enumerate(sorted(sizes)):
        most = max(0, left) // (len(sizes) - n)
        if size > most:
            break
        left -= size
    return [min(size, most) for size in sizes]


def clipped(text: str, limit: int) -> str:
    """Return a text in at most `limit` bytes: its beginning, how many characters are left out, its end."""
    if size_bytes(text) <= limit:
        return text
    room = limit - _GAP_BYTES
    if room < _GAP_BYTES:
        return cut(text, limit)
    start = cut(text, room * 2 // 3)
    end = _ending(text, room - size_bytes(start))
    return f"{start}\n[… {len(text) - len(start) - len(end)} characters left out …]\n{end}"


def _ending(text: str, limit: int) -> str:
    """Return the longest end of a text that fits in `limit` bytes, never beginning inside a character."""
    encoded = utf8(text)[-limit:] if limit > 0 else b""
    begin = next((n for n, byte in enumerate(encoded) if byte & 0xC0 != 0x80), len(encoded))
    return text_of(encoded[begin:])


def _escaped(text: str) -> str:
    return _HEAD.sub(lambda m: "[&#35;" if m[1] is None else f"[&amp;{m[1]}#35;", enclose(text))


def unescaped(text: str) -> str:
    """Return text with the head of a message in it as it was."""
    return _HEAD_BACK.sub(lambda m: f"[&{m[1][4:]}#35;" if m[1] else "[#", text)
