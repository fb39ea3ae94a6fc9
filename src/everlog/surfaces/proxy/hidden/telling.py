"""One answer made of several rounds, in a protocol's words: what each of them can tell a client."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from everlog.messages import JSON
from everlog.protocols import Format
from everlog.protocols.exchange import Delta, Fault
from everlog.protocols.shapes import Record, dumps, loads, record
from everlog.protocols.sse import Event, render_event

Ours: TypeAlias = Callable[[str], bool]
"""Whether a call of this name is for us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the last round ends the answer."""

    stop: Literal["", "stop", "length"] = ""
    """Why it ended, where that is not what the upstream says."""
    usage: Record | None = None
    """The tokens, where they are not those that the upstream says."""
    output: tuple[JSON, ...] | None = None
    """All blocks that the client has, where they are not those of the one round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """How an error ends the answer."""

    fault: Fault
    status: int
    """The status that it would have."""
    output: tuple[JSON, ...]
    """All blocks that the client has."""

    def told(self, withheld: Iterable[Event], form: Format, name: str) -> bytes:
        """Return the error that the upstream told in the stream, if it did, as it came; else one with this name."""
        for event in withheld:
            if form.parse_fault(record(loads(event.data))) is not None:
                return as_came(event)
        return render_event(dumps(form.render_fault(self.fault, self.status)), name)


class Teller(Protocol):
    """Turns the events of an upstream's rounds into those of one answer."""

    def feed(self, event: Event, deltas: Sequence[Delta]) -> bytes:
        """Return what the client gets for an event that added these deltas; what ends the round is withheld."""

    def begin(self) -> None:
        """Begin another round; what was withheld of the one before is never told."""

    def end(self, ending: Ending) -> bytes:
        """Return what was withheld."""

    def fail(self, failing: Failing) -> bytes:
        """Return the error that ends the answer: as the upstream told it, if it did so within the stream."""

    def events(self, body: Record) -> Iterator[Event]:
        """Yield the events of an answer that came whole."""

    def alone(self, body: Record) -> Record:
        """Return an answer that came whole, in one round without a call of ours, for the client."""

    def without(self, items: Sequence[JSON]) -> tuple[JSON, ...]:
        """Return the blocks of a reply without calls of ours."""


def as_came(event: Event) -> bytes:
    """Return an event as it came."""
    return render_event(event.data, event.name)
