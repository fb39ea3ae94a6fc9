"""An upstream of another protocol, made one that speaks the client's: what goes up and what comes down is translated."""

import asyncio
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

from everlog.errors import Mistake, UnknownModel
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.answering import Stamp
from everlog.protocols.shapes import Record, encoded, record
from everlog.registry import Model, builtin
from everlog.surfaces.proxy.incoming import Headers, Incoming
from everlog.surfaces.proxy.relay.encodings import Decoder, readable
from everlog.surfaces.proxy.relay.headers import CREDENTIALS, credential, going_up, is_event_stream
from everlog.surfaces.proxy.relay.reading import Whole, decoded, decoder_of, heard, of_another, whole
from everlog.surfaces.proxy.relay.upstream import Coming, Outgoing, Upstream
from everlog.surfaces.proxy.relay.upstreams import address
from everlog.surfaces.proxy.settings.options import Target
from everlog.surfaces.proxy.translation.translating import (
    CONVERSATION,
    Stream,
    Translated,
    Translation,
    estimated_tokens,
    held_in,
)

COUNTS = {"/v1/messages/count_tokens": "anthropic", "/v1/responses/input_tokens": "responses"}
"""Paths on which the tokens of a request are counted, and their protocols."""

ESTIMATED = (b"x-everlog-estimated", b"input_tokens")
"""The header that says that nobody counted."""

ENCODINGS = frozenset({b"accept-encoding", b"content-encoding"})

PROVIDERS_OWN = (b"anthropic-", b"openai-", b"x-stainless-")
"""What headers begin with that mean something to one provider only."""

VERSION = (b"anthropic-version", b"2023-06-01")
STREAM_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")
JSON_TYPE = (b"content-type", b"application/json")
DROPPED = b"x-everlog-dropped"
"""The header that names what the upstream's protocol has no word for."""

COMPATIBLE = {"max_output_tokens": "max_tokens", "end_user": "user"}
"""How servers spell fields whose models nobody knows."""


Restore: TypeAlias = Callable[[Record], Sequence[Message] | None]
"""Returns the whole conversation of a body that names a part of it; None where that is not known."""


def is_foreign(target: Target, protocol: str | None) -> bool:
    """Return whether an upstream does not speak a client's protocol."""
    return protocol is not None and protocol not in target.protocols


async def translated(
    incoming: Incoming,
    target: Target,
    protocol: str,
    hidden: frozenset[bytes],
    upstream: Upstream,
    restore: Restore | None = None,
) -> tuple["Translating", Outgoing]:
    """Return the upstream as one of the client's protocol, and what it is to be sent.

    Raises:
        Mistake: the request is no JSON object, or one that the upstream's protocol cannot carry.
        EverlogError: what the request names cannot be looked up now.
    """
    way, sent, body = await asyncio.to_thread(_turned, incoming, target, protocol, restore)
    outgoing = Outgoing(
        method="POST",
        url=address(target, f"/v1{way.upstream.path}", b""),
        headers=_headers(incoming.headers, target, way.upstream.name, hidden),
        body=body,
        connect_s=target.connect_s,
        silence_s=target.silence_s,
    )
    return Translating(upstream, sent), outgoing


async def estimated(incoming: Incoming, protocol: str) -> tuple[int, Headers, bytes]:
    """Return the answer to who wants the tokens of a request counted, for an upstream that cannot.

    Raises:
        Mistake: the request is no JSON object.
    """
    tokens = await asyncio.to_thread(lambda: estimated_tokens(FORMATS[protocol], _object(incoming)))
    told = {"object": "response.input_tokens"} if protocol == "responses" else {}
    return 200, (JSON_TYPE, ESTIMATED), encoded({**told, "input_tokens": tokens})


def _object(incoming: Incoming) -> Record:
    try:
        asked = record(json.loads(readable(incoming) or b""))
    except (ValueError, RecursionError):
        asked = {}
    if not asked:
        raise Mistake("the body is no JSON object")
    return asked


def _turned(
    incoming: Incoming, target: Target, protocol: str, restore: Restore | None
) -> tuple[Translation, Translated, bytes]:
    asked = _object(incoming)
    is_ours = restore is not None and held_in(asked) not in {"", CONVERSATION}
    whole = restore(asked) if restore is not None and is_ours else None
    model, names = _known(asked.get("model"))
    way = Translation(client=FORMATS[protocol], upstream=FORMATS[target.protocols[0]], model=model, names=names)
    sent = way.request(asked, whole)
    return way, sent, encoded(sent.body)


def _known(name: object) -> tuple[Model, dict[str, str]]:
    """Return what is known of a model, and how its provider spells fields."""
    words = name if isinstance(name, str) else ""
    try:
        model = builtin().find(words)
    except UnknownModel:
        return Model(id=words, provider=""), COMPATIBLE
    return replace(model, id=words), dict(builtin().provider(model.provider).names)


def _headers(headers: Headers, target: Target, protocol: str, hidden: frozenset[bytes]) -> Headers:
    """Return the headers of a request; a credential is presented as the upstream's protocol has it."""
    kept = [
        one
        for one in headers
        if one[0] not in CREDENTIALS and one[0] not in ENCODINGS and not one[0].startswith(PROVIDERS_OWN)
    ]
    if token := credential(headers):
        kept.append((b"x-api-key", token) if protocol == "anthropic" else (b"authorization", b"Bearer " + token))
    if protocol == "anthropic":
        kept.append(VERSION)
    return (*going_up(tuple(kept), target, protocol, hidden), (b"accept-encoding", b"identity"))


class Translating:
    """An upstream, for one request."""

    def __init__(self, upstream: Upstream, sent: Translated) -> None:
        self._upstream = upstream
        self._sent = sent

    async def send(self, outgoing: Outgoing) -> Coming:
        """Send what was translated, and return the answer as the client reads it."""
        coming = await self._upstream.send(outgoing)
        try:
            stamp = Stamp(id=uuid.uuid4().hex, at=datetime.now(UTC))
            headers = heard(coming)
            if coming.status < 400 and is_event_stream(headers):
                head = self._head(headers, STREAM_TYPE)
                return _Streamed(coming, self._sent.stream(stamp), decoder_of(headers), head)
            data = await whole(coming)
            status, body = await asyncio.to_thread(self._sent.whole, coming.status, data, stamp)
        except BaseException:
            coming.close()
            raise
        is_stream = self._sent.asked.settings.stream and status < 400
        coming.close()
        return Whole(status, self._head(headers, STREAM_TYPE if is_stream else JSON_TYPE), body)

    async def close(self) -> None:
        """Nothing is open here; the upstream is another's."""

    def _head(self, headers: Headers, kind: tuple[bytes, bytes]) -> Headers:
        kept = [one for one in of_another(headers) if one[0] != b"content-type"]
        if self._sent.dropped:
            kept.append((DROPPED, ", ".join(self._sent.dropped[:20]).encode()))
        return (*kept, kind)


class _Streamed:
    """An answer in pieces."""

    def __init__(self, coming: Coming, stream: Stream, decoder: Decoder, headers: Headers) -> None:
        self.status = coming.status
        self.headers = headers
        self._coming = coming
        self._stream = stream
        self._decoder = decoder

    async def read(self) -> bytes:
        while data := await self._coming.read():
            if told := self._stream.feed(decoded(self._decoder, data)):
                return told
        return self._stream.end()

    def close(self) -> None:
        self._coming.close()
