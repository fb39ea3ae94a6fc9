"""Now, ids and time stamps, all as values that can be passed in.

Times are aware UTC datetimes outside and whole microseconds since 1970 in the database (`micros`, `moment`). Ids are
UUIDs of version 7 (RFC 9562), written as 32 hex digits: they sort by the time they were made. Nothing else in Everlog
reads the system clock or draws random numbers.
"""

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from everlog.errors import Damaged

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
TIMES = range(
    (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND,
    (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND + 1,
)
"""The time stamps there can be: those of the years 1 to 9999."""


class Clock(Protocol):
    """Where time and randomness come from."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC, to the microsecond."""
        ...

    def random(self, size: int) -> bytes:
        """Return `size` bytes fit for keys and nonces."""
        ...


class SystemClock:
    """The machine's own clock and random source."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def random(self, size: int) -> bytes:
        return os.urandom(size)


def micros(moment: datetime) -> int:
    """Return whole microseconds since 1970 for an aware datetime.

    Raises:
        ValueError: the datetime has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"the time {moment.isoformat()} has no zone; attach one, e.g. tzinfo=datetime.UTC")
    return (moment - EPOCH) // _MICROSECOND


def moment(micros: int) -> datetime:
    """Return the aware UTC datetime of a stored time stamp.

    Raises:
        Damaged: it is that of no time.
    """
    if micros not in TIMES:
        raise Damaged("a stored time is outside the years 1 to 9999; `everlog verify` says where")
    return EPOCH + timedelta(microseconds=micros)


def isoformat(when: datetime) -> str:
    """Return `2026-11-10T14:02:03.000004Z`: UTC, always with six decimals, so that text sorts as time does."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def new_id(clock: Clock) -> str:
    """Return a new UUIDv7 as 32 hex digits: milliseconds, their microseconds, random bits (RFC 9562, 5.7 and 6.2)."""
    milliseconds, rest = divmod(max(0, micros(clock.now())), 1000)
    noise = int.from_bytes(clock.random(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | rest * 4096 // 1000 << 64 | noise & (1 << 64) - 1
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return f"{value:032x}"


def first_id(when: datetime) -> str:
    """Return what no id that is drawn at a moment, or later, comes before."""
    return f"{(max(0, micros(when)) // 1000 & (1 << 48) - 1) << 80:032x}"


def monotonic() -> float:
    """Return seconds of a clock that never goes back; for deadlines, never for stored times."""
    return time.monotonic()
