"""Request bodies of Anthropic's Messages, and the headers that some of their fields need."""

from collections.abc import Sequence

from everlog.protocols.anthropic.history import render_history
from everlog.protocols.anthropic.lawful import repair
from everlog.protocols.exchange import Said, Settings, Thinking, Tool
from everlog.protocols.options import refuse_others
from everlog.protocols.shapes import Record, given, merged

DEFAULT_MAX_TOKENS = 4096
"""The protocol demands a limit; where nobody knows the model's own, this is sent."""

COMPACTION = "compact_20260112"
COMPACTION_BETA = "compact-2026-01-12"


def render_request(history: Sequence[Said], settings: Settings) -> Record:
    """Return the body of a request, with a lawful history.

    Raises:
        Mistake: a caching option that this protocol does not have.
        UnsupportedAttachment: a file of a type that it does not carry.
    """
    system, messages = render_history(history)
    limit = settings.max_output_tokens or DEFAULT_MAX_TOKENS
    body = given(model=settings.model, max_tokens=limit, system=system or None, messages=messages)
    body |= _tools(settings) | given(temperature=settings.temperature, top_p=settings.top_p)
    body |= given(stop_sequences=[*settings.stop] or None)
    if settings.thinking is not None:
        body |= _thinking(settings.thinking)
    if settings.schema is not None:
        form = {"format": {"type": "json_schema", "schema": dict(settings.schema.schema)}}
        body = merged(body, {"output_config": form})
    if settings.caching is not None:
        refuse_others(settings.caching, ("ttl",), "caching")
        body["cache_control"] = {"type": "ephemeral", **given(ttl=settings.caching.get("ttl"))}
    if settings.compaction is not None:
        body["context_management"] = {"edits": [_compaction(settings.compaction)]}
    if settings.end_user is not None:
        body["metadata"] = {"user_id": settings.end_user}
    if settings.stream:
        body["stream"] = True
    body = repair(merged(body, dict(settings.options)))
    if settings.provider_tools:
        body["tools"] = [*body.get("tools", []), *map(dict, settings.provider_tools)]
    return body


def render_betas(settings: Settings) -> tuple[str, ...]:
    """Return what the header `anthropic-beta` must name for these settings."""
    return (COMPACTION_BETA,) if settings.compaction is not None else ()


def _tools(settings: Settings) -> Record:
    if not settings.tools:
        return {}
    body: Record = {"tools": [_tool(tool) for tool in settings.tools]}
    one_at_a_time = {} if settings.parallel is None else {"disable_parallel_tool_use": not settings.parallel}
    match settings.choice:
        case None if not one_at_a_time:
            pass
        case None | "auto":
            body["tool_choice"] = {"type": "auto", **one_at_a_time}
        case "required":
            body["tool_choice"] = {"type": "any", **one_at_a_time}
        case "none":
            body["tool_choice"] = {"type": "none"}
        case name:
            body["tool_choice"] = {"type": "tool", "name": name, **one_at_a_time}
    return body


def _tool(tool: Tool) -> Record:
    described = given(name=tool.name, description=tool.description or None, input_schema=dict(tool.parameters))
    return {**described, **given(strict=tool.strict)}


def _thinking(thinking: Thinking) -> Record:
    display = given(display=thinking.display)
    if not thinking.enabled or thinking.effort == "none":
        return {"thinking": {"type": "disabled"}} if not thinking.enabled else {}
    if thinking.budget_tokens is not None:
        return {"thinking": {"type": "enabled", "budget_tokens": thinking.budget_tokens, **display}}
    effort = {"output_config": {"effort": thinking.effort}} if thinking.effort else {}
    return {"thinking": {"type": "adaptive", **display}, **effort}


def _compaction(options: object) -> Record:
    asked = dict(options) if isinstance(options, dict) else {}
    at = asked.get("at")
    return {
        "type": COMPACTION,
        **given(
            trigger=None if at is None else {"type": "input_tokens", "value": at},
            instructions=asked.get("instructions"),
            pause_after_compaction=asked.get("pause_after"),
        ),
    }
