"""Server-sent events: bytes cut anywhere, made into events, and back.

As the HTML standard has it: lines end in LF, CRLF or CR, a blank line ends an event, lines of a colon are comments,
several `data` lines are joined by LF. What a connection was cut off in is no event.
"""

from typing import NamedTuple

from everlog.errors import Trouble

MAX_EVENT_BYTES = 64 * 2**20
"""The most that one event may take; an image arrives whole in one."""

MAX_STREAM_BYTES = 256 * 2**20
"""The most that a stream may take: the longest answers there are, several times over, with all that is said around them."""

BOM = b"\xef\xbb\xbf"


class EventTooLarge(Trouble):
    """A server sent one event, one line, or one stream that is larger than can be held."""


class Event(NamedTuple):
    """One event; a tuple, since there are many of them."""

    data: str
    name: str = ""
    """What its `event` line says; empty where there is none."""


class Frames:
    """Collects bytes and returns the events that are complete."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES, max_stream_bytes: int = MAX_STREAM_BYTES) -> None:
        self._limit = max_event_bytes
        self._most = max_stream_bytes
        self._left = max_stream_bytes
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._name = b""
        self._began = False
        self._ended_in_cr = False
        self.comments = 0
        """How many comment lines came: servers send them to keep a connection alive."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Take in the next bytes.

        Raises:
            EventTooLarge: an event, or all of the stream, is above its limit.
        """
        self._left -= len(chunk)
        if self._left < 0:
            raise EventTooLarge(f"a stream is larger than {self._most} bytes")
        if self._ended_in_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._ended_in_cr = False
        if self._began and not (self._rest or self._data or self._name):
            whole = _whole(chunk, self._limit)
            if whole is not None:
                return [whole]
        if not self._began:
            chunk = b"".join((*self._rest, chunk))
            self._rest = []
            if len(chunk) < len(BOM) and BOM.startswith(chunk):
                self._rest = [chunk]
                return []
            chunk = chunk.removeprefix(BOM)
            self._began = True
        if b"\r" in chunk:
            self._ended_in_cr = chunk.endswith(b"\r")  # a line feed may follow in the next chunk
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return self._events(self._lines(chunk))

    @property
    def is_within_event(self) -> bool:
        """Whether an event has begun to come that is not whole."""
        return bool(self._data) or (bool(self._rest) and not self._rest[0].startswith(b":"))

    def _lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are whole; the rest is joined once, when its end is there."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest, self._rest_size = [], 0
        if rest:
            self._rest.append(rest)
            self._rest_size += len(rest)
        if self._size + self._rest_size > self._limit:
            raise EventTooLarge(f"an event of a stream is larger than {self._limit} bytes")
        return lines

    def _events(self, lines: list[bytes]) -> list[Event]:
        events = []
        for line in lines:
            if line:
                self._line(line)
            elif self._data:
                events.append(self._event())
            else:
                self._name = b""
        return events

    def _line(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._size += len(value) + 1
            if self._size > self._limit:
                raise EventTooLarge(f"an event of a stream is larger than {self._limit} bytes")
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif not field:
            self.comments += 1

    def _event(self) -> Event:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        name = self._name.decode("utf-8", "replace") if self._name else ""
        self._data, self._size, self._name = [], 0, b""
        return Event(data=data.decode("utf-8", "replace"), name=name)


def _whole(chunk: bytes, limit: int) -> Event | None:
    """Return the event that a chunk is if it is one and no more, as most are; these need no splitting into lines."""
    name, start = b"", 6
    if chunk[:7] == b"event: ":
        end = chunk.find(b"\n")
        name, start = chunk[7:end], end + 7
    size = len(chunk)
    if (
        chunk[start - 6 : start] == b"data: "
        and chunk.find(b"\n", start) == size - 2
        and chunk[-1:] == b"\n"
        and size <= limit
        and b"\r" not in chunk
    ):
        data = chunk[start:-2].decode("utf-8", "replace")
        return Event(data=data, name=name.decode("utf-8", "replace") if name else "")
    return None


def render_event(data: str, name: str = "") -> bytes:
    """Return an event as the bytes of a stream."""
    head = f"event: {name}\n" if name else ""
    return (head + "".join(f"data: {line}\n" for line in data.split("\n")) + "\n").encode("utf-8", "backslashreplace")
