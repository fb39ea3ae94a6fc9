"""Which web pages may call the proxy. Pure.

A page of any site in the world can send requests to a port of this machine, and a proxy that holds keys would answer. So
pages of other places are refused unless they are named; programs, which send no origin, are not concerned.
"""

import ipaddress
from urllib.parse import urlsplit

from everlog.surfaces.proxy.incoming import Headers, Incoming

METHODS = b"GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"
REMEMBERED_S = 600


def allowed(incoming: Incoming, origins: tuple[str, ...]) -> Headers | None:
    """Return the headers by which a page may read the answer, none for a program; None for a page that may not call."""
    origin = incoming.header(b"origin")
    if origin is None:
        return ()
    if not _may_call(origin, incoming.header(b"host"), origins):
        return None
    allows = (b"access-control-allow-origin", origin)
    return (allows, (b"access-control-expose-headers", b"*"), (b"vary", b"origin"))


def _may_call(origin: bytes, host: bytes | None, origins: tuple[str, ...]) -> bool:
    """Return whether it is a page of this machine, of the proxy itself, of an app of its own, or a named one."""
    named = origin.decode("latin-1")
    if "*" in origins or named in origins:
        return True
    parts = urlsplit(named)
    if parts.scheme not in {"http", "https"}:
        return bool(parts.scheme)  # app://, vscode-webview://: no site can claim them; `null` any can
    return _is_loopback(parts.hostname or "") or (host is not None and parts.netloc.encode() == host)


def preflight(incoming: Incoming) -> Headers:
    """Return the headers of the answer to a page that asks what it may send: whatever it asks for."""
    asked = incoming.header(b"access-control-request-headers")
    found = [
        (b"allow", METHODS),
        (b"access-control-allow-methods", METHODS),
        (b"access-control-max-age", b"%d" % REMEMBERED_S),
    ]
    if asked is not None:
        found.append((b"access-control-allow-headers", asked))
    if incoming.header(b"access-control-request-private-network") is not None:
        found.append((b"access-control-allow-private-network", b"true"))
    return tuple(found)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
