"""What Anthropic asks of a history, and how one that does not keep to it is put right.

Rules, as the provider refuses what breaks them: the results of an assistant's calls stand in the user message right
behind it, before everything else there; ids are unique in the whole history; arguments are an object; no text is blank
and no message empty; reasoning is signed, does not end a message, and is not left from a round that was cut; a step of
the provider's own tools has its result; the first to speak is the user; the last text of all does not end in blanks
where it is the assistant's; at most four blocks end what is to be cached.
"""

import re
from collections.abc import Iterator

from everlog.messages import JSON
from everlog.protocols.anthropic.history import REASONING, STEPS, arguments
from everlog.protocols.anthropic.marks import capped
from everlog.protocols.pairs import Mark, Pairs, Place, paired
from everlog.protocols.shapes import Record, array, record, string

IDS = re.compile(r"[a-zA-Z0-9_-]+")
ID_LIMIT = 128
ANY_ID = re.compile(r".*", re.DOTALL)

OPENING = "…"
"""What the user says where a history begins with the assistant."""


def repair(body: Record) -> Record:
    """Return the body with a lawful history; the same object if it was lawful."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    kept = _ended(_begun(_paired([_without_blanks(message) for message in messages])))
    return capped(body if kept == messages else {**body, "messages": kept})


def blocks_of(message: JSON) -> list[JSON]:
    """Return the content of a wire message as blocks."""
    content = record(message).get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else array(content)


def _without_blanks(message: JSON) -> JSON:
    content = record(message).get("content")
    if not isinstance(content, list):
        return message
    blocks = [_full(block) for block in content if not is_blank(block)]
    return message if blocks == content else {**record(message), "content": blocks}


def is_blank(block: JSON) -> bool:
    """Whether a block is a text without a word."""
    shape = record(block)
    return shape.get("type") == "text" and not string(shape.get("text")).strip()


def _full(block: JSON) -> JSON:
    shape = record(block)
    inner = shape.get("content")
    if shape.get("type") != "tool_result" or not isinstance(inner, list) or not any(map(is_blank, inner)):
        return block
    return {**shape, "content": [one for one in inner if not is_blank(one)]}


def _paired(messages: list[JSON]) -> list[JSON]:
    """Return the messages with each result behind its call, in the user message that held one of them, if one did."""
    pairs = paired(_marks(messages), IDS, ID_LIMIT, unique=True)
    steps = _lawful_steps(messages)
    out: list[JSON] = []
    host: int | None = None
    for i, message in enumerate(messages):
        role = record(message).get("role")
        if role == "user":
            rest = [block for block in blocks_of(message) if record(block).get("type") != "tool_result"]
            out += [] if i == host else _message(message, [block for block in rest if not is_blank(block)])
            continue
        if role != "assistant":
            out.append(message)
            continue
        out += _message(message, _assistant(i, message, pairs, steps))
        results = sorted(pairs.results[call] for call in pairs.results if call[0] == i)
        blocks = [
            _with_id(blocks_of(messages[place[0]])[place[1]], "tool_use_id", pairs.ids[place]) for place in results
        ]
        host = next((place[0] for place in results if place[0] == i + 1), None)
        if host is not None:
            others = [block for block in blocks_of(messages[host]) if record(block).get("type") != "tool_result"]
            out += _message(messages[host], blocks + others)
        elif blocks:
            out.append({"role": "user", "content": blocks})
    return out


def _marks(messages: list[JSON]) -> Iterator[Mark]:
    for i, message in enumerate(messages):
        role = record(message).get("role")
        for k, block in enumerate(blocks_of(message)):
            shape = record(block)
            if role == "assistant" and shape.get("type") == "tool_use":
                yield Mark((i, k), string(shape.get("id")), is_call=True)
            elif role == "user" and shape.get("type") == "tool_result":
                yield Mark((i, k), string(shape.get("tool_use_id")), is_call=False)


def _message(message: JSON, blocks: list[JSON]) -> list[JSON]:
    """Return a message with these blocks; none if there are none."""
    if not blocks:
        return []
    return [message if blocks == blocks_of(message) else {**record(message), "content": blocks}]


def _assistant(i: int, message: JSON, pairs: Pairs, steps: set[Place]) -> list[JSON]:
    out: list[JSON] = []
    is_cut = False
    for k, block in enumerate(blocks_of(message)):
        shape = record(block)
        kind = string(shape.get("type"))
        if kind == "tool_use":
            if (i, k) not in pairs.results:
                is_cut = True
                continue
            call = _with_id(block, "id", pairs.ids[i, k])
            given = shape.get("input")
            if not isinstance(given, dict):
                call = {**record(call), "input": arguments(string(given))}
            out.append(call)
        elif not (is_blank(block) or (_is_step(kind) and (i, k) not in steps) or _is_unsigned(shape, kind)):
            out.append(block)
    if is_cut:
        out = [block for block in out if string(record(block).get("type")) not in REASONING]
    while out and string(record(out[-1]).get("type")) in REASONING:
        out.pop()
    return out


def _is_unsigned(block: Record, kind: str) -> bool:
    return kind in REASONING and not string(block.get("signature" if kind == "thinking" else "data"))


def _lawful_steps(messages: list[JSON]) -> set[Place]:
    """Return the places of the provider's tool steps and results that belong together, or that it will go on with.

    It goes on with what is open in the last message of the model, where at most results of the caller follow.
    """
    marks: list[Mark] = []
    open_last: set[Place] = set()
    for i, message in enumerate(messages):
        is_models = record(message).get("role") == "assistant"
        kinds = [string(record(block).get("type")) for block in blocks_of(message)]
        if is_models:
            steps = [(k, record(block)) for k, block in enumerate(blocks_of(message)) if _is_step(kinds[k])]
            calls = {k for k, _ in steps if kinds[k] in STEPS}
            marks += [
                Mark((i, k), string(step.get("id" if k in calls else "tool_use_id")), is_call=k in calls)
                for k, step in steps
            ]
            open_last = {(i, k) for k in calls}
        elif any(kind != "tool_result" for kind in kinds):
            open_last = set()
    pairs = paired(marks, ANY_ID, ID_LIMIT, unique=False)
    return {*pairs.results, *pairs.calls, *open_last}


def _is_step(kind: str) -> bool:
    return kind in STEPS or kind.endswith("_tool_result")


def _begun(messages: list[JSON]) -> list[JSON]:
    roles = [role for one in messages if (role := string(record(one).get("role"))) in {"user", "assistant"}]
    return [{"role": "user", "content": OPENING}, *messages] if roles[:1] == ["assistant"] else messages


def _ended(messages: list[JSON]) -> list[JSON]:
    """Return the messages; the blank end of a last word of the assistant is cut."""
    last = record(messages[-1]) if messages else {}
    blocks = blocks_of(last)
    text = record(blocks[-1]).get("text") if blocks and last.get("role") == "assistant" else None
    if not isinstance(text, str) or text == text.rstrip():
        return messages
    if isinstance(last["content"], str):
        return [*messages[:-1], {**last, "content": text.rstrip()}]
    return [*messages[:-1], {**last, "content": [*blocks[:-1], {**record(blocks[-1]), "text": text.rstrip()}]}]


def _with_id(value: JSON, name: str, wanted: str) -> JSON:
    shape = record(value)
    return value if shape.get(name) == wanted else {**shape, name: wanted}
