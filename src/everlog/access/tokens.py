"""What a caller presents: `evl_TENANT.ID.SECRET`. It names its tenant, so that no lookup has to cross tenants.

The secret has 256 random bits, so a plain hash of the whole is enough: there is nothing to guess.
"""

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field

from everlog.clock import Clock

PREFIX = "evl_"
SECRET_BYTES = 32
ID_BYTES = 6

_FORM = re.compile(rf"{PREFIX}([\w-]{{1,90}})\.([0-9a-f]{{{2 * ID_BYTES}}})\.([\w-]{{43}})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A key as it is presented."""

    tenant: str
    id: str
    """By which it is looked up, listed and revoked; no secret."""
    text: str = field(repr=False)
    """All of it."""

    @property
    def digest(self) -> bytes:
        """What is kept of it, 32 bytes."""
        return hashlib.sha256(self.text.encode("ascii")).digest()


def is_token(text: str) -> bool:
    """Return whether something was meant to be a key of ours, and not a provider's."""
    return text.startswith(PREFIX)


def parse(text: str) -> Token | None:
    """Return the key that a text is; None if it is none of ours."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    try:
        tenant = urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)).decode("ascii")
    except ValueError:
        return None
    return Token(tenant=tenant, id=found[2], text=text) if _named(tenant) == found[1] else None


def new(tenant: str, clock: Clock) -> Token:
    """Return a new key for a tenant."""
    id_ = clock.random(ID_BYTES).hex()
    secret = urlsafe_b64encode(clock.random(SECRET_BYTES)).decode().rstrip("=")
    return Token(tenant=tenant, id=id_, text=f"{PREFIX}{_named(tenant)}.{id_}.{secret}")


def _named(tenant: str) -> str:
    return urlsafe_b64encode(tenant.encode("ascii")).decode().rstrip("=")
