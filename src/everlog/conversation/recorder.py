"""The acts of a turn on the database: begin it, prepare its requests, record what was said, let it go.

Each is one unit, tried in the order in which things were said. What cannot be stored while the database is away waits in
a spool, and goes in before anything that was said later. All of it blocks; programs call it by `Invoke`.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from everlog import context as contexts
from everlog.chat.ledger import NOTHING, Attempt
from everlog.clock import monotonic, new_id
from everlog.context import Context, Mode, Terms
from everlog.conversation import gate, leftovers, units
from everlog.conversation.spool import Spool
from everlog.conversation.trouble import PASSES, Trouble
from everlog.conversation.units import Piece, Turn
from everlog.errors import Busy, Erased, EverlogError, Mistake, StoreUnavailable
from everlog.log import NewTurn, TurnState
from everlog.pump.claim import Lease, LeaseLost
from everlog.store import Store, Unit

T = TypeVar("T")

SLOW_S = 1.0
"""A database that fails after a longer wait is left alone for as long, so that a turn waits for it once and not at each act."""


class Recorder:
    """Records the turns of one thread."""

    def __init__(self, store: Store, tenant: str, key: str, trouble: Trouble, *, mode: Mode = "tree") -> None:
        self.store = store
        self.tenant = tenant
        self.key = key
        self.spool = Spool()
        self.thread: str | None = None
        """Our id of the thread; None until it is known."""
        self._trouble = trouble
        self._mode = mode
        self._unpaid: list[Attempt] = []
        self._leftovers: list[Path] = []
        self._rests_until = 0.0
        self._retake = False
        """Whether the thread may still be taken by an earlier turn, which could not let go of it."""
        self._lock = threading.RLock()

    @property
    def unpaid(self) -> Sequence[Attempt]:
        """Requests that are paid for, and not in the database yet."""
        with self._lock:
            return tuple(self._unpaid)

    @property
    def _known(self) -> str:
        assert self.thread is not None, "a turn that was begun in the database has a thread"
        return self.thread

    def new_key(self) -> str:
        """Return a client key for a turn: stored once, however often it is tried."""
        return f"turn-{new_id(self.store.clock)}"

    def begin(self, turn: Turn) -> bool:
        """Record what a turn begins with, and take the thread on; return False while another process has it.

        Raises:
            StoreUnavailable: too much waits already to be recorded.
        """
        try:
            if not self._begun(turn):
                return False
        except PASSES as error:
            if self.spool.is_full:
                raise StoreUnavailable(
                    f"nothing can be recorded, and {self.spool.messages} messages wait for it already; nothing was asked"
                ) from error
            self._trouble.note("record", error)
            self.spool.add(turn.opening)
            self._retake = True
        return True

    def _begun(self, turn: Turn) -> bool:
        if self.spool.waiting:
            if not self._take(turn):
                return False
            self.drain(turn)
        if turn.lease is not None:
            then = partial(units.begin, thread=self._known, opening=turn.opening, mode=self._mode, lease=turn.lease)
            turn.number, turn.at = self._write(then, name="turn.begin")
        else:
            begin = partial(
                units.take_and_begin,
                key=self.key,
                thread=self.thread,
                opening=turn.opening,
                mode=self._mode,
                retake=self._retake,
            )
            found = self._write(begin, name="turn.begin")
            if found is None:
                return False
            self.thread, lease, turn.number, turn.at = found
            self._hold(turn, lease)
        turn.next = turn.at + len(turn.opening.messages)
        return True

    def _take(self, turn: Turn) -> bool:
        """Take the thread on for a turn, before what waits is recorded; return False while another process has it."""
        act = partial(units.take, key=self.key, thread=self.thread, retake=self._retake)
        found = self._write(act, name="turn.take")
        if found is not None:
            self.thread, lease = found
            self._hold(turn, lease)
        return found is not None

    def _hold(self, turn: Turn, lease: Lease) -> None:
        self._retake = False
        turn.lease, turn.beats = lease, gate.Heartbeat(self.store, lease)

    def reopen(self, turn: Turn) -> bool:
        """Take the thread on again for a turn that waited; return False while another process has it.

        Raises:
            Mistake: the turn was closed meanwhile, or another one was begun.
        """
        try:
            if self.spool.waiting:
                if not self._take(turn):
                    return False
                self.drain(turn)
                return True
            act = partial(units.reopen, thread=self._known, number=turn.number, retake=self._retake)
            lease = self._write(act, name="turn.begin")
            if lease is not None:
                self._hold(turn, lease)
        except PASSES as error:
            self._trouble.note("record", error)
            self._retake = True
            return True
        return lease is not None

    def left_open(self) -> Turn:
        """Return the turn that the thread was left in.

        Raises:
            Mistake: none is open.
        """
        found = self.store.read(self.tenant, partial(units.left_open, key=self.key))
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
            thread, whole = self.thread, replace(terms, open_at=turn.at)
            return self.reach(lambda: contexts.prepare(self.store, self.tenant, thread, whole))
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
        more = NewTurn(
            messages=tuple(piece.messages),
            state=piece.state,
            model=piece.model,
            origin=turn.opening.origin,
            more=True,
        )
        try:
            self.drain(turn)
            if not turn.is_stored:
                raise StoreUnavailable("what the turn began with is not stored yet")
            unpaid = tuple(self._unpaid)
            turn.next = self._write(
                partial(units.record, thread=self._known, turn=turn, piece=piece, unpaid=unpaid, mode=self._mode),
                name="turn.record",
            )
            del self._unpaid[: len(unpaid)]
        except LeaseLost:
            raise Busy(
                "another turn of this thread was begun meanwhile, here or in another process; what was said in this one "
                "since is not in the log"
            ) from None
        except PASSES as error:
            self._trouble.note("record", error, waiting=self.spool.messages + len(piece.messages))
            now = self.store.clock.now()
            stamped = tuple(replace(one, at=one.at or now) for one in more.messages)
            place = (None, None) if self.spool.waiting else (turn.next, turn.number)
            self.spool.add(replace(more, messages=stamped), *place)
            turn.next += len(piece.messages)

    def release(self, turn: Turn) -> None:
        """Let go of the thread."""
        if turn.beats is not None:
            turn.beats.stop()
        if turn.lease is not None:
            try:
                self._write(partial(units.release, lease=turn.lease), name="turn.release")
            except EverlogError:
                self._retake = True  # for others it ends by time, or with this process
        turn.lease = turn.beats = None

    def drain(self, turn: Turn | None) -> None:
        """Record what waits; of a turn under way that waits, note where it stands.

        Raises:
            StoreUnavailable: it cannot be recorded yet.
        """
        with self._lock:
            if not self.spool.waiting:
                return
            holder = turn or Turn(self.spool.waiting[0].turn)
            if holder.lease is None and not self._take(holder):
                raise StoreUnavailable("another process is at this thread; what waits is recorded later")
            try:
                self._put_all(turn)
            except Erased:
                self._trouble.count("record", "Erased", dropped=self.spool.messages)
                self.spool.clear()
                raise
            finally:
                if turn is None:
                    self.release(holder)
            leftovers.drop(self._leftovers)
            self._leftovers = []

    def _put_all(self, turn: Turn | None) -> None:
        stop: int | None = None
        while waiting := self.spool.waiting:
            one = waiting[0]
            expected = stop if one.expected is None else one.expected
            act = partial(units.put, thread=self._known, waiting=one, expected=expected, mode=self._mode)
            first, stop, number = self._write(act, name="turn.spool")
            self.spool.drop_first()
            if turn is not None and not one.turn.more and one.turn.client_key == turn.opening.client_key:
                turn.number, turn.at, turn.next = number, first, stop
            elif turn is not None and turn.is_stored:
                turn.next = stop

    def take_leftovers(self) -> None:
        """Take in what programs before this one could not record; that of a thread which was erased since is dropped."""
        found, self._leftovers = leftovers.take(self.store, self.tenant, self.key)
        self.spool.put_back(found)

    def leave(self) -> None:
        """Record what waits, or keep it in a file, before the program ends."""
        if not self.spool.waiting:
            return
        try:
            self.drain(None)
        except EverlogError as error:
            self._trouble.note("record", error, waiting=self.spool.messages)
            waiting = self.spool.waiting
            if waiting and leftovers.keep(self.store, self.tenant, self.key, self.thread, waiting):
                self.spool.clear()

    def reach(self, act: Callable[[], T]) -> T:
        """Do something with the database, unless it was waited for in vain a moment ago.

        Raises:
            StoreUnavailable: it cannot be reached, or was not a moment ago.
        """
        if monotonic() < self._rests_until:
            raise StoreUnavailable("the database was waited for in vain a moment ago; it is tried again later")
        began = monotonic()
        try:
            return act()
        except PASSES:
            took = monotonic() - began
            if took > SLOW_S:
                self._rests_until = monotonic() + took
            raise

    def _write(self, act: Callable[[Unit], Any], *, name: str) -> Any:
        return self.reach(lambda: self.store.write(self.tenant, act, name=name))


def _is_paid(attempt: Attempt) -> bool:
    """Whether a request is or may be paid for: not what was never sent, nor what came back with an error status."""
    return attempt.usage != NOTHING and (attempt.http_status is None or attempt.http_status < 400)
