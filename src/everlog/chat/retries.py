"""Whether a failed request is sent again, and when. Pure; numbers are those that the providers' own clients use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from everlog.errors import (
    ConnectionFailed,
    Overloaded,
    ProviderFailed,
    ProviderTimeout,
    ProviderTrouble,
    ProviderUnavailable,
    RateLimited,
    expect_number,
)

TRANSIENT: tuple[type[ProviderTrouble], ...] = (
    RateLimited,
    ProviderFailed,
    ProviderUnavailable,
    Overloaded,
    ProviderTimeout,
    ConnectionFailed,
)
"""What may be gone a moment later."""

LASTING = frozenset({"insufficient_quota"})
"""Words of providers for a limit that time alone does not lift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and how patiently, a request is sent again."""

    retries: int = 3
    """Beside the first try."""
    first_s: float = 0.1
    """The first pause, in seconds; each further one is twice as long."""
    jitter: float = 0.5
    """The part of a pause by which it may be longer, by chance, so that many callers do not come back at once."""
    cap_s: float = 30
    """The longest pause; a provider that wants a longer one is not asked again."""
    on: tuple[type[ProviderTrouble], ...] = TRANSIENT
    """The errors after which it is."""

    def __post_init__(self) -> None:
        expect_number(self.retries, "retries", whole=True)
        for name in ("first_s", "jitter", "cap_s"):
            expect_number(getattr(self, name), name)


def pause_s(
    retry: Retry, error: ProviderTrouble, tried: int, chance: float, *, told: bool | None = None
) -> float | None:
    """Return how long to wait before the next try, in seconds; None to give up.

    Args:
        retry: how often, and how patiently.
        error: why the last try failed.
        tried: how many there were, at least 1.
        chance: random, from 0 to below 1.
        told: what the provider says: try again, or do not; None where it says nothing.
    """
    wanted = isinstance(error, retry.on) and error.kind not in LASTING
    if told is not None:
        wanted = told and (wanted or retry.on == TRANSIENT)
    if tried > retry.retries or not wanted:
        return None
    pause = min(retry.cap_s, retry.first_s * 2.0 ** (tried - 1) * (1 + retry.jitter * chance))
    if error.retry_after_s is None:
        return pause
    return None if error.retry_after_s > retry.cap_s else max(pause, error.retry_after_s)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return whether a provider wants the request again, by `x-should-retry`; None if it does not say."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the name that a provider gave a request, if it is one that can stand in a log."""
    found = headers.get("request-id") or headers.get("x-request-id") or ""
    return found if re.fullmatch(r"[\x21-\x7e]{1,200}", found) else None


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return how long a provider wants callers to wait, in seconds; None if it does not say.

    It is `retry-after-ms` or `retry-after`, in seconds or as a date; else the latest reset of a limit of which nothing
    is left. Headers that cannot be read say nothing.
    """
    found = _number(headers.get("retry-after-ms"))
    if found is not None:
        return found / 1000
    if "retry-after" in headers:
        found = _number(headers["retry-after"])
        return found if found is not None else _until(headers["retry-after"], now)
    resets = [
        wait
        for name, value in headers.items()
        if "ratelimit" in name and "reset" in name
        if headers.get(name.replace("reset", "remaining"), "0").strip() == "0"
        if (wait := _span(value) if _span(value) is not None else _until(value, now)) is not None
    ]
    return max(resets, default=None)


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and re.fullmatch(r"\s*\d{1,9}(\.\d*)?\s*", text, re.ASCII) else None


def _until(text: str, now: datetime) -> float | None:
    """Return the seconds until a date of HTTP or of RFC 3339."""
    try:
        when = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())


UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _span(text: str) -> float | None:
    """Return the seconds of a span such as `6m0s`, `1.5s`, `20ms`, or a bare number of them."""
    if (number := _number(text)) is not None:
        return number
    pieces = re.findall(r"(\d{1,9}(?:\.\d+)?)(ms|s|m|h|d)", text, re.ASCII)
    if not pieces or "".join(number + unit for number, unit in pieces) != text.strip():
        return None
    return sum(float(number) * UNITS[unit] for number, unit in pieces)
