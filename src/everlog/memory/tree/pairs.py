"""Tool calls and their results: which call a result answers, and whether it was us who answered.

Calls that run side by side answer in any order, so a result is paired by the call's id and not by what stands before
it. What our own tools brought back from this very memory is not said again as something new.
"""

import json
from collections.abc import Mapping

from everlog.memory.tree.extractive import clip
from everlog.memory.tree.lines import Line
from everlog.messages import Call, Entry

REACH = 64
"""Entries before a result among which its call is looked for."""

CALL_BYTES = 160
"""The most of a call that is shown beside its result."""

_NAMES_AND_ARGUMENTS = {
    "zoom": ({"id", "n"}, {"id", "n"}),
    "read": ({"id", "page"}, {"id"}),
    "date": ({"id"}, {"id"}),
    "search": ({"words", "before"}, {"words"}),
}
"""Our tools: which arguments each may have, and must have."""


def call_of(entry: Entry, before: Mapping[str, Call]) -> Call | None:
    """Return the call that an entry is the result of, among the latest ones by their id."""
    result = entry.message.result
    return None if result is None else before.get(result.call_id)


def shown_call(call: Call) -> Line:
    """Return the line that stands for a call beside its result."""
    return Line(f"tool_call: {clip(f'{call.name} {call.arguments}', CALL_BYTES)}")


def recalled(call: Call) -> Line | None:
    """Return what stands for the result of one of our own tools, or None if it is another's.

    Other tools are called `read` or `search` as well, so the arguments must be ours too.
    """
    name = call.name.replace(".", "_").replace("/", "_").rpartition("_")[2]
    if name not in _NAMES_AND_ARGUMENTS:
        return None
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    may, must = _NAMES_AND_ARGUMENTS[name]
    if not isinstance(given, dict) or not must <= given.keys() <= may:
        return None
    numbers = [value for key, value in given.items() if key != "words"]
    if not all(value is None or type(value) is int for value in numbers):
        return None
    return Line(f"tool_result: (recalled from this conversation by {name})")
