"""Reading an answer that is not passed on as it comes: whole, decoded, with a bound; and giving one that is there."""

from everlog.errors import ConnectionFailed
from everlog.protocols.sse import MAX_EVENT_BYTES
from everlog.surfaces.proxy.incoming import Headers, values
from everlog.surfaces.proxy.relay.encodings import Decoder
from everlog.surfaces.proxy.relay.upstream import Coming

OF_ANOTHER = frozenset({b"content-length", b"content-encoding", b"transfer-encoding"})
"""Headers that say how a body is sent that is not sent so."""


class Whole:
    """An answer that is there."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self._left = body

    async def read(self) -> bytes:
        """Return all of it, and then nothing."""
        left, self._left = self._left, b""
        return left

    def close(self) -> None:
        """Nothing is open."""


def heard(coming: Coming) -> Headers:
    """Return the headers of an answer, names in lower case."""
    return tuple((name.lower(), value) for name, value in coming.headers)


def of_another(headers: Headers) -> Headers:
    """Return headers without what they say of a body that is not the one that goes with them."""
    return tuple(one for one in headers if one[0] not in OF_ANOTHER)


def decoder_of(headers: Headers) -> Decoder:
    """Return what decodes a body with these headers."""
    return Decoder(next(values(headers, b"content-encoding"), b""))


def decoded(decoder: Decoder, data: bytes) -> bytes:
    """Return the next bytes of a body as they can be read.

    Raises:
        ConnectionFailed: they cannot.
    """
    found = decoder.feed(data)
    if not decoder.reads:
        raise ConnectionFailed("the answer is compressed in a way that cannot be read")
    return found


async def whole(coming: Coming) -> bytes:
    """Return all of a body.

    Raises:
        ConnectionFailed: it cannot be read, or is too large.
    """
    decoder = decoder_of(heard(coming))
    pieces: list[bytes] = []
    size = 0
    while data := await coming.read():
        pieces.append(decoded(decoder, data))
        size += len(pieces[-1])
        if size > MAX_EVENT_BYTES:
            raise ConnectionFailed(f"the answer is larger than {MAX_EVENT_BYTES} bytes")
    return b"".join(pieces)
