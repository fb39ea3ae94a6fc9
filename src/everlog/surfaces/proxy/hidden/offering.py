"""Whether memory tools may be offered with a client's request, and how they stand in it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from everlog.memory.tree.schemas import ARGUMENTS
from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Settings, Tool
from everlog.protocols.shapes import Record, array, count, record, string

NAMES = "everlog_"
"""What the names of our tools begin with: `zoom` is called `everlog_zoom` on the wire."""

Offer = Literal["yes", "kept", "no"]

_OURS = re.compile(rf"{NAMES}.*|.*everlog[\W_]*({'|'.join(ARGUMENTS)})", re.DOTALL | re.IGNORECASE)
"""Names of tools of ours, also as clients call those that they have over MCP, such as `mcp__everlog__zoom`."""


def offers(protocol: str, body: Record) -> Offer:
    """Return whether memory tools may be offered with a request.

    `kept` means only where the thread has them already, so that what was sent stays the beginning of what is sent: the
    client's choice is such that none of ours will be called.
    """
    if _wants_form(protocol, body) or any(map(_OURS.fullmatch, tool_names(body))):
        return "no"
    choice = body.get("tool_choice")
    kind = string(record(choice).get("type")) or string(choice)
    if kind == "allowed_tools":
        allowed = record(choice)
        mode = allowed.get("mode") or record(allowed.get("allowed_tools")).get("mode")
        return "no" if mode == "required" else "kept"
    if kind in {"required", "any"}:
        return "yes" if body.get("tools") else "no"
    return "yes" if kind in {"", "auto"} else "kept"


def _wants_form(protocol: str, body: Record) -> bool:
    """Whether what is asked for is no plain answer in words and calls."""
    match protocol:
        case "chat_completions":
            forms = [body.get("response_format")]
            others = bool((count(body.get("n")) or 1) > 1 or body.get("functions") or body.get("function_call"))
        case "responses":
            forms = [record(body.get("text")).get("format")]
            others = bool(body.get("background") or body.get("prompt"))
        case _:
            forms = [body.get("output_format"), record(body.get("output_config")).get("format")]
            others = False
    return others or any(string(record(form).get("type")) not in {"", "text"} for form in forms)


def tool_names(body: Record) -> Iterator[str]:
    """Yield the names of the tools of a request, those of servers and name spaces with the name of where they are."""
    for server in array(body.get("mcp_servers")):
        yield from _served(record(server).get("name"))
    for tool in map(record, array(body.get("tools"))):
        yield name_of(tool)
        yield from _served(tool.get("server_label"))
        if tool.get("type") == "namespace":
            inner = map(record, array(tool.get("tools")))
            yield from (f"{string(tool.get('name'))}_{string(one.get('name'))}" for one in inner)


def _served(server: JSON) -> Iterator[str]:
    """Yield the names that the tools of a server would have, of which only the server's is known."""
    if name := string(server):
        yield from (f"{name}_{one}" for one in ARGUMENTS)


def name_of(tool: Record) -> str:
    """Return the name of a tool in a request."""
    return string(tool.get("name")) or string(record(tool.get("function")).get("name"))


def with_tools(protocol: str, body: Record, tools: Sequence[Mapping[str, Any]]) -> Record:
    """Return the request with tools of ours behind the client's own."""
    names = [tool["name"] for tool in tools]
    mentioned = re.compile(rf"\b({'|'.join(map(re.escape, names))})\(")
    ours = tuple(
        Tool(
            name=NAMES + tool["name"],
            description=mentioned.sub(rf"{NAMES}\1(", tool["description"]),
            parameters=tool["parameters"],
        )
        for tool in tools
    )
    rendered = FORMATS[protocol].render_request((), Settings(model="", tools=ours)).get("tools", [])
    return {**body, "tools": [*array(body.get("tools")), *rendered]}


def without_tools(tools: JSON, ours: Callable[[str], bool]) -> list[JSON]:
    """Return a request's tools, or what an answer repeats of them, without ours."""
    return [tool for tool in array(tools) if not ours(name_of(record(tool)))]
