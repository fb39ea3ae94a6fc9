"""Tools that run at the provider: what people call them, and what each protocol does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from everlog.errors import Mistake
from everlog.protocols.shapes import Record, merged

ALIASES: dict[str, dict[str, Record]] = {
    "responses": {
        "web_search": {"type": "web_search"},
        "file_search": {"type": "file_search"},
        "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
        "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
        "image_generation": {"type": "image_generation"},
        "mcp": {"type": "mcp"},
    },
    "anthropic": {
        "web_search": {"type": "web_search_20260318", "name": "web_search"},
        "web_fetch": {"type": "web_fetch_20260318", "name": "web_fetch"},
        "url_context": {"type": "web_fetch_20260318", "name": "web_fetch"},
        "code_execution": {"type": "code_execution_20260521", "name": "code_execution"},
        "mcp": {"type": "mcp_toolset"},
    },
}
"""The names that are understood, by protocol, and what is sent for them; options are laid over it."""

MCP_BETA = "mcp-client-2025-11-20"
"""What Anthropic's header of betas must name for servers of tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTool:
    """A tool that runs at the provider."""

    name: str | None = None
    """What it is called here; None where it is given in the provider's words."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """In the provider's words."""


@dataclass(frozen=True, slots=True)
class Placed:
    """What a request says of such tools."""

    tools: tuple[Record, ...] = ()
    servers: tuple[Record, ...] = ()
    """Servers of tools, which one protocol wants beside the tools."""


def provider_tools_of(given: Sequence[Any], named: Mapping[str, Any]) -> tuple[ProviderTool, ...]:
    """Return the tools that names, mappings in the provider's words, and names with options mean.

    Raises:
        Mistake: one is none of these.
    """
    found = []
    for one in given:
        if isinstance(one, str):
            found.append(ProviderTool(name=one))
        elif isinstance(one, Mapping):
            found.append(ProviderTool(options=dict(one)))
        elif one is not None:
            raise Mistake(f"a provider's tool is a name or a mapping in its words, not {type(one).__name__}")
    for name, options in named.items():
        if not isinstance(options, Mapping):
            raise Mistake(f"options of {name} are a mapping, not {type(options).__name__}")
        found.append(ProviderTool(name=name, options=dict(options)))
    return tuple(found)


def placed(tools: Sequence[ProviderTool], protocol: str) -> Placed:
    """Return what a protocol says of tools.

    Raises:
        Mistake: it has no such tool; the message names those that it has.
    """
    made: list[Record] = []
    servers: list[Record] = []
    for tool in tools:
        if tool.name is None:
            made.append(dict(tool.options))
        elif protocol == "anthropic" and tool.name == "mcp":
            made.append({"type": "mcp_toolset", "mcp_server_name": tool.options.get("name")})
            servers.append({"type": "url", **tool.options})
        else:
            made.append(merged(_meant(tool.name, protocol), dict(tool.options)))
    return Placed(tuple(made), tuple(servers))


def _meant(name: str, protocol: str) -> Record:
    known = ALIASES.get(protocol, {})
    if name not in known:
        has = f"it has {', '.join(known)}" if known else "it has none by name; give it in the provider's words"
        raise Mistake(f"{protocol} has no provider tool {name!r}; {has}")
    return known[name]
