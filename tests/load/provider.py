"""A provider that does to each request what was planned for it, on the event loop of whoever asks: answer, err, hang up, stall."""

import asyncio
import contextlib
import re
import socket
import struct
import time
from collections import Counter
from types import TracebackType
from typing import Self

from tests.load.tries import LAST_EVENTS, Try

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
MARK = re.compile(rb"\r\nx-mark: *([^\r]+)", re.IGNORECASE)
PAUSE_S = {"slow": 0.12, "leaves": 0.05}
"""Between the pieces of an answer, in seconds, at most; of others less."""

WAIT_S = 1.2
"""How long an answer that is late lets wait, in seconds, at most."""


class Provider:
    """Listens on the loopback."""

    def __init__(self, tries: dict[str, Try]) -> None:
        """Begin; `tries` says what to do with the request of a mark."""
        self.asked: Counter[str] = Counter()
        """Requests by mark."""
        self._tries = tries
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()

    @property
    def url(self) -> str:
        """Its base URL."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def hang_up(self) -> None:
        """Close all connections."""
        for line in list(self._lines):
            line.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.add(writer)
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass  # the proxy went, or was killed
        finally:
            self._lines.discard(writer)
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; say whether another may come."""
        head = await reader.readuntil(b"\r\n\r\n")
        length, mark = LENGTH.search(head), MARK.search(head)
        assert length is not None
        assert mark is not None
        await reader.readexactly(int(length[1]))
        one = self._tries[mark[1].decode()]
        self.asked[one.mark] += 1
        if one.fate == "reset":
            return _reset(writer)
        if one.fate in {"late", "flees"}:
            await asyncio.sleep(one.rng.random() * WAIT_S)
        if one.fate == "silent":
            await reader.read(1)  # until the proxy gives up
            return False
        await self._say(one, writer)
        if one.fate == "torn":
            await asyncio.sleep(0.02)
            return _reset(writer)
        if one.fate == "stalled":
            await reader.read(1)
        return one.fate not in {"cut", "stalled"}

    async def _say(self, one: Try, writer: asyncio.StreamWriter) -> None:
        status, kind = one.head
        size = "transfer-encoding: chunked" if one.is_stream else f"content-length: {len(one.whole)}"
        after = "retry-after: 1\r\n" if status == 429 else ""
        writer.write(f"HTTP/1.1 {status} So\r\ncontent-type: {kind}\r\n{after}{size}\r\n\r\n".encode())
        is_cut = one.fate in {"cut", "torn", "stalled"}
        last = len(one.pieces) - (LAST_EVENTS if one.is_stream else len(one.pieces))
        for number, piece in enumerate(one.pieces[: one.stops] if is_cut else one.pieces):
            if number == last and not is_cut:
                one.ending_at = time.monotonic()
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if one.is_stream else piece)
            if one.is_stream and number < last:
                await writer.drain()
                await asyncio.sleep(one.rng.random() * PAUSE_S.get(one.fate, 0.01))
        if one.is_stream and not is_cut:
            writer.write(b"0\r\n\r\n")
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> bool:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False
