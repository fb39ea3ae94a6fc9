"""Files, images and sounds on their way up: the same bytes, while they come, and no more of them held than a piece."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.asgi import SMALL
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.settings.options import Options, Target
from tests.unit.proxy.wire import PLAIN, Client, Coming, within

PIECE = b"%04d" * 16 * 1024
PIECES = [PIECE.replace(b"%04d", b"%04d" % n) for n in range(40)]
WHOLE = b"".join(PIECES)
SIZED: Headers = ((b"content-length", b"%d" % len(WHOLE)), (b"content-type", b"multipart/form-data; boundary=x"))
FILES = "/v1/files"


@dataclass
class Taking:
    """An upstream that takes pieces when it is told to."""

    most: int = 1 << 60
    taken: list[bytes] = field(default_factory=list)
    sizes: list[int | None] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    """How many pieces the client had been asked for when each came here."""
    client: Client = field(default_factory=Client)
    cancelled: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, outgoing: Outgoing) -> Coming:
        body = outgoing.body
        if isinstance(body, bytes):
            self.taken.append(body)
            return Coming(pieces=[b"{}"])
        self.sizes.append(body.size)
        try:
            async for piece in body:
                self.taken.append(piece)
                self.seen.append(self.client.at)
                self.moved.set()
                if len(self.taken) >= self.most:
                    break
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Coming(pieces=[b"{}"])

    async def close(self) -> None:
        pass


def upload(upstream: Taking, **more: object) -> Client:
    upstream.client = Client(**{"path": FILES, "headers": SIZED, "pieces": PIECES} | more)  # type: ignore[arg-type]
    options = Options(targets=PLAIN.targets, body_bytes=1000)
    asyncio.run(within(upstream.client.ask(App(options, upstream=upstream))))
    return upstream.client


def test_an_upload_goes_up_while_it_comes_whatever_its_size():
    upstream = Taking()
    client = upload(upstream)
    assert (client.status, client.body) == (200, b"{}")
    assert hashlib.sha256(b"".join(upstream.taken)).digest() == hashlib.sha256(WHOLE).digest()
    assert upstream.sizes == [len(WHOLE)]
    first = upstream.seen[0]
    assert first * len(PIECE) <= SMALL + len(PIECE)
    assert upstream.seen[1:] == list(range(first + 1, len(PIECES) + 1)), "each piece is asked for when the last is gone"


def test_an_upload_of_a_size_that_nobody_says_goes_up_as_such():
    upstream = Taking()
    assert upload(upstream, headers=()).status == 200
    assert (b"".join(upstream.taken), upstream.sizes) == (WHOLE, [None])


def test_a_small_body_is_the_very_object_that_came():
    upstream = Taking()
    client = upload(upstream, headers=(), pieces=[b"x" * SMALL])
    assert upstream.taken[0] is client.pieces[0]
    assert upload(upstream, headers=(), pieces=[b"x"], path="/v1/responses").status == 200
    assert upload(upstream, headers=(), pieces=[b"x" * 1001], path="/v1/responses").status == 413


def test_an_upstream_that_answers_before_the_end_is_heard():
    upstream = Taking(most=2)
    assert upload(upstream).status == 200
    assert upstream.client.at < len(PIECES)


def test_a_client_that_leaves_in_mid_upload_takes_its_request_along():
    class Left(Client):
        async def receive(self) -> dict[str, object]:
            if self.at < 20:
                self.at += 1
                return {"type": "http.request", "body": self.pieces[self.at - 1], "more_body": True}
            return {"type": "http.disconnect"}

    async def play() -> None:
        upstream, client = Taking(), Left(path=FILES, headers=SIZED, pieces=PIECES)
        app = App(PLAIN, upstream=upstream)
        await client.ask(app)
        assert (upstream.cancelled, client.messages, app.duties.counts["client_left"]) == (True, [], 1)

    asyncio.run(within(play()))


Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@asynccontextmanager
async def server(act: Act) -> AsyncIterator[str]:
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        acting = asyncio.create_task(act(reader, writer))
        ended = asyncio.create_task(over.wait())
        await asyncio.wait((acting, ended), return_when=asyncio.FIRST_COMPLETED)
        for task in (acting, ended):
            task.cancel()
        writer.transport.abort()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        over.set()


def over_http(act: Act, *, headers: Headers = SIZED, silence_s: float = 5, times: int = 1) -> Client:
    """Upload to a real server, by HTTP."""

    async def play() -> Client:
        async with server(act) as url:
            app = App(Options(targets=(Target(base_url=url, silence_s=silence_s),)))
            client = Client(path=FILES, headers=headers, pieces=PIECES * times)
            try:
                await client.ask(app)
            finally:
                await app.stop()
            return client

    found: Client = asyncio.run(within(play()))
    return found


async def answer(writer: asyncio.StreamWriter, status: bytes = b"200 OK") -> None:
    writer.write(b"HTTP/1.1 %s\r\ncontent-length: 2\r\n\r\n{}" % status)
    await writer.drain()


@pytest.mark.parametrize("headers", [SIZED, ()])
def test_an_upload_is_the_same_bytes_over_http_with_a_length_or_in_chunks(headers: Headers):
    heads: list[bytes] = []
    bodies: list[bytes] = []

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).lower())
        if headers:
            bodies.append(await reader.readexactly(len(WHOLE)))
        else:
            body = b""
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            bodies.append(body)
        await answer(writer)

    client = over_http(act, headers=headers)
    assert (client.status, client.body, bodies) == (200, b"{}", [WHOLE])
    assert (b"content-length: %d" % len(WHOLE) in heads[0]) is bool(headers)
    assert (b"transfer-encoding: chunked" in heads[0]) is not bool(headers)
    assert (b"content-type: multipart/form-data; boundary=x" in heads[0]) is bool(headers)


def test_a_refusal_in_mid_upload_comes_down():
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(writer, b"413 Too Large")
        await reader.read(-1)  # a server that closed at once would reset the connection

    assert over_http(act).status == 413


def test_an_upstream_that_takes_no_more_is_given_up_in_its_time():
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    client = over_http(act, headers=(), silence_s=0.2, times=20)
    assert client.status == 504
    assert client.at < len(client.pieces), "what it did not take was not read either"
