"""Calls of ours that are not run, and what the model is told instead."""

from collections.abc import Sequence
from dataclasses import dataclass

from everlog.messages import Call
from everlog.protocols.shapes import loads

MOST_ROUNDS = 4
MOST_CALLS = 12
"""How many hidden rounds and calls of ours one answer may take."""

LIMIT = "Limit reached, answer now: no more of these tools can be called before you have answered."
NOT_NOW = "Limit reached, not now: call one of the other tools."
UNREADABLE_ARGUMENTS = "Not called: the arguments are no JSON object. Call it again with one."
UNKNOWN_TOOL = "Not called: there is no such tool. There are: {names}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusing:
    """The rules of one answer."""

    names: tuple[str, ...]
    """Of the tools that were offered."""
    is_waited_for: bool
    """Whether the client waits for a call of its own."""

    def refused(self, calls: Sequence[Call], *, rounds: int, before: int) -> tuple[dict[int, str], bool]:
        """Return what is told for those of a round's calls that are not run, and whether a limit is reached.

        Args:
            calls: of ours, in this round.
            rounds: how many there were before it.
            before: how many calls of ours there were before it.
        """
        told: dict[int, str] = {}
        is_limited = False
        for number, call in enumerate(calls):
            if rounds >= MOST_ROUNDS or before + number >= MOST_CALLS:
                told[number] = NOT_NOW if self.is_waited_for else LIMIT
                is_limited = True
            elif call.name not in self.names:
                told[number] = UNKNOWN_TOOL.format(names=", ".join(self.names))
            elif not isinstance(loads(call.arguments or "{}"), dict):
                told[number] = UNREADABLE_ARGUMENTS
        return told, is_limited
