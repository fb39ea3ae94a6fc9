"""What a scripted model says, as the body of a response in each protocol.

Bodies and streams have the shapes that were recorded from the providers, and are lawful for the types of their SDKs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from everlog.messages import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a model, in no protocol's words."""

    text: str = ""
    calls: tuple[tuple[str, str, JSON], ...] = ()
    """Id, name and arguments of each tool call; arguments that are a text are sent as they are."""
    thinking: str = ""
    finish: str = ""
    """stop, length or tool_calls; by default what fits the rest."""
    input_tokens: int = 100
    cached_tokens: int = 0
    """How many of `input_tokens` were read from a cache."""
    output_tokens: int = 20
    fields: Mapping[str, JSON] = field(default_factory=dict)
    """Laid over the finished body."""

    @property
    def why(self) -> str:
        """Why it ended, in the words of Chat Completions."""
        return self.finish or ("tool_calls" if self.calls else "stop")


def body_of(answer: Answer, protocol: str, model: str, number: int = 1) -> dict[str, Any]:
    """Return the answer as the body of a response; `number` tells its ids from those of others."""
    make = {"chat_completions": _chat_completion, "responses": _response, "anthropic": _message}[protocol]
    return {**make(answer, model, number), **answer.fields}


def _arguments(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _chat_completion(answer: Answer, model: str, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["content"] = answer.text or None
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": _arguments(arguments)}}
            for call_id, name, arguments in answer.calls
        ]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1767600000 + number,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": answer.why}],
        "usage": {
            "prompt_tokens": answer.input_tokens,
            "completion_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _response(answer: Answer, model: str, number: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        output.append(
            {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": f"sealed-{number}"}
        )
    if answer.text or not answer.calls:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        item = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
        output.append(item)
    for place, (call_id, name, arguments) in enumerate(answer.calls):
        call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": _arguments(arguments)}
        output.append({"id": f"fc_{number}_{place}", **call, "status": "completed"})
    is_cut = answer.why == "length"
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1767600000 + number,
        "status": "incomplete" if is_cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }


def _message(answer: Answer, model: str, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": f"signed-{number}"})
    if answer.text:
        content.append({"type": "text", "text": answer.text, "citations": None})
    for call_id, name, arguments in answer.calls:
        content.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
    stop = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}[answer.why]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.input_tokens - answer.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": answer.cached_tokens,
            "output_tokens": answer.output_tokens,
        },
    }
