"""Bodies: that of a request as its bytes, and those of answers, collected from pieces.

What is read at once is bounded, whatever a server sends or compressed.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping

from everlog.errors import BadReply, Mistake
from everlog.messages import JSON
from everlog.protocols.shapes import encoded

MAX_BODY_BYTES = 64 * 2**20
"""The most that an answer may take, as one event of a stream; an image arrives whole in it."""


def body_bytes(body: Mapping[str, JSON]) -> bytes:
    """Return the body of a request as it goes out.

    Raises:
        Mistake: a setting, or a callback for requests, put something into it that is not JSON.
    """
    try:
        return encoded(dict(body))
    except (TypeError, ValueError, RecursionError) as error:
        raise Mistake("something in the request is not JSON; look at with_schema and before_request") from error


class Body:
    """Collects the pieces of an answer."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Take in the next piece.

        Raises:
            BadReply: the answer is above the limit.
        """
        self._size += len(piece)
        if self._size > MAX_BODY_BYTES:
            raise BadReply(f"the answer is larger than {MAX_BODY_BYTES} bytes")
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """Return all of it."""
        return b"".join(self._pieces)


def whole(pieces: Iterable[bytes], close: Callable[[], object]) -> bytes:
    """Return an answer, closed, whether or not it could be read."""
    body = Body()
    try:
        for piece in pieces:
            body.add(piece)
    finally:
        close()
    return body.whole()


async def whole_async(pieces: AsyncIterable[bytes], close: Callable[[], Awaitable[object]]) -> bytes:
    """Return an answer, closed, whether or not it could be read."""
    body = Body()
    try:
        async for piece in pieces:
            body.add(piece)
    finally:
        await close()
    return body.whole()
