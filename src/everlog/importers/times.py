"""Times as exports write them, made aware UTC datetimes."""

from datetime import UTC, datetime, timedelta

from everlog.clock import EPOCH
from everlog.importers.report import Tally

NO_ZONE = "time without zone, taken as UTC"
NOT_A_TIME = "time not understood, left out"

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
"""Their English names; the standard library's parser goes by the language of the machine."""

_MILLISECONDS_FROM = 1e11
"""Numbers above it are milliseconds: as seconds they would lie beyond the year 5000."""


def moment(value: object, tally: Tally) -> datetime | None:
    """Return the time that a source names, as ISO 8601 or in (milli)seconds since 1970; None where it names none."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) > _MILLISECONDS_FROM else value
            return EPOCH + timedelta(seconds=seconds)
        found = datetime.fromisoformat(str(value))
        if found.tzinfo is None:
            tally.assumed[NO_ZONE] += 1
            return found.replace(tzinfo=UTC)
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        tally.assumed[NOT_A_TIME] += 1
        return None
