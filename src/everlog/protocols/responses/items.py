"""Items of an answer of Responses that are under way: each tells the events by which it begins, grows and ends."""

from collections.abc import Iterable
from typing import Protocol

from everlog.messages import JSON
from everlog.protocols.responses.settings import Declared
from everlog.protocols.shapes import Record, given, loads, record

PARTS: dict[str, tuple[str, Record]] = {
    "output_text": ("text", {"logprobs": []}),
    "refusal": ("refusal", {}),
}
"""Parts of a message: the field that grows, and what stands beside a piece of it."""


class Item(Protocol):
    """An item under way. Events lack the place of the item, which whoever collects items adds."""

    name: str
    """Its id."""

    def item(self) -> Record:
        """Return it as it is now."""

    def done(self) -> Iterable[Record]:
        """Return the events that end it."""


class Words:
    """A message: texts and refusals, each a part."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._parts: list[tuple[str, list[str]]] = []
        self._status = "in_progress"

    def item(self) -> Record:
        content: JSON = [_part(kind, "".join(pieces)) for kind, pieces in self._parts]
        return {
            "id": self.name,
            "type": "message",
            "status": self._status,
            "role": "assistant",
            "content": content,
        }

    def is_new(self, kind: str) -> bool:
        """Whether a piece of this kind begins a part."""
        return not self._parts or self._parts[-1][0] != kind

    def grow(self, kind: str, text: str) -> list[Record]:
        """Add a piece to a text or refusal."""
        events: list[Record] = []
        if self.is_new(kind):
            events = self._part_done()
            self._parts.append((kind, []))
            events.append({"type": "response.content_part.added", **self._at(), "part": _part(kind, "")})
        self._parts[-1][1].append(text)
        beside = PARTS[kind][1]
        return [*events, {"type": f"response.{kind}.delta", **self._at(), "delta": text, **beside}]

    def done(self) -> list[Record]:
        self._status = "completed"
        return self._part_done()

    def _at(self) -> Record:
        return {"content_index": len(self._parts) - 1}

    def _part_done(self) -> list[Record]:
        if not self._parts:
            return []
        kind, pieces = self._parts[-1]
        field, beside = PARTS[kind]
        text = "".join(pieces)
        return [
            {"type": f"response.{kind}.done", **self._at(), field: text, **beside},
            {"type": "response.content_part.done", **self._at(), "part": _part(kind, text)},
        ]


def _part(kind: str, text: str) -> Record:
    field, beside = PARTS[kind]
    return {"type": kind, field: text, **({"annotations": []} if field == "text" else {}), **beside}


class Thought:
    """Reasoning that may be shown: one summary. Nothing of it is sealed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pieces: list[str] = []

    def item(self) -> Record:
        summary: JSON = [self._part()] if self._pieces else []
        return {"id": self.name, "type": "reasoning", "summary": summary}

    def grow(self, text: str) -> list[Record]:
        """Add a piece."""
        events: list[Record] = []
        if not self._pieces:
            events.append({"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": self._part()})
        self._pieces.append(text)
        return [*events, {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": text}]

    def done(self) -> list[Record]:
        part = self._part()
        return [
            {"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": part["text"]},
            {"type": "response.reasoning_summary_part.done", "summary_index": 0, "part": part},
        ]

    def _part(self) -> Record:
        return {"type": "summary_text", "text": "".join(self._pieces)}


class FunctionCall:
    """A call with an object of arguments."""

    kind, field = "function_call", "arguments"

    def __init__(self, name: str, called: Record) -> None:
        self.name = name
        self._called = called
        self._pieces: list[str] = []
        self._status = "in_progress"

    def item(self) -> Record:
        named = {"id": self.name, "type": self.kind, "status": self._status, **self._called}
        return {**named, self.field: self._words()}

    def grow(self, text: str) -> list[Record]:
        """Add a piece to the JSON text of the arguments."""
        self._pieces.append(text)
        return [{"type": "response.function_call_arguments.delta", "delta": text}] if text else []

    def done(self) -> list[Record]:
        self._status = "completed"
        whole = {"arguments": self._words(), "name": self._called["name"]}
        return [{"type": "response.function_call_arguments.done", **whole}]

    def _words(self) -> str:
        return "".join(self._pieces)


class TextCall(FunctionCall):
    """A call with a text; it comes as an object that holds it, so it is told when all of it is there."""

    kind, field = "custom_tool_call", "input"

    def grow(self, text: str) -> list[Record]:
        super().grow(text)
        return []

    def done(self) -> list[Record]:
        self._status = "completed"
        text = self._words()
        return [
            {"type": "response.custom_tool_call_input.delta", "delta": text},
            {"type": "response.custom_tool_call_input.done", "input": text},
        ]

    def _words(self) -> str:
        """Return the text of the object; what is no such object is the text itself."""
        words = super()._words()
        found = record(loads(words)).get("input")
        return found if isinstance(found, str) else words if self._status == "completed" else ""


def call_of(name: str, called: Record, known: Declared | None) -> FunctionCall:
    """Return the call of a tool as its client declared that; nobody knows one that it did not."""
    if known is None:
        return FunctionCall(name, called)
    called = called | given(namespace=known.namespace)
    return TextCall(name, called) if known.is_freeform else FunctionCall(name, called)
