"""Times as exports write them, made aware UTC datetimes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from everlog.clock import EPOCH
from everlog.importers.report import Tally
from everlog.messages import Message

NO_ZONE = "time without zone, taken as UTC"
NOT_A_TIME = "time not understood, left out"
NO_TIME = "time missing, taken from the conversation"
TIMELESS = "time missing, taken as that of the import"

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


def dated(messages: Sequence[Message], tally: Tally, *, stated: object = None, shared: int = 0) -> tuple[Message, ...]:
    """Return messages with a time each: its own, else that of the message before it.

    Those before the first that has one get the conversation's, else the first one's.

    Args:
        messages: a whole conversation.
        tally: where what is assumed is counted.
        stated: the time that the source gives for the conversation, if it does.
        shared: how many of the first are another conversation's, where they are counted already.
    """
    missing = sum(message.at is None for message in messages[shared:])
    if not missing and all(message.at for message in messages[:shared]):
        return tuple(messages)
    first = next((message.at for message in messages if message.at is not None), None)
    start = (moment(stated, tally) if messages[0].at is None else None) or first
    if missing:
        tally.assumed[TIMELESS if start is None else NO_TIME] += missing
    return tuple(messages) if start is None else tuple(_each_dated(messages, start))


def _each_dated(messages: Sequence[Message], at: datetime) -> Iterator[Message]:
    for message in messages:
        at = message.at or at
        yield message if message.at is not None else replace(message, at=at)
