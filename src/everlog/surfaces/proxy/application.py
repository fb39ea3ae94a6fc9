"""The proxy as an ASGI application: what a request is, who may send it, and what is done with it."""

import asyncio
from typing import assert_never
from urllib.parse import unquote

from everlog.surfaces import config
from everlog.surfaces.proxy import crossing
from everlog.surfaces.proxy.asgi import Left, Receive, Scope, Send, TooLarge, answer, request_of
from everlog.surfaces.proxy.faults import fault
from everlog.surfaces.proxy.heard import Duties
from everlog.surfaces.proxy.hearing import HOLD_S, Ears
from everlog.surfaces.proxy.incoming import Incoming
from everlog.surfaces.proxy.models import list_models
from everlog.surfaces.proxy.options import Options, Target
from everlog.surfaces.proxy.relay import Caller, Relay
from everlog.surfaces.proxy.routes import Kind, Route, advice, route
from everlog.surfaces.proxy.upstream import HTTPUpstream, Upstream
from everlog.surfaces.proxy.upstreams import Upstreams, model_of

HOME = b"Everlog is here. Give its address with /v1 to a client as its base URL; without /v1 to clients of Anthropic.\n"

PLAIN = (b"content-type", b"text/plain; charset=utf-8")

UPGRADE = (426, "There are no WebSockets here; use HTTP.", "no_websockets")
"""What clients take for a reason to fall back."""

LARGE = 64 * 1024
"""From where on a body is read in another thread, in bytes."""

LAST_WAIT_S = 10
"""How long the end of the proxy waits for what ears still keep."""


class App:
    """One proxy, on one event loop."""

    def __init__(
        self, options: Options, *, upstream: Upstream | None = None, ears: Ears | None = None, hold_s: float = HOLD_S
    ) -> None:
        """Make it; nothing is opened before it starts.

        Args:
            options: what it does.
            upstream: what requests go through; by default HTTP, opened at the start.
            ears: who listens, if anybody.
            hold_s: how long an answer waits for them, in seconds.
        """
        self.options = options
        self.duties = Duties(hold_s)
        self._upstreams = Upstreams(options.targets)
        self._hidden = frozenset(name.lower().encode() for name in options.identity_headers)
        self._given = upstream
        self._ears = ears
        self._open: tuple[Upstream, Relay] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do what ASGI asks for."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await _refuse_socket(scope, receive, send)

    async def start(self) -> None:
        """Open what is needed."""
        self._opened()

    async def stop(self) -> None:
        """Let what ears keep come to its end, and close all connections."""
        await self.duties.finish(LAST_WAIT_S)
        if self._open is not None:
            await self._open[0].close()
            self._open = None

    def _opened(self) -> tuple[Upstream, Relay]:
        if self._open is None:
            upstream = self._given or HTTPUpstream()
            self._open = upstream, Relay(upstream, self.duties, ears=self._ears, hidden=self._hidden)
        return self._open

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_anthropic = any(name == b"anthropic-version" for name, _ in scope["headers"])
        try:
            incoming = await request_of(scope, receive, self.options.body_bytes)
        except Left:
            return
        except TooLarge:
            said = f"The body is larger than {self.options.body_bytes} bytes; `body_bytes` of the proxy sets the limit."
            status, headers, body = fault(413, said, "body_too_large", is_anthropic=is_anthropic)
            await answer(send, status, (*headers, (b"connection", b"close")), body)
            return
        is_upgrade = (incoming.header(b"upgrade") or b"").lower() == b"websocket"
        way = route(incoming.method, incoming.path, is_anthropic=is_anthropic, is_upgrade=is_upgrade)
        page = crossing.allowed(incoming, self.options.origins)
        if page is None:
            said = "Pages of this origin may not call the proxy; `origins` of the proxy names those that may."
            await answer(send, *fault(403, said, "origin_not_allowed", is_anthropic=way.is_anthropic))
            return
        await self._act(way, incoming, Caller(receive=receive, send=send, is_anthropic=way.is_anthropic, headers=page))

    async def _act(self, way: Route, incoming: Incoming, caller: Caller) -> None:
        _, relay = self._opened()
        match way.kind:
            case Kind.HOME:
                await answer(caller.send, 200, (PLAIN, *caller.headers), HOME if incoming.method == "GET" else b"")
            case Kind.PREFLIGHT:
                await answer(caller.send, 200, (*crossing.preflight(incoming), *caller.headers), b"")
            case Kind.SOCKET | Kind.UNKNOWN:
                status, said, code = (
                    UPGRADE if way.kind is Kind.SOCKET else (404, advice(incoming.path), "no_such_path")
                )
                status, headers, body = fault(status, said, code, is_anthropic=way.is_anthropic)
                await answer(caller.send, status, (*headers, *caller.headers), body)
            case Kind.MODELS:
                await list_models(incoming, self._upstreams, relay, caller)
            case Kind.MODEL | Kind.BY_MODEL | Kind.DEFAULT:
                await relay.relay(incoming, await self._target(way, incoming.body), way.protocol, caller)
            case _:
                assert_never(way.kind)

    async def _target(self, way: Route, body: bytes) -> Target:
        if way.kind is Kind.DEFAULT or len(self._upstreams.targets) == 1:
            return self._upstreams.default
        if way.kind is Kind.MODEL:
            return self._upstreams.of(unquote(way.model or ""))
        named = model_of(body) if len(body) < LARGE else await asyncio.to_thread(model_of, body)
        return self._upstreams.of(named)


def configured() -> App:
    """Return the proxy that the environment asks for."""
    found, _ = config.proxy(config.settings())
    return App(found.options())


async def _refuse_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer who wants a WebSocket so that it goes on over HTTP."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1000})
        return
    status, headers, body = fault(*UPGRADE, is_anthropic=False)
    await send({"type": "websocket.http.response.start", "status": status, "headers": [*headers]})
    await send({"type": "websocket.http.response.body", "body": body})
