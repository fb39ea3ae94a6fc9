"""Where the last frame of a streamed answer begins, found in bytes that are cut anywhere, without parsing them.

A client takes an answer for whole when that frame is: until then it waits. So it is enough to hold back the end of the
frame; what went out of its beginning, before it was known for what it is, does no harm. Within a text the signs cannot
stand, since JSON escapes the quotes and line ends that are part of them.
"""

import re

from everlog.protocols.sse import BOM

_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_END = re.compile(b"|".join(_ENDS))

_RESPONSE = rb"response\.(?:completed|incomplete|failed|cancelled)"

_SIGNS = {
    "chat_completions": rb'"finish_reason"\s*:\s*"[^"]',
    "responses": rb'[\r\n]event: ?%b|"type"\s*:\s*"%b"' % (_RESPONSE, _RESPONSE),
    "anthropic": rb'[\r\n]event: ?message_stop|"type"\s*:\s*"message_stop"',
}

_LAST = {"chat_completions": re.compile(rb'[\r\n]data: ?\[DONE\]|"usage"\s*:\s*\{')}
"""What comes behind that frame and is waited for: of Chat Completions, the tokens that were used, or the end."""

TAIL = 96
"""Bytes that are looked at again with the next piece: longer than any sign."""


def begins_as_stream(data: bytes) -> bool:
    """Return whether a body that begins with these bytes is a stream of events, and no JSON."""
    return data.removeprefix(BOM).lstrip()[:1] in {b"d", b"e", b"i", b"r", b":"}


class Terminal:
    """Looks for the last frame of one stream."""

    def __init__(self, protocol: str) -> None:
        self._sign = re.compile(_SIGNS[protocol])
        self._last = _LAST.get(protocol)
        self._tail = b"\n\n"  # where nothing came before, a line begins
        self._is_open = False
        """Whether the frame has begun, but not come to its end."""
        self._has_names = protocol != "chat_completions"
        self._is_named = False
        """Whether the frame that comes now has a line that names its event: then nothing in its data does."""
        self.is_reached = False
        self.is_whole = False
        """Whether all has come that belongs to the answer."""

    def feed(self, data: bytes) -> int:
        """Take in the next bytes; return how many of them are before the last frame."""
        window = self._tail + data
        if not (self._is_open or self.is_reached or self._has_names) and self._sign.search(window) is None:
            self._tail = window[-TAIL:]  # most pieces of most streams
            return len(data)
        free, searched = (0, 0) if self.is_reached else self._before(window, len(data))
        if self.is_reached and not self.is_whole:
            self.is_whole = self._last is None or self._last.search(window, searched) is not None
        if self._has_names:
            self._is_named = self._names(window, len(window))
        self._tail = window[-TAIL:]
        return free

    def _names(self, window: bytes, place: int) -> bool:
        """Return whether the frame in which a place of the window is has a line that names its event."""
        begin = max(window.rfind(end, 0, place) for end in _ENDS)
        return self._is_named if begin < 0 else window[begin:place].lstrip(b"\r\n").startswith(b"event:")

    def _found(self, window: bytes) -> re.Match[bytes] | None:
        """Return the first sign that is one: in a frame with a name, that name."""
        for found in self._sign.finditer(window):
            if not self._has_names or found[0][:1] in b"\r\n" or not self._names(window, found.start() + 1):
                return found
        return None

    def _before(self, window: bytes, size: int) -> tuple[int, int]:
        """Return how many of the last `size` bytes are before the last frame, and where in the window that ends."""
        before = len(window) - size
        found = None if self._is_open else self._found(window)
        begin = 0
        if found is not None:
            begin = max((end.end() for end in _END.finditer(window, 0, found.start() + 1)), default=0)
        elif not self._is_open:
            return size, 0
        end = _END.search(window, max(0, before - 3) if found is None else found.end())
        if end is None:
            self._is_open = True
            return size, 0
        self.is_reached = True
        return (0 if found is None else max(0, begin - before)), end.start()
