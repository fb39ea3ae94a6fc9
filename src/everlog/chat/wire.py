"""HTTP: the only place of the chat that speaks it. It sends bytes, and hands back bytes.

A blocking connection can be closed from another thread only by whoever knows its socket. So each call has a `Lane` to
itself, a client of one connection; lanes are kept and used again, the last one first, apart for each base URL. On an
event loop one client serves all calls of that loop, since there a call is stopped by cancelling it.
"""

import asyncio
import atexit
import contextlib
import os
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from functools import cache
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx2

from everlog.chat.cancel import Cancel
from everlog.chat.effects import Request, Response, Timeouts
from everlog.chat.loops import interruptible
from everlog.errors import ConnectionFailed, NeverSent, ProviderTimeout

IDLE_LANES = 20
"""How many connections to one base URL are kept open unused."""

KEEP_S = 60
"""How long a connection is kept open unused."""

LAST_WAIT_S = 1
"""How long the end of a stream is waited for when the answer is whole."""

HEADERS = {"user-agent": "everlog", "accept-encoding": "gzip, deflate"}
NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)


class Lane:
    """A client with one connection, used by one call at a time."""

    def __init__(self, place: str) -> None:
        self.place = place
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_S)
        self.client = httpx2.Client(headers=HEADERS, limits=limits, verify=_trusted())
        self._stream: Any = None

    def watch(self, event: str, facts: dict[str, Any]) -> None:
        """Note the connection, as the client tells of it."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = facts["return_value"]

    def cut(self) -> None:
        """Shut the connection down under whoever waits in it."""
        found = self._stream.get_extra_info("socket") if self._stream is not None else None
        if found is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)


class Flow:
    """A response under way, on its lane."""

    def __init__(self, lane: Lane, response: httpx2.Response) -> None:
        self.lane = lane
        self.response = response
        self.pieces: Iterator[bytes] = response.iter_bytes()


class Wire:
    """Blocking HTTP."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: dict[str, list[Lane]] = defaultdict(list)

    def send(self, request: Request, cancel: Cancel, *, stream: bool = False) -> Response:
        """Send a request and return what comes back; see `effects.Send`."""
        lane = self._lane(request.url)
        try:
            with cancel.stopping(lane.cut):
                built = lane.client.build_request(
                    request.method,
                    request.url,
                    content=request.body,
                    headers=request.headers,
                    timeout=_timeout(request.timeouts),
                    extensions={"trace": lane.watch},
                )
                response = lane.client.send(built, stream=stream)
                if stream and not response.is_success:
                    response.read()
        except httpx2.HTTPError as error:
            lane.client.close()
            _failed(error, request.url)
        except BaseException:
            lane.client.close()
            raise
        headers = _headers(response)
        if stream and response.is_success:
            return Response(status=response.status_code, headers=headers, connection=Flow(lane, response))
        self._keep(lane)
        return Response(status=response.status_code, headers=headers, body=response.content)

    def receive(self, flow: Flow, cancel: Cancel) -> bytes:
        """Return the next bytes; none at the end."""
        try:
            with cancel.stopping(flow.lane.cut):
                return next(flow.pieces, b"")
        except httpx2.HTTPError as error:
            _failed(error, flow.lane.place)

    def close(self, flow: Flow, *, is_over: bool = False) -> None:
        """Be done with a response; see `effects.Close`."""
        if is_over and not flow.response.is_closed:
            timer = threading.Timer(LAST_WAIT_S, flow.lane.cut)
            timer.daemon = True
            timer.start()
            with contextlib.suppress(httpx2.HTTPError):
                for _ in flow.pieces:
                    pass
            timer.cancel()
        flow.response.close()
        self._keep(flow.lane)

    def close_idle(self) -> None:
        """Close all connections that nobody uses now."""
        with self._lock:
            lanes = [lane for lanes in self._idle.values() for lane in lanes]
            self._idle.clear()
        for lane in lanes:
            lane.client.close()

    def _lane(self, url: str) -> Lane:
        place = _place(url)
        with self._lock:
            if self._process != os.getpid():  # a fork must not write into the connections of its parent
                self._process = os.getpid()
                self._idle = defaultdict(list)
            return self._idle[place].pop() if self._idle[place] else Lane(place)

    def _keep(self, lane: Lane) -> None:
        lane.client.cookies.clear()
        with self._lock:
            if len(self._idle[lane.place]) < IDLE_LANES:
                return self._idle[lane.place].append(lane)
        return lane.client.close()


class AsyncFlow:
    """A response under way, on its loop."""

    def __init__(self, response: httpx2.Response, place: str) -> None:
        self.response = response
        self.place = place
        self.pieces: AsyncIterator[bytes] = response.aiter_bytes()


class AsyncWire:
    """HTTP on event loops: one client for each, which is closed as the loop shuts down its generators."""

    def __init__(self) -> None:
        self._clients: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncGenerator[None]]] = {}

    async def send(self, request: Request, cancel: Cancel, *, stream: bool = False) -> Response:
        """Send a request and return what comes back; see `effects.Send`."""
        client = await self._client()
        built = client.build_request(
            request.method,
            request.url,
            content=request.body,
            headers=request.headers,
            timeout=_timeout(request.timeouts),
        )
        try:
            response = await interruptible(client.send(built, stream=stream), cancel)
            if stream and not response.is_success:
                await response.aread()
        except httpx2.HTTPError as error:
            _failed(error, request.url)
        headers = _headers(response)
        client.cookies.clear()
        if stream and response.is_success:
            flow = AsyncFlow(response, _place(request.url))
            return Response(status=response.status_code, headers=headers, connection=flow)
        return Response(status=response.status_code, headers=headers, body=response.content)

    async def receive(self, flow: AsyncFlow, cancel: Cancel) -> bytes:
        """Return the next bytes; none at the end."""
        try:
            return await interruptible(anext(flow.pieces, b""), cancel)
        except httpx2.HTTPError as error:
            _failed(error, flow.place)

    async def close(self, flow: AsyncFlow, *, is_over: bool = False) -> None:
        """Be done with a response; see `effects.Close`."""
        if is_over and not flow.response.is_closed:
            with contextlib.suppress(httpx2.HTTPError, TimeoutError):
                async with asyncio.timeout(LAST_WAIT_S):
                    async for _ in flow.pieces:
                        pass
        await flow.response.aclose()

    async def _client(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_LANES, keepalive_expiry=KEEP_S)
            client = httpx2.AsyncClient(headers=HEADERS, limits=limits, verify=_trusted())
            closing = self._closing(loop, client)
            self._clients[loop] = (client, closing)
            await anext(closing)
        return self._clients[loop][0]

    async def _closing(self, loop: asyncio.AbstractEventLoop, client: httpx2.AsyncClient) -> AsyncGenerator[None]:
        """Close a client when the loop shuts down its generators, which `asyncio.run` does at its end."""
        try:
            yield
        finally:
            self._clients.pop(loop, None)
            await client.aclose()


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


def _timeout(given: Timeouts) -> httpx2.Timeout:
    return httpx2.Timeout(given.read_s, connect=given.connect_s, write=given.write_s)


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _headers(response: httpx2.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _failed(error: httpx2.HTTPError, url: str) -> NoReturn:
    """Raise what a failure of HTTP is in our words; without the words of the error, which may name more of the URL."""
    what, place = type(error).__name__, _place(url)
    if isinstance(error, NEVER_SENT):
        raise NeverSent(f"no connection to {place} could be made ({what})") from error
    if isinstance(error, httpx2.TimeoutException):
        raise ProviderTimeout(f"nothing came from {place} in time ({what})") from error
    raise ConnectionFailed(f"the connection to {place} broke ({what})") from error
