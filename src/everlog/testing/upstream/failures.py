"""What goes wrong with providers, to be put into a script in the place of an answer."""

from dataclasses import dataclass
from typing import Any

from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Fault
from everlog.testing.upstream.answers import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An error status, with the body that the provider of the protocol sends with it."""

    status: int = 500
    retry_after: str | None = None
    """Seconds, or a date, of the header Retry-After."""
    message: str = "The upstream was told to fail."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The connection is reset before a byte of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The connection is closed in the middle of an answer: behind some events, or behind half of a body."""

    answer: Answer
    events: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """Nothing comes any more, behind some events or before any body; until the client goes, or the upstream is closed."""

    answer: Answer
    events: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A good status with something that is no JSON."""

    text: str = '{"choices": [{"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """An error event in mid-stream, behind some events of a good status."""

    answer: Answer
    events: int = 3
    message: str = "Overloaded"


Failure = Refused | Reset | Cut | Stalled | Malformed | Broken


def error_body(status: int, message: str, protocol: str) -> dict[str, Any]:
    """Return the body of an error status."""
    return FORMATS[protocol].render_fault(Fault(type="error", message=message), status)


def error_event(message: str, protocol: str) -> dict[str, JSON]:
    """Return the error event of a stream."""
    if protocol == "anthropic":
        return {"type": "error", "error": {"type": "overloaded_error", "message": message}}
    if protocol == "responses":
        return {"type": "error", "code": "server_error", "message": message, "param": None, "sequence_number": 99}
    return {"error": {"message": message, "type": "server_error", "param": None, "code": 503}}
