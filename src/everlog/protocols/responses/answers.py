"""Answers and errors of Responses, as a server gives them: items, one after the other, each begun, grown and done."""

from collections.abc import Iterable

from everlog.messages import JSON
from everlog.protocols.answering import TOO_LONG, Asked, Stamp, call_id
from everlog.protocols.exchange import CallDelta, Delta, Fault, Finish, Reply, TextDelta, ThinkingDelta, Usage
from everlog.protocols.responses.items import FunctionCall, Item, Thought, Words, call_of
from everlog.protocols.responses.settings import declared
from everlog.protocols.shapes import Record, dumps
from everlog.protocols.sse import render_event

REPEATED: dict[str, JSON] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""What an answer repeats of its request, and what stands there where that says nothing."""

CUT: dict[Finish, str] = {"length": "max_output_tokens", "filtered": "content_filter"}
"""Why an answer is not whole."""


FAULTS = {400: "invalid_prompt", 413: "invalid_prompt", 422: "invalid_prompt", 429: "rate_limit_exceeded"}
"""What an answer that failed calls its error, by the status that it would have; all others are the server's."""


class ResponseAnswer:
    """An answer that is given."""

    def __init__(self, asked: Asked, stamp: Stamp) -> None:
        self._stamp = stamp
        self._shows_thinking = asked.settings.thinking is not None and asked.settings.thinking.enabled
        self._tools, _ = declared(asked.body.get("tools"))
        repeated = {name: asked.body[name] for name in REPEATED if asked.body.get(name) is not None}
        self._top: Record = {
            "id": f"resp_{stamp.id}",
            "object": "response",
            "created_at": int(stamp.at.timestamp()),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": asked.settings.model,
            **REPEATED,
            **repeated,
            "usage": None,
        }
        self._items: list[Item] = []
        self._open: Item | None = None
        self._calls: dict[int, tuple[int, FunctionCall]] = {}
        self._has_words = False
        self._number = 0

    def begin(self, model: str) -> bytes:
        self._top["model"] = model or self._top["model"]
        begun = self.body()
        return self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)

    def add(self, delta: Delta) -> bytes:
        match delta:
            case ThinkingDelta():
                return self._think(delta.text) if self._shows_thinking else b""
            case TextDelta():
                return self._say("refusal" if delta.refusal else "output_text", delta.text)
            case CallDelta():
                return self._call(delta)

    def _think(self, text: str) -> bytes:
        begun, last = b"", self._open
        if not isinstance(last, Thought):
            last = Thought(self._id("rs"))
            begun = self._start(last)
        return begun + self._told(last.grow(text), len(self._items) - 1)

    def _say(self, kind: str, text: str) -> bytes:
        begun, last = b"", self._open
        if not isinstance(last, Words):
            last = Words(self._id("msg"))
            begun = self._start(last)
        if last.is_new(kind) and self._has_words:
            text = text.removeprefix("\n")  # a part is a line of its own
        self._has_words = True
        return begun + self._told(last.grow(kind, text), len(self._items) - 1)

    def _call(self, delta: CallDelta) -> bytes:
        begun = b""
        if delta.index not in self._calls:
            known = self._tools.get(delta.name)
            call = call_of(
                self._id("fc" if known is None or not known.is_freeform else "ctc"),
                {"call_id": call_id(delta.call_id, self._stamp, len(self._calls)), "name": delta.name},
                known,
            )
            self._calls[delta.index] = len(self._items), call
            begun = self._start(call)
        place, call = self._calls[delta.index]
        return begun + self._told(call.grow(delta.arguments), place)

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._stamp.id}_{len(self._items)}"

    def _start(self, item: Item) -> bytes:
        ended = self._done()
        self._open = item
        self._items.append(item)
        return ended + self._event("response.output_item.added", output_index=len(self._items) - 1, item=item.item())

    def _done(self) -> bytes:
        """End the item under way, if there is one."""
        item, place = self._open, len(self._items) - 1
        if item is None:
            return b""
        self._open = None
        return self._told(item.done(), place) + self._event(
            "response.output_item.done", output_index=place, item=item.item()
        )

    def _told(self, events: Iterable[Record], place: int) -> bytes:
        """Return the events of an item, with its place."""
        item_id = self._items[place].name
        return b"".join(self._event(**event, output_index=place, item_id=item_id) for event in events)

    def _event(self, type: str, **fields: JSON) -> bytes:  # noqa: A002 -- as the protocol says it
        event: Record = {"type": type, **fields, "sequence_number": self._number}
        self._number += 1
        return render_event(dumps(event), type)

    def end(self, reply: Reply) -> bytes:
        ended = self._done()
        cut = CUT.get(reply.finish)
        if cut is not None:
            self._top |= {"status": "incomplete", "incomplete_details": {"reason": cut}}
        else:
            self._top["status"] = "completed"
        self._top["usage"] = None if reply.usage is None else render_usage(reply.usage)
        return ended + self._event(f"response.{self._top['status']}", response=self.body())

    def fail(self, fault: Fault, status: int) -> bytes:
        code = FAULTS.get(status, "server_error")
        code = TOO_LONG if fault.type == TOO_LONG else code
        begun = b"" if self._number else self.begin("")
        self._top |= {"status": "failed", "error": {"code": code, "message": fault.message}}
        return begun + self._event("response.failed", response=self.body())

    def body(self) -> Record:
        return {**self._top, "output": [one.item() for one in self._items]}


def render_usage(usage: Usage) -> Record:
    """Return tokens as this protocol counts them: what was read from a cache is input too."""
    return {
        "input_tokens": usage.whole_input,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": usage.output or 0,
        "output_tokens_details": {"reasoning_tokens": usage.thinking or 0},
        "total_tokens": usage.whole_input + (usage.output or 0),
    }
