"""What Chat Completions asks of a history, and how one that does not keep to it is put right.

Rules, as providers refuse what breaks them: the results of an assistant's calls stand right behind it; a result has
its call there; a list of calls is not empty; an assistant says something or calls something.
"""

import re
from collections.abc import Iterator

from everlog.messages import JSON
from everlog.protocols.pairs import Mark, Pairs, paired
from everlog.protocols.shapes import Record, array, record, string

IDS = re.compile(r"[\x21-\x7e]+")
ID_LIMIT = 512
"""OpenAI names no limit; compatible servers take what they wrote themselves."""

SAYS_SOMETHING = ("content", "tool_calls", "function_call", "refusal", "audio")


def repair(body: Record) -> Record:
    """Return the body with a lawful history; the same object if it was lawful."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    pairs = paired(_marks(messages), IDS, ID_LIMIT, unique=False)
    out: list[JSON] = []
    for i, message in enumerate(messages):
        shape = record(message)
        if shape.get("role") == "tool":
            continue
        kept = _assistant(i, shape, pairs) if shape.get("role") == "assistant" else message
        if kept is None:
            continue
        out.append(kept)
        places = [pairs.results[i, k] for k in range(len(array(shape.get("tool_calls")))) if (i, k) in pairs.results]
        out += [_with_id(messages[place[0]], "tool_call_id", pairs.ids[place]) for place in sorted(places)]
    return body if out == messages else {**body, "messages": out}


def _marks(messages: list[JSON]) -> Iterator[Mark]:
    for i, message in enumerate(messages):
        shape = record(message)
        if shape.get("role") == "tool":
            yield Mark((i, 0), string(shape.get("tool_call_id")), is_call=False)
        elif shape.get("role") == "assistant":
            for k, call in enumerate(array(shape.get("tool_calls"))):
                yield Mark((i, k), string(record(call).get("id")), is_call=True)


def _assistant(i: int, message: Record, pairs: Pairs) -> Record | None:
    """Return an assistant's message with its answered calls only; None if it has nothing left to say."""
    if "tool_calls" in message:
        calls = [
            _with_id(call, "id", pairs.ids[i, k])
            for k, call in enumerate(array(message["tool_calls"]))
            if (i, k) in pairs.results
        ]
        if calls:
            return message if calls == message["tool_calls"] else {**message, "tool_calls": calls}
        if message["tool_calls"] is not None:
            message = {name: value for name, value in message.items() if name != "tool_calls"}
    return message if any(message.get(name) for name in SAYS_SOMETHING) else None


def _with_id(value: JSON, name: str, wanted: str) -> JSON:
    shape = record(value)
    return value if shape.get(name) == wanted else {**shape, name: wanted}
