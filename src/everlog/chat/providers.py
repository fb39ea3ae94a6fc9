"""From what is known of a provider, and what its user said, to where requests go and what proves who sends them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from everlog.errors import MissingCredentials, Mistake, expect
from everlog.registry import Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go."""

    provider: str
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The provider's own, with the key; names in lower case."""
    names: Mapping[str, str] = field(default_factory=dict)
    """How it spells fields that others spell otherwise."""

    def url(self, path: str) -> str:
        """Return the whole address of a path."""
        return self.base_url + path

    def with_headers(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the caller's headers under the provider's: those of the provider win."""
        lowered = {name.lower(): value for name, value in given.items()}
        joined = {
            name: ",".join(dict.fromkeys([*value.split(","), *lowered[name].split(",")]))
            for name, value in self.headers.items()
            if name in JOINED and name in lowered
        }
        return {**PLAIN, **lowered, **self.headers, **joined, "content-type": "application/json"}


PLAIN = {"accept": "*/*", "accept-encoding": "gzip, deflate", "connection": "keep-alive", "user-agent": "everlog"}
"""What every request says; a caller may say otherwise."""

JOINED = frozenset({"anthropic-beta"})
"""Headers that are lists: both sides' items are sent."""


def endpoint(
    provider: Provider,
    *,
    environ: Mapping[str, str],
    api_key: str | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Endpoint:
    """Return where a provider is, and how to be let in.

    Args:
        provider: what is known of it.
        environ: where key and address are looked up if they are not given: `OPENAI_API_KEY`, `OPENAI_BASE_URL`.
        api_key: the key; "" for none.
        base_url: another server that speaks the provider's protocols; it may do without a key.
        headers: more headers for each request; they belong to the endpoint, and win over those of a chat.

    Raises:
        MissingCredentials: the provider wants a key, and there is none; or no header can carry it.
        Mistake: the address is not one of http, or has a password in it.
    """
    expect(base_url, (str, type(None)), "a base_url is a str or None")
    if base_url is not None and not base_url.strip():
        raise Mistake(
            f"the base_url given for {provider.name} is empty; give an address, or None for the provider's own"
        )
    expect(api_key, (str, type(None)), "an api_key is a str or None")
    url = base_url if base_url is not None else environ.get(f"{provider.name.upper()}_BASE_URL", "").strip()
    place = (url.strip() or provider.base_url).rstrip("/")
    if not re.fullmatch(r"https?://[^/\s]\S*", place) or not place.isprintable() or not _names_host(place):
        raise Mistake(
            f"the base_url of {provider.name} begins with http:// or https:// and names a host, without spaces"
        )
    if "?" in place or "#" in place:
        raise Mistake(f"the base_url of {provider.name} ends with a path; ? and # cannot stand in it")
    if "@" in place.split("/")[2]:
        raise Mistake(
            f"the base_url of {provider.name} names a user; give api_key='' and the header authorization instead"
        )
    found = (
        api_key if api_key is not None else next((one for name in provider.key_names if (one := environ.get(name))), "")
    )
    key = found.strip()
    if not key and provider.key_names and api_key is None and not url:
        names = " or ".join(provider.key_names)
        raise MissingCredentials(f"{provider.name} needs a key: set {names}, or give api_key=")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise MissingCredentials(f"the key for {provider.name} has characters that no header can carry; copy it again")
    auth = {} if not key else {"authorization": f"Bearer {key}"} if provider.auth == "bearer" else {provider.auth: key}
    own = {name.lower(): value for name, value in {**provider.headers, **(headers or {})}.items()}
    return Endpoint(
        provider=provider.name, base_url=_versioned(place, provider), headers={**own, **auth}, names=provider.names
    )


def _names_host(place: str) -> bool:
    """Whether an address has a host that can be looked up, and a port that there is."""
    try:
        parts = urlsplit(place)
        return bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:
        return False


def _versioned(place: str, provider: Provider) -> str:
    """Return an address with the path of the provider's own where it names none.

    Anthropic's own clients add the version by themselves, so what people keep in ANTHROPIC_BASE_URL has none.
    """
    path = urlsplit(place).path
    lacks = not path if provider.protocols != ("anthropic",) else not re.search(r"/v\d+$", path)
    return place + urlsplit(provider.base_url).path if lacks else place
