"""Answers of Anthropic's Messages, in events."""

from typing import Any

from everlog.protocols.anthropic.replies import parse_fault, parse_reply
from everlog.protocols.exchange import CallDelta, Delta, Fault, Reply, TextDelta, ThinkingDelta
from everlog.protocols.growing import Seams, grow, grown, refuse_more
from everlog.protocols.shapes import Record, array, loads, record, string
from everlog.protocols.sse import Event


class MessageStream:
    """An answer under way."""

    def __init__(self) -> None:
        self.done = False
        self.fault: Fault | None = None
        self._message: Record = {}
        self._blocks: dict[int, Record] = {}
        self._inputs: dict[int, list[str]] = {}
        self._calls: dict[int, int] = {}
        self._words, self._thoughts = Seams(), Seams()

    def feed(self, event: Event) -> list[Delta]:
        """Take in one event and return what it adds."""
        shape = record(loads(event.data))
        index = shape.get("index")
        number = index if isinstance(index, int) else len(self._blocks)
        match string(shape.get("type")) or event.name:
            case "message_start":
                self._message = dict(record(shape.get("message")))
            case "content_block_start":
                return self._start(number, dict(record(shape.get("content_block"))))
            case "content_block_delta":
                return self._delta(number, record(shape.get("delta")))
            case "message_delta":
                self._update(shape)
            case "message_stop":
                self.done = True
            case "error":
                self.fault = parse_fault(shape) or Fault(type="error", message="")
            case _:
                pass
        return []

    def _start(self, index: int, block: Record) -> list[Delta]:
        if index not in self._blocks:
            refuse_more(self._blocks)
        self._blocks[index] = block
        kind = block.get("type")
        if kind == "tool_use":
            place = self._calls.setdefault(index, len(self._calls))
            return [CallDelta(index=place, call_id=string(block.get("id")), name=string(block.get("name")))]
        if kind == "text" and (text := string(block.get("text"))):
            return [self._said(index, text)]
        return []

    def _said(self, index: int, text: str) -> TextDelta:
        """Return a piece of the text of a block; one with citations goes on in the line of the block before it."""
        before, block = self._blocks.get(index - 1, {}), self._blocks[index]
        is_cited = bool(before.get("citations")) or isinstance(block.get("citations"), list)
        glued = before.get("type") == "text" and is_cited
        return TextDelta(text=self._words.joined(index, text, glued=glued))

    def _delta(self, index: int, delta: Record) -> list[Delta]:
        if index not in self._blocks:
            refuse_more(self._blocks)
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = delta.get("type")
        if kind == "input_json_delta":
            piece = string(delta.get("partial_json"))
            self._inputs.setdefault(index, []).append(piece)
            return [CallDelta(index=self._calls[index], arguments=piece)] if piece and index in self._calls else []
        if kind == "citations_delta":
            block["citations"] = array(block.get("citations"))
            block["citations"].append(delta.get("citation"))
            return []
        for name, value in delta.items():
            if isinstance(value, str) and name != "type":
                grow(block, name, value)
            elif name != "type":
                block[name] = value
        if kind == "text_delta" and (text := string(delta.get("text"))):
            return [self._said(index, text)]
        if kind == "thinking_delta" and (text := string(delta.get("thinking"))):
            return [ThinkingDelta(text=self._thoughts.joined(index, text))]
        return []

    def _update(self, event: Record) -> None:
        """Take in the end of a message: its reason, counts that replace the first ones, and what else there is."""
        self._message |= record(event.get("delta"))
        if isinstance(usage := event.get("usage"), dict):
            self._message["usage"] = {**record(self._message.get("usage")), **_known(usage)}
        self._message |= {name: value for name, value in event.items() if name not in {"type", "delta", "usage"}}

    def body(self) -> dict[str, Any]:
        """Return the answer so far, as it would have come without streaming."""
        blocks = [self._whole(index) for index in sorted(self._blocks)]
        return {**self._message, "content": blocks} if self._message or blocks else {}

    def reply(self) -> Reply:
        """Return the answer so far."""
        return parse_reply(self.body())

    def _whole(self, index: int) -> Record:
        """Return a block with its input; text that is no JSON stays text."""
        block: Record = grown(self._blocks[index])
        words = "".join(self._inputs.get(index, ()))
        if not words.strip():
            return block
        parsed = loads(words)
        return {**block, "input": words if parsed is None else parsed}


def _known(usage: Record) -> Record:
    return {name: value for name, value in usage.items() if value is not None}
