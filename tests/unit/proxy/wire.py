"""Both ends of a relay, without a network: a client that speaks ASGI, and an upstream that says what it is told to."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from everlog.errors import ProviderTrouble
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.front import Front
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.settings.options import Options, Target

BASE = "http://upstream.test/v1"
PLAIN = Options(targets=(Target(base_url=BASE),))

JSON_HEAD: Headers = ((b"Content-Type", b"application/json"),)
STREAM_HEAD: Headers = ((b"Content-Type", b"text/event-stream; charset=utf-8"),)


@dataclass
class Coming:
    """An answer: pieces of its body, and what goes wrong behind them. A piece that is an event is waited for."""

    status: int = 200
    headers: Headers = JSON_HEAD
    pieces: Sequence[bytes | asyncio.Event] = ()
    error: ProviderTrouble | None = None
    is_closed: bool = False
    at: int = 0

    async def read(self) -> bytes:
        while self.at < len(self.pieces):
            piece = self.pieces[self.at]
            if isinstance(piece, bytes):
                self.at += 1
                return piece
            await piece.wait()
            self.at += 1
        if self.error is not None:
            raise self.error
        return b""

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Upstream:
    """Answers each request with what a function makes of it."""

    answer: Callable[[Outgoing], Coming | ProviderTrouble | None]
    """None never answers."""
    sent: list[Outgoing] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0
    is_closed: bool = False

    async def send(self, outgoing: Outgoing) -> Coming:
        self.sent.append(outgoing)
        self.asked.set()
        answer = self.answer(outgoing)
        if answer is None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if isinstance(answer, ProviderTrouble):
            raise answer
        assert answer is not None
        return answer

    async def close(self) -> None:
        self.is_closed = True


@dataclass
class Client:
    """One request and what comes back."""

    method: str = "POST"
    path: str = "/v1/chat/completions"
    query: bytes = b""
    headers: Headers = ()
    pieces: Sequence[bytes] = (b"{}",)
    messages: list[dict[str, Any]] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever something came."""
    at: int = 0

    async def receive(self) -> dict[str, Any]:
        if self.at < len(self.pieces):
            self.at += 1
            more = self.at < len(self.pieces)
            return {"type": "http.request", "body": self.pieces[self.at - 1], "more_body": more}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.messages.append(message)
        self.heard.set()

    async def ask(self, app: App | Front) -> "Client":
        scope = {
            "type": "http",
            "method": self.method,
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query,
            "headers": list(self.headers),
        }
        await app(scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def answered(self) -> list[tuple[bytes, bytes]]:
        return list(self.messages[0]["headers"])

    def header(self, name: bytes) -> list[bytes]:
        return [value for found, value in self.answered if found == name]

    @property
    def came(self) -> list[bytes]:
        """The pieces of the body that are not empty."""
        return [message["body"] for message in self.messages[1:] if message["body"]]

    @property
    def body(self) -> bytes:
        return b"".join(self.came)

    @property
    def is_whole(self) -> bool:
        return len(self.messages) > 1 and not self.messages[-1]["more_body"]


def asked(client: Client, answer: Callable[[Outgoing], Coming | ProviderTrouble | None], **more: Any) -> Upstream:
    """Let a client ask a proxy; return the upstream that it reached."""
    upstream = Upstream(answer)
    asyncio.run(within(client.ask(App(more.pop("options", PLAIN), upstream=upstream, **more))))
    return upstream


def body_in(outgoing: Outgoing) -> Any:
    """Return what a request says, from a body that is whole."""
    assert isinstance(outgoing.body, bytes)
    return json.loads(outgoing.body)


async def within(act: Coroutine[Any, Any, Any], seconds: float = 10) -> Any:
    """Wait for an act, but not for ever."""
    acting = asyncio.create_task(act)
    await asyncio.wait((acting,), timeout=seconds)
    assert acting.done(), f"it takes more than {seconds} s"
    return acting.result()


def cut(data: bytes, borders: Iterable[int]) -> list[bytes]:
    """Cut bytes at these places."""
    places = sorted({0, len(data), *(border % (len(data) + 1) for border in borders)})
    return [data[a:b] for a, b in pairwise(places)] or [data]
