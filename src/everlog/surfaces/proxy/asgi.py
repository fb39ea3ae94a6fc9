"""The three words of ASGI that the relay uses: a request whole, a client that goes away, an answer in pieces.

Nothing of a web framework is between the server and the relay: a layer that gathers or re-frames a body would be one too
many, twice for a stream.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from types import TracebackType
from typing import Any, Self

from everlog.surfaces.proxy.incoming import Incoming

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


SMALL = 256 * 1024
"""Bytes of an upload up to which it is read whole before it goes on, so that it may be sent again on a new connection."""

LARGE = 2**20
"""From where on the pieces of a body are put together in another thread, in bytes: it takes a millisecond for three of these."""


class Left(Exception):
    """The client went away."""


class TooLarge(Exception):
    """A body is larger than is taken."""


def head_of(scope: Scope) -> Incoming:
    """Return a request as far as it is known before its body has come."""
    path = scope.get("raw_path") or scope["path"].encode()
    return Incoming(
        method=scope["method"],
        path=path.partition(b"?")[0].decode("latin-1"),
        query=scope.get("query_string", b""),
        headers=tuple((name, value) for name, value in scope["headers"]),
        body=b"",
    )


async def body_of(head: Incoming, receive: Receive, most_bytes: int) -> bytes:
    """Return the body of a request when it is whole; the very object that came, if it came in one piece.

    Raises:
        TooLarge: it is, or says that it is, larger than that.
        Left: the client went away before.
    """
    said = head.header(b"content-length") or b""
    if said.isdigit() and int(said) > most_bytes:
        raise TooLarge
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Left
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > most_bytes:
            raise TooLarge
        more = message.get("more_body", False)
    if len(pieces) == 1:
        return pieces[0]
    return b"".join(pieces) if size < LARGE else await asyncio.to_thread(b"".join, pieces)


class Upload:
    """A body that goes on while it comes: no more of it is held than one piece, and what was read before."""

    def __init__(self, begun: bytes, receive: Receive, size: int | None) -> None:
        """Go on behind what has begun; `size` is that of the whole, where the client says it."""
        self.size = size
        self._begun = begun
        self._receive = receive
        self._is_gone = False
        self._ended = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces, once; where the client goes away before the end, that never comes."""
        yield self._begun
        self._begun, more = b"", True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                self._is_gone = True
                self._ended.set()
                await asyncio.Event().wait()
            if data := message.get("body", b""):
                yield data
            more = message.get("more_body", False)
        self._ended.set()

    async def receive(self) -> Message:
        """Return what comes behind the body: that the client went away, also if it did so before its end."""
        await self._ended.wait()
        return {"type": "http.disconnect"} if self._is_gone else await self._receive()


async def upload_of(head: Incoming, receive: Receive) -> bytes | Upload:
    """Return the body of a request: whole if it is small, else as it comes.

    Raises:
        Left: the client went away before.
    """
    pieces: list[bytes] = []
    size, more = 0, True
    while more and size <= SMALL:
        message = await receive()
        if message["type"] != "http.request":
            raise Left
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        more = message.get("more_body", False)
    begun = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    said = head.header(b"content-length") or b""
    return Upload(begun, receive, int(said) if said.isdigit() else None) if more else begun


class Leaving:
    """While the block runs, a client that goes away ends it at once, wherever it waits: `Left` comes out of it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._gone = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "requests run in tasks"
        self._task, self._cancelling = task, task.cancelling()
        self._watch = asyncio.create_task(self._watching())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.cancel()
        if self._gone and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Left from None

    async def _watching(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()


async def begin(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Send the head of an answer."""
    await send({"type": "http.response.start", "status": status, "headers": [*headers]})


async def go_on(send: Send, data: bytes) -> None:
    """Send a piece of its body."""
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def end(send: Send, data: bytes = b"") -> None:
    """Send the last piece of its body."""
    await send({"type": "http.response.body", "body": data, "more_body": False})


async def answer(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a whole answer."""
    await begin(send, status, (*headers, (b"content-length", b"%d" % len(body))))
    await end(send, body)
