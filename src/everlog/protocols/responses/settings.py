"""What a client of Responses asks for, beside the conversation.

Tools that take a text (`custom`) are functions with one field elsewhere, and those of a `namespace` stand beside the
others; `Declared` knows which they were, so that calls come back in the client's own form.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from everlog.messages import JSON
from everlog.protocols.answering import Asked, fit_name, left_over
from everlog.protocols.exchange import Thinking, Tool
from everlog.protocols.options import parse_choice, parse_effort, parse_form, parse_function, parse_shared
from everlog.protocols.shapes import Record, array, count, record, string

KNOWN = frozenset(
    {
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p"),
        *("max_output_tokens", "text", "reasoning", "stream", "stream_options", "user", "safety_identifier"),
        *("prompt_cache_key", "store", "previous_response_id", "conversation"),
    }
)

DEFAULTS: dict[str, JSON] = {
    "include": ["reasoning.encrypted_content"],
    "service_tier": "auto",
    "truncation": "disabled",
}
"""Values that ask for nothing; reasoning that is sealed is only for who made it."""

FREEFORM: Record = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""The arguments of a tool that takes a text, as another protocol has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A tool as a client declared it."""

    tool: Tool
    is_freeform: bool = False
    namespace: str | None = None


def declared(tools: JSON) -> tuple[dict[str, Declared], tuple[str, ...]]:
    """Return the client's own tools by name, and the kinds of all others; of two with one name the first counts."""
    found: dict[str, Declared] = {}
    others: list[str] = []
    for one in _flat(tools, None):
        if isinstance(one, Declared) and one.tool.name not in found:
            found[one.tool.name] = one
        else:
            others.append(one if isinstance(one, str) else fit_name(one.tool.name))
    return found, tuple(dict.fromkeys(f"tools.{name}" for name in others))


def _flat(tools: JSON, namespace: str | None) -> Iterator[Declared | str]:
    for one in array(tools):
        shape = record(one)
        match shape.get("type"):
            case "function":
                yield Declared(tool=parse_function(shape, shape.get("parameters")), namespace=namespace)
            case "custom":
                yield Declared(tool=parse_function(shape, FREEFORM), is_freeform=True, namespace=namespace)
            case "namespace" if namespace is None:
                yield from _flat(shape.get("tools"), string(shape.get("name")))
            case kind:
                yield fit_name(kind)


def parse_settings(body: Record) -> Asked:
    """Return what a request asks for."""
    tools, others = declared(body.get("tools"))
    dropped = [*others]
    known = tuple(one.tool for one in tools.values())
    choice = parse_choice(body.get("tool_choice"), record(body.get("tool_choice")), known)
    if choice is None and body.get("tool_choice") not in (None, "auto"):
        dropped.append("tool_choice")
    form = record(record(body.get("text")).get("format"))
    schema = parse_form(form)
    if schema is None and string(form.get("type")) not in {"", "text"}:
        dropped.append("text.format")
    if string(record(body.get("text")).get("verbosity")) not in {"", "medium"}:
        dropped.append("text.verbosity")
    settings = replace(
        parse_shared(body, known, choice),
        max_output_tokens=count(body.get("max_output_tokens")),
        schema=schema,
        thinking=_thinking(body.get("reasoning")),
    )
    freeform = frozenset(name for name, one in tools.items() if one.is_freeform)
    rest = left_over(body, KNOWN, DEFAULTS)
    return Asked(settings=settings, body=body, dropped=(*dropped, *rest), freeform=freeform)


def _thinking(reasoning: JSON) -> Thinking | None:
    shape = record(reasoning)
    if not shape:
        return None
    wants_summary = bool(shape.get("summary") or shape.get("generate_summary"))
    return parse_effort(shape.get("effort"), "summarized" if wants_summary else None)
