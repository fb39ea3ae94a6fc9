"""Tool calls and their results: which call a result answers.

Calls that run side by side answer in any order, so a result is paired by the call's id and not by what stands before
it.
"""

from collections.abc import Mapping

from everlog.memory.tree.extractive import clip
from everlog.memory.tree.lines import Line
from everlog.messages import Call, Entry

REACH = 64
"""Entries before a result among which its call is looked for."""

CALL_BYTES = 160
"""The most of a call that is shown beside its result."""


def call_of(entry: Entry, before: Mapping[str, Call]) -> Call | None:
    """Return the call that an entry is the result of, among the latest ones by their id."""
    result = entry.message.result
    return None if result is None else before.get(result.call_id)


def shown_call(call: Call) -> Line:
    """Return the line that stands for a call beside its result."""
    return Line(f"tool_call: {clip(f'{call.name} {call.arguments}', CALL_BYTES)}")
