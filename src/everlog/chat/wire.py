"""HTTP: the only place of the chat that speaks it. It sends bytes, and hands back bytes.

A blocking connection can be closed from another thread only by whoever knows its socket. So each call has a `Lane` to
itself, which is one connection; lanes are kept and used again, the last one first, apart for each base URL. On an event
loop all calls share one pool for each base URL, since there a call is stopped by cancelling it. Nothing of a client is
between: no cookies, no redirects, no credentials from elsewhere.
"""

import asyncio
import atexit
import contextlib
import os
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from functools import cache, lru_cache
from typing import Any, NoReturn

import httpx2

from everlog.chat.bodies import whole, whole_async
from everlog.chat.cancel import Cancel
from everlog.chat.deadlines import deadlines, timed, timed_async
from everlog.chat.effects import Request, Response
from everlog.chat.lines import Line
from everlog.chat.loops import Waits
from everlog.chat.places import place_of, proxy_for, reason_of
from everlog.errors import ConnectionFailed, NeverSent, ProviderTimeout

IDLE_LANES, KEEP_S = 20, 60
"""How many connections to one base URL are kept open unused, and for how long."""

MOST_IDLE = 64
"""How many are, to all base URLs, by blocking calls; then the one that was unused for longest is closed."""

LAST_WAIT_S = 1
"""How long the end of a stream is waited for when the answer is whole."""

LATE_S = 1
"""How much longer than the longest silence the head of an answer, or a piece of it, may take to be whole."""

NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)


Transports = dict[str, httpx2.AsyncHTTPTransport]


class Lane(Line):
    """One connection, used by one call at a time."""

    def __init__(self, place: str, trusted: ssl.SSLContext) -> None:
        super().__init__()
        self.place = place
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_S)
        self.transport = httpx2.HTTPTransport(verify=trusted, limits=limits, proxy=proxy_for(place))


class Flow:
    """A response under way, on its lane."""

    def __init__(self, lane: Lane, response: httpx2.Response, cancel: Cancel) -> None:
        self.lane = lane
        self.response = response
        self.cancel = cancel
        self.pieces = _pieces(response, lane)


class Wire:
    """Blocking HTTP."""

    def __init__(self, trusted: ssl.SSLContext | None = None) -> None:
        """Begin without a connection; `trusted` says whom to trust, by default whom the system trusts."""
        self._trusted = trusted
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: dict[Lane, None] = {}

    def send(self, request: Request, cancel: Cancel, *, stream: bool = False) -> Response:
        """Send a request and return what comes back; see `effects.Send`."""
        lane = self._lane(request.url)
        lane.begin(request.timeouts.read_s + LATE_S)
        flows = False
        try:
            cancel.watch(lane.cut)
            response = lane.transport.handle_request(_built(request, {"trace": lane.watch}))
            flows = stream and response.is_success
            body = b"" if flows else whole(_pieces(response, lane), response.close)
        except BaseException as error:  # noqa: BLE001 -- raised again, in our words
            cancel.unwatch(lane.cut)
            lane.unlimit()
            lane.transport.close()
            _raise(error, cancel, request.url, is_late=lane.is_late)
        headers = _headers(response)
        if flows:
            return Response(status=response.status_code, headers=headers, connection=Flow(lane, response, cancel))
        cancel.unwatch(lane.cut)
        self._keep(lane)
        return Response(status=response.status_code, headers=headers, body=body)

    def receive(self, flow: Flow) -> bytes:
        """Return the next bytes; none at the end."""
        try:
            return next(flow.pieces, b"")
        except BaseException as error:  # noqa: BLE001 -- raised again, in our words
            _raise(error, flow.cancel, flow.lane.place, is_late=flow.lane.is_late)

    def close(self, flow: Flow, *, is_over: bool = False) -> None:
        """Be done with a response; see `effects.Close`."""
        if is_over:
            deadlines.set(flow.lane.cut, LAST_WAIT_S)
            with contextlib.suppress(httpx2.HTTPError):
                for _ in flow.pieces:
                    pass
            deadlines.clear(flow.lane.cut)
        flow.cancel.unwatch(flow.lane.cut)
        flow.response.close()
        self._keep(flow.lane)

    def close_idle(self) -> None:
        """Close all connections that nobody uses now."""
        with self._lock:
            lanes = list(self._idle)
            self._idle.clear()
        for lane in lanes:
            lane.transport.close()

    def _lane(self, url: str) -> Lane:
        place = place_of(url)
        with self._lock:
            if self._process != os.getpid():  # a fork must not write into the connections of its parent
                self._process = os.getpid()
                self._idle = {}
            kept = next((lane for lane in reversed(self._idle) if lane.place == place), None)
            if kept is None:
                return Lane(place, self._trusted or _trusted())
            del self._idle[kept]
            return kept

    def _keep(self, lane: Lane) -> None:
        with self._lock:
            self._idle[lane] = None
            here = [one for one in self._idle if one.place == lane.place]
            crowd = here if len(here) > IDLE_LANES else list(self._idle) if len(self._idle) > MOST_IDLE else []
            for one in crowd[:1]:
                del self._idle[one]
        for one in crowd[:1]:
            one.transport.close()


class AsyncFlow:
    """A response under way, on its loop."""

    def __init__(
        self, response: httpx2.Response, pieces: AsyncIterator[bytes], place: str, cancel: Cancel, waits: Waits
    ) -> None:
        self.response = response
        self.pieces = pieces
        self.place = place
        self.cancel = cancel
        self.waits = waits


class AsyncWire:
    """HTTP on event loops: one client for each, which is closed as the loop shuts down its generators."""

    def __init__(self, trusted: ssl.SSLContext | None = None) -> None:
        """Begin without a connection; `trusted` says whom to trust, by default whom the system trusts."""
        self._trusted = trusted
        self._loops: dict[asyncio.AbstractEventLoop, tuple[Transports, AsyncGenerator[None]]] = {}

    async def send(self, request: Request, cancel: Cancel, *, stream: bool = False) -> Response:
        """Send a request and return what comes back; see `effects.Send`."""
        transport = await self._transport(place_of(request.url))
        waits, flows = Waits(cancel, request.timeouts.read_s + LATE_S), False
        try:
            response = await waits.on(transport.handle_async_request(_built(request, {"trace": waits.watch})))
            flows = stream and response.is_success
            pieces = _async_pieces(response, waits)
            body = b"" if flows else await waits.on(whole_async(pieces, response.aclose))
        except BaseException as error:  # noqa: BLE001 -- raised again, in our words
            _raise(error, cancel, request.url)
        finally:
            if not flows:
                waits.end()
        headers = _headers(response)
        if flows:
            flow = AsyncFlow(response, pieces, place_of(request.url), cancel, waits)
            return Response(status=response.status_code, headers=headers, connection=flow)
        return Response(status=response.status_code, headers=headers, body=body)

    async def receive(self, flow: AsyncFlow) -> bytes:
        """Return the next bytes; none at the end."""
        try:
            return await flow.waits.on(anext(flow.pieces, b""))
        except BaseException as error:  # noqa: BLE001 -- raised again, in our words
            _raise(error, flow.cancel, flow.place)

    async def close(self, flow: AsyncFlow, *, is_over: bool = False) -> None:
        """Be done with a response; see `effects.Close`."""
        flow.waits.end()
        if is_over:
            with contextlib.suppress(httpx2.HTTPError, TimeoutError):
                async with asyncio.timeout(LAST_WAIT_S):
                    async for _ in flow.pieces:
                        pass
        await flow.response.aclose()

    async def _transport(self, place: str) -> httpx2.AsyncHTTPTransport:
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops[loop] = ({}, closing := self._closing(loop))
            await anext(closing)
        transports = self._loops[loop][0]
        if place not in transports:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_LANES, keepalive_expiry=KEEP_S)
            ssl_context = self._trusted or _trusted()
            transports[place] = httpx2.AsyncHTTPTransport(verify=ssl_context, limits=limits, proxy=proxy_for(place))
        return transports[place]

    async def _closing(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        """Close all connections of a loop when it shuts down its generators, which `asyncio.run` does at its end."""
        try:
            yield
        finally:
            transports, _ = self._loops.pop(loop)
            for transport in transports.values():
                await transport.aclose()


@cache
def shared_wire() -> Wire:
    """Return the wire of this process; its idle connections are closed as the process ends."""
    wire = Wire()
    atexit.register(wire.close_idle)
    return wire


@cache
def shared_async_wire() -> AsyncWire:
    """Return the wire of the event loops of this process."""
    return AsyncWire()


@cache
def _trusted() -> ssl.SSLContext:
    """Return whom to trust; it is read once, since reading it takes longer than a call."""
    return httpx2.create_ssl_context()


_url = lru_cache(httpx2.URL)
_sent = lru_cache(maxsize=32)(httpx2.Headers)


def _built(request: Request, extensions: dict[str, Any]) -> httpx2.Request:
    waits = request.timeouts
    limits = {"connect": waits.connect_s, "read": waits.read_s, "write": waits.write_s, "pool": waits.connect_s}
    extensions["timeout"] = limits
    return httpx2.Request(
        request.method,
        _url(request.url),
        headers=_sent(tuple(request.headers.items())),
        content=request.body,
        extensions=extensions,
    )


def _headers(response: httpx2.Response) -> dict[str, str]:
    return {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers.raw}


def _pieces(response: httpx2.Response, line: Line) -> Iterator[bytes]:
    """Return the body as it comes; what is not compressed need not go through what decompresses.

    Compressed, bytes may come without end and hold nothing, so each piece has its time.
    """
    if "content-encoding" in response.headers or not isinstance(response.stream, httpx2.SyncByteStream):
        return timed(response.iter_bytes(), line, line.patience_s)
    return iter(response.stream)


def _async_pieces(response: httpx2.Response, waits: Waits) -> AsyncIterator[bytes]:
    if "content-encoding" in response.headers or not isinstance(response.stream, httpx2.AsyncByteStream):
        return timed_async(response.aiter_bytes(), waits, waits.patience_s)
    return aiter(response.stream)


def _raise(error: BaseException, cancel: Cancel, url: str, *, is_late: bool = False) -> NoReturn:
    """Raise what a failure of HTTP is in our words; without the words of the error, which may name more of the URL."""
    if isinstance(error, Exception):
        cancel.check_hard()
    if not isinstance(error, httpx2.HTTPError | TimeoutError):
        raise error
    what, place = reason_of(error) or type(error).__name__, place_of(url)
    if isinstance(error, NEVER_SENT) and not is_late:
        raise NeverSent(f"no connection to {place} could be made ({what})") from None
    if is_late or isinstance(error, httpx2.TimeoutException | TimeoutError):
        raise ProviderTimeout(f"nothing came from {place} in time ({type(error).__name__})") from None
    raise ConnectionFailed(f"the connection to {place} broke ({what})") from None
