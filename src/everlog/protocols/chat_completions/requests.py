"""Request bodies of Chat Completions."""

from collections.abc import Sequence

from everlog.messages import JSON
from everlog.protocols.chat_completions.history import render_history
from everlog.protocols.chat_completions.lawful import repair
from everlog.protocols.exchange import Said, Settings, Tool
from everlog.protocols.options import cache_options
from everlog.protocols.shapes import Record, given, merged


def render_request(history: Sequence[Said], settings: Settings) -> Record:
    """Return the body of a request, with a lawful history.

    Raises:
        Mistake: a caching option that this protocol does not have.
        UnsupportedAttachment: a file of a type that it does not carry.
    """
    body = given(model=settings.model, messages=render_history(history))
    body |= _tools(settings) | _limits(settings)
    if settings.schema is not None:
        schema = settings.schema
        form = given(name=schema.name, description=schema.description, schema=dict(schema.schema), strict=schema.strict)
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if settings.thinking is not None:
        effort = settings.thinking.effort if settings.thinking.enabled else "none"
        body |= given(reasoning_effort=effort)
    if settings.compaction is not None and "compaction" in settings.names:
        body["plugins"] = [{"id": settings.names["compaction"]}]
    body |= cache_options(settings, marked=any(said.cached for said in history))
    if settings.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    body = repair(merged(body, dict(settings.options)))
    if settings.provider_tools:
        body["tools"] = [*body.get("tools", []), *map(dict, settings.provider_tools)]
    return body


def _tools(settings: Settings) -> Record:
    if not settings.tools:
        return {}
    choice: JSON = settings.choice
    if choice is not None and choice not in {"auto", "none", "required"}:
        choice = {"type": "function", "function": {"name": choice}}
    return given(
        tools=[_tool(tool) for tool in settings.tools], tool_choice=choice, parallel_tool_calls=settings.parallel
    )


def _tool(tool: Tool) -> Record:
    function = given(
        name=tool.name, description=tool.description or None, parameters=dict(tool.parameters), strict=tool.strict
    )
    return {"type": "function", "function": function}


def _limits(settings: Settings) -> Record:
    """Return temperature, length and user, in the provider's spelling."""
    names = settings.names
    stop: JSON = [*settings.stop]
    return given(
        **{
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "stop": stop or None,
            names.get("max_output_tokens", "max_completion_tokens"): settings.max_output_tokens,
            names.get("end_user", "safety_identifier"): settings.end_user,
        }
    )
