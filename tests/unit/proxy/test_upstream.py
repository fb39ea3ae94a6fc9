"""HTTP to providers as it is spoken: every byte that goes out, connections that break, waits that end."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import everlog.surfaces.proxy.relay.upstream
from everlog.errors import ConnectionFailed, NeverSent, ProviderTimeout
from everlog.surfaces.proxy.asgi import body_of
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.relay.upstream import PIECE, Coming, HTTPUpstream, Outgoing, _Body
from tests.unit.chat.servers import BEGUN, RawServer, certificate, chunk
from tests.unit.proxy.wire import within

EVENT, DONE = b'data: {"id":"1"}\n\n', b"data: [DONE]\n\n"
Act = Callable[[HTTPUpstream, str], Awaitable[Any]]


def outgoing(url: str, *, body: bytes = b"{}", headers: Headers = (), **more: Any) -> Outgoing:
    given = {"method": "POST", "connect_s": 5, "silence_s": 5, **more}
    return Outgoing(url=f"{url}/chat/completions", headers=headers, body=body, **given)


async def whole(coming: Coming) -> bytes:
    body = b""
    while data := await coming.read():
        body += data
    return body


def playing(url: str, act: Act, **options: Any) -> Any:
    """Run an act with an upstream of its own."""

    async def play() -> Any:
        upstream = HTTPUpstream(**options)
        try:
            return await act(upstream, url)
        finally:
            await upstream.close()

    return asyncio.run(within(play()))


async def until(fact: Callable[[], bool]) -> None:
    """Wait for what no event tells."""
    while not fact():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.005)


def answering(body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n") -> Callable[[RawServer, Any], None]:
    def act(server: RawServer, connection: Any) -> None:
        connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)

    return act


def reset(connection: Any) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


async def ask(upstream: HTTPUpstream, url: str, body: bytes = b"{}") -> bytes:
    return await whole(await upstream.send(outgoing(url, body=body)))


def test_a_request_goes_out_with_its_own_headers_a_host_and_a_length_and_nothing_else():
    headers: Headers = ((b"x-Odd", b" caf\xc3\xa9 "), (b"cookie", b"a=1"), (b"x-twice", b"1"), (b"x-twice", b"2"))
    with RawServer(answering(b"ok")) as server:

        async def act(upstream: HTTPUpstream, url: str) -> None:
            for body in (b'{"a": 1e400}', b""):
                await whole(await upstream.send(outgoing(url, body=body, headers=headers)))
            await whole(await upstream.send(outgoing(url, body=b"", method="GET")))

        playing(server.url, act)
        host = server.url.removeprefix("http://").removesuffix("/v1").encode()
        shared = [b"Host: " + host, b"x-Odd:  caf\xc3\xa9 ", b"cookie: a=1", b"x-twice: 1", b"x-twice: 2"]
        sent = [one.partition(b"\r\n\r\n") for one in server.received]
        assert [head.split(b"\r\n")[0] for head, _, _ in sent] == [
            b"POST /v1/chat/completions HTTP/1.1",
            b"POST /v1/chat/completions HTTP/1.1",
            b"GET /v1/chat/completions HTTP/1.1",
        ]
        assert [head.split(b"\r\n")[1:] for head, _, _ in sent] == [
            [*shared, b"Content-Length: 12"],
            [*shared, b"Content-Length: 0"],
            [b"Host: " + host],
        ]
        assert [body for _, _, body in sent] == [b'{"a": 1e400}', b"", b""]
        assert server.connections == 1


def test_a_large_body_arrives_as_it_is():
    body = bytes(range(256)) * 20_000
    with RawServer(answering(b"ok")) as server:
        playing(server.url, lambda upstream, url: ask(upstream, url, body))
        assert server.received[0].partition(b"\r\n\r\n")[2] == body


class Greedy:
    """A writer whose other end takes all at once, so that nobody waits for it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.pieces.append(bytes(data))


async def turns_while(act: Awaitable[Any]) -> int:
    """Return how often another task has its turn until an act is done."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await act
    task.cancel()
    return turns


def test_others_have_their_turns_while_a_large_body_goes_out_however_fast_it_is_taken():
    writer, body = Greedy(), bytes(range(256)) * (4 * PIECE // 256)
    assert asyncio.run(turns_while(_Body(body).write(writer))) >= 4  # type: ignore[arg-type]
    assert b"".join(writer.pieces) == body


def test_others_have_their_turns_while_a_large_body_is_put_together():
    pieces = [bytes([n]) * 2**20 for n in range(8)]
    coming = iter(pieces)

    async def receive() -> dict[str, Any]:
        piece = next(coming)
        return {"type": "http.request", "body": piece, "more_body": piece is not pieces[-1]}

    async def body() -> None:
        head = Incoming(method="POST", path="/", query=b"", headers=(), body=b"")
        assert await body_of(head, receive, 2**30) == b"".join(pieces)

    assert asyncio.run(turns_while(body()))


def test_an_answer_is_not_decoded_not_followed_and_keeps_its_headers():
    head = b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Encoding: gzip\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"

    async def act(upstream: HTTPUpstream, url: str) -> tuple[int, Headers, bytes]:
        coming = await upstream.send(outgoing(url))
        await whole(coming)
        coming = await upstream.send(outgoing(url))
        return coming.status, coming.headers, await whole(coming)

    with RawServer(answering(b"not gzip", head)) as server:
        status, headers, body = playing(server.url, act)
        assert (status, body) == (307, b"not gzip")
        assert headers[:4] == (
            (b"Location", b"http://127.0.0.1:1/"),
            (b"Content-Encoding", b"gzip"),
            (b"Set-Cookie", b"a=1"),
            (b"Set-Cookie", b"b=2"),
        )
        assert all(b"cookie" not in one.lower() for one in server.received)


def test_headers_to_which_an_upstream_gives_our_names_are_not_there():
    head = b"HTTP/1.1 200 OK\r\nX-Everlog-Degraded: record\r\nX-Request-ID: r\r\n"
    with RawServer(answering(b"", head)) as server:
        coming = playing(server.url, lambda upstream, url: upstream.send(outgoing(url)))
    assert (b"X-Request-ID", b"r") in coming.headers
    assert not any(name.lower().startswith(b"x-everlog-") for name, _ in coming.headers)


def test_an_event_is_there_before_the_next_one_is_sent():
    def act_of_server(server: RawServer, connection: Any) -> None:
        connection.sendall(BEGUN + chunk(EVENT))
        assert connection.recv(1, socket.MSG_PEEK) == b""

    async def act(upstream: HTTPUpstream, url: str) -> bytes:
        coming = await upstream.send(outgoing(url))
        first = await coming.read()
        coming.close()
        return first

    with RawServer(act_of_server) as server:
        assert playing(server.url, act) == EVENT


@pytest.mark.parametrize("is_reset", [False, True])
def test_nothing_that_came_before_a_break_is_lost(is_reset: bool):
    def act_of_server(server: RawServer, connection: Any) -> None:
        connection.sendall(BEGUN + chunk(EVENT) + chunk(EVENT))
        assert read.wait(10)
        reset(connection) if is_reset else connection.shutdown(socket.SHUT_RDWR)

    async def act(upstream: HTTPUpstream, url: str) -> tuple[bytes, str]:
        coming: Any = await upstream.send(outgoing(url))
        content = coming._response.content
        await until(lambda: content.total_bytes == 2 * len(EVENT))
        read.set()
        await until(lambda: content.exception() is not None)
        body = await coming.read()
        with pytest.raises(ConnectionFailed) as error:
            await coming.read()
        coming.close()
        return body, str(error.value)

    read = threading.Event()
    with RawServer(act_of_server) as server:
        body, said = playing(server.url, act)
        assert body == EVENT * 2
        assert said.startswith("the connection broke (")


def test_silence_ends_before_an_answer_and_in_it():
    def silent(server: RawServer, connection: Any) -> None:
        if server.requests == 2:
            connection.sendall(BEGUN + chunk(EVENT))
        server.closing.wait(10)

    async def act(upstream: HTTPUpstream, url: str) -> list[str]:
        said = []
        with pytest.raises(ProviderTimeout) as before:
            await upstream.send(outgoing(url, silence_s=0.05))
        coming = await upstream.send(outgoing(url, silence_s=0.05))
        said.append((await coming.read()).decode())
        with pytest.raises(ProviderTimeout) as within_it:
            await coming.read()
        coming.close()
        return [*said, str(before.value), str(within_it.value)]

    with RawServer(silent) as server:
        assert playing(server.url, act) == [EVENT.decode(), "nothing came in time", "nothing came in time"]


def test_a_server_that_is_not_there_is_told_from_one_that_breaks_off_without_its_address():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    with pytest.raises(NeverSent, match=r"^no connection could be made \(Connection refused\)$"):
        playing(gone, ask)
    with RawServer(lambda server, connection: reset(connection)) as server:
        with pytest.raises(ConnectionFailed, match=r"^the connection broke \(") as error:
            playing(server.url, ask)
        assert not isinstance(error.value, NeverSent)
        assert "127.0.0.1" not in str(error.value)
        assert server.requests == 1


@pytest.mark.parametrize("status", [b"000", b"101", b"999"])
def test_a_status_that_no_server_can_pass_on_is_an_answer_that_failed(status: bytes):
    with RawServer(answering(b"", b"HTTP/1.1 " + status + b" Odd\r\n")) as server, pytest.raises(ConnectionFailed):
        playing(server.url, ask)


def test_what_is_no_http_is_an_answer_that_broke_off():
    def act_of_server(server: RawServer, connection: Any) -> None:
        connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")

    with RawServer(act_of_server) as server, pytest.raises(ConnectionFailed, match="the connection broke"):
        playing(server.url, ask)


@pytest.mark.parametrize(
    ("idle_s", "broken", "requests"), [(0, {2}, 3), (0, {2, 3}, 3), (1000, {2}, 2)], ids=["idle", "broken", "busy"]
)
def test_a_connection_that_was_idle_and_had_ended_already_is_replaced_once_and_no_other(
    monkeypatch: pytest.MonkeyPatch, idle_s: float, broken: set[int], requests: int
):
    """A server closes an idle connection in the moment in which a request goes out on it."""

    def act_of_server(server: RawServer, connection: Any) -> None:
        if server.requests in broken:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            answering(b"ok")(server, connection)

    async def act(upstream: HTTPUpstream, url: str) -> bytes:
        assert await ask(upstream, url) == b"ok"
        return await ask(upstream, url)

    monkeypatch.setattr(everlog.surfaces.proxy.relay.upstream, "IDLE_S", idle_s)
    with RawServer(act_of_server) as server:
        if requests == 3 and len(broken) == 1:
            assert playing(server.url, act) == b"ok"
        else:
            with pytest.raises(ConnectionFailed):
                playing(server.url, act)
        assert server.requests == requests


UNASKED = b"HTTP/1.1 408 Too Late\r\ncontent-length: 7\r\n\r\nUNASKED"
"""Servers write such a thing before they close an idle connection, and the next to use it may be somebody else."""


def test_an_answer_behind_an_answer_is_given_to_nobody():
    def act_of_server(server: RawServer, connection: Any) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nmine")
        is_begun.wait(5)
        connection.sendall(b"mine" + UNASKED)

    async def act(upstream: HTTPUpstream, url: str) -> bytes:
        coming = await upstream.send(outgoing(url))
        assert await coming.read() == b"mine"
        is_begun.set()
        assert await whole(coming) == b"mine"
        return await ask(upstream, url)

    is_begun = threading.Event()
    with RawServer(act_of_server) as server:
        assert playing(server.url, act) == b"minemine"


@pytest.mark.parametrize("is_read", [True, False])
def test_an_answer_that_comes_while_a_connection_is_idle_is_given_to_nobody(is_read: bool):
    def act_of_server(server: RawServer, connection: Any) -> None:
        answering(b"mine")(server, connection)
        if server.requests == 1:
            is_idle.wait(5)
            connection.sendall(UNASKED)
            is_sent.set()

    async def act(upstream: HTTPUpstream, url: str) -> bytes:
        await ask(upstream, url)
        [[(kept, _)]] = upstream._session.connector._conns.values()  # type: ignore[union-attr]
        is_idle.set()
        if is_read:
            await until(lambda: kept.should_close)
        else:  # before the loop looks
            assert is_sent.wait(5)
        return await ask(upstream, url)

    is_idle, is_sent = threading.Event(), threading.Event()
    with RawServer(act_of_server) as server:
        assert playing(server.url, act) == b"mine"


def test_whoever_stops_waiting_closes_the_connection():
    def act_of_server(server: RawServer, connection: Any) -> None:
        begun.append(connection)
        if connection.recv(1) == b"":
            left.append(connection)

    async def act(upstream: HTTPUpstream, url: str) -> None:
        asking = asyncio.create_task(upstream.send(outgoing(url)))
        await until(lambda: len(begun) == 1)
        asking.cancel()
        await until(lambda: len(left) == 1)

    begun: list[Any] = []
    left: list[Any] = []
    with RawServer(act_of_server) as server:
        playing(server.url, act)


def test_certificates_are_checked(tmp_path: Path):
    tls, trusted = certificate(tmp_path)
    with RawServer(answering(b"ok"), tls) as server:
        assert playing(server.url, ask, trusted=trusted) == b"ok"
        with pytest.raises(NeverSent, match="self-signed certificate"):
            playing(server.url, ask)


def test_a_connection_over_tls_is_kept_whatever_tls_itself_has_to_say(tmp_path: Path):
    """A server sends tickets behind the handshake, which nobody asked for and which are no answer."""

    async def twice(upstream: HTTPUpstream, url: str) -> list[bytes]:
        return [await ask(upstream, url), await ask(upstream, url)]

    tls, trusted = certificate(tmp_path)
    with RawServer(answering(b"ok"), tls) as server:
        assert playing(server.url, twice, trusted=trusted) == [b"ok", b"ok"]
        assert server.connections == 1


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch):
    with RawServer(answering(b"by proxy")) as between:
        monkeypatch.setenv("http_proxy", between.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "")
        assert playing("http://models.test/v1", ask) == b"by proxy"
        assert between.received[0].startswith(b"POST http://models.test/v1/chat/completions HTTP/1.1\r\n")
