"""The units of work of a turn: what each stores, together or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everlog import context as contexts
from everlog import log
from everlog.chat.ledger import Attempt
from everlog.context import Context, Held, Mode, Terms
from everlog.context.values import Status
from everlog.conversation import gate
from everlog.conversation.spool import Waiting
from everlog.errors import Mistake
from everlog.log import NewTurn, Purpose, ThreadRow, TurnState
from everlog.messages import Message
from everlog.protocols.exchange import Usage
from everlog.pump import mark_rolling, mark_tree
from everlog.pump.claim import Lease, LeaseLost
from everlog.store import Unit


class Turn:
    """A turn under way, as the log knows it."""

    def __init__(self, opening: NewTurn) -> None:
        self.opening = opening
        self.number: int | None = None
        """None while it waits in the spool."""
        self.at = 0
        """Position of its first message."""
        self.next = 0
        """Position after what is recorded of it."""
        self.said = 0
        """How many messages of it the model, or a tool, said."""
        self.lease: Lease | None = None
        self.beats: gate.Heartbeat | None = None

    @property
    def is_stored(self) -> bool:
        return self.number is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What is recorded at once."""

    messages: Sequence[Message] = ()
    state: TurnState = TurnState.OPEN
    held: Sequence[Held] = ()
    terms: Terms | None = None
    context: Context | None = None
    """The request that it answers; None where there was none, or it was made without the database."""
    status: Status | None = None
    """What became of that request; None if that was said before."""
    model: str | None = None
    usage: Usage | None = None
    attempts: Sequence[Attempt] = ()
    """What is to be paid."""


def take(unit: Unit, key: str, thread: str | None, retake: bool) -> tuple[str, Lease] | None:
    """Take a thread on, made if there is none, and return its id and the lease; None while another has it."""
    row = _row(unit, key, thread)
    lease = gate.take(unit, row.id, retake=retake)
    return None if lease is None else (row.id, lease)


def begin(unit: Unit, thread: str, opening: NewTurn, mode: Mode, lease: Lease) -> tuple[int, int]:
    """Record what a turn begins with, close what was left open, and return number and position."""
    row = log.load(unit, thread)
    gate.hold(unit, lease)
    log.close_open(unit, row)
    appended = log.append(unit, row, [opening])
    _mark(unit, row.id, appended.stop, mode)
    return appended.turn, appended.first


def take_and_begin(
    unit: Unit, key: str, thread: str | None, opening: NewTurn, mode: Mode, retake: bool
) -> tuple[str, Lease, int, int] | None:
    """Do both at once, where nothing is to be recorded in between."""
    taken = take(unit, key, thread, retake)
    if taken is None:
        return None
    return *taken, *begin(unit, taken[0], opening, mode, taken[1])


def reopen(unit: Unit, thread: str, number: int | None, retake: bool) -> Lease | None:
    """Take a thread on again for a turn that waited; None while another has it."""
    lease = gate.take(unit, thread, retake=retake)
    if lease is not None:
        opened = log.open_turn(unit, log.load(unit, thread))
        if opened is None or opened.turn != number:
            raise Mistake("the turn that waited was closed meanwhile; begin another one")
    return lease


def left_open(unit: Unit, key: str) -> tuple[ThreadRow, log.OpenTurn, Message] | None:
    """Return the thread, the turn that it was left in, and what that began with; None if none is open."""
    thread = log.known(unit, key)
    if thread is None:
        return None
    row = log.load(unit, thread)
    opened = log.open_turn(unit, row)
    if opened is None:
        return None
    return row, opened, log.at(unit, row, [opened.first])[opened.first].message


def record(unit: Unit, thread: str, turn: Turn, piece: Piece, unpaid: Sequence[Attempt], mode: Mode) -> int:
    """Record what was said in a turn, what became of the request, and what it cost; return where the turn ends by now."""
    row = log.load(unit, thread)
    if turn.lease is not None:
        gate.hold(unit, turn.lease)
    if row.turns - 1 != turn.number:
        raise LeaseLost
    moved = row.next - turn.next  # a tool may have added a note to the thread meanwhile
    if piece.messages:
        more = NewTurn(messages=tuple(piece.messages), state=piece.state, model=piece.model, more=True)
        appended = log.append(unit, row, [more])
        _mark(unit, thread, appended.stop, mode)
    else:
        log.settle(unit, row, row.turns - 1, piece.state)
    if piece.context is not None and piece.terms is not None:
        held = [replace(one, position=one.position + moved) for one in piece.held]
        contexts.hold(unit, thread, piece.terms, piece.context, held)
        if piece.status is not None:
            contexts.answered(
                unit, thread, piece.terms, piece.context, status=piece.status, model=piece.model, usage=piece.usage
            )
    for one in unpaid:
        log.spend(unit, row, Purpose.TALK, f"{one.provider}/{one.model.id}", one.usage, one.cost.total_usd)
    return row.next + len(piece.messages)


def release(unit: Unit, lease: Lease) -> None:
    """Let go of a thread."""
    gate.leave(unit, lease)


def put(unit: Unit, thread: str, waiting: Waiting, expected: int | None, mode: Mode) -> tuple[int, int, int]:
    """Record what waited, and return first position, end and number of its turn.

    Where it stands already, since an earlier try was stored unseen, it is not stored again. The rest of a turn that
    others went past is a turn of its own.
    """
    row, turn = log.load(unit, thread), waiting.turn
    if turn.more and expected is not None and row.next > expected:
        there = log.read(unit, row, expected, expected + len(turn.messages))
        if [(one.kind, one.text) for one in there] == [(one.kind, one.text) for one in turn.messages]:
            return expected, expected + len(there), row.turns - 1
    was_passed = turn.more and waiting.number is not None and row.turns - 1 != waiting.number
    if turn.more and not turn.messages:
        if not was_passed:
            log.settle(unit, row, row.turns - 1, turn.state)
        return row.next, row.next, row.turns - 1
    if not turn.more:
        log.close_open(unit, row)
    appended = log.append(unit, row, [replace(turn, more=False) if was_passed else turn])
    _mark(unit, row.id, appended.stop, mode)
    return appended.first, appended.stop, appended.turn


def _row(unit: Unit, key: str, thread: str | None) -> ThreadRow:
    """Return the thread; one that is known by its id is never another one of the same name."""
    return log.ensure(unit, key) if thread is None else log.load(unit, thread)


def _mark(unit: Unit, thread: str, upto: int, mode: Mode) -> None:
    mark_tree(unit, thread, upto=upto)
    if mode == "rolling":
        mark_rolling(unit, thread, upto=upto)
