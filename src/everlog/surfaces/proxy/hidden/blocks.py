"""Rounds of Anthropic's Messages as one message: its blocks go on counting, those of ours are left out."""

from collections.abc import Iterator, Sequence

from everlog.messages import JSON
from everlog.protocols.anthropic import FORMAT
from everlog.protocols.exchange import Delta
from everlog.protocols.shapes import Record, array, dumps, loads, record, string
from everlog.protocols.sse import Event, render_event
from everlog.surfaces.proxy.hidden.telling import Ending, Failing, Ours, as_came

STOPS = {"stop": "end_turn", "length": "max_tokens"}

OF_FIRST = frozenset({"id", "type", "role", "model", "content", "usage"})
"""What a message says at its beginning, and of several rounds the first one."""


class MessageTeller:
    """The one message."""

    def __init__(self, ours: Ours) -> None:
        self._ours = ours
        self._has_begun = False
        self._next = 0
        self._places: dict[int, int | None] = {}
        """The client's number of each block of the round; None for a call of ours."""
        self._is_moved = False
        """Whether blocks have other numbers than the upstream gave them."""
        self._withheld: list[Event] = []

    def begin(self) -> None:
        self._places = {}
        self._withheld = []
        self._is_moved = True

    def feed(self, event: Event, deltas: Sequence[Delta]) -> bytes:  # noqa: ARG002 -- as Teller says it
        if self._withheld:
            self._withheld.append(event)
            return b""
        if event.name == "content_block_delta" and not self._is_moved:  # as most are
            return as_came(event)
        shape = record(loads(event.data))
        kind = string(shape.get("type")) or event.name
        if kind in {"message_delta", "message_stop", "error"}:
            self._withheld.append(event)
            return b""
        if kind == "message_start":
            is_first, self._has_begun = not self._has_begun, True
            return as_came(event) if is_first else b""
        index = shape.get("index")
        if not isinstance(index, int):
            return as_came(event)
        place = self._place(index, record(shape.get("content_block")))
        if place is None:
            return b""
        return as_came(event) if place == index else render_event(dumps({**shape, "index": place}), event.name)

    def _place(self, index: int, begun: Record) -> int | None:
        if index not in self._places:
            if self._is_ours(begun):
                self._places[index] = None
                self._is_moved = True
            else:
                self._places[index] = self._next
                self._next += 1
        return self._places[index]

    def end(self, ending: Ending) -> bytes:
        return b"".join(self._ended(event, ending) for event in self._withheld)

    def _ended(self, event: Event, ending: Ending) -> bytes:
        shape = record(loads(event.data))
        if (string(shape.get("type")) or event.name) != "message_delta" or not (ending.stop or ending.usage):
            return as_came(event)
        if ending.stop:
            shape["delta"] = {**record(shape.get("delta")), "stop_reason": STOPS[ending.stop]}
        if ending.usage is not None:
            shape["usage"] = ending.usage
        return render_event(dumps(shape), event.name)

    def fail(self, failing: Failing) -> bytes:
        return failing.told(self._withheld, FORMAT, "error")

    def events(self, body: Record) -> Iterator[Event]:
        yield _event("message_start", message={**body, "content": []})
        for index, block in enumerate(array(body.get("content"))):
            yield _event("content_block_start", index=index, content_block=block)
            yield _event("content_block_stop", index=index)
        ended = {name: value for name, value in body.items() if name not in OF_FIRST}
        yield _event("message_delta", delta=ended, usage=body.get("usage"))
        yield _event("message_stop")

    def alone(self, body: Record) -> Record:
        return body

    def without(self, items: Sequence[JSON]) -> tuple[JSON, ...]:
        kept: list[JSON] = []
        for message in map(record, items):
            content = [block for block in array(message.get("content")) if not self._is_ours(record(block))]
            if content:
                kept.append({**message, "content": content})
        return tuple(kept)

    def _is_ours(self, block: Record) -> bool:
        return block.get("type") == "tool_use" and self._ours(string(block.get("name")))


def _event(kind: str, **fields: JSON) -> Event:
    return Event(data=dumps({"type": kind, **fields}), name=kind)
