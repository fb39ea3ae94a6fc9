"""Bodies without what some model refuses: our tools, marks, reasoning; or with what it misses. Pure.

Each function returns the same object where nothing is to be done.
"""

from collections.abc import Callable

from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.anthropic.history import REASONING
from everlog.protocols.responses.requests import SEALED
from everlog.protocols.shapes import Record, array, record, string
from everlog.surfaces.proxy.remembering.standing_words import WIRES, joined

OURS = "everlog_"
"""How the names of our tools begin."""

_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_THOUGHTS = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
_OFF: Record = {"type": "disabled"}


def our_tools(protocol: str, body: Record) -> Record:  # noqa: ARG001 -- tools look alike enough
    """Return a body without the tools that are ours."""
    tools = array(body.get("tools"))
    kept = [tool for tool in tools if not _name(record(tool)).startswith(OURS)]
    if len(kept) == len(tools):
        return body
    if kept:
        return {**body, "tools": kept}
    return {name: value for name, value in body.items() if name not in {"tools", "tool_choice", "parallel_tool_calls"}}


def _name(tool: Record) -> str:
    return string(record(tool.get("function")).get("name")) or string(tool.get("name"))


def marks(protocol: str, body: Record) -> Record:
    """Return a body without marks of what is to be cached, on whatever they are."""
    wire = WIRES[protocol]
    out = _without(body, _MARKS)
    for name in ("tools", "messages", wire.said, wire.field):
        if name is not None and isinstance(out.get(name), list):
            out = _with(out, name, [_unmarked(one) for one in out[name]])
    return out


def _unmarked(item: JSON) -> JSON:
    if not isinstance(item, dict):
        return item
    out = _without(item, _MARKS)
    for name in ("content", "output"):
        if isinstance(out.get(name), list):
            out = _with(out, name, [_unmarked(one) for one in out[name]])
    return out


def past_reasoning(protocol: str, body: Record) -> Record:
    """Return a body of Anthropic whose history has no reasoning of turns that are over."""
    if protocol != "anthropic":
        return body
    messages = array(body.get("messages"))
    begun = next((n for n in range(len(messages) - 1, -1, -1) if _begins_turn(record(messages[n]))), 0)
    return _repaired(protocol, body, [*map(_unthought, messages[:begun]), *messages[begun:]])


def reasoning(protocol: str, body: Record) -> Record:
    """Return a body of Anthropic whose history has no reasoning.

    Where the model's last round is still open, it cannot think on without what it thought in it.
    """
    if protocol != "anthropic":
        return body
    done = _repaired(protocol, body, [_unthought(message) for message in array(body.get("messages"))])
    return done if done is body or not _is_open(done) else thinking(protocol, done)


def reasoning_items(protocol: str, body: Record) -> Record:
    """Return a body of Responses without items of reasoning, and without ids by which others would ask for them."""
    if protocol != "responses":
        return body
    items = array(body.get("input"))
    return _repaired(protocol, body, [_without_id(item) for item in items if record(item).get("type") != "reasoning"])


def _repaired(protocol: str, body: Record, said: list[JSON]) -> Record:
    name = WIRES[protocol].said
    old = body.get(name)
    return FORMATS[protocol].repair({**body, name: said}) if isinstance(old, list) and said != old else body


def _begins_turn(message: Record) -> bool:
    content = message.get("content")
    if message.get("role") != "user":
        return False
    return isinstance(content, str) or not any(record(block).get("type") == "tool_result" for block in array(content))


def _unthought(message: JSON) -> JSON:
    content = record(message).get("content")
    if record(message).get("role") != "assistant" or not isinstance(content, list):
        return message
    kept = [block for block in content if record(block).get("type") not in REASONING]
    return message if len(kept) == len(content) else {**record(message), "content": kept}


def _is_open(body: Record) -> bool:
    last = next((record(one) for one in reversed(array(body.get("messages"))) if record(one).get("role") == "user"), {})
    return not _begins_turn(last)


def _without_id(item: JSON) -> JSON:
    """Return an item of the model without its id, by which the server would know of reasoning that led to it."""
    shape = record(item)
    is_models = shape.get("type") == "function_call" or shape.get("role") == "assistant"
    return _without(shape, frozenset({"id"})) if is_models else item


def thoughts(protocol: str, body: Record) -> Record:
    """Return a body whose messages have no fields with thoughts beside what they say."""
    if protocol != "chat_completions":
        return body
    return _each_said(protocol, body, lambda one: _without(one, _THOUGHTS) if isinstance(one, dict) else one)


def blank_thoughts(protocol: str, body: Record) -> Record:
    """Return a body whose replies all have a field with thoughts, blank where nobody knows them."""
    if protocol != "chat_completions":
        return body
    return _each_said(protocol, body, _thinking_blank)


def _thinking_blank(message: JSON) -> JSON:
    shape = record(message)
    is_there = bool(shape.get("reasoning_content")) or shape.get("role") != "assistant"
    return message if is_there else {**shape, "reasoning_content": " "}


def thinking(protocol: str, body: Record) -> Record:
    """Return a body whose model does not think."""
    if protocol == "responses" or body.get("thinking") == _OFF:
        return body
    out = {**_without(body, frozenset({"reasoning_effort"})), "thinking": _OFF}
    managed = record(out.get("context_management"))
    edits = array(managed.get("edits"))
    kept = [edit for edit in edits if not string(record(edit).get("type")).startswith("clear_thinking")]
    if len(kept) == len(edits):
        return out
    if kept:
        return {**out, "context_management": {**managed, "edits": kept}}
    return _without(out, frozenset({"context_management"}))


def sealed(protocol: str, body: Record) -> Record:
    """Return a body that does not ask for sealed reasoning."""
    asked = array(body.get("include"))
    if protocol != "responses" or SEALED not in asked:
        return body
    kept = [one for one in asked if one != SEALED]
    return {**body, "include": kept} if kept else _without(body, frozenset({"include"}))


def second_turns(protocol: str, body: Record) -> Record:
    """Return a body in which no side has two messages in a row; results of tools, and rounds with calls, stay as they are."""
    wire = WIRES[protocol]
    items = body.get(wire.said)
    if not isinstance(items, list):
        return body
    out: list[JSON] = []
    for item in items:
        before, after = record(out[-1]) if out else {}, record(item)
        is_plain = before.keys() == after.keys() == {"role", "content"}
        if is_plain and before["role"] == after["role"] and before["role"] in {"user", "assistant"}:
            out[-1] = {**before, "content": joined(wire, [before["content"], after["content"]])}
        else:
            out.append(item)
    return body if len(out) == len(items) else {**body, wire.said: out}


def _each_said(protocol: str, body: Record, act: Callable[[JSON], JSON]) -> Record:
    name = WIRES[protocol].said
    said = body.get(name)
    return _with(body, name, [act(one) for one in said]) if isinstance(said, list) else body


def _with(body: Record, name: str, value: JSON) -> Record:
    return body if body.get(name) == value else {**body, name: value}


def _without(shape: Record, names: frozenset[str]) -> Record:
    return shape if names.isdisjoint(shape) else {name: value for name, value in shape.items() if name not in names}
