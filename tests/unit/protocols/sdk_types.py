"""The official SDKs' types of what stands in a request, as judges of messages and items."""

from functools import cache
from typing import Any

from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

MESSAGES: dict[str, Any] = {
    "chat_completions": ChatCompletionMessageParam,
    "responses": ResponseInputItemParam,
    "anthropic": MessageParam,
}


@cache
def adapter_of(kind: Any) -> Any:
    """Return what validates a type; making it takes longer than most of what it is used for."""
    return TypeAdapter(kind)


def exhausted(value):
    """Walk through what was validated: items of an `Iterable` are looked at only when they are asked for."""
    if isinstance(value, dict):
        for one in value.values():
            exhausted(one)
    elif not isinstance(value, str | bytes | int | float | None):
        for one in value:
            exhausted(one)


def lawful(name, body):
    """Let the SDK's types validate each message of a request."""
    for item in body["input" if name == "responses" else "messages"]:
        exhausted(adapter_of(MESSAGES[name]).validate_python(item))
