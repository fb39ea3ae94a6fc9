"""What a client says, what a provider does with it, and what came of it: one value for each request that is tried.

Every message bears a mark of its own, such as `c03-d2-m5`, and every answer the mark of its message and the number of
the try, so that whatever is found in the log says whose it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, get_args

from everlog.messages import JSON
from everlog.protocols.shapes import dumps, encoded
from everlog.protocols.sse import render_event
from everlog.testing.upstream import Answer, Manner
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.failures import error_event
from everlog.testing.upstream.streams import events_of

Fate = Literal[
    "whole",
    "slow",
    "late",
    "refused",
    "reset",
    "cut",
    "torn",
    "broken",
    "silent",
    "stalled",
    "garbage",
    "leaves",
    "flees",
]
"""What becomes of a request if nobody kills the proxy: an answer, at once, in slow pieces, or after a while; an error
status; the connection reset before an answer, closed or reset in the middle of one; an error event in a stream; nothing
at all, or nothing more, until the proxy gives up; no JSON; and a client that leaves in the middle, or before an answer.
"""

WEIGHTS: dict[Fate, int] = {
    "whole": 60, "slow": 6, "late": 4, "refused": 8, "reset": 3, "cut": 4, "torn": 3, "broken": 3, "silent": 1,
    "stalled": 1, "garbage": 1, "leaves": 4, "flees": 2,
}  # fmt: skip

OUTCOMES: dict[Fate, frozenset[str]] = {
    "whole": frozenset({"acknowledged"}),
    "slow": frozenset({"acknowledged"}),
    "late": frozenset({"acknowledged"}),
    "refused": frozenset({"refused"}),
    "reset": frozenset({"502"}),
    "cut": frozenset({"broke off"}),
    "torn": frozenset({"broke off"}),
    "broken": frozenset({"broken", "refused"}),
    "silent": frozenset({"504"}),
    "stalled": frozenset({"broke off"}),
    "garbage": frozenset({"garbage"}),
    "leaves": frozenset({"left", "acknowledged"}),
    "flees": frozenset({"left", "acknowledged"}),
}
"""What a client may see of each, as long as the proxy lives."""

STATUSES = (400, 404, 429, 429, 500, 503, 529)
LAST_EVENTS = 3
"""Events of a stream of which the first may be the terminal frame, in any protocol."""

MANNERS = (Manner(piece=24), Manner(piece=40, usage=False), Manner(piece=24, comments="PROCESSING"))
MARK = re.compile(r"c\d+-d\d+-m\d+(?:-t\d+)?")
WORDS = ("sea", "tide", "pilot", "harbour", "rope", "lamp", "chart", "wind", "north", "gull", "keel", "anchor", "fog")

assert set(WEIGHTS) == set(OUTCOMES) == set(get_args(Fate))


@dataclass(slots=True, kw_only=True)
class Try:
    """One request, and all that is known of it."""

    mark: str
    protocol: str
    is_stream: bool
    fate: Fate
    answer: Answer
    number: int
    """Tells the ids of its answer from those of all others."""
    rng: Random
    head: tuple[int, str] = (200, "application/json")
    pieces: list[bytes] = field(default_factory=list)
    """The body of the answer, in the pieces in which it is sent."""
    stops: int = 0
    """How many pieces are sent where it does not come to its end."""
    ending_at: float = 0
    """When its terminal frame went out, or a body that is no stream."""
    got: bytes = b""
    outcome: str = ""
    acknowledged_at: float = 0
    life: int = 0
    """How often the proxy had been killed when it was acknowledged."""
    degraded: bool = False
    """Whether the proxy said that it would not be kept."""

    @property
    def whole(self) -> bytes:
        """All that is sent."""
        return b"".join(self.pieces)

    @property
    def held_s(self) -> float:
        """How long the end of the answer took, in seconds."""
        return self.acknowledged_at - self.ending_at


def make(mark: str, protocol: str, rng: Random, number: int, *, calls: bool, fate: Fate | None = None) -> Try:
    """Return a request to be tried, with the answer that it would get."""
    fate = fate or rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    is_stream = rng.random() < 0.7
    named: tuple[tuple[str, str, JSON], ...] = ((f"call_{mark}", "read", {"path": f"{mark}.txt"}),) if calls else ()
    said = "" if calls and rng.random() < 0.3 else words(mark, rng, rng.randint(5, 60))
    found = Try(
        mark=mark, protocol=protocol, is_stream=is_stream, fate=fate, answer=Answer(text=said, calls=named),
        number=number, rng=rng,
    )  # fmt: skip
    if fate == "refused" or (fate == "broken" and not is_stream):
        found.head = rng.choice(STATUSES), "application/json"
        found.pieces = [encoded({"error": {"message": f"busy {mark}", "type": "server_error"}})]
    elif fate == "garbage":
        found.pieces = [f"<html>{mark}</html>".encode()]
    else:
        found.pieces = list(_pieces(found))
        found.stops = rng.randint(1, max(1, len(found.pieces) - LAST_EVENTS - 1)) if is_stream else 1
        if is_stream:
            found.head = 200, "text/event-stream"
        if fate == "broken":
            del found.pieces[found.stops :]
            event = dumps(error_event("busy", protocol))
            found.pieces.append(render_event(event, "" if protocol == "chat_completions" else "error"))
    return found


def _pieces(one: Try) -> Iterator[bytes]:
    body = body_of(one.answer, one.protocol, "m-1", one.number)
    if one.is_stream:
        yield from events_of(body, one.protocol, one.rng.choice(MANNERS))
        return
    data = encoded(body)
    middle = len(data) // 2
    yield from (data[:middle], data[middle:])


def words(mark: str, rng: Random, count: int) -> str:
    """Return a text that begins with its mark."""
    return " ".join([mark, *rng.choices(WORDS, k=count)]) + "."


def history_item(one: Try) -> list[dict[str, Any]]:
    """Return an answer as a client puts it into its history."""
    body = body_of(one.answer, one.protocol, "m-1", one.number)
    if one.protocol == "chat_completions":
        return [body["choices"][0]["message"]]
    if one.protocol == "responses":
        return list(body["output"])
    return [{"role": "assistant", "content": body["content"]}]
