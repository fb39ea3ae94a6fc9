"""What a client of Chat Completions asks for, beside the conversation."""

from dataclasses import replace

from everlog.messages import JSON
from everlog.protocols.answering import Asked, fit_name, left_over
from everlog.protocols.options import parse_choice, parse_effort, parse_form, parse_function, parse_shared, strings
from everlog.protocols.shapes import Record, array, count, record, string

KNOWN = frozenset(
    {
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "max_tokens"),
        *("max_completion_tokens", "reasoning_effort", "stream", "stream_options", "user", "safety_identifier", "stop"),
        *("response_format", "prompt_cache_key", "store"),
    }
)

DEFAULTS: dict[str, JSON] = {"n": 1, "service_tier": "auto", "modalities": ["text"], "verbosity": "medium"}
"""Values that ask for nothing."""


def parse_settings(body: Record) -> Asked:
    """Return what a request asks for."""
    declared = [record(one) for one in array(body.get("tools"))]
    tools = tuple(
        parse_function(one["function"], one["function"].get("parameters"))
        for one in declared
        if isinstance(one.get("function"), dict)
    )
    dropped = [f"tools.{fit_name(one.get('type'))}" for one in declared if not isinstance(one.get("function"), dict)]
    choice = parse_choice(body.get("tool_choice"), record(record(body.get("tool_choice")).get("function")), tools)
    if choice is None and body.get("tool_choice") not in (None, "auto"):
        dropped.append("tool_choice")
    form = record(body.get("response_format"))
    schema = parse_form(record(form.get("json_schema")))
    if schema is None and string(form.get("type")) not in {"", "text"}:
        dropped.append("response_format")
    settings = replace(
        parse_shared(body, tools, choice),
        max_output_tokens=count(body.get("max_completion_tokens")) or count(body.get("max_tokens")),
        stop=strings(body.get("stop")),
        schema=schema,
        thinking=parse_effort(effort) if (effort := body.get("reasoning_effort")) else None,
    )
    return Asked(settings=settings, body=body, dropped=(*dropped, *left_over(body, KNOWN, DEFAULTS)))
