"""Answers and errors of Chat Completions, as a server gives them."""

from everlog.messages import JSON
from everlog.protocols.answering import Asked, Stamp, call_id
from everlog.protocols.exchange import CallDelta, Delta, Fault, Finish, Reply, TextDelta, ThinkingDelta, Usage
from everlog.protocols.faults import render_fault
from everlog.protocols.shapes import Record, dumps, given, record
from everlog.protocols.sse import render_event

FINISHES: dict[Finish, str] = {"length": "length", "filtered": "content_filter", "tool_calls": "tool_calls"}
"""How each way to end is called; all others are `stop`."""


class ChatAnswer:
    """An answer that is given."""

    def __init__(self, asked: Asked, stamp: Stamp) -> None:
        self._stamp = stamp
        self._head: Record = {}
        self._model = asked.settings.model
        self._wants_usage = record(asked.body.get("stream_options")).get("include_usage") is True
        self._texts: dict[str, list[str]] = {}
        self._calls: list[tuple[str, str, list[str]]] = []
        self._places: dict[int, int] = {}
        self._end: Record = {}

    def begin(self, model: str) -> bytes:
        self._model = model or self._model
        named: Record = {"id": f"chatcmpl-{self._stamp.id}", "object": "chat.completion.chunk"}
        self._head = {**named, "created": int(self._stamp.at.timestamp()), "model": self._model}
        return self._chunk({"role": "assistant", "content": ""})

    def add(self, delta: Delta) -> bytes:
        match delta:
            case TextDelta(refusal=True):
                is_first = "refusal" not in self._texts
                return self._say("refusal", delta.text.removeprefix("\n") if is_first else delta.text)
            case TextDelta():
                return self._say("content", delta.text)
            case ThinkingDelta():
                return self._say("reasoning_content", delta.text)
            case CallDelta():
                return self._call(delta)

    def _say(self, name: str, text: str) -> bytes:
        self._texts.setdefault(name, []).append(text)
        return self._chunk({name: text})

    def _call(self, delta: CallDelta) -> bytes:
        place = self._places.get(delta.index)
        if place is None:
            place = self._places[delta.index] = len(self._calls)
            one = (call_id(delta.call_id, self._stamp, place), delta.name, [delta.arguments])
            self._calls.append(one)
            return self._chunk({"tool_calls": [{"index": place, **_call(one)}]})
        self._calls[place][2].append(delta.arguments)
        return self._chunk({"tool_calls": [{"index": place, "function": {"arguments": delta.arguments}}]})

    def _chunk(self, delta: Record, finish: str | None = None) -> bytes:
        choice: JSON = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return render_event(dumps({**self._head, "choices": [choice]}))

    def end(self, reply: Reply) -> bytes:
        finish = FINISHES.get(reply.finish, "tool_calls" if self._calls else "stop")
        usage = None if reply.usage is None else render_usage(reply.usage)
        self._end = given(finish_reason=finish, usage=usage)
        last = self._chunk({}, finish)
        if self._wants_usage and usage is not None:
            last += render_event(dumps({**self._head, "choices": [], "usage": usage}))
        return last + render_event("[DONE]")

    def fail(self, fault: Fault, status: int) -> bytes:
        return render_event(dumps(render_fault(fault, status)))

    def body(self) -> Record:
        said = {name: "".join(texts) for name, texts in self._texts.items()}
        content = said.get("content", None if self._calls or "refusal" in said else "")
        message: Record = {"role": "assistant", "content": content, "refusal": said.get("refusal")}
        message |= given(reasoning_content=said.get("reasoning_content"))
        if self._calls:
            message["tool_calls"] = [_call(one) for one in self._calls]
        choice: JSON = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._end.get("finish_reason"),
        }
        top: Record = {**self._head, "object": "chat.completion", "choices": [choice]}
        return top | given(usage=self._end.get("usage"))


def _call(call: tuple[str, str, list[str]]) -> Record:
    name, pieces = call[1:]
    return {"id": call[0], "type": "function", "function": {"name": name, "arguments": "".join(pieces)}}


def render_usage(usage: Usage) -> Record:
    """Return tokens as this protocol counts them: what was read from a cache is input too."""
    return {
        "prompt_tokens": usage.whole_input,
        "completion_tokens": usage.output or 0,
        "total_tokens": usage.whole_input + (usage.output or 0),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            **given(cache_write_tokens=usage.cache_write),
        },
        "completion_tokens_details": {"reasoning_tokens": usage.thinking or 0},
    }
