"""The units of work of a turn: what each stores, together or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from everlog import context as contexts
from everlog import log
from everlog.chat.ledger import Attempt
from everlog.context import Context, Held, Mode, Terms
from everlog.context.values import Status
from everlog.conversation.recording import gate
from everlog.conversation.recording.spool import Waiting
from everlog.errors import Erased, Mistake
from everlog.importers.titles import titled
from everlog.log import NewTurn, Purpose, ThreadRow, TurnState
from everlog.messages import Message
from everlog.protocols.exchange import Usage
from everlog.pump import mark_rolling, mark_tree
from everlog.pump.claim import Lease, LeaseLost
from everlog.store import Unit

_IN_BETWEEN = 100
"""Entries that a tool may have written to a turn between two pieces of it."""


class Turn:
    """A turn under way, as the log knows it."""

    def __init__(self, opening: NewTurn, name: str) -> None:
        self.opening = opening
        self.name = name
        """The same for all pieces of it that wait."""
        self.number: int | None = None
        """None while it waits in the spool."""
        self.at = 0
        """Position of its first message."""
        self.next = 0
        """Position after what is recorded of it."""
        self.said = 0
        """How many messages of it the model, or a tool, said."""
        self.held: Mapping[int, int] = {}
        """Of a turn that another process began: how much is held at each position."""
        self.lease: Lease | None = None
        self.beats: gate.Heartbeat | None = None
        self.last: Piece | None = None
        """What was recorded last, or is being recorded."""

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
    _entitle(unit, row, opening)
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
    """Take a thread on again for a turn that waited, or broke off; None while another has it."""
    lease = gate.take(unit, thread, retake=retake)
    if lease is not None:
        row = log.load(unit, thread)
        left = log.unanswered(unit, row)
        if left is None or left.turn != number:
            raise Mistake("the turn that was to go on is over, or another one was begun; begin one with turn(…)")
        log.settle(unit, row, left.turn, TurnState.OPEN)
    return lease


def left_open(unit: Unit, key: str) -> tuple[ThreadRow, log.OpenTurn, Message, Mapping[int, int]] | None:
    """Return the thread, its last turn, what that began with, and what is held; None if that was answered to the end."""
    thread = log.known(unit, key)
    if thread is None:
        return None
    row = log.load(unit, thread)
    opened = log.unanswered(unit, row)
    if opened is None:
        return None
    first = log.at(unit, row, [opened.first])[opened.first].message
    return row, opened, first, contexts.held_at(unit, row.id, opened.first)


def record(
    unit: Unit, thread: str, turn: Turn, piece: Piece, more: NewTurn, unpaid: Sequence[Attempt], mode: Mode
) -> tuple[int, int]:
    """Record what was said in a turn, what became of the request, and what it cost; return its number and end by now.

    Where somebody wrote a turn of his own to the thread meanwhile, the rest is a turn of its own too.

    Raises:
        Erased: the thread, or the turn, was erased.
        LeaseLost: another process took the thread over.
    """
    row, number = log.load(unit, thread), turn.number
    assert number is not None, "what a turn begins with is recorded before the rest of it"
    if turn.lease is not None:
        gate.hold(unit, turn.lease)
    was_passed = row.turns - 1 != number
    if was_passed and turn.lease is None:
        raise LeaseLost
    moved = row.next - turn.next  # a tool may have added a note to the thread meanwhile
    if was_passed and log.is_erased(unit, row, number):
        raise Erased(f"turn {number}, which was under way, was erased")
    if was_passed or not piece.messages:
        goes_on = was_passed and bool(piece.messages) and piece.state is TurnState.OPEN
        log.settle(unit, row, number, TurnState.PARTIAL if goes_on else piece.state)
    if piece.messages:
        appended = log.append(unit, row, [replace(more, more=False) if was_passed else replace(more, client_key=None)])
        _mark(unit, thread, appended.stop, mode)
        number = appended.turn
    if piece.context is not None and piece.terms is not None:
        held = [replace(one, position=one.position + moved) for one in piece.held]
        contexts.hold(unit, thread, piece.terms, piece.context, held)
        if piece.status is not None:
            contexts.answered(
                unit, thread, piece.terms, piece.context, status=piece.status, model=piece.model, usage=piece.usage
            )
    _spend(unit, row, unpaid)
    return number, row.next + len(piece.messages)


def release(unit: Unit, lease: Lease) -> None:
    """Let go of a thread."""
    gate.leave(unit, lease)


def abort(unit: Unit, thread: str, number: int) -> None:
    """Close a turn that was given up while it began."""
    row = log.load(unit, thread)
    opened = log.open_turn(unit, row)
    if opened is not None and opened.turn == number:
        log.settle(unit, row, number, TurnState.ABORTED)


@dataclass(frozen=True, slots=True)
class Stood:
    """Where something stands that waited."""

    first: int
    stop: int
    number: int
    """Of its turn."""


def put(unit: Unit, thread: str, waiting: Waiting, mode: Mode, lease: Lease) -> Stood:
    """Record what waited, unless an earlier try of it was stored unseen, and return where it stands.

    The rest of a turn that others went past is a turn of its own.

    Raises:
        Erased: the thread, the turn, or who said it, was erased.
        LeaseLost: another process took the thread over.
    """
    row, turn = log.load(unit, thread), waiting.turn
    gate.hold(unit, lease)
    if not turn.more:
        user, said_at = turn.origin.user, turn.messages[0].at
        if user is not None and said_at is not None and log.was_erased(unit, user, said_at):
            raise Erased("who said this was erased while it waited")
        appended = log.append(unit, row, [turn])
        if not appended.repeated:
            log.close_open(unit, row)  # the one before, as the thread was
            _entitle(unit, row, turn)
            _mark(unit, row.id, appended.stop, mode)
        return Stood(appended.first, appended.stop, appended.turn)
    number, after = waiting.number, waiting.after
    assert number is not None, "what a turn begins with is recorded before the rest of it"
    assert after is not None, "and so is each piece before this one"
    if turn.messages and (first := _found(unit, row, waiting)) is not None:
        return Stood(first, first + len(turn.messages), number)
    _spend(unit, row, waiting.unpaid)
    was_passed = row.turns - 1 != number
    if not turn.messages:
        if not was_passed:
            log.settle(unit, row, number, turn.state)
        return Stood(after, after, number)
    if was_passed and log.is_erased(unit, row, number):
        raise Erased(f"turn {number}, whose rest waited, was erased")
    appended = log.append(unit, row, [replace(turn, more=not was_passed)])
    _mark(unit, row.id, appended.stop, mode)
    return Stood(appended.first, appended.stop, appended.turn)


def _found(unit: Unit, row: ThreadRow, waiting: Waiting) -> int | None:
    """Return where a piece of a turn stands already; a tool may have written to the turn in between."""
    after = waiting.after or 0
    size = len(waiting.turn.messages)
    there = log.read(unit, row, after, min(row.next, after + size + _IN_BETWEEN), media=False)
    told = [(one.kind, one.text) for one in there if one.turn == waiting.number]
    wanted = [(one.kind, one.text) for one in waiting.turn.messages]
    return next((after + n for n in range(len(told) - size + 1) if told[n : n + size] == wanted), None)


def _spend(unit: Unit, row: ThreadRow, unpaid: Sequence[Attempt]) -> None:
    for one in unpaid:
        log.spend(unit, row, Purpose.TALK, f"{one.provider}/{one.model.id}", one.usage, one.cost.total_usd)


def _row(unit: Unit, key: str, thread: str | None) -> ThreadRow:
    """Return the thread; one that is known by its id is never another one of the same name."""
    return log.ensure(unit, key) if thread is None else log.load(unit, thread)


def _entitle(unit: Unit, row: ThreadRow, opening: NewTurn) -> None:
    """Name a thread, as it was, after what it begins with, unless it has a title."""
    if not row.next and row.title is None:
        log.entitle(unit, row, titled(opening.messages))


def _mark(unit: Unit, thread: str, upto: int, mode: Mode) -> None:
    mark_tree(unit, thread, upto=upto)
    if mode == "rolling":
        mark_rolling(unit, thread, upto=upto)
