"""Answers of Chat Completions, in chunks.

Servers differ in what they call a chunk of a call: OpenAI numbers them and names each once; others send each call whole,
all with number 0, or without a number, or repeat id and name in every chunk. What tells two calls apart is the id.
"""

from typing import Any

from everlog.protocols.chat_completions.replies import parse_fault, parse_reply
from everlog.protocols.exchange import CallDelta, Delta, Fault, Reply, TextDelta, ThinkingDelta
from everlog.protocols.growing import Seams, grow, grown, refuse_more
from everlog.protocols.shapes import Record, array, loads, record, string
from everlog.protocols.sse import Event

GROWS = frozenset(
    {
        "content",
        "refusal",
        "reasoning_content",
        "reasoning",
        "arguments",
        "input",
        "text",
        "summary",
        "transcript",
        "data",
    }
)
"""Texts that come in pieces; another text in a chunk replaces what was there."""


class ChatStream:
    """An answer under way."""

    def __init__(self) -> None:
        self.done = False
        self.fault: Fault | None = None
        self._top: Record = {}
        self._choices: dict[int, Record] = {}
        self._seams = Seams()

    def feed(self, event: Event) -> list[Delta]:
        """Take in one chunk and return what it adds to the first choice."""
        if event.data == "[DONE]":
            self.done = True
            return []
        chunk = record(loads(event.data))
        if "error" in chunk:
            self.fault = parse_fault(chunk) or self.fault
        deltas: list[Delta] = []
        top = self._top
        for name, value in chunk.items():
            if name == "choices":
                for choice in array(value):
                    deltas += self._choice(record(choice))
            elif value is not None:
                top[name] = value
        return deltas

    def _choice(self, chunk: Record) -> list[Delta]:
        index = chunk.get("index")
        number = index if isinstance(index, int) else 0
        choice = self._choices.get(number)
        if choice is None:
            refuse_more(self._choices)
            choice = self._choices[number] = {"index": number, "message": {"role": "assistant", "content": None}}
        _grow(choice, chunk, leave_out=("delta", "message", "index"))
        piece = record(chunk.get("delta")) or record(chunk.get("message"))
        message = choice["message"]
        if len(piece) == 1 and isinstance(words := piece.get("content"), str) and message["content"]:
            grow(message, "content", words)  # as below, which most pieces need not go through
            return [TextDelta(text=words)] if words and number == min(self._choices) else []
        _grow(message, piece, leave_out=("tool_calls",))
        deltas: list[Delta] = []
        is_told = number == min(self._choices)
        if text := string(piece.get("reasoning_content")) or string(piece.get("reasoning")):
            deltas.append(ThinkingDelta(text=text))
        deltas += [
            TextDelta(text=self._seams.joined(name, text), refusal=name == "refusal")
            for name in ("content", "refusal")
            if is_told and (text := string(piece.get(name)))
        ]
        if calls := array(piece.get("tool_calls")):
            known = message.setdefault("tool_calls", [])
            deltas += [_call(known, record(call)) for call in calls]
        return deltas if is_told else []

    def body(self) -> dict[str, Any]:
        """Return the answer so far, as it would have come without streaming."""
        top = {**self._top}
        if top.get("object") == "chat.completion.chunk":
            top["object"] = "chat.completion"
        usage = {"usage": top.pop("usage")} if "usage" in top else {}
        return top | {"choices": [self._whole(self._choices[number]) for number in sorted(self._choices)]} | usage

    def reply(self) -> Reply:
        """Return the answer so far."""
        return parse_reply(self.body())

    @staticmethod
    def _whole(choice: Record) -> Record:
        choice = grown(choice)
        message = choice["message"]
        if "tool_calls" in message:
            message["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in message["tool_calls"]]
            message["content"] = message.get("content") or None
        return choice


def _call(calls: list[Record], piece: Record) -> CallDelta:
    place = _place(calls, piece)
    if place == len(calls):
        refuse_more(calls)
        calls.append({"id": "", "type": "function"})
    _grow(calls[place], piece)
    function = record(piece.get("function")) or record(piece.get("custom"))
    return CallDelta(
        index=place,
        call_id=string(piece.get("id")),
        name=string(function.get("name")),
        arguments=string(function.get("arguments")) or string(function.get("input")),
    )


def _place(calls: list[Record], piece: Record) -> int:
    """Return which call a piece belongs to; the number after the last one is a new call."""
    call_id, index = string(piece.get("id")), piece.get("index")
    if call_id:
        same = [place for place, call in enumerate(calls) if call["id"] in {call_id, ""} and call.get("index") == index]
        return same[-1] if same else len(calls)
    numbered = [place for place, call in enumerate(calls) if call.get("index") == index]
    if index is None and record(piece.get("function")).get("name"):
        return len(calls)
    return numbered[-1] if numbered else len(calls)


def _grow(whole: Record, piece: Record, *, leave_out: tuple[str, ...] = ()) -> None:
    """Add a piece to what there is: texts that come in pieces get longer, lists too, the rest is replaced."""
    for name, value in piece.items():
        if name in leave_out:
            continue
        if value is None:
            whole.setdefault(name, None)
            continue
        old = whole.get(name)
        if isinstance(value, str):
            if name in GROWS and old:
                grow(whole, name, value)
            elif value or not isinstance(old, str):
                whole[name] = value
        elif isinstance(value, dict) and isinstance(old, dict):
            _grow(old, value)
        elif isinstance(value, list):
            whole[name] = _longer(old if type(old) is list else [], value)
        else:
            whole[name] = grown(value)


def _longer(whole: list[Any], pieces: list[Any]) -> list[Any]:
    """Add pieces to a list; those with the number of an item that is there are added to that item."""
    for piece in pieces:
        index = record(piece).get("index")
        same = []
        if isinstance(index, int):
            refuse_more(whole)
            same = [one for one in whole if record(one).get("index") == index]
        if same:
            _grow(same[-1], piece)
        else:
            whole.append(grown(piece))
    return whole
