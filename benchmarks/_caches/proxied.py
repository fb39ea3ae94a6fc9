"""The same conversations by a client that sends all of them, always, through the proxy in mode tree: the bytes it sends up.

The proxy runs in this process, on a database in memory; its upstream notes what reaches it, and answers what the talk says.
The client knows nothing of memory: it marks what it sends as it is best for a history that only grows.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import everlog
from benchmarks._caches import policies
from benchmarks._caches.plans import Request, requests
from benchmarks._caches.providers import Wire
from benchmarks._caches.talks import Exchange, Talk
from everlog.errors import ProviderTrouble
from everlog.protocols import FORMATS
from everlog.protocols.shapes import encoded
from everlog.surfaces.proxy.front import Front
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.running import running
from everlog.surfaces.proxy.settings.configured import configured
from everlog.testing.upstream import Answer
from everlog.testing.upstream.answers import body_of

BASE = "http://upstream.test/v1"

HEADERS: Headers = ((b"content-type", b"application/json"), (b"x-api-key", b"any"), (b"authorization", b"Bearer any"))


def proxied(talk: Talk, wire: Wire) -> Iterator[Request]:
    """Yield the requests of a talk as they leave the proxy.

    Raises:
        ProviderTrouble: the proxy did not answer one.
    """
    upstream = _Upstream(wire)
    with asyncio.Runner() as runner:
        memory, front = runner.run(_begun(wire, upstream))
        try:
            for exchange, request in zip(talk.exchanges, requests(policies.whole, talk, wire), strict=True):
                upstream.answer = _answer(exchange)
                runner.run(_ask(front, FORMATS[wire.protocol].path, encoded(request.body)))
                yield Request(exchange.at_s, json.loads(upstream.sent[-1]), exchange.reply_tokens)
                for thread in memory.threads():
                    memory.thread(thread.key).pump()  # as a thread beside the talk would by the next request
        finally:
            runner.run(front._app.stop())


async def _begun(wire: Wire, upstream: "_Upstream") -> tuple[everlog.Everlog, Front]:
    memory = everlog.open(":memory:")
    said = {"upstream": {"base_url": BASE, "provider": wire.served}}
    front = running(configured(file=said, environment={}, given={"memory.mode": "tree"}), lambda: memory)
    front._app._given = upstream
    await front._app.start()
    return memory, front


async def _ask(front: Front, path: str, body: bytes) -> None:
    """Send a request, and wait until it is answered and kept."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/v1{path}",
        "raw_path": f"/v1{path}".encode(),
        "query_string": b"",
        "headers": [*HEADERS],
    }
    came = [{"type": "http.request", "body": body, "more_body": False}]
    status = 0

    async def receive() -> dict[str, Any]:
        return came.pop() if came else await asyncio.Future()

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    await front(scope, receive, send)
    await front._app.duties.finish(60)
    if status != 200:
        raise ProviderTrouble(f"the proxy answered {status}")


def _answer(exchange: Exchange) -> Answer:
    calls = tuple(
        (one.call.call_id, one.call.name, json.loads(one.call.arguments)) for one in exchange.reply if one.call
    )
    text = "".join(one.text for one in exchange.reply if one.kind == "assistant")
    return Answer(text=text, calls=calls, output_tokens=exchange.reply_tokens)


@dataclass(slots=True)
class _Upstream:
    wire: Wire
    answer: Answer = Answer()
    sent: list[bytes] = field(default_factory=list)

    async def send(self, outgoing: Outgoing) -> "_Coming":
        assert isinstance(outgoing.body, bytes)
        self.sent.append(outgoing.body)
        answer = replace(self.answer, input_tokens=self.wire.parse(json.loads(outgoing.body)).tokens)
        return _Coming(encoded(body_of(answer, self.wire.protocol, self.wire.model, len(self.sent))))

    async def close(self) -> None:
        """There is nothing to close."""


@dataclass(slots=True)
class _Coming:
    left: bytes
    status: int = 200
    headers: Headers = ((b"Content-Type", b"application/json"),)

    async def read(self) -> bytes:
        left, self.left = self.left, b""
        return left

    def close(self) -> None:
        """There is nothing to close."""
