"""Options that several protocols spell alike, out and in, and the error for those that a protocol does not have."""

from collections.abc import Mapping

from everlog.errors import Mistake
from everlog.messages import JSON
from everlog.protocols.exchange import Schema, Settings, Thinking, Tool
from everlog.protocols.shapes import Record, array, given, number, record, string


def refuse_others(options: Mapping[str, JSON], allowed: tuple[str, ...], what: str) -> None:
    """Raise unless all options are among the allowed ones.

    Raises:
        Mistake: naming the valid ones.
    """
    if others := sorted(set(options) - set(allowed)):
        raise Mistake(f"{what} takes {', '.join(allowed)} here, not {', '.join(others)}")


def cache_options(settings: Settings, *, marked: bool) -> Record:
    """Return the fields that ask OpenAI for caching; `marked` is whether the history has explicit boundaries.

    Raises:
        Mistake: an option that OpenAI does not have.
    """
    asked = settings.caching or {}
    refuse_others(asked, ("key", "ttl", "mode"), "caching")
    options = given(mode=asked.get("mode", "explicit" if marked else None), ttl=asked.get("ttl"))
    return given(prompt_cache_key=asked.get("key"), prompt_cache_options=options or None)


def parse_function(function: Record, parameters: JSON) -> Tool:
    """Return a tool that a client declared."""
    strict = function.get("strict")
    return Tool(
        name=string(function.get("name")),
        description=string(function.get("description")),
        parameters=record(parameters) or {"type": "object", "properties": {}},
        strict=strict if isinstance(strict, bool) else None,
    )


def parse_choice(choice: JSON, named: Record, tools: tuple[Tool, ...]) -> str | None:
    """Return which tool a client of OpenAI's wants; None if it did not say, or names none that there is."""
    if isinstance(choice, str):
        return choice if choice in {"auto", "none", "required"} else None
    return next((tool.name for tool in tools if tool.name == named.get("name")), None)


def parse_form(form: Record) -> Schema | None:
    """Return the form that a client of OpenAI's wants answers to have; None if it names none."""
    if not isinstance(form.get("schema"), dict):
        return None
    return Schema(
        schema=form["schema"],
        name=string(form.get("name")) or "response",
        description=string(form.get("description")) or None,
        strict=form.get("strict") is True,
    )


def parse_effort(effort: JSON, display: str | None = None) -> Thinking:
    """Return how much a client of OpenAI's wants its model to think."""
    return Thinking(enabled=effort != "none", effort=string(effort) or None, display=display)


def strings(value: JSON) -> tuple[str, ...]:
    """Return the texts of a list, or a text alone."""
    return (value,) if isinstance(value, str) else tuple(one for one in array(value) if isinstance(one, str))


def parse_shared(body: Record, tools: tuple[Tool, ...], choice: str | None) -> Settings:
    """Return what both of OpenAI's protocols have in the same fields."""
    parallel = body.get("parallel_tool_calls")
    return Settings(
        model=string(body.get("model")),
        tools=tools,
        choice=choice,
        parallel=parallel if isinstance(parallel, bool) else None,
        temperature=number(body.get("temperature")),
        top_p=number(body.get("top_p")),
        stream=body.get("stream") is True,
        end_user=string(body.get("safety_identifier")) or string(body.get("user")) or None,
        caching=_cache_key(string(body.get("prompt_cache_key"))),
    )


def _cache_key(key: str) -> Mapping[str, JSON] | None:
    return {"key": key} if key else None
