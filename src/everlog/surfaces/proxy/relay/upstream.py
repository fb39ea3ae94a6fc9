"""HTTP to providers: the only place of the proxy that speaks it. Bytes go out, and bytes come back as they come.

Nothing of a client is between: no cookies, no redirects, no decoding, no headers of its own, no credentials from
elsewhere. Connections are kept and used again. A server may close one that is idle in the moment in which a request goes
out on it; then nothing was answered, and the request is sent once more. Nothing else is ever sent again: clients do that
themselves.
"""

import asyncio
import select
import ssl
import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from everlog.chat.places import place_of, proxy_for, reason_of
from everlog.errors import ConnectionFailed, NeverSent, ProviderTimeout
from everlog.surfaces.proxy.incoming import Headers

KEEP_S = 60
"""How long an unused connection is kept."""

IDLE_S = 1
"""How long a connection was idle, at least, that its server may have closed for that."""

STALE_S = 2
"""Within which time the end of such a connection means that it had ended already."""

PIECE = 256 * 1024
"""How much of a large body is written at once, in bytes, so that other requests do not wait."""

STALE_TRIES = 2
"""How often a request is sent again for that."""

STALE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)

NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)

LARGEST_LINE = 64 * 1024
"""The longest line of a head that is taken, in bytes."""

STATUSES = range(200, 600)
"""The statuses that end a request, all that a server can pass on: RFC 9110, 15. Nobody asked to change the protocol."""

OURS = b"x-everlog-"
"""What headers begin with by which the proxy speaks to clients; an upstream cannot say them."""

_line: ContextVar["_Line"] = ContextVar("line")
"""The connection of a task's request."""


class Pieces(Protocol):
    """A body that goes out while it comes, once."""

    size: int | None
    """Bytes of the whole; None where nobody knows, and it goes out in chunks."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request, as it goes to a provider."""

    method: str
    url: str
    headers: Headers
    body: bytes | Pieces
    connect_s: float
    silence_s: float


class Coming(Protocol):
    """An answer under way."""

    @property
    def status(self) -> int:
        """The status."""
        ...

    @property
    def headers(self) -> Headers:
        """Names in any case, and values."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes of the body as they came, none at its end; it may be cancelled without a loss.

        Raises:
            ProviderTimeout: nothing more came in time.
            ConnectionFailed: the body broke off.
        """
        ...

    def close(self) -> None:
        """Be done with it; what has not come yet is not waited for: the connection is closed at once."""
        ...


class Upstream(Protocol):
    """Sends requests to providers."""

    async def send(self, outgoing: Outgoing) -> Coming:
        """Send a request, and return its answer when its head has come. Cancelled, it closes the connection.

        Raises:
            NeverSent: no connection could be made.
            ProviderTimeout: no answer came in time.
            ConnectionFailed: the connection broke before an answer came.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HTTPUpstream:
    """Over HTTP/1.1. It belongs to the event loop on which it was made."""

    def __init__(self, trusted: ssl.SSLContext | None = None) -> None:
        """Begin without a connection; `trusted` says whom to trust, by default whom the system trusts."""
        self._session = _session(_Pool(limit=0, keepalive_timeout=KEEP_S, ssl=trusted or True))
        self._once = _session(_Pool(limit=0, force_close=True, ssl=trusted or True))
        """For what cannot be sent again: each request has a connection of its own."""
        self._proxies: dict[str, str | None] = {}

    async def send(self, outgoing: Outgoing) -> Coming:
        """Send a request; see `Upstream`."""
        tries = STALE_TRIES if isinstance(outgoing.body, bytes) else 0
        for is_last in (*[False] * tries, True):
            began = time.monotonic()
            _line.set(_Line())
            try:
                return await self._sent(outgoing)
            except (aiohttp.ClientError, TimeoutError) as error:
                is_stale = isinstance(error, STALE) and time.monotonic() - began < STALE_S
                if is_last or not (is_stale and _line.get().idle_s > IDLE_S):
                    _raise(error)
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await self._once.close()

    async def _sent(self, outgoing: Outgoing) -> Coming:
        headers = CIMultiDict((name.decode("latin-1"), _text(value)) for name, value in outgoing.headers)
        body = outgoing.body
        session = self._session if isinstance(body, bytes) else self._once
        response = await session.request(
            outgoing.method,
            URL(outgoing.url, encoded=True),
            headers=headers,
            data=_payload(body, outgoing.silence_s),
            allow_redirects=False,
            proxy=self._proxy(outgoing.url),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=outgoing.connect_s, sock_read=outgoing.silence_s),
        )
        if response.status not in STATUSES:
            response.close()
            raise ConnectionFailed(f"it answered with status {response.status}, which is none")
        return _Coming(response, _line.get())

    def _proxy(self, url: str) -> str | None:
        place = place_of(url)
        if place not in self._proxies:
            self._proxies[place] = proxy_for(place)
        return self._proxies[place]


def _session(pool: "_Pool") -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=pool,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
        max_line_size=LARGEST_LINE,
        max_field_size=LARGEST_LINE,
    )


def _payload(body: bytes | Pieces, silence_s: float) -> aiohttp.payload.Payload | None:
    if isinstance(body, bytes):
        return _Body(body) if body else None
    return _Passing(body, silence_s)


class _Coming:
    def __init__(self, response: aiohttp.ClientResponse, line: "_Line") -> None:
        self._response = response
        self._line = line
        self.status = response.status
        self.headers: Headers = tuple(one for one in response.raw_headers if not one[0].lower().startswith(OURS))

    async def read(self) -> bytes:
        content = self._response.content
        try:
            data = await content.readany()
            if not data:
                self._line.used_at = time.monotonic()
            return data
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # What came before the break is still there, but no longer given out.
            if rest := content._read_nowait(-1):  # noqa: SLF001 -- it would be lost
                return rest
            _raise(error)

    def close(self) -> None:
        self._response.close()


class _Body(aiohttp.payload.Payload):
    """The bytes of a request, in pieces where there are many; as they are, so that a copy is never made of them."""

    _autoclose = True

    def __init__(self, value: bytes) -> None:
        super().__init__(value)
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)  # type: ignore[no-any-return]

    async def write(self, writer: AbstractStreamWriter) -> None:
        if len(self._value) <= PIECE:
            await writer.write(self._value)
            return
        whole = memoryview(self._value)
        for start in range(0, len(whole), PIECE):
            await writer.write(whole[start : start + PIECE])
            await asyncio.sleep(0)  # a server that reads as fast as we write would never let others in


class _Passing(aiohttp.payload.Payload):
    """The body of a request while it comes; one that the provider takes no more of is given up like one without an answer."""

    def __init__(self, value: Pieces, silence_s: float) -> None:
        super().__init__(value)
        self._size = value.size
        self._silence_s = silence_s

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002 -- the interface of aiohttp
        raise TypeError("what is still on its way is no text")

    async def write(self, writer: AbstractStreamWriter) -> None:
        async for piece in self._value:
            async with asyncio.timeout(self._silence_s):
                await writer.write(piece)


@dataclass(slots=True)
class _Line:
    """What is known of a connection."""

    idle_s: float = 0
    """How long nobody had used it when it was last taken."""
    used_at: float = 0


class _Pool(aiohttp.TCPConnector):
    """Connections, and when each was used. One on which something came that nobody asked for is not used again."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lines: WeakKeyDictionary[asyncio.Protocol, _Line] = WeakKeyDictionary()

    async def connect(self, *args: Any, **options: Any) -> Any:
        while self._was_used(connection := await super().connect(*args, **options)) and _is_spoilt(connection):
            connection.close()
        assert connection.protocol is not None, "it was just taken"
        now = time.monotonic()
        line = self._lines.setdefault(connection.protocol, _Line(used_at=now))
        line.idle_s, line.used_at = now - line.used_at, now
        _line.set(line)
        return connection

    def _was_used(self, connection: Connection) -> bool:
        return connection.protocol is None or connection.protocol in self._lines


def _is_spoilt(connection: Connection) -> bool:
    """Return whether what comes next on a connection would not be the answer to the next request: more came, or its end."""
    transport = connection.transport
    if connection.protocol is None or transport is None or connection.protocol.should_close:
        return True
    if transport.get_extra_info("sslcontext") is not None:
        return False  # what TLS itself has to say, such as tickets, comes at any time; an answer would be known by now
    waiting = select.poll()
    waiting.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(waiting.poll(0))


def _text(value: bytes) -> str:
    """Return a header as the text that is written as the same bytes, which are UTF-8 if they are text at all."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _raise(error: BaseException) -> NoReturn:
    """Raise what a failure of HTTP is in our words; without an address, since clients read them."""
    told = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error
    reason = reason_of(told) or type(error).__name__
    if isinstance(error, NEVER_SENT):
        raise NeverSent(f"no connection could be made ({reason})") from None
    if isinstance(error, TimeoutError):
        raise ProviderTimeout("nothing came in time") from None
    raise ConnectionFailed(f"the connection broke ({reason})") from None
