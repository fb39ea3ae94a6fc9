"""Conversations of the official clients: what each turn asks for, and all that comes back, as values to compare."""

import json
from functools import cache
from typing import Any

import anthropic
import openai

TOOL_CHAT: Any = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
TOOL: Any = {"name": "read", "input_schema": {"type": "object"}}
QUESTION: Any = {"role": "user", "content": "What is in my notes?"}


@cache
def _open_ai(base: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{base}/v1", api_key="sk-client", max_retries=0)


@cache
def _claude(base: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=base, api_key="sk-ant-client", max_retries=0)


def open_ai(base: str, **options: Any) -> openai.OpenAI:
    """Return the client of an address; there is one, since making one takes longer than most tests."""
    return _open_ai(base).with_options(**options)


def claude(base: str, **options: Any) -> anthropic.Anthropic:
    """Return the same for Anthropic's."""
    return _claude(base).with_options(**options)


def chat_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    client = open_ai(base)
    said: list[Any] = []
    came: list[Any] = []

    def ask() -> Any:
        body: Any = {"model": "m-1", "messages": said, "tools": [TOOL_CHAT]}
        if not stream:
            answer = client.chat.completions.create(**body)
            came.append(answer.model_dump(warnings=False))
            return answer.choices[0].message
        with client.chat.completions.stream(**body, stream_options={"include_usage": True}) as events:
            came.extend(event.type for event in events)
            answer = events.get_final_completion()
        came.append(answer.model_dump(warnings=False))
        return answer.choices[0].message

    for _ in range(turns):
        said.append(QUESTION)
        message = ask()
        said.append(message)
        said.extend({"role": "tool", "tool_call_id": call.id, "content": "milk"} for call in message.tool_calls or ())
        said.append(ask())
    return came


def responses_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    client = open_ai(base)
    said: list[Any] = []
    came: list[Any] = []

    def ask() -> Any:
        body: Any = {"model": "m-1", "input": said, "store": False}
        if not stream:
            answer = client.responses.create(**body)
        else:
            with client.responses.stream(**body) as events:
                came.extend(event.model_dump(warnings=False) for event in events)
                answer = events.get_final_response()
        came.append(answer.model_dump(warnings=False))
        return answer

    for _ in range(turns):
        said.append(QUESTION)
        answer = ask()
        said.extend(answer.output)
        calls = [item for item in answer.output if item.type == "function_call"]
        said.extend({"type": "function_call_output", "call_id": call.call_id, "output": "milk"} for call in calls)
        said.extend(ask().output)
    return came


def claude_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    client = claude(base)
    said: list[Any] = []
    came: list[Any] = []

    def ask() -> Any:
        body: Any = {"model": "m-1", "max_tokens": 100, "messages": said, "tools": [TOOL]}
        if not stream:
            answer = client.messages.create(**body)
        else:
            with client.messages.stream(**body) as events:
                came.extend(event.type for event in events)
                answer = events.get_final_message()
        came.append(answer.model_dump(warnings=False))
        said.append({"role": "assistant", "content": answer.content})
        return answer

    for _ in range(turns):
        said.append(QUESTION)
        calls = [block for block in ask().content if block.type == "tool_use"]
        results: Any = [{"type": "tool_result", "tool_use_id": call.id, "content": "milk"} for call in calls]
        said.append({"role": "user", "content": results})
        ask()
    return came


def calls_of(base: str, *, stream: bool) -> list[Any]:
    """The calls of one answer of each protocol, as clients see them."""
    chat = open_ai(base)
    found: list[Any] = []
    body: Any = {"model": "m-1", "messages": [QUESTION], "tools": [TOOL_CHAT]}
    asked: Any = {"model": "m-1", "input": [QUESTION]}
    wanted: Any = {"model": "m-1", "max_tokens": 100, "messages": [QUESTION], "tools": [TOOL]}
    if stream:
        with chat.chat.completions.stream(**body) as chunks:
            answer = chunks.get_final_completion()
        with chat.responses.stream(**asked) as events:
            response = events.get_final_response()
        with claude(base).messages.stream(**wanted) as blocks:
            message = blocks.get_final_message()
    else:
        answer = chat.chat.completions.create(**body)
        response = chat.responses.create(**asked)
        message = claude(base).messages.create(**wanted)
    choice = answer.choices[0]
    found.append(
        (
            choice.finish_reason,
            [
                (one.id, one.function.name, json.loads(one.function.arguments))
                for one in choice.message.tool_calls or ()
            ],
        )
    )
    items = [one for one in response.output if one.type == "function_call"]
    found.append((response.status, [(one.call_id, one.name, json.loads(one.arguments)) for one in items]))
    used = [one for one in message.content if one.type == "tool_use"]
    found.append((message.stop_reason, [(one.id, one.name, one.input) for one in used]))
    return found
