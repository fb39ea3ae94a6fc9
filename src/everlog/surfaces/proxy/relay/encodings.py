"""Compressed bodies, made readable piece by piece for those who listen; the client gets the bytes as they came."""

import zlib

ZLIB, RAW, GZIP = zlib.MAX_WBITS, -zlib.MAX_WBITS, 16 + zlib.MAX_WBITS
WINDOWS = {b"gzip": GZIP, b"x-gzip": GZIP, b"deflate": ZLIB}


class Decoder:
    """One body. What is not compressed goes through as the same bytes object."""

    def __init__(self, encoding: bytes) -> None:
        """Begin a body with this `content-encoding`."""
        encoding = encoding.strip().lower()
        self._window = WINDOWS.get(encoding, 0)
        self._inflate = zlib.decompressobj(self._window) if self._window == GZIP else None
        self._start = b""
        self.is_plain = encoding in {b"", b"identity"}
        """Whether its bytes are what they say."""
        self.reads = self.is_plain or self._window != 0
        """Whether it can be read at all."""

    def feed(self, data: bytes) -> bytes:
        """Return what more can be read; nothing any more from where it is damaged."""
        if self.is_plain or not self.reads:
            return data
        if self._inflate is None:
            self._start += data
            if len(self._start) < 2:
                return b""
            data, self._window = self._start, ZLIB if _is_zlib(self._start) else RAW
            self._inflate = zlib.decompressobj(self._window)
        try:
            found = self._inflate.decompress(data)
            while self._inflate.eof and self._inflate.unused_data:
                rest, self._inflate = self._inflate.unused_data, zlib.decompressobj(self._window)
                found += self._inflate.decompress(rest)
        except zlib.error:
            self.reads = False
            return b""
        return found


def _is_zlib(start: bytes) -> bool:
    """Say whether a body begins with the head that `deflate` should have, and that some servers leave out (RFC 1950)."""
    return start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0
