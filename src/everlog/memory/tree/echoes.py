"""Which calls of a conversation are our own: their results show again what is in the log already.

They are known by the name of the tool and the arguments that it takes, since other programs have tools that are called
`read` and `search` too; behind a name that says Everlog, as an MCP client or a proxy writes it, the arguments may be any.
"""

import json
import re

from everlog.memory.tree.schemas import ARGUMENTS
from everlog.messages import Call

_OURS = re.compile(rf".*everlog.*?[^a-z](?:{'|'.join(ARGUMENTS)})", re.IGNORECASE | re.DOTALL)


def may_echo(name: str | None) -> bool:
    """Whether a result can be one of ours, by the tool's name as it repeats it; only its call says it for sure."""
    return name is None or name in ARGUMENTS or _OURS.fullmatch(name) is not None


def echoes(call: Call) -> bool:
    """Whether a call is one of ours."""
    if call.name not in ARGUMENTS:
        return _OURS.fullmatch(call.name) is not None
    required, optional = ARGUMENTS[call.name]
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return False
    return isinstance(arguments, dict) and set(required) <= arguments.keys() <= {*required, *optional}
