"""What a run holds: its lease, answers that are not written yet, and what they cost. All writes of a run are here."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from everlog import log
from everlog.clock import monotonic
from everlog.log import Purpose
from everlog.memory.interface import Accept, Again, Bill, Memory, Reply, State, Step
from everlog.pump import claim as leases
from everlog.pump import due
from everlog.pump.claim import Lease
from everlog.pump.usefulness import Usefulness
from everlog.store import Store, Unit

Progress = Callable[[int, int], object]
"""Called after each write with the steps done by this run, and an estimate of how many are left."""

S = TypeVar("S", bound=State)


class Holding(Generic[S]):
    """A leased subject, and what is to be written about it."""

    def __init__(
        self, store: Store, memory: Memory[S], lease: Lease, on_progress: Progress | None, worth: Usefulness
    ) -> None:
        self.lease = lease
        self._worth = worth
        self.steps = 0
        """Steps whose rows were kept."""
        self.remaining = 0
        """An estimate of the steps that are left, those that wait to be written included."""
        self._store = store
        self._memory = memory
        self._tenant = lease.subject.tenant
        self._on_progress = on_progress
        self._accepted: list[Accept] = []
        self._bills: list[tuple[str | None, Bill]] = []
        self._held_at = monotonic()

    @property
    def waiting(self) -> int:
        """How many answers are not written yet."""
        return len(self._accepted)

    def read(self) -> S:
        """Take a snapshot of the subject."""
        return self._store.read(self._tenant, partial(self._memory.read, subject=self.lease.subject))

    def add(self, verdict: Accept) -> None:
        """Take an answer in, to be written with the next ones."""
        self._accepted.append(verdict)

    def bill(self, step: Step, reply: Reply) -> None:
        """Take in what a reply cost, whatever it is worth; it is written with what is written next."""
        self._bills += [(None if step.span is None else step.span.thread, bill) for bill in reply.bills]

    def flush(self) -> None:
        """Write the answers that wait, if there are any, and what they cost.

        Raises:
            LeaseLost: another worker has the subject; nothing was written.
        """
        if not self._accepted:
            self._pay()
            return
        accepted, self._accepted = self._accepted, []
        self._keep(accepted, name="pump.write")
        self.steps += len(accepted)
        self.remaining -= len(accepted)
        if self._on_progress is not None:
            self._on_progress(self.steps, max(0, self.remaining))

    def keep_try(self, verdict: Again) -> None:
        """Write a try that cannot be used, so that a crash does not pay for it twice."""
        self._keep([verdict], name="pump.try")

    def hold_on(self) -> None:
        """Renew the lease if a third of it has passed since the last write; what waits is written with it."""
        if monotonic() - self._held_at < self.lease.seconds / 3:
            return
        self.flush()
        self._write(partial(leases.renew, lease=self.lease), name="pump.renew")

    def finish(self) -> bool:
        """Let go if nothing is pending now, in the unit that looks; what is marked later is seen by the next run."""
        return self._store.write(self._tenant, self._finish, name="pump.finish")

    def settle(self) -> None:
        """Write what was paid and is not written yet, whoever has the subject by now, as far as that is possible."""
        with suppress(Exception):  # what ended the run is the trouble to tell of
            self._pay()

    def release(self, reason: str | None, *, sleep_until: datetime | None = None) -> None:
        """Let go of the subject early, and let nobody look at it before a time."""
        self._accepted = []
        failures, code = self._worth.outcome(reason)
        act = partial(leases.release, lease=self.lease, failures=failures, reason=code, sleep_until=sleep_until)
        self._store.write(self._tenant, act, name="pump.release")

    def now(self) -> datetime:
        """Return the time by the store's clock."""
        return self._store.clock.now()

    def _write(self, act: Callable[[Unit], None], name: str) -> None:
        self._store.write(self._tenant, act, name=name)
        self._held_at = monotonic()

    def _keep(self, verdicts: Sequence[Accept | Again], name: str) -> None:
        bills = tuple(self._bills)
        self._write(partial(self._kept, verdicts=verdicts, bills=bills), name=name)
        del self._bills[: len(bills)]

    def _pay(self) -> None:
        if self._bills:
            self._store.write(self._tenant, partial(_paid, bills=tuple(self._bills)), name="pump.spend")
            self._bills.clear()

    def _kept(self, unit: Unit, verdicts: Sequence[Accept | Again], bills: Sequence[tuple[str | None, Bill]]) -> None:
        # The thread's row is locked before the subject's, as when entries are appended and marked.
        self._memory.write(unit, self.lease.subject, verdicts)
        for verdict in verdicts:
            for mark in verdict.marks if isinstance(verdict, Accept) else ():
                due.mark(unit, mark)
        _paid(unit, bills)
        leases.renew(unit, self.lease)

    def _finish(self, unit: Unit) -> bool:
        seen = leases.marks(unit, self.lease)
        state = self._memory.read(unit, self.lease.subject)
        plan = self._memory.plan(state, unit.now, 1)
        leases.renew(unit, self.lease)
        if plan.steps:
            return False
        failures, code = self._worth.outcome(None, is_done=True)
        return leases.finish(unit, self.lease, plan.next_due, seen=seen, failures=failures, reason=code)


def _paid(unit: Unit, bills: Sequence[tuple[str | None, Bill]]) -> None:
    for thread, bill in bills:
        log.spend(unit, thread, Purpose.MEMORY, bill.model, bill.usage, bill.cost_usd)
