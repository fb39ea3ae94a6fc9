"""Running the tools that a response calls: all that may, once, and what they answered added to the chat."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from everlog.chat.effects import Begin, Drop, Invoke, Mode, Next, Program
from everlog.chat.message import result_message
from everlog.chat.pending import open_calls
from everlog.chat.schemas import Unfit
from everlog.chat.state import State
from everlog.chat.tools import Answered, ToolCall, answered, denied, invalid_arguments, unknown_tool

FREE_CHOICES = (None, "auto", "none")


def run_tools(state: State) -> Program[None]:
    """Run the calls of the last response that have no result and may run; those that are denied are answered first."""
    state.cancel.check()
    pending = open_calls(state.messages)
    decisions = [(call, state.approvals.of(call, state.tools)) for call in pending]
    for call in [call for call, decision in decisions if decision is False]:
        state.cancel.check()
        yield from _add(state, call, denied(call.name))
    calls = [call for call, decision in decisions if decision is True]
    mode = state.tool_options.concurrency
    yield from _in_turn(state, calls) if mode is None else _beside_each_other(state, calls, mode)
    if calls and state.tool_options.choice not in FREE_CHOICES:
        state.tool_options = replace(state.tool_options, choice=None)


def _in_turn(state: State, calls: Sequence[ToolCall]) -> Program[None]:
    for call in calls:
        state.cancel.check()
        yield from state.fire("before_message")
        answer = yield from _run(state, call)
        state.cancel.check()
        yield from _add(state, call, answer, is_announced=True)


def _beside_each_other(state: State, calls: Sequence[ToolCall], mode: Mode) -> Program[None]:
    """Run calls at once and add what they answer as they end.

    Where one raises, the others are still waited for and their answers kept: a tool runs once. After a cancel nothing
    is kept.
    """
    batch = yield Begin(tuple(_worker(state, call) for call in calls), mode)
    raised: BaseException | None = None
    try:
        while (ended := (yield Next(batch))) is not None:
            state.cancel.check()
            raised = raised or ended.error
            if ended.value is not None:
                yield from _add(state, calls[ended.index], ended.value)
            elif ended.error is None:
                state.cancel.stop()
    finally:
        yield Drop(batch)
    if raised is not None:
        raise raised


def _worker(state: State, call: ToolCall) -> Callable[[], Program[Answered | None]]:
    """Return a program that runs one call; None if a cancel is seen, which the collecting side clears."""

    def program() -> Program[Answered | None]:
        if state.cancel.is_due():
            return None
        answer = yield from _run(state, call)
        return None if state.cancel.is_due() else answer

    return program


def _run(state: State, call: ToolCall) -> Program[Answered]:
    """Run one call, with the callbacks around it."""
    yield from state.fire("before_tool_call", call)
    tool = state.tools.get(call.name)
    if tool is None:
        return (yield from _refuse(state, unknown_tool(call.name, state.tools)))
    try:
        arguments = tool.fitted(call)
    except Unfit as error:
        return (yield from _refuse(state, invalid_arguments(error)))
    result = yield Invoke(tool.function, (), arguments, blocking=True)
    yield from state.fire("after_tool_result", result)
    return answered(result)


def _refuse(state: State, answer: Answered) -> Program[Answered]:
    yield from state.fire("after_tool_result", answer.text)
    return answer


def _add(state: State, call: ToolCall, answer: Answered, *, is_announced: bool = False) -> Program[None]:
    yield from state.add(result_message(call, answer), is_announced=is_announced)
    state.approvals.settle(call.id)
