"""The proxy as an ASGI application: what a request is, who may send it, and what is done with it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from urllib.parse import unquote

from everlog.access import Principal
from everlog.errors import Mistake
from everlog.surfaces.proxy import crossing
from everlog.surfaces.proxy.admission import Door, Refusal
from everlog.surfaces.proxy.asgi import (
    Left,
    Receive,
    Scope,
    Send,
    TooLarge,
    Upload,
    answer,
    body_of,
    head_of,
    upload_of,
)
from everlog.surfaces.proxy.faults import fault
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.relay.encodings import readable
from everlog.surfaces.proxy.relay.forwarding import for_headroom
from everlog.surfaces.proxy.relay.headers import OUR_KEY
from everlog.surfaces.proxy.relay.heard import Duties
from everlog.surfaces.proxy.relay.hearing import HOLD_S, Ears, Memory
from everlog.surfaces.proxy.relay.models import list_models
from everlog.surfaces.proxy.relay.relaying import Caller, Relay
from everlog.surfaces.proxy.relay.upstream import HTTPUpstream, Upstream
from everlog.surfaces.proxy.relay.upstreams import Upstreams, model_of
from everlog.surfaces.proxy.remembering.wanted import wanted
from everlog.surfaces.proxy.routes import Kind, Route, advice, route
from everlog.surfaces.proxy.settings.options import Options, Target

HOME = (
    b"Everlog is here. Give its address with /v1 to a client as its base URL; without /v1 to clients of Anthropic.\n"
    b"/everlog/v1 shows what was kept and how to ask for it, /health and /metrics how it is.\n"
)

PLAIN = (b"content-type", b"text/plain; charset=utf-8")

UPGRADE = (426, "There are no WebSockets here; use HTTP.", "no_websockets")
"""What clients take for a reason to fall back."""

KEY_IN_QUERY = "A key of Everlog belongs into a header: addresses go up to providers, and end up in logs."

MODE = b"x-everlog-memory-mode"
"""What was done with a request, for clients that ask."""

ANSWERED = frozenset({Kind.HOME, Kind.PREFLIGHT, Kind.SOCKET, Kind.UNKNOWN})

UNREAD = frozenset({Kind.DEFAULT, Kind.ANSWER, Kind.OURS})
"""Whose bodies are the upstream's alone: files, images, sounds."""

LARGE = 64 * 1024
"""From where on a body is read in another thread, in bytes."""

LAST_WAIT_S = 10
"""How long the end of the proxy waits for what ears still keep."""


class App:
    """One proxy, on one event loop."""

    def __init__(
        self,
        options: Options,
        *,
        upstream: Upstream | None = None,
        ears: Ears | None = None,
        door: Door | None = None,
        memory: Memory | None = None,
        hold_s: float = HOLD_S,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        """Make it; nothing is opened before it starts.

        Args:
            options: what it does.
            upstream: what requests go through; by default HTTP, opened at the start.
            ears: who listens, if anybody.
            door: who may ask; by default any program of this machine.
            memory: who knows what clients name instead of saying it, if anybody.
            hold_s: how long an answer waits for ears, in seconds.
            at_end: called in a thread when the proxy has ended.
        """
        self.options = options
        self.duties = Duties(hold_s)
        self._upstreams = Upstreams(options.targets)
        self._hidden = frozenset(name.lower().encode() for name in options.identity_headers)
        self._given = upstream
        self._ears = ears
        self._door = door or Door(None)
        self._memory = memory
        self._at_end = at_end
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
        if self._at_end is not None:
            await asyncio.to_thread(self._at_end)
            self._at_end = None

    @property
    def is_open(self) -> bool:
        """Whether connections to upstreams can be made."""
        return self._open is not None

    def _opened(self) -> tuple[Upstream, Relay]:
        if self._open is None:
            upstream = self._given or HTTPUpstream()
            self._open = (
                upstream,
                Relay(upstream, self.duties, ears=self._ears, memory=self._memory, hidden=self._hidden),
            )
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
        head = head_of(scope)
        is_upgrade = (head.header(b"upgrade") or b"").lower() == b"websocket"
        has_version = head.header(b"anthropic-version") is not None
        way = route(head.method, head.path, is_anthropic=has_version, is_upgrade=is_upgrade)
        page = crossing.allowed(head, self.options.origins, is_open=self._door.is_open)
        if isinstance(page, crossing.Strange):
            caller = Caller(receive=receive, send=send, is_anthropic=way.is_anthropic)
            await _refuse(caller, 403, page.message, page.code)
            return
        caller = Caller(receive=receive, send=send, is_anthropic=way.is_anthropic, headers=page)
        if way.kind in ANSWERED:
            await _answer_here(way.kind, head, caller)
            return
        if OUR_KEY in head.query:
            await _refuse(caller, 400, KEY_IN_QUERY, "key_in_query")
            return
        admitted = await self._door.admit(head.headers, looks=self._is_ours(way))
        if isinstance(admitted, Refusal):
            wait = () if admitted.retry_after_s is None else ((b"retry-after", b"%d" % admitted.retry_after_s),)
            await _refuse(caller, admitted.status, admitted.message, admitted.code, *wait)
            return
        try:
            caller = self._told(caller, way, head, admitted.principal)
        except Mistake as error:
            await _refuse(caller, 400, str(error), "header_not_understood")
            return
        try:
            body = await self._body(way, head, receive)
        except Left:
            return
        except TooLarge:
            said = f"The body is larger than {self.options.body_bytes} bytes; `body_bytes` of the proxy sets the limit."
            await _refuse(caller, 413, said, "body_too_large", (b"connection", b"close"))
            return
        if admitted.principal is not caller.principal or admitted.spent:
            caller = replace(caller, principal=admitted.principal, spent=admitted.spent)
        if isinstance(body, Upload):
            caller = replace(caller, receive=body.receive, upload=body)
        incoming = head.with_body(body if isinstance(body, bytes) else b"")
        if self.options.forward_to_headroom:
            caller = replace(caller, upward=await self._upward(incoming, admitted.principal))
        await self._relay(way, incoming, caller)

    def _is_ours(self, way: Route) -> bool:
        """Return whether the log is asked, and no model."""
        return way.kind is Kind.OURS and self._memory is not None

    def _told(self, caller: Caller, way: Route, head: Incoming, principal: Principal) -> Caller:
        """Return the client of a conversation so that it is told the mode, if it asks for that.

        Raises:
            Mistake: a header of ours says what cannot be.
        """
        if way.protocol is None:
            return caller
        controls = Controls.of(head.headers)
        if not controls.tells:
            return caller
        mode = "off" if self._ears is None else wanted(controls, principal, self.options).mode
        return replace(caller, headers=(*caller.headers, (MODE, mode.encode())))

    async def _body(self, way: Route, head: Incoming, receive: Receive) -> bytes | Upload:
        """Return the body of a request; one that nobody reads here is passed on while it comes, however large."""
        if way.kind in UNREAD:
            return await upload_of(head, receive)
        return await body_of(head, receive, self.options.body_bytes)

    async def _upward(self, incoming: Incoming, principal: Principal) -> Headers:
        """Return what upstreams are told of who asks."""
        tell = partial(for_headroom, incoming.headers, incoming.body, principal, self.options.aliases)
        return tell() if len(incoming.body) < LARGE else await asyncio.to_thread(tell)

    async def _relay(self, way: Route, incoming: Incoming, caller: Caller) -> None:
        _, relay = self._opened()
        if self._is_ours(way) and self._memory is not None:
            status, headers, body = await self._memory.retrieve(incoming, caller.principal, way.answer or "")
            await answer(caller.send, status, (*headers, *caller.headers), b"" if incoming.method == "HEAD" else body)
        elif way.kind is Kind.MODELS:
            await list_models(incoming, self._upstreams, relay, caller)
        else:
            await relay.relay(incoming, await self._target(way, incoming, caller.principal), way.protocol, caller)

    async def _target(self, way: Route, incoming: Incoming, principal: Principal) -> Target:
        if way.kind in {Kind.DEFAULT, Kind.OURS} or len(self._upstreams.targets) == 1:
            return self._upstreams.default
        if way.kind is Kind.ANSWER:
            found = None if self._memory is None else await self._memory.made_by(principal, way.answer or "")
            return self._upstreams.called(found)
        if way.kind is Kind.MODEL:
            return self._upstreams.of(unquote(way.model or ""))
        if len(incoming.body) < LARGE and incoming.header(b"content-encoding") is None:
            return self._upstreams.of(model_of(incoming.body))
        return self._upstreams.of(await asyncio.to_thread(lambda: model_of(readable(incoming) or b"")))


async def _answer_here(kind: Kind, head: Incoming, caller: Caller) -> None:
    """Answer what no upstream is asked for."""
    if kind is Kind.HOME:
        await answer(caller.send, 200, (PLAIN, *caller.headers), HOME if head.method == "GET" else b"")
    elif kind is Kind.PREFLIGHT:
        await answer(caller.send, 200, (*crossing.preflight(head), *caller.headers), b"")
    elif kind is Kind.SOCKET:
        await _refuse(caller, *UPGRADE)
    else:
        await _refuse(caller, 404, advice(head.path), "no_such_path")


async def _refuse(caller: Caller, status: int, message: str, code: str, *more: tuple[bytes, bytes]) -> None:
    """Answer with an error of ours."""
    status, headers, body = fault(status, message, code, is_anthropic=caller.is_anthropic)
    await answer(caller.send, status, (*headers, *caller.headers, *more), body)


async def _refuse_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer who wants a WebSocket so that it goes on over HTTP."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1000})
        return
    status, headers, body = fault(*UPGRADE, is_anthropic=False)
    await send({"type": "websocket.http.response.start", "status": status, "headers": [*headers]})
    await send({"type": "websocket.http.response.body", "body": body})
