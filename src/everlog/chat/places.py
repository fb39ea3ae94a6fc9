"""Servers as the network knows them."""

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
