"""How long a model may go on calling memory's tools to no end: each call of them is a request more, and is paid."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from everlog.chat.state import State
from everlog.chat.tools import ToolCall
from everlog.conversation.turn.toolbox import Toolbox
from everlog.errors import BadReply

IDLE_ROUNDS = 4
"""Rounds of a turn in which memory's tools had nothing new to show, after which the model is given no choice but to answer."""
DEAF_ROUNDS = 2
"""Rounds after that, for a provider which lets it call all the same, before the turn is ended."""


class Patience:
    """Counts rounds of one turn that led nowhere."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._spent = 0
        self._idle = 0

    def asked(self, state: State) -> State:
        """Return the state to ask in: no tool may be called any more where too many rounds led nowhere."""
        if self._idle < IDLE_ROUNDS:
            return state
        made = copy(state)
        made.tool_options = replace(state.tool_options, choice="none")
        return made

    def note(self, calls: Sequence[ToolCall]) -> None:
        """Take note of a round whose calls have run.

        Raises:
            BadReply: the model goes on calling, though it was told to answer.
        """
        spent, self._spent = self._spent, self._toolbox.spent
        if self._spent == spent and all(call.name in self._toolbox.names for call in calls):
            self._idle += 1
        if self._idle >= IDLE_ROUNDS + DEAF_ROUNDS:
            raise BadReply(
                f"the model calls {calls[-1].name} again and again, though nothing more opens in this turn and it was told to "
                "answer; ask another model, or one that obeys tool_choice"
            )
