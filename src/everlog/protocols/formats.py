"""One protocol as a value: the functions that each of them has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everlog.protocols.answering import Answer, Asked, Stamp
from everlog.protocols.exchange import Fault, Reply, Said, Settings, Stream
from everlog.protocols.shapes import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A wire format, both directions."""

    name: str
    path: str
    """Where requests go, behind a provider's base URL."""
    render_request: Callable[[Sequence[Said], Settings], Record]
    """The body of a request, with a lawful history."""
    parse_history: Callable[[Record], tuple[Said, ...]]
    """The conversation of a request body."""
    with_history: Callable[[Record, Sequence[Said]], Record]
    """A request body with another conversation in it, nothing else changed, nothing repaired."""
    repair: Callable[[Record], Record]
    """A request body with a lawful history; the same object if it was lawful."""
    parse_reply: Callable[[Record], Reply]
    """The answer of a response body."""
    parse_fault: Callable[[Record], Fault | None]
    """The error that a response body reports."""
    stream: Callable[[], Stream]
    """A new answer, to be fed with events."""
    parse_settings: Callable[[Record], Asked]
    """What a client asks for in a request body, beside the conversation."""
    answer: Callable[[Asked, Stamp], Answer]
    """A new answer to a client, to be fed with deltas."""
    render_fault: Callable[[Fault, int], Record]
    """The body of an error, for a status of HTTP."""
