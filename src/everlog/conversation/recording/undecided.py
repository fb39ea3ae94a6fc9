"""How the last turn was left, as the log says it: also for a process that did not begin the turn."""

from functools import partial

from everlog import log
from everlog.chat.tools import ToolCall
from everlog.conversation.recording import gate
from everlog.conversation.recording.reach import Reach
from everlog.conversation.recording.trouble import PASSES
from everlog.messages import Call
from everlog.store import Unit


def undecided(database: Reach, key: str) -> list[ToolCall]:
    """Return the calls without a result of the turn that a thread was left in.

    None while somebody is at it, or while the database is away.
    """
    try:
        return database.reach(lambda: database.store.read(database.tenant, partial(_undecided, key=key)))
    except PASSES:
        return []


def is_unanswered(database: Reach, key: str) -> bool:
    """Return whether the last turn of a thread was not answered to the end.

    Raises:
        StoreUnavailable: the database is away.
    """
    return database.reach(lambda: database.store.read(database.tenant, partial(_is_unanswered, key=key)))


def _is_unanswered(unit: Unit, key: str) -> bool:
    thread = log.known(unit, key)
    return thread is not None and log.unanswered(unit, log.load(unit, thread)) is not None


def _undecided(unit: Unit, key: str) -> list[ToolCall]:
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
