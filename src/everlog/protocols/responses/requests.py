"""Request bodies of Responses. Nothing is stored at the provider: the conversation is ours."""

from collections.abc import Sequence

from everlog.messages import JSON
from everlog.protocols.exchange import Said, Settings, Thinking, Tool
from everlog.protocols.options import cache_options
from everlog.protocols.responses.history import render_history
from everlog.protocols.responses.lawful import repair
from everlog.protocols.shapes import Record, given, merged

SEALED = "reasoning.encrypted_content"


def render_request(history: Sequence[Said], settings: Settings) -> Record:
    """Return the body of a request, with a lawful history.

    Raises:
        Mistake: a caching option that this protocol does not have.
        UnsupportedAttachment: a file of a type that it does not carry.
    """
    instructions, items = render_history(history)
    body = given(model=settings.model, instructions=instructions, input=items)
    body |= _tools(settings)
    body |= given(
        temperature=None if settings.reasons else settings.temperature,
        top_p=None if settings.reasons else settings.top_p,
        max_output_tokens=settings.max_output_tokens,
    )
    if settings.schema is not None:
        schema = settings.schema
        form = given(name=schema.name, description=schema.description, schema=dict(schema.schema), strict=schema.strict)
        body["text"] = {"format": {"type": "json_schema", **form}}
    if settings.thinking is not None:
        body |= given(reasoning=_reasoning(settings.thinking) or None)
    if settings.reasons or (settings.thinking is not None and settings.thinking.enabled):
        body["include"] = [SEALED]
    body |= cache_options(settings, marked=any(said.cached for said in history))
    body |= given(**{settings.names.get("end_user", "safety_identifier"): settings.end_user})
    if settings.compaction is not None:
        body["context_management"] = [{"type": "compaction", **given(compact_threshold=settings.compaction.get("at"))}]
    body |= {"store": False, "stream": True} if settings.stream else {"store": False}
    body = repair(merged(body, dict(settings.options)))
    if settings.provider_tools:
        body["tools"] = [*body.get("tools", []), *map(dict, settings.provider_tools)]
    return body


def _tools(settings: Settings) -> Record:
    if not settings.tools:
        return {}
    choice: JSON = settings.choice
    if choice is not None and choice not in {"auto", "none", "required"}:
        choice = {"type": "function", "name": choice}
    return given(
        tools=[_tool(tool) for tool in settings.tools], tool_choice=choice, parallel_tool_calls=settings.parallel
    )


def _tool(tool: Tool) -> Record:
    """Return a function; where nothing is asked the schema is not to be made strict, which it would be."""
    described = given(name=tool.name, description=tool.description or None, parameters=dict(tool.parameters))
    return {"type": "function", **described, "strict": bool(tool.strict)}


def _reasoning(thinking: Thinking) -> Record:
    effort = thinking.effort if thinking.enabled else "none"
    return given(effort=effort, summary="auto" if thinking.display == "summarized" else None)
