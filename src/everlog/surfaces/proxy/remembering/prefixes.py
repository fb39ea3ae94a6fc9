"""At which byte the prefix of a request broke, and who broke it.

What a provider reads from its cache is what was there before, from the first byte on: tools, instructions, messages. So
each request of a thread is compared with the one before. Only hashes are held, in memory, of so many requests at most;
marks of what is to be cached, and whether a text stands bare or as the only part, change nothing for a provider.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from everlog.messages import JSON
from everlog.protocols.shapes import Record, encoded, record
from everlog.protocols.shapes import array as listed
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.remembering.standing_words import WIRES

HEADER = b"x-everlog-prefix"

MOST = 4096
"""Requests that are held; the one that was looked at longest ago goes first."""

MOST_SEGMENTS = 1_000_000
"""Parts of all of them together; each takes 24 bytes."""

CALLERS = frozenset({"instructions", "tools"})
"""Reasons of epochs that are the caller's doing."""

_DIGEST = 8
_TOOLS, _INSTRUCTIONS, _SETTINGS = -3, -2, -1
_NAMES = {_TOOLS: "tools", _INSTRUCTIONS: "instructions", _SETTINGS: "settings"}

_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_UNREAD = {"responses": _MARKS | {"id", "status"}}
"""What stands in a message and no model reads."""

_FORMING = {
    "anthropic": ("tool_choice", "thinking"),
    "chat_completions": ("response_format",),
    "responses": ("text",),
}
"""Settings that are a part of what is read before the messages."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Laid:
    """A request as its provider reads it: parts with their hashes and where they end."""

    hashes: bytes
    ends: "array[int]"
    """Bytes up to the end of each part."""
    of: "array[int]"
    """The message that each part is of, from 0; below that it is of none."""

    @property
    def size(self) -> int:
        """All of its bytes."""
        return self.ends[-1] if self.ends else 0

    def shared(self, other: "Laid") -> int:
        """Return how many parts both begin with."""
        most = min(len(self.ends), len(other.ends))
        if self.hashes[: most * _DIGEST] == other.hashes[: most * _DIGEST]:
            return most
        low = 0
        while low < most:
            middle = (low + most + 1) // 2
            if self.hashes[: middle * _DIGEST] == other.hashes[: middle * _DIGEST]:
                low = middle
            else:
                most = middle - 1
        return low


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """What became of the prefix of a request."""

    at_byte: int
    """Up to here it is as before."""
    of_bytes: int
    """All of the request."""
    lost_bytes: int = 0
    """What of the request before has to be read anew."""
    by: str | None = None
    """Who broke it: `epoch:full`, `caller:tools`, `caller:message 12`, `memory:message 3`; None if it is kept."""

    @property
    def who(self) -> str:
        """Who broke it, for a count: without the number of a message; `nobody` where it is kept."""
        return "nobody" if self.by is None else self.by.partition(" ")[0]

    def said(self, *, all_of_it: bool) -> Headers:
        """Return the header that tells it; unless all is to be told, only what the caller did itself."""
        if self.by is None:
            return ((HEADER, b"kept; bytes=%d" % self.at_byte),) if all_of_it else ()
        if not (all_of_it or self.by.startswith("caller:")):
            return ()
        return ((HEADER, b"broke; at=%d; of=%d; by=%s" % (self.at_byte, self.of_bytes, self.by.encode())),)


class Prefixes:
    """The newest request of each thread; for any thread of the server."""

    def __init__(self, *, most: int = MOST, most_segments: int = MOST_SEGMENTS) -> None:
        """Begin with nothing.

        Args:
            most: how many requests are held.
            most_segments: how many parts they may have together.
        """
        self._most, self._most_segments = most, most_segments
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, ...], Laid] = OrderedDict()
        self._segments = 0

    def judge(
        self, whose: tuple[str, ...], laid: Laid, *, turned: str | None = None, compiled: int = 0
    ) -> Prefix | None:
        """Return what became of a prefix, and hold the request; None for the first one.

        Args:
            whose: tenant, thread and model, and what else parts requests that share no prefix.
            laid: what goes up.
            turned: why an epoch opened for it, if one did.
            compiled: how many of its messages memory wrote, the first ones.
        """
        with self._lock:
            before = self._held.get(whose)
            self._hold(whose, laid)
        return None if before is None else _compared(before, laid, turned, compiled)

    def hold(self, whose: tuple[str, ...], laid: Laid) -> None:
        """Hold a request without a look at the one before."""
        with self._lock:
            self._hold(whose, laid)

    def _hold(self, whose: tuple[str, ...], laid: Laid) -> None:
        old = self._held.pop(whose, None)
        self._held[whose] = laid
        self._segments += len(laid.ends) - (0 if old is None else len(old.ends))
        while len(self._held) > 1 and (len(self._held) > self._most or self._segments > self._most_segments):
            _, gone = self._held.popitem(last=False)
            self._segments -= len(gone.ends)


def _compared(before: Laid, now: Laid, turned: str | None, compiled: int) -> Prefix:
    shared = before.shared(now)
    at = now.ends[shared - 1] if shared else 0
    if shared in (len(before.ends), len(now.ends)):
        return Prefix(at_byte=at, of_bytes=now.size)
    number = min(before.of[shared], now.of[shared])  # where a part is gone, what follows it is not to blame
    if turned is not None:
        by = f"caller:{turned}" if turned in CALLERS else f"epoch:{turned}"
    else:
        who = "memory" if 0 <= number < compiled else "caller"
        by = f"{who}:{_NAMES.get(number, f'message {number}')}"
    return Prefix(at_byte=at, of_bytes=now.size, lost_bytes=before.size - at, by=by)


def laid(protocol: str, body: Record) -> Laid:
    """Return a request as its provider reads it."""
    hashes: list[bytes] = []
    ends, of = array("Q"), array("q")
    end = 0
    for number, part in _parts(protocol, body):
        data = _bytes(part)
        hashes.append(blake2b(data, digest_size=_DIGEST).digest())
        end += 0 if number == _SETTINGS else len(data)
        ends.append(end)
        of.append(number)
    return Laid(b"".join(hashes), ends, of)


def _parts(protocol: str, body: Record) -> Iterator[tuple[int, JSON]]:
    wire, unread = WIRES[protocol], _UNREAD.get(protocol, _MARKS)
    for tool in listed(body.get("tools")):
        yield _TOOLS, _read(tool, _MARKS)
    if wire.field is not None:
        for part in _each(body.get(wire.field)):
            yield _INSTRUCTIONS, _read(part, _MARKS)
    yield _SETTINGS, [body.get(name) for name in _FORMING[protocol]]
    said = body.get(wire.said)
    if isinstance(said, str):
        yield 0, ["user", said]
    for number, item in enumerate(listed(said)):
        shape = record(item)
        role = shape.get("role")
        for part in _each(shape.get("content")):
            yield number, [role, _read(part, unread)]
        rest = {name: value for name, value in shape.items() if name not in unread and name not in {"role", "content"}}
        if rest and rest != {"type": "message"}:
            yield number, rest


def _each(content: JSON) -> Iterator[JSON]:
    """Yield the parts of a content; a bare text is one, in the form that it has where it is the only part."""
    if isinstance(content, str):
        yield content
    else:
        for part in listed(content):
            shape = record(part)
            is_text = "text" in shape and shape.keys() - _MARKS <= {"type", "text"}
            yield shape["text"] if is_text else part


def _read(part: JSON, unread: frozenset[str]) -> JSON:
    if not isinstance(part, dict) or unread.isdisjoint(part):
        return part
    return {name: value for name, value in part.items() if name not in unread}


def _bytes(part: JSON) -> bytes:
    try:
        return _encode(part)
    except UnicodeEncodeError:  # half a surrogate pair
        return encoded(part)
