"""Blocks that a client puts into what a person or a tool said: dates, rules, lists of files, for the model's eyes.

They move from request to request and nobody said them, so they are no part of the message. Nothing is lost: a message
carries what was left out of it beside its words.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from everlog.messages import JSON, Media, Message, Unknown
from everlog.protocols.exchange import Said
from everlog.protocols.shapes import array

LEFT_OUT = "left_out"
"""Where in a message's `meta` its blocks are."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How some blocks begin and end."""

    ends: tuple[tuple[str, str], ...] = ()

    def leave_out_of(self, said: Said) -> Said:
        """Return what was said at once without such blocks; a text that is nothing else is no message of its own.

        Clients put such texts beside the results of tools: it is the last result then that carries them.
        """
        kept: list[Message] = []
        for message in map(self.leave_out, said.messages):
            if kept and kept[-1].kind == "tool_result" and not (message.text.strip() or message.parts):
                before = kept[-1]
                blocks = [*array(before.meta.get(LEFT_OUT)), *array(message.meta.get(LEFT_OUT))]
                kept[-1] = replace(before, meta={**before.meta, LEFT_OUT: blocks}) if blocks else before
            else:
                kept.append(message)
        return replace(said, messages=tuple(kept))

    def leave_out(self, message: Message) -> Message:
        """Return a message without such blocks; one that has its line to itself takes the line's end with it."""
        if message.kind not in ("user", "tool_result") or not any(start in message.text for start, _ in self.ends):
            return message
        spans = _merged(sorted(span for start, end in self.ends for span in _spans(message.text, start, end)))
        if not spans:
            return message
        text, done = "", 0
        for begin, stop in spans:
            text += message.text[done:begin]
            done = stop
        left: list[JSON] = [message.text[begin:stop].strip() for begin, stop in spans]
        return replace(
            message,
            text=text + message.text[done:],
            parts=tuple(_moved(part, spans) if isinstance(part, Media | Unknown) else part for part in message.parts),
            meta={**message.meta, LEFT_OUT: left},
        )


def redacting(redact: Callable[[Message], Message]) -> Callable[[Message], Message]:
    """Return what redacts a message and the blocks that were left out of it."""

    def act(message: Message) -> Message:
        redacted = redact(message)
        blocks = redacted.meta.get(LEFT_OUT)
        if not isinstance(blocks, list):
            return redacted
        left: list[JSON] = [redact(replace(message, text=str(one), parts=(), meta={})).text for one in blocks]
        return replace(redacted, meta={**redacted.meta, LEFT_OUT: left})

    return act


def _spans(text: str, start: str, end: str) -> Iterator[tuple[int, int]]:
    done = 0
    while (at := text.find(start, done)) >= 0 and (stop := text.find(end, at + len(start))) >= 0:
        done = stop + len(end)
        if at == 0 or text[at - 1] == "\n":
            while text[done : done + 1] in ("\r", "\n"):
                done += 1
        yield at, done


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, stop in spans:
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((begin, stop))
    return merged


def _moved(part: Media | Unknown, spans: Sequence[tuple[int, int]]) -> Media | Unknown:
    before = sum(min(stop, part.offset) - begin for begin, stop in spans if begin < part.offset)
    return replace(part, offset=part.offset - before)
