"""What was used under a key, by day, and whether that is all that may be. No text, and no thread."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from everlog.access import rows
from everlog.access.keys import NANO, Limits
from everlog.store import Unit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = (1 << 50) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What was used since a day."""

    requests: int = 0
    unpriced: int = 0
    """How many of them have a price that nobody knows."""
    tokens: int = 0
    """Of all kinds."""
    nano_usd: int = 0
    """What those cost whose price is known, in billionths of a dollar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceeded:
    """A limit that is reached."""

    limit: str
    """`tokens_per_day` or `usd_per_month`."""
    until: datetime
    """When it counts from nothing again."""


def use(unit: Unit, key: str, *, tokens: int, nano_usd: int | None) -> None:
    """Add a request to what was used under a key today.

    Args:
        unit: the unit to do it in.
        key: id of the key.
        tokens: of all kinds.
        nano_usd: billionths of a dollar; None where nobody knows the price.
    """
    more = {
        "requests": 1,
        "unpriced": int(nano_usd is None),
        "tokens": min(_MOST, max(0, tokens)),
        "nano_usd": min(_MOST, max(0, nano_usd or 0)),
    }
    day = _day(unit.now)
    unit.run(rows.PUT_USE, {"id": key, "day": day, **dict.fromkeys(more, 0)})
    unit.run(rows.ADD_USE, {"of_id": key, "of_day": day, **{f"more_{name}": value for name, value in more.items()}})


def used(unit: Unit, key: str, since: datetime) -> Used:
    """Return what was used under a key from the day of a moment on."""
    found: Any = unit.row(rows.USED, id=key, since=_day(since))
    requests, unpriced, tokens, nano = (int(one or 0) for one in found)
    return Used(requests=requests, unpriced=unpriced, tokens=tokens, nano_usd=nano)


def exceeded(unit: Unit, key: str, limits: Limits) -> Exceeded | None:
    """Return the limit of tokens or money that is reached; None if there is room."""
    now = unit.now
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if limits.tokens_per_day is not None and used(unit, key, today).tokens >= limits.tokens_per_day:
        return Exceeded(limit="tokens_per_day", until=today + timedelta(days=1))
    if limits.usd_per_month is not None:
        month = today.replace(day=1)
        if used(unit, key, month).nano_usd >= round(limits.usd_per_month * NANO):
            return Exceeded(limit="usd_per_month", until=(month + timedelta(days=32)).replace(day=1))
    return None


def _day(moment: datetime) -> int:
    return (moment - _EPOCH).days
