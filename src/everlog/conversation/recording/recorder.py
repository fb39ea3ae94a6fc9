"""The acts of a turn on the database: begin it, prepare its requests, record what was said, let it go.

Each is one unit, tried in the order in which things were said. What cannot be stored while the database is away waits in
a spool, and goes in before anything that was said later (`backlog.py`). All of it blocks; programs yield them as `Act`.
One act runs at a time, also where a task was cancelled and its act goes on in a thread of a worker.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from everlog import context as contexts
from everlog import log
from everlog.chat.ledger import NOTHING, Attempt
from everlog.clock import new_id
from everlog.context import Context, Mode, Terms
from everlog.conversation.recording import gate, units
from everlog.conversation.recording.backlog import Backlog
from everlog.conversation.recording.holding import Holding
from everlog.conversation.recording.reach import Reach
from everlog.conversation.recording.spool import Spool, Waiting
from everlog.conversation.recording.trouble import PASSES, Trouble
from everlog.conversation.recording.units import Piece, Turn
from everlog.errors import Busy, Erased, EverlogError, Mistake, StoreUnavailable
from everlog.log import NewTurn, TurnState
from everlog.messages import Origin
from everlog.pump.claim import LeaseLost
from everlog.store import Store


class Recorder:
    """Records the turns of one thread."""

    def __init__(self, store: Store, tenant: str, key: str, trouble: Trouble, *, mode: Mode = "tree") -> None:
        self.store = store
        self.tenant = tenant
        self.key = key
        self.backlog = Backlog(store, tenant, key, trouble, mode)
        self.database = Reach(store, tenant)
        self._holding = Holding(self.database, key, self.backlog)
        self._trouble = trouble
        self._mode = mode
        self._unpaid: list[Attempt] = []
        self._under_way: Turn | None = None
        self._is_left = False
        self._process = os.getpid()
        self._in_turn = threading.RLock()

    @property
    def thread(self) -> str | None:
        """Our id of the thread; None until it is known."""
        return self._holding.thread

    @property
    def _lock(self) -> threading.RLock:
        """Held during each act; a fork has none of the acts of its parent."""
        if self._process != os.getpid():
            self._process, self._in_turn, self._under_way = os.getpid(), threading.RLock(), None
        return self._in_turn

    @property
    def spool(self) -> Spool:
        """What waits to be recorded."""
        return self.backlog.spool

    @property
    def unpaid(self) -> Sequence[Attempt]:
        """Requests that are paid for, and not in the database yet."""
        with self._lock:
            return (*self._unpaid, *(paid for one in self.spool.waiting for paid in one.unpaid))

    def new_key(self) -> str:
        """Return a client key for a turn: stored once, however often it is tried."""
        return f"turn-{new_id(self.store.clock)}"

    def begin(self, turn: Turn, ticket: gate.Ticket) -> bool:
        """Record what a turn begins with, and take the thread on; return False while another process has it.

        Raises:
            StoreUnavailable: too much waits already to be recorded.
        """
        return self._entered(self._begun, turn, ticket, self.abort)

    def reopen(self, turn: Turn, ticket: gate.Ticket) -> bool:
        """Take the thread on again for a turn that waited; return False while another process has it.

        Raises:
            Mistake: the turn is over, or another one was begun meanwhile.
        """
        return self._entered(self._reopened, turn, ticket, self.release)

    def abort(self, turn: Turn) -> None:
        """Close a turn that was given up while it began, and let go of the thread."""
        with self._lock:
            self.spool.abort(turn.name)
            try:
                if turn.number is not None:
                    self.database.write(
                        partial(units.abort, thread=self._holding.known, number=turn.number), name="turn.abort"
                    )
            except EverlogError as error:  # the next turn closes it
                self._trouble.note("record", error)
            finally:
                self.release(turn)

    def _entered(
        self, way: Callable[[Turn], bool], turn: Turn, ticket: gate.Ticket, back: Callable[[Turn], None]
    ) -> bool:
        with self._lock:
            try:
                is_in = way(turn)
            except BaseException:
                self.release(turn)
                raise
            if is_in and ticket.use():
                self._under_way = turn
                return True
            if is_in:
                back(turn)
            return False

    def _begun(self, turn: Turn) -> bool:
        now = self.store.clock.now()
        stamped = tuple(replace(one, at=now) for one in turn.opening.messages)
        turn.opening = replace(turn.opening, messages=stamped)
        try:
            if self.spool.first is not None:
                if not self._holding.take(turn):
                    return False
                self._holding.drain(turn)
            if turn.lease is None:
                return self._begun_at_once(turn)
            then = partial(
                units.begin, thread=self._holding.known, opening=turn.opening, mode=self._mode, lease=turn.lease
            )
            turn.number, turn.at = self.database.write(then, name="turn.begin")
            turn.next = turn.at + len(turn.opening.messages)
        except PASSES as error:
            if self.spool.is_full:
                raise StoreUnavailable(
                    f"nothing can be recorded, and {self.spool.messages} messages wait for it already; nothing was asked"
                ) from error
            self._trouble.note("record", error)
            self.spool.add(Waiting(turn=turn.opening, of=turn.name))
            self._holding.retakes = True
        return True

    def _begun_at_once(self, turn: Turn) -> bool:
        begin = partial(
            units.take_and_begin,
            key=self.key,
            thread=self.thread,
            opening=turn.opening,
            mode=self._mode,
            retake=self._holding.retakes,
        )
        found = self.database.write(begin, name="turn.begin")
        if found is None:
            return False
        self._holding.thread, lease, turn.number, turn.at = found
        turn.next = turn.at + len(turn.opening.messages)
        self._holding.hold(turn, lease)
        return True

    def _reopened(self, turn: Turn) -> bool:
        if not turn.is_stored and not self.spool.has(turn.name):
            raise Erased("the turn that waited was erased before it could be recorded; begin another one")
        try:
            if self.spool.first is not None:
                if not self._holding.take(turn):
                    return False
                self._holding.drain(turn)
                return True
            act = partial(units.reopen, thread=self._holding.known, number=turn.number, retake=self._holding.retakes)
            lease = self.database.write(act, name="turn.begin")
            if lease is not None:
                self._holding.hold(turn, lease)
        except PASSES as error:
            self._trouble.note("record", error)
            self._holding.retakes = True
            return True
        return lease is not None

    def left_open(self, origin: Origin) -> Turn:
        """Return the turn that the thread was left in: open, or broken off.

        Raises:
            Mistake: the last one was answered to the end, or there is none.
        """
        with self._lock:
            self._holding.drain(None)
        found = self.store.read(self.tenant, partial(units.left_open, key=self.key))
        if found is None:
            raise Mistake("no turn waits to go on, and none broke off; begin one with turn(…)")
        row, opened, first, held = found
        self._holding.thread = row.id
        turn = Turn(NewTurn(messages=(first,), state=TurnState.OPEN, origin=origin), self.new_key())
        turn.number, turn.at, turn.next, turn.held = opened.turn, opened.first, row.next, held
        turn.said = row.next - opened.first - 1
        return turn

    def prepare(self, turn: Turn, terms: Terms) -> Context | None:
        """Compile the next request; None if that is to be done without the database."""
        with self._lock:
            try:
                self._holding.drain(turn)
                if self.thread is None or not turn.is_stored:
                    return None
                thread, whole = self.thread, replace(terms, open_at=turn.at)
                return self.database.reach(lambda: contexts.prepare(self.store, self.tenant, thread, whole))
            except PASSES as error:
                self._trouble.note("prepare", error)
                return None

    def record(self, turn: Turn, piece: Piece) -> None:
        """Record what was said in a turn, and what becomes of it; a piece that is on its way already, only once.

        Raises:
            Busy: another process took the thread over, since this one seemed to be gone.
            Mistake: it holds what cannot be stored.
        """
        with self._lock:
            if turn.last is piece:
                return
            turn.last = piece
            self._unpaid += [one for one in piece.attempts if _is_paid(one)]
            more = NewTurn(
                messages=tuple(piece.messages),
                client_key=self.new_key(),
                state=piece.state,
                model=piece.model,
                more=True,
                origin=turn.opening.origin,
            )
            if more.messages:
                log.check([more])
            turn.said += len(piece.messages)
            unpaid = tuple(self._unpaid)
            try:
                self._holding.drain(turn)
                if not turn.is_stored:
                    raise StoreUnavailable("what the turn began with is not stored yet")
                act = partial(
                    units.record,
                    thread=self._holding.known,
                    turn=turn,
                    piece=piece,
                    more=more,
                    unpaid=unpaid,
                    mode=self._mode,
                )
                turn.number, turn.next = self.database.write(act, name="turn.record")
            except LeaseLost:
                raise Busy(
                    "another turn of this thread was begun meanwhile, in another process; what was said in this one since is "
                    "not in the log"
                ) from None
            except PASSES as error:
                self._trouble.note("record", error, waiting=self.spool.messages + len(piece.messages))
                self._wait(turn, more, unpaid)
            self._unpaid.clear()

    def _wait(self, turn: Turn, more: NewTurn, unpaid: tuple[Attempt, ...]) -> None:
        """Have a piece of a turn wait."""
        now = self.store.clock.now()
        stamped = tuple(replace(one, at=one.at or now) for one in more.messages)
        after = None if self.spool.has(turn.name) else turn.next
        more = replace(more, messages=stamped)
        self.spool.add(Waiting(turn=more, of=turn.name, number=turn.number, after=after, unpaid=unpaid))
        turn.next += len(stamped)

    def release(self, turn: Turn) -> None:
        """Let go of the thread."""
        with self._lock:
            self._holding.let_go(turn)
            if self._under_way is turn:
                self._under_way = None
                if self._is_left:
                    self.leave()
                else:
                    self.backlog.save(self.thread)

    def let_go(self) -> None:
        """Let go of the thread of a turn that is under way: the database is about to be closed, and takes no more of it."""
        with self._lock:
            if self._under_way is not None:
                self._holding.let_go(self._under_way)

    def forget(self, user: str | None) -> bool:
        """Drop what waits of an end user, or all of it: it was erased; say whether there was any."""
        with self._lock:
            if user is not None:
                return self.backlog.forget_user(user)
            return self.backlog.forget()

    def take_leftovers(self) -> None:
        """Take in what programs before this one could not record; that of a thread which was erased since is dropped."""
        self._holding.thread = self.backlog.take_in()

    def close(self) -> None:
        """Record what waits, or keep it in a file, before the database is closed; a turn under way does that at its end."""
        with self._lock:
            self._is_left = True
            if self._under_way is None:
                self.leave()

    def leave(self) -> None:
        """Record what waits, or keep it in a file, before the program ends."""
        if self.spool.first is None:
            return
        try:
            self._holding.drain(None)
        except EverlogError as error:
            self._trouble.note("record", error, waiting=self.spool.messages)
            self.backlog.keep(self.thread)


def _is_paid(attempt: Attempt) -> bool:
    """Whether a request is or may be paid for: not what was never sent, nor what came back with an error status."""
    return attempt.usage != NOTHING and (attempt.http_status is None or attempt.http_status < 400)
