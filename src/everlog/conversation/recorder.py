"""The acts of a turn on the database: begin it, prepare its requests, record what was said, let it go.

Each is one unit, tried in the order in which things were said. What cannot be stored while the database is away waits in
a spool, and goes in before anything that was said later. All of it blocks; programs call it by `Invoke`.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from everlog import context as contexts
from everlog import log
from everlog.chat.ledger import NOTHING, Attempt
from everlog.clock import new_id
from everlog.context import Context, Held, Terms
from everlog.context.values import Status
from everlog.conversation import gate
from everlog.conversation.spool import Spool
from everlog.conversation.trouble import PASSES, Trouble
from everlog.errors import Busy, EverlogError, Mistake, StoreUnavailable
from everlog.log import NewTurn, Purpose, ThreadRow, TurnState
from everlog.messages import Message
from everlog.protocols.exchange import Usage
from everlog.pump import mark_tree
from everlog.pump.claim import Lease, LeaseLost
from everlog.store import Store, Unit


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


class Recorder:
    """Records the turns of one thread."""

    def __init__(self, store: Store, tenant: str, key: str, trouble: Trouble) -> None:
        self.store = store
        self.tenant = tenant
        self.key = key
        self.spool = Spool()
        self.thread: str | None = None
        """Our id of the thread; None until it is known."""
        self._trouble = trouble
        self._unpaid: list[Attempt] = []
        self._lock = threading.RLock()

    @property
    def unpaid(self) -> Sequence[Attempt]:
        """Requests that are paid for, and not in the database yet."""
        with self._lock:
            return tuple(self._unpaid)

    def new_key(self) -> str:
        """Return a client key for a turn: stored once, however often it is tried."""
        return f"turn-{new_id(self.store.clock)}"

    def begin(self, turn: Turn) -> bool:
        """Record what a turn begins with, and take the thread on; return False while another process has it.

        Raises:
            StoreUnavailable: too much waits already to be recorded.
        """
        try:
            self.drain(None)
            found = self._write(partial(_begin, key=self.key, opening=turn.opening), name="turn.begin")
        except PASSES as error:
            if self.spool.is_full:
                raise StoreUnavailable(
                    f"nothing can be recorded, and {self.spool.messages} messages wait for it already; nothing was asked"
                ) from error
            self._trouble.note("record", error)
            self.spool.add(turn.opening)
            return True
        if found is None:
            return False
        self.thread, turn.lease, turn.number, turn.at = found
        turn.next = turn.at + len(turn.opening.messages)
        turn.beats = gate.Heartbeat(self.store, turn.lease)
        return True

    def reopen(self, turn: Turn) -> bool:
        """Take the thread on again for a turn that waited; return False while another process has it.

        Raises:
            Mistake: the turn was closed meanwhile, or another one was begun.
        """
        assert self.thread is not None
        lease = self._write(partial(_reopen, thread=self.thread, number=turn.number), name="turn.begin")
        if lease is None:
            return False
        turn.lease, turn.beats = lease, gate.Heartbeat(self.store, lease)
        return True

    def left_open(self) -> Turn:
        """Return the turn that the thread was left in.

        Raises:
            Mistake: none is open.
        """
        found = self.store.read(self.tenant, partial(_left_open, key=self.key))
        if found is None:
            raise Mistake("no turn waits to go on; begin one with turn(…)")
        row, opened, first = found
        self.thread = row.id
        turn = Turn(NewTurn(messages=(first,), state=TurnState.OPEN))
        turn.number, turn.at, turn.next = opened.turn, opened.first, row.next
        turn.said = row.next - opened.first - 1
        return turn

    def prepare(self, turn: Turn, terms: Terms) -> Context | None:
        """Compile the next request; None if that is to be done without the database."""
        try:
            self.drain(turn)
            if self.thread is None or not turn.is_stored:
                return None
            return contexts.prepare(self.store, self.tenant, self.thread, replace(terms, open_at=turn.at))
        except PASSES as error:
            self._trouble.note("prepare", error)
            return None

    def record(self, turn: Turn, piece: Piece) -> None:
        """Record what was said in a turn, and what becomes of it.

        Raises:
            Busy: another process took the thread over, since this one seemed to be gone.
        """
        with self._lock:
            self._unpaid += [one for one in piece.attempts if _is_paid(one)]
        turn.said += len(piece.messages)
        more = NewTurn(messages=tuple(piece.messages), state=piece.state, model=piece.model, more=True)
        try:
            self.drain(turn)
            if not turn.is_stored:
                raise StoreUnavailable("what the turn began with is not stored yet")
            unpaid = tuple(self._unpaid)
            self._write(partial(_record, thread=self.thread, turn=turn, piece=piece, unpaid=unpaid), name="turn.record")
            del self._unpaid[: len(unpaid)]
        except LeaseLost:
            raise Busy("another process took this thread over; what was said here since is not in it") from None
        except PASSES as error:
            self._trouble.note("record", error, waiting=self.spool.messages + len(piece.messages))
            self.spool.add(more, turn.next if turn.is_stored else None)
        turn.next += len(piece.messages)

    def release(self, turn: Turn) -> None:
        """Let go of the thread."""
        if turn.beats is not None:
            turn.beats.stop()
        if turn.lease is not None:
            with suppress(EverlogError):  # it ends by time, or with this process
                self._write(partial(_release, lease=turn.lease), name="turn.release")
        turn.lease = turn.beats = None

    def drain(self, turn: Turn | None) -> None:
        """Record what waits; of a turn under way that waits, note where it stands.

        Raises:
            StoreUnavailable: it cannot be recorded yet.
        """
        with self._lock:
            while waiting := self.spool.waiting:
                one = waiting[0]
                thread, first, number = self._write(
                    partial(_put, key=self.key, turn=one.turn, expected=one.expected), name="turn.spool"
                )
                self.thread = thread
                if turn is not None and len(waiting) == 1 and not one.turn.more:
                    turn.number, turn.at, turn.next = number, first, first + len(one.turn.messages)
                self.spool.drop_first()

    def _write(self, act: Callable[[Unit], Any], *, name: str) -> Any:
        return self.store.write(self.tenant, act, name=name)


def _begin(unit: Unit, key: str, opening: NewTurn) -> tuple[str, Lease, int, int] | None:
    row = log.ensure(unit, key)
    lease = gate.take(unit, row.id)
    if lease is None:
        return None
    log.close_open(unit, row)
    appended = log.append(unit, row, [opening])
    mark_tree(unit, row.id, upto=appended.stop)
    return row.id, lease, appended.turn, appended.first


def _reopen(unit: Unit, thread: str, number: int | None) -> Lease | None:
    lease = gate.take(unit, thread)
    if lease is not None:
        opened = log.open_turn(unit, log.load(unit, thread))
        if opened is None or opened.turn != number:
            raise Mistake("the turn that waited was closed meanwhile; begin another one")
    return lease


def _left_open(unit: Unit, key: str) -> tuple[ThreadRow, log.OpenTurn, Message] | None:
    thread = log.known(unit, key)
    if thread is None:
        return None
    row = log.load(unit, thread)
    opened = log.open_turn(unit, row)
    if opened is None:
        return None
    return row, opened, log.at(unit, row, [opened.first])[opened.first].message


def _record(unit: Unit, thread: str | None, turn: Turn, piece: Piece, unpaid: Sequence[Attempt]) -> None:
    if turn.lease is not None:
        gate.hold(unit, turn.lease)
    assert thread is not None, "a turn that is stored has a thread"
    row = log.load(unit, thread)
    if row.turns - 1 != turn.number:
        raise LeaseLost
    if piece.messages:
        more = NewTurn(messages=tuple(piece.messages), state=piece.state, model=piece.model, more=True)
        appended = log.append(unit, row, [more])
        mark_tree(unit, thread, upto=appended.stop)
    else:
        log.settle(unit, row, row.turns - 1, piece.state)
    if piece.context is not None and piece.terms is not None:
        contexts.hold(unit, thread, piece.terms, piece.context, piece.held)
        if piece.status is not None:
            contexts.answered(
                unit, thread, piece.terms, piece.context, status=piece.status, model=piece.model, usage=piece.usage
            )
    for one in unpaid:
        log.spend(unit, row, Purpose.TALK, f"{one.provider}/{one.model.id}", one.usage, one.cost.total_usd)


def _release(unit: Unit, lease: Lease) -> None:
    gate.leave(unit, lease)


def _put(unit: Unit, key: str, turn: NewTurn, expected: int | None) -> tuple[str, int, int]:
    """Record what waited; where it stands already, since an earlier try was stored unseen, only where that is."""
    row = log.ensure(unit, key)
    if turn.more and expected is not None and row.next > expected:
        there = log.read(unit, row, expected, expected + len(turn.messages))
        if [(one.kind, one.text) for one in there] == [(one.kind, one.text) for one in turn.messages]:
            return row.id, expected, row.turns - 1
    if turn.more and not turn.messages:
        log.settle(unit, row, row.turns - 1, turn.state)
        return row.id, row.next, row.turns - 1
    if not turn.more:
        log.close_open(unit, row)
    appended = log.append(unit, row, [turn])
    mark_tree(unit, row.id, upto=appended.stop)
    return row.id, appended.first, appended.turn


def _is_paid(attempt: Attempt) -> bool:
    """Whether a request is or may be paid for: not what was never sent, nor what came back with an error status."""
    return attempt.usage != NOTHING and (attempt.http_status is None or attempt.http_status < 400)
