"""Connections of clients: HTTP/1.1 as uvicorn speaks it, and what it leaves open.

Before a head is whole nobody knows who sends it. So there is a bound on its bytes, which are gathered by copying, and
on its time; the same bytes may stand between two pieces of a body, and behind it.
"""

import asyncio
import sys
from asyncio.events import TimerHandle
from collections.abc import MutableMapping
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from everlog.surfaces.proxy.asgi import Receive, Scope, Send
from everlog.surfaces.proxy.faults import fault

LARGEST_HEAD = 64 * 1024
"""The most bytes of a request that are neither of its body nor of its framing; no client of models sends a tenth of it."""

HEAD_S = 30
"""How long a head may take from its first byte to its last, in seconds."""

LAST_LOOK_S = 2
"""How long bytes of a client that is refused are thrown away, so that it reads why before its connection is cut."""

TOO_LARGE = f"The head of the request, its path and headers, is larger than {LARGEST_HEAD} bytes."


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Begin one; uvicorn does it."""
        super().__init__(*args, **options)
        self._unread = 0
        """Bytes that came since the last that belonged to a body, or made a head whole."""
        self._is_in_body = False
        self._is_over = False
        """Whether nothing is taken any more."""
        self._data = b""
        """What is being taken in."""
        self._is_misread = False
        """Whether the head that was read last has to be read again."""
        self._late: TimerHandle | None = None
        self._answered: RequestResponseCycle | None = None
        """The last request that began to be answered; others may wait behind it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; a client that says nothing is not waited for longer than between two requests."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; none of the requests that wait is asked, and the one that is answered hears of it."""
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self.pipeline.clear()
        self._stop_timer()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Take in what the client sends."""
        if self._is_over:
            return
        self._unread += len(data)
        self._data = data
        super().data_received(data)
        self._data = b""
        if self._unread > LARGEST_HEAD:
            self._refuse()
        elif self._is_in_body or not self._unread:
            self._stop_timer()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_S, self._close_late)

    def on_headers_complete(self) -> None:
        """Begin a request, if its head is not too large."""
        self._unread, self._is_in_body = 0, True
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > LARGEST_HEAD:
            self._refuse()
        method = self.parser.get_method()
        self.scope["method"] = method.decode("ascii")
        is_other = self.parser.should_upgrade() and not self._should_upgrade()
        self._is_misread = is_other and method != b"CONNECT"
        if self._is_over or self._is_misread:
            return
        super().on_headers_complete()
        if is_other:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take in a piece of a body."""
        self._unread = 0
        if not self._is_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Have a request whole."""
        self._unread, self._is_in_body = 0, False
        if not (self._is_over or self._is_misread):
            super().on_message_complete()

    def _should_upgrade(self) -> bool:
        """Only what has no body can go on as a WebSocket: RFC 6455, 4.1."""
        return self.scope["method"] == "GET" and super()._should_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Serve what asked for another protocol as if it had not, which is lawful: the parser stopped before its body."""
        error = sys.exception()
        assert isinstance(error, httptools.HttpParserUpgrade)
        if not self._is_misread:  # CONNECT; what comes behind it is no HTTP
            self._is_over = True
            return
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%b: %b" % one for one in self.headers if one[0] != b"upgrade"]
        super().data_received(b"\r\n".join((*lines, b"", self._data[error.args[0] :])))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, _unchunked(cycle, app) if cycle.scope["http_version"] < "1.1" else app)

    def _stop_timer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        """Close a connection whose next head takes too long, but not under the answer to the one before."""
        if self._answered is not None and not self._answered.response_complete:
            self._late = self.loop.call_later(HEAD_S, self._close_late)
        else:
            self.transport.close()

    def _refuse(self) -> None:
        """Say that a head is too large, where no answer has begun, and be done with the connection."""
        self._is_over = True
        self._stop_timer()
        under_way, self._answered = self._answered, None
        if under_way is not None and not under_way.response_complete:
            under_way.disconnected = True
            under_way.message_event.set()
            if under_way.response_started:
                self.transport.close()
                return
        status, headers, body = fault(431, TOO_LARGE, "head_too_large", is_anthropic=False)
        head = (*headers, (b"content-length", b"%d" % len(body)), (b"connection", b"close"))
        self.transport.write(STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % one for one in head) + b"\r\n" + body)
        self.transport.write_eof()
        self.loop.call_later(LAST_LOOK_S, self.transport.close)


def _unchunked(cycle: RequestResponseCycle, app: Any) -> Any:
    """Answer a client of HTTP/1.0, which knows no chunks: the end of the connection is that of the body."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        async def unchunked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, unchunked)

    cycle.chunked_encoding = False
    return answered
