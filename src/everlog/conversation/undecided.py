"""What a turn that was left open waits for, as the log says it: also for a process that did not begin the turn."""

from everlog import log
from everlog.chat.tools import ToolCall
from everlog.conversation import gate
from everlog.messages import Call
from everlog.store import Unit


def undecided(unit: Unit, key: str) -> list[ToolCall]:
    """Return the calls without a result of the turn that a thread was left in; none while somebody is at it."""
    thread = log.known(unit, key)
    if thread is None:
        return []
    row = log.load(unit, thread)
    opened = log.open_turn(unit, row)
    if opened is None or gate.is_taken(unit, thread):
        return []
    waiting: dict[str, Call] = {}
    for entry in log.read(unit, row, opened.first, media=False):
        if (call := entry.message.call) is not None:
            waiting[call.call_id] = call
        elif (result := entry.message.result) is not None:
            waiting.pop(result.call_id, None)
    return [ToolCall(id=call.call_id, name=call.name, text=call.arguments) for call in waiting.values()]
