"""Who may ask: the key that a request presents, the principal it stands for, and whether there is room under its limits.

A key of ours comes as `X-Everlog-Key`, or as the ordinary key of a client's SDK. Any other credential is the upstream's
business: it passes through and is kept nowhere. From another machine nobody gets in without a key.

What was recognised is believed for two seconds, so that a key that was revoked opens nothing soon after. While the
database is away, slow or damaged it is believed for an hour: identity that nobody can look up lets in nobody new. One
caller finds out that it is away; for two seconds those who come after are not made to wait for the same.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from everlog.access import LOOPBACK, PREFIX, Key, Pace, Principal, Token, exceeded, parse, principal, recognise
from everlog.clock import monotonic
from everlog.errors import Mistake, StoreUnavailable
from everlog.store import Store, Unit
from everlog.store.store import checked
from everlog.surfaces.proxy.incoming import Headers, values

log = logging.getLogger(__name__)

T = TypeVar("T")

BELIEVED_S, BELIEVED_WITHOUT_S = 2.0, 3600.0
LOOK_S = 2.0
"""How long a look at the database may take before it counts as away, in seconds."""
MOST_KNOWN = 10_000

_OURS = PREFIX.encode()
_WHY = {
    "unknown": "This key of Everlog is not known here; `everlog keys list` shows those that are.",
    "revoked": "This key of Everlog was revoked; `everlog keys create` makes another one.",
    "expired": "This key of Everlog has expired; `everlog keys create` makes another one.",
}


class _Away(Exception):
    """Nothing can be looked up now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why somebody is not let in."""

    status: int
    code: str
    """A word for programs."""
    message: str
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """A key of ours in a request."""

    text: str
    header: bytes
    """Where it stood; it does not go up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Somebody who is let in."""

    principal: Principal
    spent: frozenset[bytes] = frozenset()
    """Headers that held a key of ours, in lower case; none of them may go up."""


def presented(headers: Headers) -> Presented | None:
    """Return the key of ours that a request presents; None where it has none."""
    for name in (b"x-everlog-key", b"authorization", b"x-api-key", b"api-key"):
        for value in values(headers, name):
            word = value.strip()
            scheme, _, rest = word.partition(b" ")
            if name == b"authorization" and scheme.lower() == b"bearer":
                word = rest.strip()
            if name == b"x-everlog-key" or word.startswith(_OURS):
                return Presented(text=word.decode("latin-1"), header=name)
    return None


class Door:
    """Lets callers in, or says why not."""

    def __init__(
        self,
        store: Store | None,
        *,
        local: Principal | None = LOOPBACK,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Open the door.

        Args:
            store: where keys are; None where nothing is kept, and only `local` gets in.
            local: who asks without a key; None if nobody may.
            clock: seconds that only go forward.
        """
        self._store = store
        self._local = local
        self._clock = clock
        self._pace = Pace()
        self._known: OrderedDict[bytes, tuple[float, Key | str]] = OrderedDict()
        self._rests_until = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether somebody gets in without a key."""
        return self._local is not None

    async def admit(
        self, headers: Headers, *, looks: bool = False, user: str | None = None, project: str | None = None
    ) -> Admitted | Refusal:
        """Return who asks, or why they may not.

        Args:
            headers: of the request.
            looks: whether no model is asked: limits are for those who ask one.
            user: the end user that the request names.
            project: the project that it names.
        """
        found = presented(headers)
        if found is None:
            if self._local is None:
                said = f"A key of Everlog is needed ({PREFIX}…), as X-Everlog-Key or as the key of your client."
                return Refusal(status=401, code="everlog_key_missing", message=said)
            is_anybody = user is None and project is None
            return Admitted(principal=self._local if is_anybody else replace(self._local, user=user, project=project))
        token = parse(found.text)
        key = "unknown" if token is None else await self._recognised(token)
        if isinstance(key, Refusal):
            return key
        if not isinstance(key, Key):
            return Refusal(status=401, code=f"everlog_key_{key}", message=_WHY[key])
        assert token is not None
        full = None if looks else await self._full(token, key)
        if full is not None:
            return full
        return Admitted(
            principal=principal(token.tenant, key, user=user, project=project),
            spent=frozenset({b"x-everlog-key", found.header}),
        )

    async def _recognised(self, token: Token) -> Key | str | Refusal:
        digest, now = token.digest, self._clock()
        at, known = self._known.get(digest, (-BELIEVED_WITHOUT_S, "unknown"))
        if now - at < BELIEVED_S:
            return known
        if self._store is None:
            return "unknown"
        try:
            checked(token.tenant)
        except Mistake:
            return "unknown"
        try:
            key = await self._looked(token.tenant, partial(recognise, token=token))
        except _Away:
            if isinstance(known, Key) and now - at < BELIEVED_WITHOUT_S:
                return known
            said = "Keys cannot be looked up now; try again in a moment."
            return Refusal(status=503, code="everlog_keys_unavailable", message=said, retry_after_s=5)
        self._known[digest] = (now, key)
        self._known.move_to_end(digest)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return key

    async def _looked(self, tenant: str, act: Callable[[Unit], T]) -> T:
        """Read something, in so short a time that a request can wait for it.

        Raises:
            _Away: it cannot be read now, or could not a moment ago.
        """
        assert self._store is not None
        if self._clock() < self._rests_until:
            raise _Away
        try:
            return await asyncio.wait_for(self._store.aread(tenant, act), LOOK_S)
        except Exception as error:  # noqa: BLE001 -- the edge: what cannot be read opens nothing, whatever it is
            log.warning("the database could not be asked who somebody is", extra={"error": type(error).__name__})
            if isinstance(error, StoreUnavailable | TimeoutError):  # and not one tenant's own trouble
                self._rests_until = self._clock() + BELIEVED_S
            raise _Away from None

    async def _full(self, token: Token, key: Key) -> Refusal | None:
        """Return the refusal where a limit is reached."""
        limits = key.limits
        if limits.requests_per_minute is not None:
            wait = self._pace.admit(f"{token.tenant}/{key.id}", limits.requests_per_minute, self._clock())
            if wait is not None:
                said = f"This key may ask {limits.requests_per_minute} times a minute."
                return _too_much("requests_per_minute", said, wait)
        if self._store is None or (limits.tokens_per_day is None and limits.usd_per_month is None):
            return None
        try:
            now = self._store.clock.now()
            reached = await self._looked(token.tenant, partial(exceeded, key=key.id, limits=limits))
        except _Away:  # what was used is not known; whoever has a key gets an answer
            return None
        if reached is None:
            return None
        said = f"The limit {reached.limit} of this key is reached; it begins anew on {reached.until:%Y-%m-%d} UTC."
        return _too_much(reached.limit, said, (reached.until - now).total_seconds())


def _too_much(limit: str, message: str, wait_s: float) -> Refusal:
    return Refusal(status=429, code=f"everlog_{limit}", message=message, retry_after_s=max(1, -int(-wait_s // 1)))
