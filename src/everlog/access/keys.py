"""Keys of callers: made, listed, revoked, recognised. Of a key only its hash is kept, so it is shown once."""

import hmac
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from everlog.access import rows, tokens
from everlog.access.tokens import Token
from everlog.clock import micros, moment
from everlog.errors import Mistake, expect_number
from everlog.store import Unit

Role: TypeAlias = Literal["chat", "read", "admin"]
"""`chat` asks models and reaches its own memory; `read` looks at everything of the tenant; `admin` may change it too."""

Mode: TypeAlias = Literal["off", "record", "rolling", "tree"]
"""What is done with a conversation: nothing, it is kept, or what outgrew the budget also goes up as a summary or as a view."""

LEAST_BUDGET = 1_000
"""The smallest budget that a memory is given, in tokens."""
MOST_BUDGET = 1_000_000_000

NANO = 1_000_000_000
NAME_CHARS = 200
_MOST = (1 << 31) - 1
_MOST_TOKENS = 1 << 50
_MOST_USD = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may be used under a key; None is without a limit."""

    requests_per_minute: int | None = None
    tokens_per_day: int | None = None
    """Tokens of all kinds on one day, UTC."""
    usd_per_month: float | None = None
    """Dollars from the first of the month, UTC, on; requests whose price nobody knows count as nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A caller's key, without what is secret of it."""

    id: str
    role: Role = "chat"
    name: str | None = None
    """What it is for, in its maker's words; not secret."""
    user: str | None = None
    """The end user that all its requests are of, whatever they say; None if they may name their own."""
    project: str | None = None
    """The project that all its requests are of; None if they may name their own."""
    one_person: bool = False
    """Whether only one person stands behind it: histories without an id then need not show all that was said."""
    mode: Mode | None = None
    """What is done with its conversations, unless a request says so itself; None as the server does."""
    budget_tokens: int | None = None
    """How much of a prompt memory may take then."""
    limits: Limits = field(default_factory=Limits)
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def refusal(self, now: datetime) -> Literal["revoked", "expired"] | None:
        """Return why it opens nothing any more; None if it does."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that was just made."""

    key: Key
    token: str = field(repr=False)
    """What the caller presents; it cannot be read again."""


def create(
    unit: Unit,
    *,
    role: Role = "chat",
    name: str | None = None,
    user: str | None = None,
    project: str | None = None,
    one_person: bool = False,
    mode: Mode | None = None,
    budget_tokens: int | None = None,
    limits: Limits | None = None,
    expires_at: datetime | None = None,
) -> NewKey:
    """Make a key for the unit's tenant.

    Raises:
        Mistake: the role or the mode is none, a name is empty or longer than 200 characters, or a number cannot be one.
    """
    if role not in rows.ROLES:
        raise Mistake(f"a role is one of {', '.join(rows.ROLES)}, not {role!r}")
    if mode is not None and mode not in rows.MODES:
        raise Mistake(f"a mode is one of {', '.join(rows.MODES)}, not {mode!r}")
    if budget_tokens is not None:
        expect_budget(budget_tokens, "the budget of a key")
    for what, value in (("name", name), ("user", user), ("project", project)):
        if value is not None and not 0 < len(value) <= NAME_CHARS:
            raise Mistake(f"the {what} of a key has 1 to {NAME_CHARS} characters")
    limits = limits or Limits()
    nano = _checked(limits)
    token = tokens.new(unit.tenant, unit.clock)
    row = {
        "id": token.id,
        "hash": token.digest,
        "role": role,
        "name": name,
        "user": user,
        "project": project,
        "one_person": int(one_person),
        "mode": mode,
        "budget_tokens": budget_tokens,
        "requests_per_minute": limits.requests_per_minute,
        "tokens_per_day": limits.tokens_per_day,
        "nano_usd_per_month": nano,
        "created_at": unit.now_us,
        "expires_at": None if expires_at is None else micros(expires_at),
        "revoked_at": None,
    }
    unit.run(rows.PUT_KEY, row)
    return NewKey(key=_key((unit.tenant, *row.values())), token=token.text)


def keys(unit: Unit) -> list[Key]:
    """Return the tenant's keys, the oldest first."""
    return [_key(row) for row in unit.rows(rows.KEYS)]


def revoke(unit: Unit, named: str) -> Key:
    """Have a key open nothing from now on; one that is revoked stays so.

    Args:
        unit: the unit to do it in.
        named: its id, the beginning of it, or its name.

    Raises:
        Mistake: no key, or more than one, is meant.
    """
    found = [key for key in keys(unit) if named == key.name or (named and key.id.startswith(named))]
    if len(found) != 1:
        many = f"{len(found)} keys are meant: {', '.join(key.id for key in found)}" if found else "there is no such key"
        raise Mistake(f"{many}; `everlog keys list` shows them")
    unit.count(rows.REVOKE, of_id=found[0].id, at=unit.now_us)
    return _key(cast("Any", unit.row(rows.KEY_OF, id=found[0].id)))


def recognise(unit: Unit, token: Token) -> Key | Literal["unknown", "revoked", "expired"]:
    """Return the key that a token is, or why it opens nothing."""
    row = unit.row(rows.KEY_OF, id=token.id)
    if row is None or token.tenant != unit.tenant or not hmac.compare_digest(bytes(row[2]), token.digest):
        return "unknown"
    key = _key(row)
    return key.refusal(unit.now) or key


def forget_user(unit: Unit, user: str) -> int:
    """Delete the keys of an end user, and what their requests were; return how many keys there were."""
    unit.run(rows.DROP_REQUESTS_OF_USER, {"of_user": user})
    return unit.count(rows.DROP_KEYS_OF_USER, of_user=user)


def expect_budget(tokens: int, what: str) -> None:
    """Make sure that a budget can be one.

    Raises:
        Mistake: it is no whole number of tokens, too few of them, or too many.
    """
    expect_number(tokens, what, whole=True)
    if not LEAST_BUDGET <= tokens <= MOST_BUDGET:
        raise Mistake(f"{what} is {LEAST_BUDGET:,} tokens at least and {MOST_BUDGET:,} at most, not {tokens:,}")


def _checked(limits: Limits) -> int | None:
    """Return the limit in billionths of a dollar.

    Raises:
        Mistake: a limit cannot be one.
    """
    for what, value, most in (
        ("requests_per_minute", limits.requests_per_minute, _MOST),
        ("tokens_per_day", limits.tokens_per_day, _MOST_TOKENS),
        ("usd_per_month", limits.usd_per_month, _MOST_USD),
    ):
        if value is None:
            continue
        expect_number(value, what, whole=what != "usd_per_month")
        if not 0 < value <= most:
            raise Mistake(f"{what} is above 0 and at most {most:,}, not {value!r}; leave it out for no limit")
    return None if limits.usd_per_month is None else round(limits.usd_per_month * NANO)


def _key(row: Any) -> Key:
    _, id_, _, role, name, user, project, one_person, mode, budget, requests, tokens_, nano, *times = row
    created, expires, revoked = times
    return Key(
        id=id_,
        role=role,
        name=name,
        user=user,
        project=project,
        one_person=bool(one_person),
        mode=mode,
        budget_tokens=budget,
        limits=Limits(
            requests_per_minute=requests,
            tokens_per_day=tokens_,
            usd_per_month=None if nano is None else nano / NANO,
        ),
        created_at=moment(created),
        expires_at=None if expires is None else moment(expires),
        revoked_at=None if revoked is None else moment(revoked),
    )
