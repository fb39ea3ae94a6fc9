"""Answers and errors of Anthropic's Messages, as a server gives them.

Reasoning is told only to who asked for it: others take the first block for the words. It has no signature, since none of
ours would be true.
"""

from everlog.messages import JSON
from everlog.protocols.answering import TOO_LONG, Asked, Stamp, call_id
from everlog.protocols.anthropic.history import arguments
from everlog.protocols.exchange import CallDelta, Delta, Fault, Finish, Reply, TextDelta, ThinkingDelta, Usage
from everlog.protocols.shapes import Record, dumps, given
from everlog.protocols.sse import render_event

FINISHES: dict[Finish, str] = {
    "length": "max_tokens",
    "filtered": "refusal",
    "tool_calls": "tool_use",
    "pause": "pause_turn",
}
"""How each way to end is called; all others are `end_turn`."""

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}

GROWS = {"text": ("text", "text_delta"), "thinking": ("thinking", "thinking_delta")}
"""The field of each kind of block that comes in pieces, and the delta that brings one."""


class MessageAnswer:
    """An answer that is given: blocks, one after the other."""

    def __init__(self, asked: Asked, stamp: Stamp) -> None:
        thinking = asked.settings.thinking
        self._shows_thinking = thinking is not None and thinking.enabled and thinking.display != "omitted"
        self._stamp = stamp
        self._model = asked.settings.model
        self._blocks: list[Record] = []
        self._pieces: list[list[str]] = []
        self._open: int | None = None
        self._places: dict[int, int] = {}
        self._has_words = False
        self._has_refused = False
        self._end: Record = {"stop_reason": None, "stop_sequence": None}
        self._usage = render_usage(None)

    def begin(self, model: str) -> bytes:
        self._model = model or self._model
        return _event("message_start", message=self.body())

    def add(self, delta: Delta) -> bytes:
        match delta:
            case ThinkingDelta():
                return self._say("thinking", delta.text) if self._shows_thinking else b""
            case TextDelta():
                self._has_refused = self._has_refused or delta.refusal
                is_new = self._has_words and self._kind() != "text"  # a block is a line of its own
                self._has_words = True
                return self._say("text", delta.text.removeprefix("\n") if is_new else delta.text)
            case CallDelta():
                return self._call(delta)

    def _kind(self) -> str:
        return "" if self._open is None else str(self._blocks[self._open]["type"])

    def _say(self, kind: str, text: str) -> bytes:
        field, event = GROWS[kind]
        begun = b""
        if self._kind() != kind:
            more: Record = {"signature": ""} if kind == "thinking" else {}
            begun = self._start({"type": kind, field: "", **more})
        return begun + self._grow(len(self._blocks) - 1, text, {"type": event, field: text})

    def _call(self, delta: CallDelta) -> bytes:
        place = self._places.get(delta.index)
        begun = b""
        if place is None:
            place = self._places[delta.index] = len(self._blocks)
            name = call_id(delta.call_id, self._stamp, len(self._places) - 1)
            begun = self._start({"type": "tool_use", "id": name, "name": delta.name, "input": {}})
        piece = {"type": "input_json_delta", "partial_json": delta.arguments}
        return begun + (self._grow(place, delta.arguments, piece) if delta.arguments else b"")

    def _start(self, block: Record) -> bytes:
        ended = self._stop()
        self._open = len(self._blocks)
        self._blocks.append(block)
        self._pieces.append([])
        return ended + _event("content_block_start", index=self._open, content_block=block)

    def _grow(self, place: int, text: str, delta: Record) -> bytes:
        self._pieces[place].append(text)
        return _event("content_block_delta", index=place, delta=delta)

    def _stop(self) -> bytes:
        ended = b"" if self._open is None else _event("content_block_stop", index=self._open)
        self._open = None
        return ended

    def end(self, reply: Reply) -> bytes:
        stop = FINISHES.get(reply.finish, "tool_use" if self._places else "end_turn")
        if stop == "end_turn" and self._has_refused:
            stop = "refusal"
        self._end["stop_reason"] = stop
        self._usage = render_usage(reply.usage)
        ended = self._stop() + _event("message_delta", delta=self._end, usage=self._usage)
        return ended + _event("message_stop")

    def fail(self, fault: Fault, status: int) -> bytes:
        return render_event(dumps(render_fault(fault, status)), "error")

    def body(self) -> Record:
        return {
            "id": f"msg_{self._stamp.id}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [
                _whole(block, "".join(pieces)) for block, pieces in zip(self._blocks, self._pieces, strict=True)
            ],
            **self._end,
            "usage": self._usage,
        }


def _event(kind: str, **fields: JSON) -> bytes:
    return render_event(dumps({"type": kind, **fields}), kind)


def _whole(block: Record, text: str) -> Record:
    if block["type"] == "tool_use":
        return {**block, "input": arguments(text)}
    return {**block, GROWS[block["type"]][0]: text}


def render_usage(usage: Usage | None) -> Record:
    """Return tokens as this protocol counts them: those of caches apart. It always says how many."""
    usage = usage or Usage()
    out: Record = {
        "input_tokens": usage.input or 0,
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cache_read or 0,
        "output_tokens": usage.output or 0,
    }
    return out | given(output_tokens_details=None if usage.thinking is None else {"thinking_tokens": usage.thinking})


def render_fault(fault: Fault, status: int) -> Record:
    """Return the body of an error; clients know a conversation that is too long by the words that begin its message."""
    kind = KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    message = f"prompt is too long: {fault.message}" if fault.type == TOO_LONG else fault.message
    return {"type": "error", "error": {"type": kind, "message": message}}
