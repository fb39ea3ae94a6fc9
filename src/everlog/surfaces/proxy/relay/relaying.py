"""One request to its upstream, and its answer back: the same bytes, as they come, and no longer than both ends want.

A client that goes away takes the request to its upstream with it, at once. An answer that breaks off, breaks off for the
client as well: nothing is put behind it that the upstream did not say.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from everlog.access import LOOPBACK, Principal
from everlog.chat.places import reason_of
from everlog.errors import EverlogError, Mistake, ProviderTrouble
from everlog.surfaces.proxy.asgi import Leaving, Left, Message, Receive, Send, Upload, answer, begin, end, go_on
from everlog.surfaces.proxy.faults import code_of, fault, of_upstream
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.relay.headers import coming_down, is_event_stream
from everlog.surfaces.proxy.relay.heard import Duties, Hearing
from everlog.surfaces.proxy.relay.hearing import REQUEST_ID, Ears, Memory
from everlog.surfaces.proxy.relay.translated import COUNTS, estimated, is_foreign
from everlog.surfaces.proxy.relay.upstream import Coming, Upstream
from everlog.surfaces.proxy.relay.upward import Upward
from everlog.surfaces.proxy.settings.options import Target

log = logging.getLogger(__name__)

BODILESS = frozenset({204, 304})
"""Statuses of answers that have no body: RFC 9110, 6.4.1."""

AWAY = (
    "The conversation that this goes on with cannot be looked up now; send the whole of it, or try again in a moment."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client of one request: where it is heard and answered."""

    receive: Receive
    send: Send
    is_anthropic: bool = False
    """Whether it reads errors in the form of Anthropic."""
    headers: Headers = ()
    """What each answer to it carries: which page may read it."""
    principal: Principal = LOOPBACK
    """Who it is."""
    spent: frozenset[bytes] = frozenset()
    """Names of headers that held a key of ours."""
    upload: Upload | None = None
    """The body of the request, where it is passed on while it comes."""
    upward: Headers = ()
    """What upstreams are told of it besides."""


class Relay:
    """Passes requests on."""

    def __init__(
        self,
        upstream: Upstream,
        duties: Duties,
        *,
        ears: Ears | None,
        memory: Memory | None = None,
        hidden: frozenset[bytes],
    ) -> None:
        """Relay through this upstream; `hidden` are names of headers that do not go up."""
        self._memory = memory
        self.upstream = upstream
        self._duties = duties
        self._ears = ears
        self._hidden = hidden

    async def relay(self, incoming: Incoming, target: Target, protocol: str | None, caller: Caller) -> None:
        """Pass a request on, and its answer back."""
        memory, way = self._memory, self.upward(incoming, target, protocol, caller)
        remembers = memory is not None and memory.remembers(incoming, protocol, caller.principal)
        try:
            if (counts := COUNTS.get(incoming.path)) is not None and is_foreign(target, counts):
                status, headers, body = await estimated(incoming, counts)
                await answer(caller.send, status, (*headers, *caller.headers), body)
                return
            if not remembers:
                await way.ready()
        except EverlogError as error:
            await _refuse(error, caller)
            return
        hearing = Hearing(self._ears, incoming, protocol, caller.principal, target, self._duties)
        ask: Callable[[], Awaitable[Coming]] = way.send
        if remembers and memory is not None and protocol is not None and hearing.ear is not None:
            ask = partial(memory.ask, hearing.ear, incoming, protocol, caller.principal, target, way)
        try:
            async with Leaving(caller.receive):
                await self._exchange(ask, target, hearing, caller)
        except Left:
            self._duties.counts["client_left"] += 1
            log.info("a client left", extra={"upstream": target.name, "request_id": hearing.request_id})
            hearing.leave("client")
        except asyncio.CancelledError:
            hearing.leave("client")
            raise

    def upward(self, incoming: Incoming, target: Target, protocol: str | None, caller: Caller) -> Upward:
        """Return a request on its way to an upstream: its body is the very object that came."""
        memory = self._memory
        restore = None
        if memory is not None and protocol is not None:
            restore = partial(memory.restore, incoming, protocol, caller.principal)
        return Upward(
            self.upstream,
            incoming,
            target,
            protocol,
            hidden=self._hidden | caller.spent,
            told=caller.upward,
            pieces=caller.upload,
            restore=restore,
        )

    async def _exchange(
        self, ask: Callable[[], Awaitable[Coming]], target: Target, hearing: Hearing, caller: Caller
    ) -> None:
        try:
            coming = await ask()
        except ProviderTrouble as error:
            request = hearing.request_id
            self._failed(code_of(error), target, error, request)
            hearing.leave("upstream")
            status, headers, body = of_upstream(error, target.name, is_anthropic=caller.is_anthropic, request=request)
            more = () if request is None else ((REQUEST_ID, request.encode()),)
            await answer(caller.send, status, (*headers, *more, *caller.headers), body)
            return
        except EverlogError as error:
            hearing.leave("upstream")
            await _refuse(error, caller)
            return
        heard = tuple((name.lower(), value) for name, value in coming.headers)
        is_stream = is_event_stream(heard)
        has_body = coming.status not in BODILESS
        down = coming_down(heard, is_stream=is_stream, is_crossing=bool(caller.headers), has_body=has_body)
        head = _Head(caller.send, coming.status, (*down, *caller.headers), hearing)
        try:
            hearing.head(coming.status, heard)
            is_begun = is_stream or not hearing.is_heard
            if is_begun:
                await head.begin()
            await _pass(coming, hearing, caller.send if is_begun else head.send)
        except ProviderTrouble as error:
            self._failed("upstream_broke_off", target, error, hearing.request_id)
            await head.begin()
            if held := hearing.release():
                await go_on(caller.send, held)
            hearing.leave("upstream")  # the server closes a connection on which an answer has no end
        finally:
            coming.close()

    def _failed(self, event: str, target: Target, error: ProviderTrouble, request: str | None) -> None:
        """Count and log that an upstream gave no whole answer."""
        self._duties.counts[event] += 1
        reason = reason_of(error) or type(error).__name__
        facts = {"event": event, "upstream": target.name, "reason": reason, "request_id": request}
        log.warning("no whole answer", extra=facts)


async def _refuse(error: EverlogError, caller: Caller) -> None:
    """Answer that a request cannot be carried, or that what it names cannot be looked up."""
    refused = (
        (400, str(error), "not_translatable") if isinstance(error, Mistake) else (503, AWAY, "conversation_unavailable")
    )
    if not isinstance(error, Mistake):
        log.warning("a conversation could not be looked up", extra={"error": type(error).__name__})
    status, headers, body = fault(*refused, is_anthropic=caller.is_anthropic)
    await answer(caller.send, status, (*headers, *caller.headers), body)


class _Head:
    """The head of an answer. It goes out before its first piece: of one that is held, when it is known whether it is kept."""

    __slots__ = ("_headers", "_hearing", "_is_out", "_send", "_status")

    def __init__(self, send: Send, status: int, headers: Headers, hearing: Hearing) -> None:
        self._send = send
        self._status = status
        self._headers = headers
        self._hearing = hearing
        self._is_out = False

    async def begin(self) -> None:
        if not self._is_out:
            self._is_out = True
            await begin(self._send, self._status, (*self._headers, *self._hearing.said()))

    async def send(self, message: Message) -> None:
        """Send a piece."""
        await self.begin()
        await self._send(message)


async def _pass(coming: Coming, hearing: Hearing, send: Send) -> None:
    """Pass a body on as it comes; its end waits until the ear has kept it, as long as it may."""
    while data := await coming.read():
        if free := hearing.piece(data):
            await go_on(send, free)
        if hearing.is_holding:
            await _hold(coming, hearing, send)
            return
    await hearing.committed(hearing.hold_s)
    await end(send)


async def _hold(coming: Coming, hearing: Hearing, send: Send) -> None:
    """Go on reading while the end of an answer is held; its last byte waits for the commit, the others so long at most."""
    is_over = False
    while not (hearing.whole or is_over):
        try:
            async with asyncio.timeout_at(hearing.deadline):
                data = await coming.read()
        except TimeoutError:
            await go_on(send, hearing.overdue())
            continue
        is_over = not data
        hearing.piece(data)
    await _commit(hearing, send)
    held = hearing.release()
    if not is_over:
        await go_on(send, held)
        held = b""
        while data := await coming.read():
            hearing.piece(data)
            await go_on(send, data)
    await end(send, held)


async def _commit(hearing: Hearing, send: Send) -> None:
    """Have an exchange kept, and wait for it as long as its last byte may wait."""
    now = asyncio.get_running_loop().time
    last = now() + hearing.hold_s
    if hearing.deadline is not None and hearing.deadline < last:
        if await hearing.committed(hearing.deadline - now()):
            return
        await go_on(send, hearing.overdue(is_over=True))
    if not await hearing.committed(last - now()):
        hearing.late()
