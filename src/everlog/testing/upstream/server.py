"""The upstream as a real HTTP server on the loopback."""

import contextlib
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, assert_never

from everlog.messages import JSON
from everlog.protocols.shapes import dumps, encoded, record
from everlog.protocols.sse import render_event
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.failures import (
    Broken,
    Cut,
    Failure,
    Malformed,
    Refused,
    Reset,
    Stalled,
    error_body,
    error_event,
)
from everlog.testing.upstream.streams import PLAIN, Manner, events_of

PATHS = {"/chat/completions": "chat_completions", "/responses": "responses", "/messages": "anthropic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    raw: bytes
    """The body, byte for byte."""

    @property
    def body(self) -> dict[str, Any]:
        """The body as JSON; empty if it is none."""
        try:
            return record(json.loads(self.raw))
        except ValueError:
            return {}

    @property
    def protocol(self) -> str | None:
        """The protocol that the path belongs to."""
        path = self.path.partition("?")[0]
        return next((name for end, name in PATHS.items() if path.endswith(end)), None)


Script = Iterable[Answer | Failure] | Callable[[Received], Answer | Failure]


class Upstream:
    """A provider that says what it is told to, in all protocols.

        with Upstream([Answer(text="Hello."), Refused(status=429, retry_after="1")]) as upstream:
            ... upstream.url ...
        upstream.requests[0].body["model"]

    A script is a list of answers and failures, one for each request, or a function of the request.
    """

    def __init__(self, script: Script = (), *, manner: Manner = PLAIN, models: tuple[str, ...] = ("m-1",)) -> None:
        """Listen on a free port of the loopback, once entered."""
        self.requests: list[Received] = []
        """All that came, in order."""
        self.gone = 0
        """How many clients went away before their answer was whole."""
        self._script = script if callable(script) else iter(script)
        self._manner = manner
        self._models = models
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        assert self._server is not None, "enter the upstream first: with Upstream(…) as upstream"
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="upstream", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._server is not None and self._thread is not None:
            with contextlib.suppress(OSError):  # where this does not wake who listens, it looks up soon
                self._server.socket.shutdown(socket.SHUT_RDWR)
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server.hang_up()

    def next(self, received: Received) -> tuple[Answer | Failure, int]:
        """Return what to do with a request, and its number."""
        with self._lock:
            self.requests.append(received)
            number = len(self.requests)
            if callable(self._script):
                return self._script(received), number
            told = next(self._script, None)
        return told if told is not None else Refused(message="The script of the upstream is over."), number

    def wait_until_gone(self, count: int = 1, timeout_s: float = 10) -> bool:
        """Wait until that many clients have gone before their answer was whole; say whether they have."""
        end = time.monotonic() + timeout_s
        while self.gone < count and time.monotonic() < end:
            self._closing.wait(0.005)
        return self.gone >= count

    def left(self) -> None:
        """Count a client that went away."""
        with self._lock:
            self.gone += 1

    def stall(self, connection: socket.socket) -> None:
        """Wait until the client goes, or the upstream is closed."""
        watch = select.poll()
        watch.register(connection, select.POLLIN)
        while not self._closing.is_set():
            if watch.poll(20):
                with contextlib.suppress(OSError):
                    if connection.recv(1, socket.MSG_PEEK):
                        continue
                if not self._closing.is_set():  # else it is the upstream that hung up
                    self.left()
                return

    @property
    def manner(self) -> Manner:
        """How it streams."""
        return self._manner

    @property
    def listing(self) -> dict[str, JSON]:
        """The answer to a question for the models."""
        return {"object": "list", "data": [{"id": name, "object": "model", "type": "model"} for name in self._models]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._connections: set[Any] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember a connection while it is open."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that is closed."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Close what clients keep open for a next request, so that nobody waits for one."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: clients go away on purpose here."""


def _handler(upstream: Upstream) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        told = upstream

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    told: Upstream

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- as the standard library names it
        """Say nothing."""

    def do_GET(self) -> None:
        self.told.requests.append(self._receive(b""))
        self._send(200, encoded(self.told.listing))

    def do_POST(self) -> None:
        received = self._receive(self.rfile.read(int(self.headers.get("content-length", 0))))
        if received.path.partition("?")[0].endswith(("/messages/count_tokens", "/responses/input_tokens")):
            self.told.requests.append(received)
            return self._send(200, encoded({"input_tokens": len(received.raw) // 4}))
        told, number = self.told.next(received)
        protocol = received.protocol
        if protocol is None:
            return self._send(404, encoded(error_body(404, f"no such path: {received.path}", "chat_completions")))
        try:
            self._act(told, received, protocol, number)
        except (BrokenPipeError, ConnectionResetError):
            self.told.left()
            self.close_connection = True

    def _receive(self, raw: bytes) -> Received:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Received(method=self.command, path=self.path, headers=headers, raw=raw)

    def _act(self, told: Answer | Failure, received: Received, protocol: str, number: int) -> None:
        match told:
            case Refused():
                more = {} if told.retry_after is None else {"retry-after": told.retry_after}
                self._send(told.status, encoded(error_body(told.status, told.message, protocol)), **more)
            case Reset():
                self._reset()
            case Malformed():
                self._malformed(told, is_stream=received.body.get("stream") is True)
            case Answer() | Cut() | Stalled() | Broken():
                answer = told if isinstance(told, Answer) else told.answer
                body = body_of(answer, protocol, str(received.body.get("model", "m-1")), number)
                if received.body.get("stream") is True:
                    self._stream(told, body, received, protocol)
                else:
                    self._whole(told, body, protocol)
            case _:
                assert_never(told)

    def _whole(self, told: Answer | Cut | Stalled | Broken, body: dict[str, Any], protocol: str) -> None:
        data = encoded(body)
        match told:
            case Answer():
                self._send(200, data)
            case Broken():
                self._send(503, encoded(error_body(503, told.message, protocol)))
            case Cut():
                self._head(200, "application/json", len(data))
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
            case Stalled():
                self._head(200, "application/json", len(data))
                self._stall()
            case _:
                assert_never(told)

    def _stream(
        self, told: Answer | Cut | Stalled | Broken, body: dict[str, Any], received: Received, protocol: str
    ) -> None:
        manner = self.told.manner
        if protocol == "chat_completions" and not record(received.body.get("stream_options")).get("include_usage"):
            body = {name: value for name, value in body.items() if name != "usage"}
        events: Iterator[bytes] = events_of(body, protocol, manner)
        self._head(200, "text/event-stream", None)
        for number, event in enumerate(events):
            if not isinstance(told, Answer) and number == told.events:
                break
            self._chunk(event)
        match told:
            case Answer():
                self.wfile.write(b"0\r\n\r\n")
            case Broken():
                error = dumps(error_event(told.message, protocol))
                self._chunk(render_event(error, "" if protocol == "chat_completions" else "error"))
                self.wfile.write(b"0\r\n\r\n")
            case Cut():
                self.close_connection = True
            case Stalled():
                self._stall()
            case _:
                assert_never(told)

    def _malformed(self, told: Malformed, *, is_stream: bool) -> None:
        if is_stream:
            self._head(200, "text/event-stream", None)
            self._chunk(render_event(told.text))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._send(200, told.text.encode())

    def _stall(self) -> None:
        self.wfile.flush()
        self.told.stall(self.connection)
        self.close_connection = True

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _send(self, status: int, data: bytes, **headers: str) -> None:
        self._head(status, "application/json", len(data), **headers)
        self.wfile.write(data)

    def _head(self, status: int, media_type: str, length: int | None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", media_type)
        if length is None:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
