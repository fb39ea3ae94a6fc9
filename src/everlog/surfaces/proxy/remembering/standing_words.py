"""Where the words stand that memory says to a model, in a body whose history is rendered already. Pure.

The client's bytes stay where they are, before ours. A field for instructions takes them at its end; in Chat Completions
they end the first system message, since the templates of many models take one only, at the front. A model that takes no
system message at all is told in what the user shows first. The same input gives the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from everlog.messages import JSON
from everlog.protocols.shapes import Record, array, record, string

System: TypeAlias = Literal["own", "merged", "none"]
"""How a model takes system messages: as many as there are, one at the front, none."""

ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Where a protocol has what is said."""

    said: str
    """The list of messages or items."""
    field: str | None
    """The field for instructions, where there is one."""
    part: str
    """The type of a part that is the user's text."""
    is_blocks: bool = False
    """Whether the field is a list of parts; else it is a text."""


WIRES = {
    "chat_completions": Wire(said="messages", field=None, part="text"),
    "responses": Wire(said="input", field="instructions", part="input_text"),
    "anthropic": Wire(said="messages", field="system", part="text", is_blocks=True),
}


def placed(protocol: str, body: Record, words: str, how: System | None = None) -> Record:
    """Return a body in which memory says these words.

    Args:
        protocol: the format of the body.
        body: what goes up, its history rendered.
        words: what memory says.
        how: how the model takes system messages. By default ours end the first one and all others stay as they are;
            with `own` they are one more.
    """
    wire = WIRES[protocol]
    return fitted(protocol, _own(wire, body, words) if how == "own" else _ended(wire, body, words), how)


def fitted(protocol: str, body: Record, how: System | None) -> Record:
    """Return a body whose system messages a model takes; the same object if nothing is to be done.

    With `merged` those at the front become one, with `none` they begin what the user shows first; later ones become the
    user's, where they stand.
    """
    wire = WIRES[protocol]
    if how == "merged":
        return _merged(wire, body)
    return _unsystematic(wire, body) if how == "none" else body


def _own(wire: Wire, body: Record, words: str) -> Record:
    if wire.is_blocks:
        return _ended(wire, body, words)
    items = _items(wire, body)
    front = _front(items)
    role = _role(items[front - 1]) if front else "system"
    return {**body, wire.said: [*items[:front], {"role": role, "content": words}, *items[front:]]}


def _ended(wire: Wire, body: Record, words: str) -> Record:
    """Return a body in which the words end the instructions, or the first system message, or are the first."""
    items = _items(wire, body)
    has_front = _front(items) > 0
    if wire.field is not None and (wire.is_blocks or _is_said(body.get(wire.field)) or not has_front):
        return {**body, wire.field: _in_field(wire, [body.get(wire.field), words])}
    if not has_front:
        return {**body, wire.said: [{"role": "system", "content": words}, *items]}
    return {**body, wire.said: [_with(items[0], joined(wire, [_content(items[0]), words])), *items[1:]]}


def _merged(wire: Wire, body: Record) -> Record:
    items = _items(wire, body)
    front = _front(items)
    field = None if wire.field is None else body.get(wire.field)
    rest = _spoken(items[front:])
    if front == 0 or (front == 1 and not _is_said(field) and not wire.is_blocks and _role(items[0]) == "system"):
        return body if rest == items[front:] else {**body, wire.said: [*items[:front], *rest]}
    said = [field, *map(_content, items[:front])]
    if wire.field is not None and (wire.is_blocks or _is_said(field)):
        return {**body, wire.field: _in_field(wire, said), wire.said: rest}
    return {**body, wire.said: [{**record(items[0]), "role": "system", "content": joined(wire, said)}, *rest]}


def _unsystematic(wire: Wire, body: Record) -> Record:
    items = _items(wire, body)
    front = _front(items)
    field = None if wire.field is None else body.get(wire.field)
    rest = _spoken(items[front:])
    if front == 0 and not _is_said(field):
        return body if rest == items else {**body, wire.said: rest}
    said = [field, *map(_content, items[:front])]
    first = next((n for n, item in enumerate(rest) if _shows(item)), None)
    if first is None:
        rest = [{"role": "user", "content": joined(wire, said)}, *rest]
    else:
        rest[first] = _with(rest[first], joined(wire, [*said, _content(rest[first])]))
    return {**{name: value for name, value in body.items() if name != wire.field}, wire.said: rest}


def _shows(item: JSON) -> bool:
    """Whether an item is the user's, and no results of tools, before which nothing may stand."""
    kinds = {record(part).get("type") for part in array(_content(item))}
    return _role(item) == "user" and "tool_result" not in kinds


def _spoken(items: Sequence[JSON]) -> list[JSON]:
    """Return items of which none is a system message: such are the user's."""
    return [{**record(item), "role": "user"} if _role(item) in ROLES else item for item in items]


def _items(wire: Wire, body: Record) -> list[JSON]:
    said = body.get(wire.said)
    return [{"role": "user", "content": said}] if isinstance(said, str) else array(said)


def _front(items: Sequence[JSON]) -> int:
    """Return how many system messages stand at the front."""
    return next((n for n, item in enumerate(items) if _role(item) not in ROLES), len(items))


def _role(item: JSON) -> str:
    return string(record(item).get("role"))


def _content(item: JSON) -> JSON:
    content: JSON = record(item).get("content")
    return content


def _with(item: JSON, content: JSON) -> JSON:
    return {**record(item), "content": content}


def _is_said(content: JSON) -> bool:
    return bool(content.strip() if isinstance(content, str) else array(content))


def _in_field(wire: Wire, contents: Sequence[JSON]) -> JSON:
    """Return what contents say together, as the field for instructions has it."""
    if wire.is_blocks:
        return _parts(wire, contents)
    return "\n\n".join(string(record(part).get("text")) for part in _parts(wire, contents))


def joined(wire: Wire, contents: Sequence[JSON]) -> JSON:
    """Return what contents say together: a text if all of them are texts, else parts."""
    said = [one for one in contents if _is_said(one)]
    texts = [one for one in said if isinstance(one, str)]
    return "\n\n".join(texts) if len(texts) == len(said) else _parts(wire, said)


def _parts(wire: Wire, contents: Sequence[JSON]) -> list[JSON]:
    parts: list[JSON] = []
    for one in filter(_is_said, contents):
        parts += [{"type": wire.part, "text": one}] if isinstance(one, str) else array(one)
    return parts
