"""Which headers go up to a provider, and which come down to a client. Pure.

All do but those that belong to one connection, or to the proxy alone. None is there twice that came once.
"""

from collections.abc import Iterable

from everlog.access import PREFIX
from everlog.surfaces.proxy.incoming import Headers, values
from everlog.surfaces.proxy.settings.options import Target

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
"""Headers that speak of one connection: RFC 9110, 7.6.1."""

NOT_UP = HOP_BY_HOP | {b"host", b"content-length", b"expect", b"accept-encoding"}
NOT_DOWN = HOP_BY_HOP | {b"alt-svc"}
"""`alt-svc` names another port of the provider, where no proxy is."""

OURS = (b"x-everlog-", b"x-infinitum-", b"x-context-")
"""What headers for the proxy begin with."""

CREDENTIALS = (b"authorization", b"x-api-key", b"api-key")
OUR_KEY = PREFIX.encode()
"""What a key of Everlog begins with; a provider never sees one."""

DECODABLE = frozenset({b"gzip", b"deflate", b"identity"})
"""The encodings that are asked for: whoever listens has to read them too."""


def going_up(headers: Headers, target: Target, protocol: str | None, hidden: frozenset[bytes]) -> Headers:
    """Return the headers of a request as its upstream gets them.

    Args:
        headers: of the client.
        target: the upstream.
        protocol: the wire format of the request; it says how a held key is presented. None where it has none.
        hidden: names beside `x-everlog-*` that are for the proxy alone, in lower case.
    """
    more = [(name.lower().encode(), value.encode()) for name, value in target.headers]
    dropped = NOT_UP | hidden | _named(headers) | {name for name, _ in more}
    kept = [
        (name, value)
        for name, value in headers
        if name not in dropped and not name.startswith(OURS) and OUR_KEY not in value
    ]
    return (*_with_key(kept, target, protocol), *_encodings(headers), *more)


def coming_down(
    headers: Iterable[tuple[bytes, bytes]], *, is_stream: bool, is_crossing: bool, has_body: bool = True
) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer as the client gets them.

    Args:
        headers: of the upstream, names in any case.
        is_stream: whether the body is a stream of events, which no server on the way may gather.
        is_crossing: whether a web page asks, which needs our word on who may, not the provider's.
        has_body: whether the status lets the answer have one; its length is that of another answer else.
    """
    lowered = tuple((name.lower(), value) for name, value in headers)
    dropped = NOT_DOWN
    if (named := _named(lowered)) or not has_body:
        dropped = dropped | named | (set() if has_body else {b"content-length"})
    kept = [
        (name, value)
        for name, value in lowered
        if name not in dropped and not (is_crossing and name.startswith(b"access-control-"))
    ]
    if is_stream:
        kept = [(name, value) for name, value in kept if name != b"x-accel-buffering"]
        kept.append((b"x-accel-buffering", b"no"))
        if next(values(tuple(kept), b"cache-control"), None) is None:
            kept.append((b"cache-control", b"no-cache"))
    return kept


def is_event_stream(headers: Headers) -> bool:
    """Return whether a body is a stream of events."""
    return next(values(headers, b"content-type"), b"").strip().lower().startswith(b"text/event-stream")


def credential(headers: Headers) -> bytes | None:
    """Return the credential that a client presents, without the word before it; None where it presents none."""
    for name in CREDENTIALS:
        for value in values(headers, name):
            if token := _token(value):
                return token
    return None


def _named(headers: Headers) -> frozenset[bytes]:
    """Return the names of headers that `connection` says are for this connection."""
    named = b",".join(values(headers, b"connection"))
    return frozenset(name.strip().lower() for name in named.split(b",")) if named else frozenset()


def _encodings(headers: Headers) -> Headers:
    """Return what a client can decode, cut to what we can."""
    asked = b",".join(values(headers, b"accept-encoding"))
    if not asked:
        return ()
    kept = [one.strip() for one in asked.split(b",") if one.partition(b";")[0].strip().lower() in DECODABLE]
    return ((b"accept-encoding", b", ".join(kept) or b"identity"),)


def _with_key(kept: list[tuple[bytes, bytes]], target: Target, protocol: str | None) -> Headers:
    if target.key is None or (target.passes_credentials and any(name in CREDENTIALS for name, _ in kept)):
        return tuple(kept)
    rest = (one for one in kept if one[0] not in CREDENTIALS)
    if protocol == "anthropic":
        return (*rest, (b"x-api-key", target.key.encode()))
    return (*rest, (b"authorization", b"Bearer " + target.key.encode()))


def _token(value: bytes) -> bytes:
    """Return a credential without the word before it."""
    word, _, rest = value.strip().partition(b" ")
    return rest.strip() if word.lower() == b"bearer" else value.strip()
