"""Holding on to a thread, in all processes, while a turn of it runs or what waits is recorded in it."""

from functools import partial

from everlog.conversation.recording import gate, units
from everlog.conversation.recording.backlog import Backlog
from everlog.conversation.recording.reach import Reach
from everlog.conversation.recording.units import Turn
from everlog.errors import Erased, EverlogError, StoreUnavailable
from everlog.pump.claim import Lease, LeaseLost


class Holding:
    """The lease of a thread, and what is recorded under it before anything else."""

    def __init__(self, reach: Reach, key: str, backlog: Backlog) -> None:
        self.thread: str | None = None
        """Our id of the thread; None until it is known."""
        self.retakes = False
        """Whether the thread may still be taken by an earlier turn, which could not let go of it."""
        self._reach = reach
        self._key = key
        self._backlog = backlog

    @property
    def known(self) -> str:
        """Our id of the thread, which was taken before."""
        assert self.thread is not None, "a turn that was begun in the database has a thread"
        return self.thread

    def take(self, turn: Turn) -> bool:
        """Take the thread on for a turn, before what waits is recorded; return False while another process has it.

        Raises:
            Erased: the thread was erased, and what waited is dropped.
        """
        act = partial(units.take, key=self._key, thread=self.thread, retake=self.retakes)
        try:
            found = self._reach.write(act, name="turn.take")
        except Erased:
            self._backlog.forget()
            raise
        if found is not None:
            self.thread, lease = found
            self.hold(turn, lease)
        return found is not None

    def hold(self, turn: Turn, lease: Lease) -> None:
        """Note that a turn has the thread, and keep that so."""
        self.retakes = False
        turn.lease, turn.beats = lease, gate.Heartbeat(self._reach.store, lease)

    def let_go(self, turn: Turn) -> None:
        """Let go of the thread."""
        beats = turn.beats
        if turn.lease is not None:
            try:
                self._reach.write(partial(units.release, lease=turn.lease), name="turn.release")
            except EverlogError:
                self.retakes = True  # for others it ends when the database is back, by time, or with this process
                if beats is not None:
                    beats.let_go()
                    beats = None
        if beats is not None:
            beats.stop()
        turn.lease = turn.beats = None

    def drain(self, turn: Turn | None) -> None:
        """Record what waits; of a turn under way that waits, note where it stands.

        Raises:
            Erased: the thread, or a turn of which something waits, was erased; that is dropped.
            StoreUnavailable: it cannot be recorded yet.
        """
        first = self._backlog.spool.first
        if first is None:
            return
        holder = turn or Turn(first.turn, first.of)
        try:
            if holder.lease is None and not self.take(holder):
                raise StoreUnavailable("another process is at this thread; what waits is recorded later")
            self._backlog.put(turn, self.known, holder, self._reach.write)
        except LeaseLost:
            self.let_go(holder)
            raise StoreUnavailable("another process took this thread over; what waits is recorded later") from None
        finally:
            if turn is None:
                self.let_go(holder)
