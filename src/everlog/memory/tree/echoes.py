"""Which calls of a conversation are our own: their results show again what is in the log already.

They are known by the name of the tool and the arguments that it takes, since other programs have tools that are called
`read` and `search` too; behind a name that says Everlog, as an MCP client or a proxy writes it, the arguments may be any.
What such a call brought back is not found by a search, and its line says only that it was recalled, so that memory is
not made into memory again. The call itself stays: it tells what the agent looked for.
"""

import json
import re
from collections.abc import Mapping

from everlog.memory.tree.lines import Line
from everlog.memory.tree.schemas import ARGUMENTS
from everlog.messages import Call

_OURS = re.compile(rf".*everlog.*?[^a-z]({'|'.join(ARGUMENTS)})", re.IGNORECASE | re.DOTALL)
_LAST = re.compile(rf"(?:.*[_./:])?({'|'.join(ARGUMENTS)})", re.DOTALL)


def may_echo(name: str | None) -> bool:
    """Whether a result can be one of ours, by the tool's name as it repeats it; only its call says it for sure."""
    return name is None or _OURS.fullmatch(name) is not None or _LAST.fullmatch(name) is not None


def echoes(call: Call) -> bool:
    """Whether a call is one of ours."""
    return _tool(call) is not None


def recalled(call: Call) -> Line | None:
    """Return what stands for the result of one of our own tools, or None if it is another's."""
    tool = _tool(call)
    return None if tool is None else Line(f"tool_result: (recalled from this conversation by {tool})")


def _tool(call: Call) -> str | None:
    """Return which of our tools a call is of, if any."""
    if (named := _OURS.fullmatch(call.name)) is not None:
        return named[1].lower()
    if (last := _LAST.fullmatch(call.name)) is None:
        return None
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return last[1] if isinstance(arguments, dict) and _takes(last[1], arguments) else None


def _takes(tool: str, arguments: Mapping[str, object]) -> bool:
    required, optional = ARGUMENTS[tool]
    if not set(required) <= arguments.keys() <= {*required, *optional}:
        return False
    return all(
        type(value) is (str if name == "words" else int) or (value is None and name in optional)
        for name, value in arguments.items()
    )
