"""Which web pages may call the proxy. Pure.

A page of any site in the world can send requests to a port of this machine, and a proxy that holds keys would answer. So
pages of other places are refused unless they are named; programs, which send no origin, are not concerned. A site can
also have its own name point to this machine; to the browser the proxy is then a part of it. So where no key is asked
for, the proxy answers only under names that no site can have.
"""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from everlog.surfaces.proxy.incoming import Headers, Incoming

METHODS = b"GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"
REMEMBERED_S = 600


PRIVATE = (".localhost", ".internal")
"""Ends of names that nobody can have in the public DNS: RFC 6761, and ICANN's resolution of 2024-07-29."""


@dataclass(frozen=True, slots=True)
class Strange:
    """Why a request is not answered."""

    code: str
    """A word for programs."""
    message: str


PAGE = Strange("origin_not_allowed", "Pages of this origin may not call the proxy; `origins` names those that may.")
NAME = Strange(
    "host_not_allowed",
    "Without keys the proxy answers as localhost, or by an address, only; `origins` names other places that it has.",
)


def allowed(incoming: Incoming, origins: tuple[str, ...], *, is_open: bool) -> Headers | Strange:
    """Return the headers by which a page may read the answer, none for a program; or why it gets none.

    Args:
        incoming: what was asked.
        origins: the pages that are named, or `*`.
        is_open: whether no key is asked for.
    """
    host = incoming.header(b"host")
    if is_open and host is not None and not _is_private(host, origins):
        return NAME
    origin = incoming.header(b"origin")
    if origin is None:
        return ()
    if not _may_call(origin, host, origins):
        return PAGE
    allows = (b"access-control-allow-origin", origin)
    return (allows, (b"access-control-expose-headers", b"*"), (b"vary", b"origin"))


@lru_cache(maxsize=256)
def _is_private(host: bytes, origins: tuple[str, ...]) -> bool:
    """Return whether no site can have this name: an address, a name without a dot, a reserved or a named one."""
    name = _hostname(_split(f"//{host.decode('latin-1')}"))
    if "." not in name or name.endswith(PRIVATE) or _is_address(name):
        return True
    return "*" in origins or name in {_hostname(_split(origin)) for origin in origins}


def _may_call(origin: bytes, host: bytes | None, origins: tuple[str, ...]) -> bool:
    """Return whether it is a page of this machine, of the proxy itself, of an app of its own, or a named one."""
    named = origin.decode("latin-1")
    if "*" in origins or named in origins:
        return True
    parts = _split(named)
    if parts is None or parts.scheme not in {"http", "https"}:
        return bool(parts and parts.scheme)  # app://, vscode-webview://: no site can claim them; `null` any can
    return _is_loopback(_hostname(parts)) or (host is not None and parts.netloc.encode() == host)


def _split(address: str) -> SplitResult | None:
    """Return the parts of an address; None where it is none."""
    try:
        return urlsplit(address)
    except ValueError:
        return None


def _hostname(parts: SplitResult | None) -> str:
    return "" if parts is None or parts.hostname is None else parts.hostname.rstrip(".")


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
    if _is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
