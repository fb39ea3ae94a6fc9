"""Compressed bodies, made readable piece by piece for those who listen; the client gets the bytes as they came."""

import zlib

from everlog.surfaces.proxy.incoming import Incoming, values

ZLIB, RAW, GZIP = zlib.MAX_WBITS, -zlib.MAX_WBITS, 16 + zlib.MAX_WBITS
WINDOWS = {b"gzip": GZIP, b"x-gzip": GZIP, b"deflate": ZLIB}

MOST_GROWN = 200
"""How much larger than its bytes a body may be; what grows more was made to fill the memory of whoever reads it."""

FREE_BYTES, MOST_BYTES = 2**20, 256 * 2**20
"""What a body may grow to in any case, and in none."""

MOST_MEMBERS = 100
"""Compressed parts that may stand one behind the other in one body."""


def readable(incoming: Incoming) -> bytes | None:
    """Return the body of a request as it can be read, the very object where it is not compressed; None where it cannot."""
    decoder = Decoder(next(values(incoming.headers, b"content-encoding"), b""))
    body = decoder.feed(incoming.body)
    return body if decoder.reads else None


class Decoder:
    """One body. What is not compressed goes through as the same bytes object."""

    def __init__(self, encoding: bytes) -> None:
        """Begin a body with this `content-encoding`."""
        encoding = encoding.strip().lower()
        self._window = WINDOWS.get(encoding, 0)
        self._inflate = zlib.decompressobj(self._window) if self._window == GZIP else None
        self._start = b""
        self._came = self._grown = 0
        self._members = 1
        self.is_plain = encoding in {b"", b"identity"}
        """Whether its bytes are what they say."""
        self.reads = self.is_plain or self._window != 0
        """Whether it can be read at all."""

    def feed(self, data: bytes) -> bytes:
        """Return what more can be read; nothing any more from where it is damaged, or grows without measure."""
        if self.is_plain or not self.reads:
            return data
        if self._inflate is None:
            self._start += data
            if len(self._start) < 2:
                return b""
            data, self._window = self._start, ZLIB if _is_zlib(self._start) else RAW
            self._inflate = zlib.decompressobj(self._window)
        self._came += len(data)
        try:
            return self._inflated(self._inflate, data)
        except zlib.error:
            self.reads = False
            return b""

    def _inflated(self, inflate: "zlib._Decompress", data: bytes) -> bytes:
        """Return what the next bytes are.

        Raises:
            zlib.error: they are damaged, or too much.
        """
        found: list[bytes] = []
        while data:
            if inflate.eof:
                self._members += 1
                inflate = self._inflate = zlib.decompressobj(self._window)
            room = min(FREE_BYTES + MOST_GROWN * self._came, MOST_BYTES) - self._grown
            found.append(inflate.decompress(data, max(1, room)))
            self._grown += len(found[-1])
            if inflate.unconsumed_tail or self._members > MOST_MEMBERS:
                raise zlib.error("a body grows without measure")
            data = inflate.unused_data
        return b"".join(found)


def _is_zlib(start: bytes) -> bool:
    """Say whether a body begins with the head that `deflate` should have, and that some servers leave out (RFC 1950)."""
    return start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0
