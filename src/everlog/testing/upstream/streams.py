"""The body of a response as the events in which a provider would have streamed it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from everlog.messages import JSON
from everlog.protocols.shapes import dumps
from everlog.protocols.sse import render_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a server streams, with the oddities that real ones have."""

    piece: int = 5
    """Characters in one delta."""
    usage: bool = True
    """Whether the tokens come, where the protocol lets a server leave them out."""
    whole_calls: bool = False
    """Each call in one chunk, all with number 0, as Ollama sends them."""
    repeats_ids: bool = False
    """Id and name of a call in each of its chunks."""
    comments: str = ""
    """A comment before each event, such as `OPENROUTER PROCESSING`."""
    empty_choices: bool = False
    """A first chunk without choices, as Azure sends it."""
    empty_output: bool = False
    """No output in the last event of Responses."""
    unnumbered: bool = False
    """No numbers of items and parts in the events of Responses, as llama.cpp sends them."""


PLAIN = Manner()

NUMBERS = frozenset({"output_index", "content_index", "summary_index", "sequence_number"})
"""Fields by which events of Responses say where in the answer they are."""


def events_of(body: dict[str, Any], protocol: str, manner: Manner = PLAIN) -> Iterator[bytes]:
    """Yield the events of a body, each as the bytes of a stream."""
    make = {"chat_completions": _chunks, "responses": _response_events, "anthropic": _message_events}[protocol]
    for number, event in enumerate(make(body, manner)):
        if manner.comments:
            yield f": {manner.comments}\n\n".encode()
        if protocol == "chat_completions":
            yield render_event(dumps(event))
        else:
            numbered = {**event, "sequence_number": number} if protocol == "responses" else event
            if manner.unnumbered:
                numbered = {name: value for name, value in numbered.items() if name not in NUMBERS}
            yield render_event(dumps(numbered), event["type"])
    if protocol == "chat_completions":
        yield render_event("[DONE]")


def _cut(text: str, piece: int) -> Iterator[str]:
    for start in range(0, len(text), piece):
        yield text[start : start + piece]


def _chunks(body: dict[str, Any], manner: Manner) -> Iterator[dict[str, Any]]:
    top = {name: value for name, value in body.items() if name not in {"choices", "usage"}}
    top["object"] = "chat.completion.chunk"
    if manner.empty_choices:
        yield {**top, "choices": []}
    for choice in body["choices"]:
        rest = {name: value for name, value in choice.items() if name not in {"message", "finish_reason"}}
        for delta in _deltas(choice["message"], manner):
            yield {**top, "choices": [{**rest, "delta": delta, "finish_reason": None}]}
        yield {**top, "choices": [{**rest, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if manner.usage and "usage" in body:
        yield {**top, "choices": [], "usage": body["usage"]}


def _deltas(message: dict[str, Any], manner: Manner) -> Iterator[dict[str, JSON]]:
    first = {name: value for name, value in message.items() if name not in {"tool_calls", "reasoning_content"}}
    yield {**first, "content": None if message.get("content") is None else ""}
    for name in ("reasoning_content", "content"):
        for text in _cut(message.get(name) or "", manner.piece):
            yield {name: text}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        if manner.whole_calls:
            yield {"tool_calls": [{"index": 0, **call}]}
            continue
        begun = {"index": index, **call, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [begun]}
        for text in _cut(function["arguments"], manner.piece):
            again = {"id": call["id"], "type": "function"} if manner.repeats_ids else {}
            named = {"name": function["name"]} if manner.repeats_ids else {}
            yield {"tool_calls": [{"index": index, **again, "function": {**named, "arguments": text}}]}


def _response_events(body: dict[str, Any], manner: Manner) -> Iterator[dict[str, Any]]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(body["output"]):
        place = {"output_index": index}
        started = {**item, "status": "in_progress"} if "status" in item else dict(item)
        started |= {name: type(item[name])() for name in ("content", "summary", "arguments") if item.get(name)}
        yield {"type": "response.output_item.added", **place, "item": started}
        yield from _item_events(item, place | {"item_id": item.get("id", f"item_{index}")}, manner.piece)
        yield {"type": "response.output_item.done", **place, "item": item}
    ended = {**body, "output": []} if manner.empty_output else body
    yield {"type": f"response.{body['status']}", "response": ended}


def _item_events(item: dict[str, Any], place: dict[str, Any], piece: int) -> Iterator[dict[str, Any]]:
    if item["type"] == "function_call":
        for text in _cut(item["arguments"], piece):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": text}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **place, **done}
    for index, part in enumerate(item.get("summary", ())):
        here = {**place, "summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **here, "part": {**part, "text": ""}}
        for text in _cut(part["text"], piece):
            yield {"type": "response.reasoning_summary_text.delta", **here, "delta": text}
        yield {"type": "response.reasoning_summary_text.done", **here, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **here, "part": part}
    for index, part in enumerate(item.get("content") or () if item["type"] == "message" else ()):
        here = {**place, "content_index": index}
        name = "refusal" if part["type"] == "refusal" else "text"
        kind = "refusal" if name == "refusal" else "output_text"
        more: dict[str, JSON] = {} if name == "refusal" else {"logprobs": []}
        yield {"type": "response.content_part.added", **here, "part": {**part, name: ""}}
        for text in _cut(part[name], piece):
            yield {"type": f"response.{kind}.delta", **here, "delta": text, **more}
        yield {"type": f"response.{kind}.done", **here, name: part[name], **more}
        yield {"type": "response.content_part.done", **here, "part": part}


GROWING = {"text": ("text", "text_delta"), "thinking": ("thinking", "thinking_delta")}
"""The field of a block that grows, and the delta that makes it."""


def _message_events(body: dict[str, Any], manner: Manner) -> Iterator[dict[str, Any]]:
    usage = {**body["usage"], "output_tokens": 1}
    begun = {**body, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for index, block in enumerate(body["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _started(block)}
        for delta in _block_deltas(block, manner.piece):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": body["stop_reason"], "stop_sequence": body["stop_sequence"]}
    yield {"type": "message_delta", "delta": ended, "usage": body["usage"]}
    yield {"type": "message_stop"}


def _started(block: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"text": "", "thinking": "", "signature": ""}
    if "input" in block:
        return {**block, "input": {}}
    begun = {name: empty.get(name, value) for name, value in block.items()}
    return {**begun, "citations": []} if block.get("citations") else begun


def _block_deltas(block: dict[str, Any], piece: int) -> Iterator[dict[str, Any]]:
    name, kind = GROWING.get(block["type"], ("", ""))
    for text in _cut(block.get(name, ""), piece):
        yield {"type": kind, name: text}
    for citation in block.get("citations") or ():
        yield {"type": "citations_delta", "citation": citation}
    if block["type"] == "thinking":
        yield {"type": "signature_delta", "signature": block["signature"]}
    if "input" in block:
        given = block["input"]
        text = given if isinstance(given, str) else dumps(given)
        yield {"type": "input_json_delta", "partial_json": ""}
        for one in _cut(text, piece):
            yield {"type": "input_json_delta", "partial_json": one}
