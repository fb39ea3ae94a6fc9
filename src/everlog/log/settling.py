"""Turns that are open or broke off, and how they are closed without anything more being said."""

from dataclasses import dataclass

from everlog.log import rows
from everlog.log.entries import read
from everlog.log.threads import ThreadRow, load
from everlog.log.turns import TurnState
from everlog.messages import KINDS
from everlog.store import Unit

_BROKEN = (TurnState.PARTIAL, TurnState.ABORTED)
_UNANSWERED = (TurnState.OPEN, *_BROKEN)


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """The last turn of a thread, while its reply is still being made, or where it broke off."""

    turn: int
    first: int
    """Position of its first entry."""
    state: TurnState


def unanswered(unit: Unit, thread: ThreadRow) -> OpenTurn | None:
    """Return the last turn of a thread if it is the thread's own and was not answered to the end."""
    if not thread.turns:
        return None
    number = thread.turns - 1
    found = unit.row(rows.TURNS, thread=thread.id, start=number, stop=number + 1)
    if found is None or found[4] not in _UNANSWERED:
        return None
    return OpenTurn(number, int(found[3]), TurnState(found[4]))


def open_turn(unit: Unit, thread: ThreadRow) -> OpenTurn | None:
    """Return the last turn of a thread if it is the thread's own and open."""
    found = unanswered(unit, thread)
    return found if found is not None and found.state is TurnState.OPEN else None


def is_erased(unit: Unit, thread: ThreadRow, turn: int) -> bool:
    """Return whether one of the thread's own turns was erased."""
    found = unit.row(rows.TURNS, thread=thread.id, start=turn, stop=turn + 1)
    return found is not None and found[4] == TurnState.ERASED


def broken_off(unit: Unit, thread: str, start: int, stop: int) -> dict[int, TurnState]:
    """Return the turns between two positions that ended without a whole reply, by the position of their last entry."""
    row = load(unit, thread)
    found: dict[int, TurnState] = {}
    for owner, begin, end in row.spans(start, min(stop, row.next)):
        first, last = (read(unit, row, i, i + 1, media=False)[0].turn for i in (begin, end - 1))
        turns = unit.rows(rows.TURNS, thread=owner, start=first, stop=last + 2)
        ends = [*(turn[3] for turn in turns[1:]), row.next]
        for turn, after in zip(turns, ends, strict=True):
            if turn[2] <= last and turn[4] in _BROKEN and after <= end:
                found[int(after) - 1] = TurnState(turn[4])
    return found


def settle(unit: Unit, thread: ThreadRow, turn: int, state: TurnState) -> None:
    """Set the state of one of the thread's own turns; one that was erased stays so."""
    unit.run(rows.SET_TURN, {"thread": thread.id, "number": turn, "new_state": int(state)})


def close_open(unit: Unit, thread: ThreadRow) -> TurnState | None:
    """Close the last turn if it was left open: partial if anything was answered in it, else aborted."""
    found = open_turn(unit, thread)
    if found is None:
        return None
    prints = [
        row
        for owner, start, stop in thread.spans(found.first, thread.next)
        for row in unit.rows(rows.PRINTS, thread=owner, start=start, stop=stop)
    ]
    is_answered = any(KINDS[row[0]] in ("assistant", "tool_call") for row in prints)
    state = TurnState.PARTIAL if is_answered else TurnState.ABORTED
    settle(unit, thread, found.turn, state)
    return state
