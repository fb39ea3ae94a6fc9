"""What a server does in a protocol: take the request of a client, and give it an answer piece by piece.

An `Answer` is fed with the deltas of any protocol and writes the events of its own; what it has said at the end is the
body that an unstreamed answer has. So the two agree, and what deltas left out is found by `Told` and said at the end.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from everlog.messages import JSON, Call
from everlog.protocols.exchange import CallDelta, Delta, Fault, Reply, Settings, TextDelta, ThinkingDelta
from everlog.protocols.shapes import Record

TOO_LONG = "context_length_exceeded"
"""The type of a `Fault` that says that a conversation does not fit; each protocol has its own way to say so."""

_NAME = re.compile(r"[A-Za-z][\w.-]{0,59}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All of a client's request but the conversation."""

    settings: Settings
    body: Record
    """The whole request: some protocols repeat parts of it in an answer."""
    dropped: tuple[str, ...] = ()
    """Names of fields and tools that only the client's protocol has a word for."""
    freeform: frozenset[str] = frozenset()
    """Names of tools that take a text and no object; other protocols call them with an object that has it as `input`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What tells an answer from others."""

    id: str
    """Unique; a protocol puts its own prefix before it."""
    at: datetime


class Answer(Protocol):
    """An answer that a client is given, as bytes of a stream, and as the body that it has become."""

    def begin(self, model: str) -> bytes:
        """Begin it; `model` is who answers."""

    def add(self, delta: Delta) -> bytes:
        """Say what a delta adds."""

    def end(self, reply: Reply) -> bytes:
        """Say why it ended and what it took."""

    def fail(self, fault: Fault, status: int) -> bytes:
        """Say that it broke off; nothing can be said after that."""

    def body(self) -> Record:
        """Return the answer as a body."""


class Told:
    """What was said of a reply, to find what was not."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[int, list[str]] = {}

    def add(self, delta: Delta) -> None:
        """Take note of a delta."""
        match delta:
            case TextDelta():
                self._words.append(delta.text)
            case ThinkingDelta():
                self._thoughts.append(delta.text)
            case CallDelta():
                self._calls.setdefault(delta.index, []).append(delta.arguments)

    def missing(self, reply: Reply) -> Iterator[Delta]:
        """Yield what of a reply is still to be said, in its order; what was said otherwise than it is now stays."""
        if thoughts := _behind("".join(self._thoughts), reply.thinking):
            yield ThinkingDelta(text=thoughts)
        told = "".join(self._words)
        left = len(told) if reply.text.startswith(told) else len(reply.text) + 1
        at = calls = 0
        for message in reply.said.messages:
            if message.kind == "assistant" and message.text:
                text = ("\n" if at else "") + message.text
                at += len(text)
                yield from _words(text[max(0, len(text) - max(0, at - left)) :], reply.refusal)
            elif message.call is not None:
                yield from self._call(calls, message.call)
                calls += 1

    def _call(self, index: int, call: Call) -> Iterator[Delta]:
        wanted = call.arguments or "{}"
        if index not in self._calls:
            yield CallDelta(index=index, call_id=call.call_id, name=call.name, arguments=wanted)
        elif rest := _behind("".join(self._calls[index]), wanted):
            yield CallDelta(index=index, arguments=rest)


def _behind(told: str, whole: str) -> str:
    return whole[len(told) :] if whole.startswith(told) else ""


def _words(text: str, refusal: str) -> Iterator[TextDelta]:
    """Yield a text, and apart from it the refusal that it ends with."""
    is_refused = bool(refusal) and text.endswith(refusal)
    plain = text.removesuffix(refusal).removesuffix("\n") if is_refused else text
    if plain:
        yield TextDelta(text=plain)
    if is_refused:
        yield TextDelta(text=text[len(plain) :], refusal=True)


def write(answer: Answer, reply: Reply, model: str) -> bytes:
    """Say a whole reply and return the stream that it is; `body` of the answer is then what it is unstreamed."""
    pieces = [answer.begin(model), *map(answer.add, Told().missing(reply)), answer.end(reply)]
    return b"".join(pieces)


def left_over(body: Record, known: Collection[str], defaults: Mapping[str, JSON]) -> tuple[str, ...]:
    """Return the names of the fields of a body that nobody reads and that ask for something."""
    asking = (
        name
        for name, value in body.items()
        if name not in known and value not in (None, False, 0, "", [], {}) and value != defaults.get(name)
    )
    return tuple(dict.fromkeys(map(fit_name, asking)))


def fit_name(name: object) -> str:
    """Return a client's name for something if a header may carry it."""
    return name if isinstance(name, str) and _NAME.fullmatch(name) else "unnamed"


def call_id(given: str, stamp: Stamp, index: int) -> str:
    """Return the id of a call; servers that give none get one."""
    return given or f"call_{stamp.id}_{index}"
