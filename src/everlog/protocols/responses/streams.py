"""Answers of Responses, in events.

The last event holds the whole answer. Until it comes, and from servers that leave its output empty, the items are put
together from theirs.
"""

from typing import Any

from everlog.protocols.exchange import CallDelta, Delta, Fault, Reply, TextDelta, ThinkingDelta
from everlog.protocols.growing import Seams, grow, grown, refuse_more
from everlog.protocols.responses.history import CALLS
from everlog.protocols.responses.replies import parse_fault, parse_reply
from everlog.protocols.shapes import Record, array, loads, record, string
from everlog.protocols.sse import Event

LAST = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})

GROWING: dict[str, tuple[str, str]] = {
    "response.output_text.delta": ("content", "text"),
    "response.refusal.delta": ("content", "refusal"),
    "response.reasoning_text.delta": ("content", "text"),
    "response.reasoning_summary_text.delta": ("summary", "text"),
}
"""Events that add to a text of a part: the list that the part is in, and the field of the text."""


class ResponseStream:
    """An answer under way."""

    def __init__(self) -> None:
        self.done = False
        self.fault: Fault | None = None
        self._response: Record = {}
        self._items: dict[int, Record] = {}
        self._calls: dict[int, int] = {}
        self._words, self._thoughts = Seams(), Seams()

    def feed(self, event: Event) -> list[Delta]:
        """Take in one event and return what it adds."""
        shape = record(loads(event.data))
        kind = string(shape.get("type")) or event.name
        if isinstance(response := shape.get("response"), dict):
            self._response = response
        if kind in LAST:
            self.done = True
        if kind in LAST or kind == "error":
            self.fault = self.fault or parse_fault(shape) or parse_fault(record(shape.get("response")))
        index = self._place(shape, is_new=kind.endswith("output_item.added"))
        if index is not None and index not in self._items:
            refuse_more(self._items)
        return self._item(kind, index, shape) if index is not None else []

    def _place(self, event: Record, *, is_new: bool) -> int | None:
        """Return the number of the item that an event is about; servers that do not number them name their ids."""
        index = event.get("output_index")
        if isinstance(index, int):
            return index
        if "item_id" not in event and "item" not in event:
            return None
        item_id = string(event.get("item_id")) or string(record(event.get("item")).get("id"))
        known = next((number for number, item in self._items.items() if item_id and item.get("id") == item_id), None)
        if known is not None:
            return known
        return max(self._items, default=-1) + 1 if is_new else max(self._items, default=0)

    def _item(self, kind: str, index: int, event: Record) -> list[Delta]:
        if kind in {"response.output_item.added", "response.output_item.done"}:
            return self._whole_item(index, record(event.get("item")), is_new=kind.endswith("added"))
        item = self._items.setdefault(index, {})
        delta = string(event.get("delta"))
        if kind in GROWING:
            where, field = GROWING[kind]
            _add(item, event, where, field, delta)
            place = (index, where, event.get("content_index"), event.get("summary_index"), field)
            if not delta:
                return []
            if "reasoning" in kind:
                return [ThinkingDelta(text=self._thoughts.joined(place, delta))]
            return [TextDelta(text=self._words.joined(place, delta), refusal=field == "refusal")]
        if kind in {"response.content_part.added", "response.reasoning_summary_part.added"}:
            _put(item, event, "content" if "content" in kind else "summary")
        elif kind in {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}:
            field = CALLS.get(string(item.get("type")), "arguments")
            grow(item, field, delta)
            return [CallDelta(index=self._call(index), arguments=delta)] if delta else []
        return []

    def _whole_item(self, index: int, item: Record, *, is_new: bool) -> list[Delta]:
        known = self._items.get(index)
        self._items[index] = dict(item)
        field = CALLS.get(string(item.get("type")))
        if field is None or (known is not None and not is_new):
            return []
        names = {"call_id": string(item.get("call_id")), "name": string(item.get("name"))}
        return [CallDelta(index=self._call(index), **names, arguments=string(item.get(field)))]

    def _call(self, index: int) -> int:
        return self._calls.setdefault(index, len(self._calls))

    def body(self) -> dict[str, Any]:
        """Return the answer so far, as it would have come without streaming."""
        if array(self._response.get("output")) or not self._items:
            return self._response
        return {**self._response, "output": [grown(self._items[index]) for index in sorted(self._items)]}

    def reply(self) -> Reply:
        """Return the answer so far."""
        return parse_reply(self.body())


def _part(item: Record, event: Record, place: str, *, is_new: bool = False) -> Record:
    """Return the part of an item that an event is about, the last one if it does not say; it is made if need be."""
    index = event.get("summary_index" if place == "summary" else "content_index")
    known = item.get(place)
    if not is_new and type(known) is list and type(index) is int and 0 <= index < len(known):  # as most are
        part = known[index]
        if type(part) is dict:
            return part
    parts: list[Record] = item.setdefault(place, []) if isinstance(item.get(place, []), list) else []
    if item.get(place) is not parts:
        item[place] = parts
    last = len(parts) if is_new or not parts or isinstance(index, int) else len(parts) - 1
    number = index if isinstance(index, int) and 0 <= index <= len(parts) else last
    if number == len(parts):
        refuse_more(parts)
        parts.append({})
    if not isinstance(parts[number], dict):
        parts[number] = {}
    return parts[number]


def _put(item: Record, event: Record, place: str) -> None:
    _part(item, event, place, is_new=True).update(record(event.get("part")))


def _add(item: Record, event: Record, place: str, field: str, delta: str) -> None:
    part = _part(item, event, place)
    if not part:
        kinds = {"summary": "summary_text", "refusal": "refusal"}
        part["type"] = kinds.get(place) or kinds.get(field) or "output_text"
        if "reasoning" in string(event.get("type")) and place == "content":
            part["type"] = "reasoning_text"
    grow(part, field, delta)
