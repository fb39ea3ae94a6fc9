"""Tools: functions and classes that a model may call, what it asked of them, and what goes back to it.

A tool is a function, or a class or object with a method `execute`. Its name, description and the schema of its
arguments come from its signature and docstring. A parameter `tool_call` gets the call itself and is not in the schema.
"""

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, get_type_hints, overload

from everlog.chat.schemas import Unfit, parameters_of, value_of
from everlog.errors import Mistake
from everlog.messages import JSON, Media
from everlog.protocols import exchange
from everlog.protocols.shapes import dumps, loads, record

RESERVED = frozenset({"tool_call"})

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What a model asked of a tool."""

    id: str
    name: str
    text: str
    """The arguments as JSON text, as the model wrote them."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments; empty where they are no object."""
        return record(loads(self.text))


Resolver: TypeAlias = Callable[[ToolCall], bool | None]
"""Says whether a call may run: True, False, or None while nobody has decided. A read that may be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may call."""

    name: str
    description: str
    parameters: Mapping[str, JSON]
    """JSON schema of the arguments."""
    function: Callable[..., Any]
    """What runs; plain or async."""
    requires_approval: bool | Resolver = False
    """Whether a call waits until somebody approves it, or who says so."""
    strict: bool | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    @property
    def declared(self) -> exchange.Tool:
        """What the model is told."""
        return exchange.Tool(
            name=self.name, description=self.description, parameters=self.parameters, strict=self.strict
        )

    def fitted(self, call: ToolCall) -> dict[str, Any]:
        """Return the keyword arguments for a call.

        Raises:
            Unfit: one is missing, is not known, or has another type.
        """
        signature = inspect.signature(self.function)
        hints = _hints(self.function)
        known = {name: one for name, one in signature.parameters.items() if name not in RESERVED}
        is_open = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
        given = call.arguments
        missing = [
            name
            for name, one in known.items()
            if one.default is one.empty and one.kind is not one.VAR_KEYWORD and name not in given
        ]
        unknown = [] if is_open else [name for name in given if name not in known]
        if missing or unknown:
            said = [f"missing keyword: {name}" for name in missing] + [f"unknown keyword: {name}" for name in unknown]
            raise Unfit("; ".join(said))
        made = {name: value_of(hints.get(name, Any), value, name) for name, value in given.items()}
        return {**made, "tool_call": call} if "tool_call" in signature.parameters else made


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function, include_extras=True)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, JSON] | None = None,
    requires_approval: bool | Resolver = False,
    strict: bool | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: `@tool`, or `@tool(requires_approval=True)`.

    Raises:
        Mistake: its name or the type of a parameter cannot be used.
    """
    if function is None:
        return lambda wrapped: _made(wrapped, **options)
    return _made(function, **options)


def _made(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, JSON] | None = None,
    requires_approval: bool | Resolver = False,
    strict: bool | None = None,
) -> Tool:
    name = name or str(getattr(function, "__name__", ""))
    if not _NAME.fullmatch(name):
        raise Mistake(f"{name!r} cannot be the name of a tool; it has 1 to 64 letters, digits, _ or -: give name=")
    if inspect.iscoroutinefunction(requires_approval):
        raise Mistake(f"the resolver of the tool {name} must be a plain function: it is asked in passing, and often")
    try:
        found = parameters_of(function, RESERVED) if parameters is None else parameters
    except Mistake as error:
        raise Mistake(f"the tool {name}: {error}") from error
    return Tool(
        name=name,
        description=_summary(inspect.getdoc(function)) if description is None else description,
        parameters=found,
        function=function,
        requires_approval=requires_approval,
        strict=strict,
    )


def _summary(doc: str | None) -> str:
    return re.split(r"\n\s*(?:Args|Arguments|Parameters|Returns|Raises):", doc or "", maxsplit=1)[0].strip()


def as_tool(value: Any) -> Tool:
    """Return the tool that a function, a class or an object is.

    Raises:
        Mistake: it is none of these.
    """
    if isinstance(value, Tool):
        return value
    if isinstance(value, type) and callable(getattr(value, "execute", None)):
        return _of_object(value())
    if callable(getattr(value, "execute", None)):
        return _of_object(value)
    if inspect.isroutine(value):
        return _made(value)
    raise Mistake(f"a tool is a function, or a class or object with a method execute, not {type(value).__name__}")


def _of_object(value: Any) -> Tool:
    kind = type(value)
    return _made(
        value.execute,
        name=getattr(value, "name", None) or snake(kind.__name__),
        description=getattr(value, "description", None)
        or _summary(inspect.getdoc(kind) or inspect.getdoc(value.execute)),
        parameters=getattr(value, "parameters", None),
        requires_approval=getattr(value, "requires_approval", False),
        strict=getattr(value, "strict", None),
    )


def snake(name: str) -> str:
    """Return the name of a class as that of a tool: WeatherTool is weather."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return words.removesuffix("_tool") or words


def name_of(value: Any) -> str | None:
    """Return the name under which a tool, or what one can be made of, is known; a text is a name."""
    if isinstance(value, str):
        return value
    if isinstance(value, Tool):
        return value.name
    kind = value if isinstance(value, type) else type(value)
    if callable(getattr(kind, "execute", None)):
        return getattr(value, "name", None) or snake(kind.__name__)
    return getattr(value, "__name__", None)


@dataclass(frozen=True, slots=True)
class Answered:
    """What goes back to the model."""

    text: str
    attachments: tuple[Media, ...] = ()
    failed: bool = False


def answered(value: Any) -> Answered:
    """Return what a tool returned as what the model is told.

    Raises:
        Mistake: attachments stand among values that are no text, or neither JSON nor `str` can tell it.
    """
    if isinstance(value, str):
        return Answered(value)
    if isinstance(value, Media):
        return Answered("", (value,))
    if isinstance(value, list | tuple) and any(isinstance(one, Media) for one in value):
        if not all(isinstance(one, str | Media) for one in value):
            raise Mistake("a tool returns attachments alone or among texts, not among other values")
        texts = [one for one in value if isinstance(one, str)]
        return Answered("\n".join(texts), tuple(one for one in value if isinstance(one, Media)))
    if value is None:
        return Answered("")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    try:
        return Answered(_ENCODE(value) if isinstance(value, dict | list | tuple) else str(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Mistake(f"a tool returned a {type(value).__name__} that cannot be written as JSON or text") from error


def refused(message: str) -> Answered:
    """Return an error, in the form in which a model is told of one."""
    return Answered(dumps({"error": message}), failed=True)


def unknown_tool(name: str, available: Iterable[str]) -> Answered:
    """Return what a model is told that called a tool which does not exist."""
    return refused(f"Unknown tool: {name}. Available tools: {', '.join(available) or 'none'}.")


def invalid_arguments(error: Unfit) -> Answered:
    """Return what a model is told whose arguments do not fit."""
    return refused(f"Invalid tool arguments: {error}")


def denied(name: str) -> Answered:
    """Return what a model is told whose call the user did not allow."""
    return refused(f"The user denied the tool call: {name}.")
