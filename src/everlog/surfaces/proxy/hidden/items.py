"""Rounds of Responses as one response of ours: its items and events go on counting, calls of ours are left out."""

from collections.abc import Iterator, Mapping, Sequence

from everlog.messages import JSON
from everlog.protocols.answering import TOO_LONG, Stamp
from everlog.protocols.exchange import Delta
from everlog.protocols.responses import FORMAT
from everlog.protocols.responses.answers import FAULTS, REPEATED
from everlog.protocols.responses.streams import LAST
from everlog.protocols.shapes import Record, dumps, loads, record, string
from everlog.protocols.sse import Event, render_event
from everlog.surfaces.proxy.hidden.offering import without_tools
from everlog.surfaces.proxy.hidden.telling import Ending, Failing, Ours, as_came

PREFIX = "resp_evl_"
"""What ids of answers of ours begin with."""

CALL = "function_call"


def changed(sent: Record, client: Record) -> Record:
    """Return what a client asked for otherwise than it was sent, of what an answer repeats; tools apart."""
    asked = {name: client.get(name, default) for name, default in REPEATED.items() if name != "tools"}
    return {name: value for name, value in asked.items() if sent.get(name) != client.get(name)}


class ResponseTeller:
    """The one response."""

    def __init__(self, ours: Ours, stamp: Stamp, asked: Mapping[str, JSON]) -> None:
        self._ours = ours
        self._stamp = stamp
        self._asked = asked
        """What the response repeats of the client's request, where that is not what the upstream was asked."""
        self._head: Record = {}
        """What stays as the first round said it."""
        self._upstream_id = ""
        self._is_first = True
        self._number: int | None = None
        """The number of the last event, once there was one."""
        self._next = 0
        """The number of the next item."""
        self._places: dict[object, int | None] = {}
        """The client's number of each item of the round; None for a call of ours."""
        self._last: object = None
        self._held: dict[object, list[Event]] = {}
        """Events of calls whose name is not known yet."""
        self._withheld: list[Event] = []

    def begin(self) -> None:
        self._is_first = False
        self._places, self._held, self._withheld = {}, {}, []

    def feed(self, event: Event, deltas: Sequence[Delta]) -> bytes:  # noqa: ARG002 -- as Teller says it
        shape = record(loads(event.data))
        kind = string(shape.get("type")) or event.name
        if self._withheld or kind in LAST or kind == "error":
            self._withheld.append(event)
            return b""
        if isinstance(shape.get("response"), dict):
            return self._whole(event, shape)
        if "output_index" not in shape and "item_id" not in shape and "item" not in shape:
            return self._told(event, shape)
        return self._item(event, shape, kind)

    def _whole(self, event: Event, shape: Record) -> bytes:
        """Tell how the response stands, which only the first round does."""
        if not self._is_first:
            return b""
        return self._told(event, shape, response=self.alone(shape["response"]))

    def alone(self, body: Record) -> Record:
        if self._is_first:
            self._upstream_id = string(body.get("id"))
            changes = {name: value for name, value in self._asked.items() if name in body}
            self._head = {"id": PREFIX + self._stamp.id, **changes}
            self._head |= {
                name: body[name] for name in ("created_at", *REPEATED) if name in body and name not in changes
            }
            if "tools" in body:
                self._head["tools"] = without_tools(body["tools"], self._ours)
        return {**body, **self._head}

    def _item(self, event: Event, shape: Record, kind: str) -> bytes:
        key = self._key(shape, is_new=kind == "response.output_item.added")
        if key not in self._places:
            item = record(shape.get("item"))
            name = string(item.get("name")) or string(shape.get("name"))
            is_call = item.get("type") == CALL or key in self._held
            if is_call and not name and kind != "response.output_item.done":
                self._held.setdefault(key, []).append(event)
                return b""
            self._decide(key, is_ours=is_call and self._ours(name))
        out = [self._placed(one, key) for one in (*self._held.pop(key, ()), event)]
        return b"".join(out)

    def _decide(self, key: object, *, is_ours: bool) -> None:
        self._places[key] = None if is_ours else self._next
        self._next += not is_ours

    def _key(self, shape: Record, *, is_new: bool) -> object:
        """Return what tells the item of an event from others: its number, or its id where a server does not number."""
        item_id = string(shape.get("item_id")) or string(record(shape.get("item")).get("id"))
        index = shape.get("output_index")
        if isinstance(index, int):
            key: object = index
        elif is_new:
            key = item_id or f"#{len(self._places) + len(self._held)}"
        else:
            key = item_id if item_id in self._places or item_id in self._held else self._last
        self._last = key
        return key

    def _placed(self, event: Event, key: object) -> bytes:
        place = self._places[key]
        if place is None:
            return b""
        shape = record(loads(event.data))
        return self._told(event, shape, **({"output_index": place} if "output_index" in shape else {}))

    def _told(self, event: Event, shape: Record, **changes: JSON) -> bytes:
        """Return an event with its number, as it came if nothing in it is another."""
        number = shape.get("sequence_number")
        if isinstance(number, int):
            changes["sequence_number"] = self._number = number if self._number is None else self._number + 1
        if self._upstream_id and shape.get("response_id") == self._upstream_id:
            changes["response_id"] = self._head["id"]
        is_same = all(shape.get(name) == value for name, value in changes.items())
        return as_came(event) if is_same else render_event(dumps({**shape, **changes}), event.name)

    def end(self, ending: Ending) -> bytes:
        out = [self._placed(event, key) for key, event in self._undecided()]
        return b"".join([*out, *(self._ended(event, ending) for event in self._withheld)])

    def _undecided(self) -> Iterator[tuple[object, Event]]:
        """Yield what was held of calls that never had a name; those are the client's."""
        held, self._held = self._held, {}
        for key, events in held.items():
            self._decide(key, is_ours=False)
            yield from ((key, event) for event in events)

    def _ended(self, event: Event, ending: Ending) -> bytes:
        shape = record(loads(event.data))
        if not isinstance(shape.get("response"), dict):
            return self._told(event, shape)
        response = self.alone(shape["response"])
        if ending.output is not None:
            response["output"] = [*ending.output]
        if ending.usage is not None:
            response["usage"] = ending.usage
        if ending.stop != "length":
            return self._told(event, shape, response=response)
        response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        kind = "response.incomplete"
        return self._told(Event(event.data, event.name and kind), shape, type=kind, response=response)

    def fail(self, failing: Failing) -> bytes:
        if any(FORMAT.parse_fault(_reported(event)) is not None for event in self._withheld):
            return self.end(Ending(output=failing.output))
        code = TOO_LONG if failing.fault.type == TOO_LONG else FAULTS.get(failing.status, "server_error")
        made: Record = {
            "id": PREFIX + self._stamp.id,
            "object": "response",
            "created_at": int(self._stamp.at.timestamp()),
        }
        error: Record = {"code": code, "message": failing.fault.message}
        response = {**made, **self._head, "status": "failed", "error": error, "output": [*failing.output]}
        number = 0 if self._number is None else self._number + 1
        kind = "response.failed"
        return render_event(dumps({"type": kind, "response": response, "sequence_number": number}), kind)

    def events(self, body: Record) -> Iterator[Event]:
        yield Event(dumps({"type": "response.created", "response": body}), "response.created")
        kind = f"response.{body.get('status')}"
        kind = kind if kind in LAST else "response.completed"
        yield Event(data=dumps({"type": kind, "response": body}), name=kind)

    def without(self, items: Sequence[JSON]) -> tuple[JSON, ...]:
        return tuple(item for item in items if not self._is_ours(record(item)))

    def _is_ours(self, item: Record) -> bool:
        return item.get("type") == CALL and self._ours(string(item.get("name")))


def _reported(event: Event) -> Record:
    shape = record(loads(event.data))
    return shape if shape.get("type") == "error" else record(shape.get("response"))
