"""What a client of Anthropic's Messages asks for, beside the conversation."""

from everlog.messages import JSON
from everlog.protocols.answering import Asked, fit_name, left_over
from everlog.protocols.exchange import Schema, Settings, Thinking, Tool
from everlog.protocols.options import parse_function, strings
from everlog.protocols.shapes import Record, array, count, number, record, string

KNOWN = frozenset(
    {
        *("model", "messages", "system", "max_tokens", "tools", "tool_choice", "temperature", "top_p", "thinking"),
        *("stop_sequences", "stream", "metadata", "output_config", "output_format", "cache_control"),
    }
)

DEFAULTS: dict[str, JSON] = {"service_tier": "auto"}
"""Values that ask for nothing."""

CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def parse_settings(body: Record) -> Asked:
    """Return what a request asks for. Where it is to be cached is left to the provider."""
    declared = [record(one) for one in array(body.get("tools"))]
    tools = tuple(parse_function(one, one.get("input_schema")) for one in declared if _is_clients(one))
    dropped = [f"tools.{fit_name(one.get('type'))}" for one in declared if not _is_clients(one)]
    choice = record(body.get("tool_choice"))
    named = _choice(choice, tools)
    if choice and named is None:
        dropped.append("tool_choice")
    one_at_a_time = choice.get("disable_parallel_tool_use")
    output = record(body.get("output_config"))
    form = record(output.get("format")) or record(body.get("output_format"))
    settings = Settings(
        model=string(body.get("model")),
        tools=tools,
        choice=named,
        parallel=not one_at_a_time if isinstance(one_at_a_time, bool) else None,
        temperature=number(body.get("temperature")),
        top_p=number(body.get("top_p")),
        max_output_tokens=count(body.get("max_tokens")),
        stop=strings(body.get("stop_sequences")),
        schema=_schema(form.get("schema")),
        thinking=_thinking(record(body.get("thinking")), string(output.get("effort")) or None),
        stream=body.get("stream") is True,
        end_user=string(record(body.get("metadata")).get("user_id")) or None,
    )
    return Asked(settings=settings, body=body, dropped=(*dropped, *left_over(body, KNOWN, DEFAULTS)))


def _is_clients(tool: Record) -> bool:
    """Whether a tool runs at the client and is described in full; others are known to the provider by their type."""
    return string(tool.get("type")) in {"", "custom"} and isinstance(tool.get("input_schema"), dict)


def _choice(choice: Record, tools: tuple[Tool, ...]) -> str | None:
    if choice.get("type") == "tool":
        return next((tool.name for tool in tools if tool.name == choice.get("name")), None)
    return CHOICES.get(string(choice.get("type")))


def _thinking(thinking: Record, effort: str | None) -> Thinking | None:
    match thinking.get("type"):
        case "disabled":
            return Thinking(enabled=False)
        case "enabled" | "adaptive":
            budget, display = count(thinking.get("budget_tokens")), string(thinking.get("display")) or None
            return Thinking(effort=effort, budget_tokens=budget, display=display)
        case _:
            return Thinking(effort=effort) if effort else None


def _schema(schema: JSON) -> Schema | None:
    return Schema(schema=schema, strict=_is_closed(schema)) if isinstance(schema, dict) else None


def _is_closed(schema: JSON) -> bool:
    """Whether each object of a schema has all its fields and no others, as strict schemas must elsewhere."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    fields = schema.get("properties")
    if isinstance(fields, dict):
        asked = [one for one in array(schema.get("required")) if isinstance(one, str)]
        if schema.get("additionalProperties") is not False or set(fields) != set(asked):
            return False
    return all(map(_is_closed, schema.values()))
