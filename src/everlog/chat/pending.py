"""Which calls of a chat are still without a result, and which of them somebody has to approve."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from everlog.chat.message import ChatMessage
from everlog.chat.tools import Tool, ToolCall
from everlog.errors import PendingCalls

Checker = Callable[[ToolCall], bool | None]


def last_said(messages: Sequence[ChatMessage]) -> ChatMessage | None:
    """Return the last message that is no instruction."""
    return next((one for one in reversed(messages) if one.role != "system"), None)


def is_complete(messages: Sequence[ChatMessage]) -> bool:
    """Whether nothing waits: nobody has asked, or the model answered without calling a tool."""
    last = last_said(messages)
    return last is None or (last.role == "assistant" and not last.calls)


def open_calls(messages: Sequence[ChatMessage]) -> tuple[ToolCall, ...]:
    """Return the calls of the last response that have no result, in order.

    Results are told by id among those behind the response, since there are servers that begin anew with each reply.
    """
    answered: Counter[str | None] = Counter()
    for message in reversed(messages):
        if message.role == "tool":
            answered[message.tool_call_id] += 1
        elif message.role != "system":
            return _unanswered(message.calls, answered)
    return ()


def refuse_pending(messages: Sequence[ChatMessage]) -> None:
    """Make sure that no call of the last response is without a result.

    Raises:
        PendingCalls: one is.
    """
    names = dict.fromkeys(call.name for call in open_calls(messages))
    if names:
        raise PendingCalls(
            f"the last response has calls without a result ({', '.join(names)}); run complete() first, "
            "after approve() or deny() for those that wait for it"
        )


def _unanswered(calls: Sequence[ToolCall], answered: Counter[str | None]) -> tuple[ToolCall, ...]:
    left = []
    for call in calls:
        if answered[call.id]:
            answered[call.id] -= 1
        else:
            left.append(call)
    return tuple(left)


class Approvals:
    """Who may run what: the tool's own resolver, else what was decided here, else what somebody else says."""

    def __init__(self) -> None:
        self.checker: Checker | None = None
        self._decided: dict[str, bool] = {}

    def decide(self, call_id: str, *, approved: bool) -> None:
        """Record a decision, whether or not there is such a call."""
        self._decided[call_id] = approved

    def forget(self) -> None:
        """Forget all decisions: calls that were decided on and not carried out are over."""
        self._decided.clear()

    def settle(self, call_id: str) -> None:
        """Forget a decision that was carried out: the next call of that id, in a later reply, is another call."""
        self._decided.pop(call_id, None)

    def of(self, call: ToolCall, tools: Mapping[str, Tool]) -> bool | None:
        """Return whether a call may run; None while nobody has decided."""
        tool = tools.get(call.name)
        if tool is None or tool.requires_approval is False:
            return True
        if callable(tool.requires_approval):
            return tool.requires_approval(call)
        found = self._decided.get(call.id)
        if found is None and self.checker is not None:
            found = self.checker(call)
        return found
