"""Conversations of the official clients: what each turn asks for, and all that comes back, as values to compare."""

import asyncio
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import anthropic
import openai

from everlog.messages import JSON
from everlog.testing.upstream import Answer, Received

TOOL_CHAT: Any = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
TOOL: Any = {"name": "read", "input_schema": {"type": "object"}}
TOOL_RESPONSES: Any = {"type": "function", "name": "read", "parameters": {"type": "object"}}
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


def question(number: int) -> Any:
    return {"role": "user", "content": f"Question {number}: what is in my notes?"}


def notes(number: int, place: int) -> str:
    return f"Notes {number}, part {place}: milk"


def talking(received: Received) -> Answer:
    """Call a tool for a question, every third time two at once, and say something to the results; no two texts are equal."""
    what, number = re.findall(rb"(Question|Notes) (\d+)", received.raw)[-1]
    turn = int(number)
    if what == b"Notes":
        return Answer(text=f"Milk, {turn}. " * 12, cached_tokens=64)
    calls = tuple((f"call_{turn}_{place}", "read", path_of(turn, place)) for place in range(parts_of(turn)))
    return Answer(text=f"Let me look, {turn}.", thinking="Where?", calls=calls)


def parts_of(turn: int) -> int:
    """How many calls there are in a turn."""
    return 1 if turn % 3 else 2


def path_of(turn: int, place: int) -> JSON:
    return {"path": f"notes/{turn}-ä.txt", "part": place}


def told(turns: int) -> list[tuple[str, Any]]:
    """All that is said in so many turns: kind and text of each message, of a call its arguments."""
    found: list[tuple[str, Any]] = []
    for turn in range(turns):
        places = range(parts_of(turn))
        found += [("user", question(turn)["content"]), ("assistant", f"Let me look, {turn}.")]
        found += [("tool_call", path_of(turn, place)) for place in places]
        found += [("tool_result", notes(turn, place)) for place in places]
        found.append(("assistant", f"Milk, {turn}. " * 12))
    return found


def _turns(
    turns: int, ask: Callable[[list[Any]], list[str]], give: Callable[[list[tuple[str, str]]], list[Any]]
) -> None:
    """Say something in each turn, and give the results of the tools that are called for.

    Args:
        turns: how many.
        ask: sends what is new, and returns the ids of the calls in the answer.
        give: makes messages of the results, each with the id of its call.
    """
    for turn in range(turns):
        calls = ask([question(turn)])
        assert len(calls) == parts_of(turn)
        assert ask(give([(id_, notes(turn, place)) for place, id_ in enumerate(calls)])) == []


def _tool_messages(results: list[tuple[str, str]]) -> list[Any]:
    return [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in results]


def output_items(results: list[tuple[str, str]]) -> list[Any]:
    return [{"type": "function_call_output", "call_id": id_, "output": text} for id_, text in results]


def _result_blocks(results: list[tuple[str, str]]) -> list[Any]:
    blocks = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, text in results]
    return [{"role": "user", "content": blocks}]


def _seen(event: Any) -> tuple[str, Any]:
    """An event as a value, in the order in which it came."""
    return event.type, event.model_dump(warnings=False)


def chat_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    client = open_ai(base)
    said: list[Any] = []
    came: list[Any] = []

    def ask(new: list[Any]) -> list[str]:
        said.extend(new)
        body: Any = {"model": "m-1", "messages": said, "tools": [TOOL_CHAT]}
        if not stream:
            answer = client.chat.completions.create(**body)
        else:
            with client.chat.completions.stream(**body, stream_options={"include_usage": True}) as events:
                came.extend((event.type, getattr(event, "chunk", None)) for event in events)
                answer = events.get_final_completion()
        came.append(answer.model_dump(warnings=False))
        said.append(answer.choices[0].message)
        return [call.id for call in answer.choices[0].message.tool_calls or ()]

    _turns(turns, ask, _tool_messages)
    return came


def async_chat_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    """The same by the client for asyncio."""
    client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="sk-client", max_retries=0)
    said: list[Any] = []
    came: list[Any] = []

    async def ask(new: list[Any]) -> list[str]:
        said.extend(new)
        body: Any = {"model": "m-1", "messages": said, "tools": [TOOL_CHAT]}
        if not stream:
            answer: Any = await client.chat.completions.create(**body)
        else:
            async with client.chat.completions.stream(**body) as events:
                came.extend([(event.type, getattr(event, "chunk", None)) async for event in events])
                answer = await events.get_final_completion()
        came.append(answer.model_dump(warnings=False))
        said.append(answer.choices[0].message)
        return [call.id for call in answer.choices[0].message.tool_calls or ()]

    with asyncio.Runner() as runner:
        _turns(turns, lambda new: runner.run(ask(new)), _tool_messages)
        runner.run(client.close())
    return came


def responses_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    said: list[Any] = []
    came: list[Any] = []

    def ask(new: list[Any]) -> list[str]:
        said.extend(new)
        answer = _respond(base, {"input": said, "store": False}, came, stream=stream)
        said.extend(answer.output)
        return _called(answer)

    _turns(turns, ask, output_items)
    return came


def chained_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    """A talk in which each request has only what is new, and the id of the response before it."""
    came: list[Any] = []
    last: list[str] = []

    def ask(new: list[Any]) -> list[str]:
        more: Any = {"previous_response_id": last[-1]} if last else {}
        answer = _respond(base, {"input": new, **more}, came, stream=stream)
        last.append(answer.id)
        return _called(answer)

    _turns(turns, ask, output_items)
    return came


def held_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    """A talk that the server holds: each request has only what is new, and the id of the conversation."""
    came: list[Any] = []

    def ask(new: list[Any]) -> list[str]:
        return _called(_respond(base, {"input": new, "conversation": "conv_1"}, came, stream=stream))

    _turns(turns, ask, output_items)
    return came


def _respond(base: str, asked: Any, came: list[Any], *, stream: bool) -> Any:
    body: Any = {"model": "m-1", "tools": [TOOL_RESPONSES], **asked}
    if not stream:
        answer: Any = open_ai(base).responses.create(**body)
    else:
        with open_ai(base).responses.stream(**body) as events:
            came.extend(map(_seen, events))
            answer = events.get_final_response()
    came.append(answer.model_dump(warnings=False))
    return answer


def _called(answer: Any) -> list[str]:
    return [item.call_id for item in answer.output if item.type == "function_call"]


def claude_talk(base: str, turns: int, *, stream: bool) -> list[Any]:
    client = claude(base)
    said: list[Any] = []
    came: list[Any] = []

    def ask(new: list[Any]) -> list[str]:
        said.extend(new)
        body: Any = {"model": "m-1", "max_tokens": 100, "messages": said, "tools": [TOOL]}
        if not stream:
            answer = client.messages.create(**body)
        else:
            with client.messages.stream(**body) as events:
                came.extend(map(_seen, events))
                answer = events.get_final_message()
        came.append(answer.model_dump(warnings=False))
        said.append({"role": "assistant", "content": answer.content})
        return [block.id for block in answer.content if block.type == "tool_use"]

    _turns(turns, ask, _result_blocks)
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
