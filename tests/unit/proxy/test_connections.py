"""What clients may do to a connection before, between and behind their requests: bytes on a socket, and an application."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from everlog.surfaces.proxy import connections
from everlog.surfaces.proxy.asgi import Receive, Scope, Send, answer, begin, end, go_on
from everlog.surfaces.proxy.connections import HEAD_S, LARGEST_HEAD, Connection

POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
UPGRADE = (
    b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nUpgrade: "
)
TOO_MANY = b"".join(b"x-%d: 1\r\n" % n for n in range(LARGEST_HEAD // 7))


class Server:
    """An application behind connections of the proxy."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.asked = threading.Event()
        self.goes_on = threading.Event()
        self.left = threading.Event()
        self.port = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        self.asked.set()
        if scope["path"] == "/slow":
            await receive()
            self.left.set()
        if scope["path"] == "/whole":
            await answer(send, 200, (), b"whole")
            return
        await begin(send, 200, ())
        await go_on(send, b"one ")
        await go_on(send, b"two")
        await end(send)


@contextmanager
def serving() -> Iterator[Server]:
    server, ends, ready = Server(), [], threading.Event()

    async def serve() -> None:
        config = uvicorn.Config(server, server_header=False, date_header=False, log_config=None, access_log=False)
        state, over = ServerState(), asyncio.Event()
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
        server.port = listening.sockets[0].getsockname()[1]
        ends.append(lambda: loop.call_soon_threadsafe(over.set))
        ready.set()
        await over.wait()
        listening.close()
        for one in [*state.connections]:
            one.transport.abort()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        ends[0]()
        thread.join(10)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


def connected(server: Server) -> Any:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.settimeout(20)
    return closing(connection)


def all_of(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    came = b""
    while data := connection.recv(65536):
        came += data
    return came


def asked(server: Server, data: bytes) -> bytes:
    with connected(server) as connection:
        connection.sendall(data)
        return all_of(connection)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nX-A: " + b"a" * (4 * LARGEST_HEAD),
        b"GET / HTTP/1.1\r\nX-A: " + b"a" * (LARGEST_HEAD + 1) + b"\r\n\r\n",
        b"GET /" + b"a" * (4 * LARGEST_HEAD),
        b"GET / HTTP/1.1\r\n" + TOO_MANY + b"\r\n",
        POST + b"x: " + b"a" * LARGEST_HEAD + b"\r\n\r\n{}" + POST,
        POST.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"\r\n2\r\n{}\r\n0\r\n" + 2 * TOO_MANY,
        POST.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"\r\n2;x=" + b"a" * 4 * LARGEST_HEAD,
    ],
    ids=["endless value", "long value", "endless path", "many headers", "with a body", "trailers", "chunk extension"],
)
def test_a_head_that_is_too_large_is_refused_and_nothing_is_asked(server: Server, head: bytes):
    came = asked(server, head)
    assert came.startswith(b"HTTP/1.1 431 ")
    assert b'"code":"head_too_large"' in came
    assert not server.bodies


def test_a_head_of_a_size_that_clients_send_is_taken_and_a_body_of_any(server: Server):
    head = (
        POST.replace(b"2\r\n", b"3000000\r\n") + b"x: " + b"a" * (LARGEST_HEAD - 300) + b"\r\nConnection: close\r\n\r\n"
    )
    assert asked(server, head + b"b" * 3_000_000).endswith(b"3\r\ntwo\r\n0\r\n\r\n")
    chunks = POST.replace(b"Content-Length: 2", b"Connection: close\r\nTransfer-Encoding: chunked") + b"\r\n"
    assert asked(server, chunks + b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n").endswith(b"0\r\n\r\n")
    assert server.bodies == [b"b" * 3_000_000, b"a" * 100_000]


@pytest.mark.parametrize("begun", [b"GET /", b"GET / HTTP/1.1\r\nX-A: a", POST + b"\r\n{}GET"])
def test_a_head_that_never_ends_closes_its_connection(server: Server, monkeypatch: pytest.MonkeyPatch, begun: bytes):
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    came = asked(server, begun)
    assert came.count(b"HTTP/1.1") == begun.count(b"{}")


def test_while_an_answer_is_under_way_the_next_head_may_take_its_time(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.05)
    with connected(server) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /")
        assert server.asked.wait(10)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_a_client_that_says_nothing_at_all_is_not_waited_for_for_ever(server: Server, monkeypatch: pytest.MonkeyPatch):
    made = Connection.__init__

    def hasty(self: Connection, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        self.timeout_keep_alive = 0

    monkeypatch.setattr(Connection, "__init__", hasty)
    assert asked(server, b"") == b""
    assert HEAD_S < 60


@pytest.mark.parametrize("wanted", [b"websocket", b"h2c"])
@pytest.mark.parametrize("size", [2, 300_000])
def test_a_request_with_a_body_that_asks_for_another_protocol_is_served_as_it_is(
    server: Server, caplog: pytest.LogCaptureFixture, wanted: bytes, size: int
):
    body = b"b" * size
    head = POST.replace(b"Length: 2", b"Length: %d" % size) + UPGRADE + wanted + b"\r\n\r\n"
    came = asked(server, head + body + head.replace(b"Upgrade: " + wanted, b"Connection: close") + body)
    assert (came[:12], server.bodies) == (b"HTTP/1.1 200", [body, body])
    assert came.count(b"two\r\n0\r\n\r\n") == 2
    assert not caplog.records


def test_a_client_of_http_1_0_gets_a_body_without_chunks_that_ends_with_its_connection(server: Server):
    head, _, body = asked(server, b"GET / HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert (head.split(b"\r\n")[1:], body) == ([b"connection: close"], b"one two")
    head, _, body = asked(server, b"GET /whole HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert (head.split(b"\r\n")[1:], body) == ([b"content-length: 5", b"connection: close"], b"whole")


def test_a_client_that_leaves_with_requests_in_a_row_stops_the_first_and_the_others_are_not_asked(
    server: Server, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO, "uvicorn.error"):
        with connected(server) as connection:
            connection.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
            assert server.asked.wait(10)
        assert server.left.wait(10)
    assert len(server.bodies) == 1
    assert not caplog.records
