"""A client of one wire format before an upstream of another: the request that goes up, and the answer as the client's.

To the relay the answer is one like any other: what listens to it, and what holds its end, hears the client's format.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from everlog.clock import SystemClock, new_id
from everlog.errors import ProviderTrouble
from everlog.protocols import FORMATS, Format
from everlog.protocols.answering import Stamp
from everlog.protocols.shapes import encoded, loads, record
from everlog.registry import Model
from everlog.surfaces.proxy.encodings import Decoder
from everlog.surfaces.proxy.headers import going_up, is_event_stream, presented
from everlog.surfaces.proxy.incoming import Headers, Incoming, values
from everlog.surfaces.proxy.options import Target
from everlog.surfaces.proxy.translating import Stream, Translated, Translation
from everlog.surfaces.proxy.upstream import Coming, Outgoing

T = TypeVar("T")

LARGE = 64 * 1024
"""From where on a body is translated in another thread, in bytes."""

CLOCK = SystemClock()

VERSION = (b"anthropic-version", b"2023-06-01")

FOREIGN = (b"anthropic-", b"openai-", b"x-stainless-")
"""What headers begin with that only the client's own provider knows."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """One request that is translated."""

    outgoing: Outgoing
    translated: Translated
    stamp: Stamp

    @property
    def headers(self) -> Headers:
        """What the answer says of the translation: the fields that have no counterpart."""
        dropped = ", ".join(self.translated.dropped).encode()
        return ((b"x-everlog-dropped", dropped),) if dropped else ()

    async def back(self, coming: Coming) -> Coming:
        """Return an answer as the client's.

        Raises:
            ProviderTrouble: it broke off, or took too long, before it could be read.
        """
        lowered = tuple((name.lower(), value) for name, value in coming.headers)
        decoder = Decoder(next(values(lowered, b"content-encoding"), b""))
        kept = tuple(one for one in lowered if one[0] not in {b"content-type", b"content-length", b"content-encoding"})
        if is_event_stream(lowered) and coming.status < 400:
            head = (*kept, (b"content-type", b"text/event-stream; charset=utf-8"), *self.headers)
            return _Pieces(coming, decoder, self.translated.stream(self.stamp), head)
        pieces = []
        while data := await coming.read():
            pieces.append(decoder.feed(data))
        data = b"".join(pieces)
        status, body = await _beside(data, partial(self.translated.whole, coming.status, data, self.stamp))
        is_stream = self.translated.asked.settings.stream and status < 400
        kind = b"text/event-stream; charset=utf-8" if is_stream else b"application/json"
        return _Whole(coming, status, body, (*kept, (b"content-type", kind), *self.headers))


async def crossing(incoming: Incoming, target: Target, protocol: str, hidden: frozenset[bytes]) -> Crossing:
    """Return a request as an upstream of another wire format takes it.

    Raises:
        Mistake: it holds something that only an upstream of its own format can carry.
    """
    client, upstream = FORMATS[protocol], FORMATS[target.protocols[0]]
    translated = await _beside(incoming.body, partial(_translated, incoming.body, client, upstream))
    headers = tuple(one for one in incoming.headers if not one[0].startswith(FOREIGN))
    headers = tuple(one for one in headers if one[0] not in {b"accept-encoding", b"accept"})
    up = _with_credential(going_up(headers, target, upstream.name, hidden), upstream.name)
    outgoing = Outgoing(
        method="POST",
        url=f"{target.base}{upstream.path}",
        headers=(*up, (b"accept-encoding", b"identity")),
        body=encoded(translated.body),
        connect_s=target.connect_s,
        silence_s=target.silence_s,
    )
    return Crossing(outgoing, translated, Stamp(id=new_id(CLOCK), at=CLOCK.now()))


class _Pieces:
    """A stream, as the client's."""

    def __init__(self, coming: Coming, decoder: Decoder, stream: Stream, headers: Headers) -> None:
        self._coming, self._decoder, self._stream = coming, decoder, stream
        self._is_over = False
        self.status = coming.status
        self.headers = headers

    async def read(self) -> bytes:
        """Return what the next pieces are for the client; one that breaks off ends with an error that says so."""
        while not self._is_over:
            try:
                data = await self._coming.read()
            except ProviderTrouble:
                data = b""
            self._is_over = not data
            if out := self._stream.feed(self._decoder.feed(data)) if data else self._stream.end():
                return out
        return b""

    def close(self) -> None:
        self._coming.close()


class _Whole:
    """A body, as the client's."""

    def __init__(self, coming: Coming, status: int, body: bytes, headers: Headers) -> None:
        self._coming, self._body = coming, body
        self.status = status
        self.headers = headers

    async def read(self) -> bytes:
        """Return the body, once."""
        body, self._body = self._body, b""
        return body

    def close(self) -> None:
        self._coming.close()


def _translated(body: bytes, client: Format, upstream: Format) -> Translated:
    asked = record(loads(body.decode("utf-8", "replace")))
    model = Model(id=str(asked.get("model") or ""), provider="")
    return Translation(client=client, upstream=upstream, model=model).request(asked)


def _with_credential(headers: Headers, protocol: str) -> Headers:
    """Return headers with their credential in the form of the upstream."""
    kept = [one for one in headers if one[0] not in {b"authorization", b"x-api-key"}]
    found = presented(headers)
    if found is not None:
        kept.append((b"x-api-key", found) if protocol == "anthropic" else (b"authorization", b"Bearer " + found))
    return (*kept, VERSION) if protocol == "anthropic" else tuple(kept)


async def _beside(data: bytes, act: Callable[[], T]) -> T:
    """Do something with a body, in another thread if it is large."""
    return act() if len(data) < LARGE else await asyncio.to_thread(act)
