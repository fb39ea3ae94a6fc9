"""The tools as a model sees them: name, description and JSON schema, as plain values for any wire."""

from collections.abc import Mapping

from everlog.messages import JSON

_ID: JSON = {"type": "integer", "minimum": 0, "description": "Number of a message; in a label id+n, the id."}

_PARAMETERS: Mapping[str, Mapping[str, JSON]] = {
    "zoom": {
        "id": _ID,
        "n": {"type": "integer", "minimum": 1, "description": "How many messages the line covers; in id+n, the n."},
    },
    "read": {
        "id": _ID,
        "page": {"type": "integer", "minimum": 0, "description": "Which page; pages count from 0."},
    },
    "date": {"id": _ID},
    "search": {
        "words": {"type": "string", "description": "The words to look for, at most eight, with spaces between."},
        "before": {"type": "integer", "minimum": 1, "description": "Only messages before this one, to page back."},
    },
}

_SAYS = {
    "zoom": "Open a line id+n of the chat: its two halves in more detail, or with n = 1 the message in its own words. "
    "A line is a summary; open it before you rely on it.",
    "read": "Read one page of a message that is too long for zoom(id, 1) to show whole.",
    "date": "Tell when a message was said.",
    "search": "Find messages by their words. It tells their numbers, dates and lines, not their text; read them with "
    "zoom(id, 1).",
}

ARGUMENTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "zoom": (("id",), ("n",)),
    "read": (("id",), ("page",)),
    "date": (("id",), ()),
    "search": (("words",), ("before",)),
}
"""Of each tool the arguments that it needs, and those that it can do without, in order."""

SCHEMAS: Mapping[str, Mapping[str, JSON]] = {
    name: {
        "name": name,
        "description": _SAYS[name],
        "parameters": {
            "type": "object",
            "properties": dict(_PARAMETERS[name]),
            "required": list(ARGUMENTS[name][0]),
            "additionalProperties": False,
        },
    }
    for name in ARGUMENTS
}
