"""Servers as the network knows them, and why it does not reach them."""

import os
import ssl
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def place_of(url: str) -> str:
    """Return scheme, host and port of an address, without who or what is asked there."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def proxy_for(place: str) -> str | None:
    """Return the proxy that the environment wants for a place: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`."""
    parts = urlsplit(place)
    if proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{found}" if found and "://" not in found else found


def reason_of(error: BaseException) -> str:
    """Return why a connection failed, in the words of the system, which know no URL; empty if it has none."""
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, ssl.SSLCertVerificationError):
            return found.verify_message
        if isinstance(found, ssl.SSLError):
            return (found.reason or "").replace("_", " ").lower()
        if isinstance(found, OSError) and found.strerror:
            return os.strerror(found.errno) if found.errno is not None and found.errno > 0 else found.strerror
        found = found.exceptions[0] if isinstance(found, BaseExceptionGroup) else found.__cause__ or found.__context__
    return ""
