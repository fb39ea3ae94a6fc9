"""A worker: takes on what is due, whoever's it is, until it is told to stop.

It has a few places, each a thread in which one subject is run. The places are given out live before backfill, tenant by
tenant, the oldest first. A run of backfill gives its place up after a pass when something live waits without one; equals
do so after a while. Any number of workers, in any number of processes, may be at the same database.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from everlog.clock import monotonic
from everlog.errors import Damaged, EverlogError, Mistake
from everlog.memory.interface import Compactor, Memory, Subject
from everlog.pump.calls import Calls
from everlog.pump.claim import LONGEST_SLEEP_S, is_gone, this_worker
from everlog.pump.due import BUCKETS, Waiting, waiting
from everlog.pump.live import Ran, run
from everlog.pump.passes import Options
from everlog.pump.usefulness import name_of
from everlog.store import Store

_log = logging.getLogger(__name__)

PLACES = 4
"""Subjects that one worker runs at the same time."""
POLL_S = 0.5
"""How often an idle worker looks what is due."""
TURN_S = 5.0
"""How long a run keeps its place while others of its class wait."""
REST_S = 1.0
"""How long a worker leaves a subject alone that it could not run: another has it, it is being erased, or the database
failed."""
_IDLE_SHARE = 10
"""Of the time of an idle worker, looking takes one part in so many at most."""
_QUICK_S = 0.05
"""A look that takes so long at most is taken after every pass of backfill, …"""
_SHARE = 3
"""… a longer one so that it takes one part in so many of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What a worker did."""

    runs: int
    steps: int
    failed: int
    """Runs that ended in trouble."""


@dataclass(slots=True, eq=False)
class _Place:
    """A subject that is being run."""

    waiting: Waiting
    since: float
    leave: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None


class Worker:
    """Works off what is due. One object for one loop."""

    def __init__(
        self,
        store: Store,
        memories: Sequence[Memory[Any]],
        compactor: Compactor,
        *,
        tenant: str | None = None,
        options: Options | None = None,
        places: int = PLACES,
        poll_s: float = POLL_S,
    ) -> None:
        """Make a worker.

        Args:
            store: the database.
            memories: what it keeps current.
            compactor: answers the steps that need an answer.
            tenant: work for this tenant alone; for all if None.
            options: hooks and limits of each run; hooks are called in the thread of the run.
            places: subjects that are run at the same time.
            poll_s: how often to look, when idle.
        """
        self._store = store
        self._memories: Mapping[str, Memory[Any]] = {memory.name: memory for memory in memories}
        self._compactor = compactor
        self._tenant = tenant
        self._options = replace(options or Options(), sparing=True)
        self._calls = Calls(compactor, store.clock, at_once=self._options.at_once)
        self._places = places
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._running: dict[Subject, _Place] = {}
        self._resting: dict[Subject, float] = {}
        self._lost = False
        self._done = Worked(runs=0, steps=0, failed=0)
        self._fatal: BaseException | None = None
        self._looked_at = 0.0
        self._look_took = 0.0

    def work(self, stop: threading.Event, *, until_idle: bool = False) -> Worked:
        """Work until told to stop; what is being run then ends after its pass, or gives up after a grace, and lets go.

        Args:
            stop: set it, from a signal handler or another thread, to stop.
            until_idle: stop as soon as nothing is due.

        Raises:
            Damaged: what is due cannot be read, which waiting does not mend.
            Mistake: the compactor cannot answer at all. What it raises that is no `Exception` comes out too.
        """
        try:
            while not stop.is_set() and self._fatal is None:
                found = self._look()
                if found is not None:
                    self._give_out(found)
                    if until_idle and not self._running and not found and not self._wake.is_set():
                        break
                self._rest(stop)
        finally:
            self._leave()
        if self._fatal is not None:
            raise self._fatal
        return self._done

    def _look(self) -> list[Waiting] | None:
        """Return what waits and is at nobody's; None while the database cannot be asked."""
        began = monotonic()
        with self._lock:
            busy = set(self._running)  # one that ends while the database is asked may still be in what it answers
        try:
            found = waiting(self._store, list(self._memories), tenant=self._tenant)
        except (Mistake, Damaged):
            raise
        except EverlogError as error:
            _log.warning("cannot see what is due", extra={"error": type(error).__name__})
            return None
        finally:
            self._looked_at = monotonic()
            # One look that was slow by chance is not yet a large table.
            self._look_took = min(self._looked_at - began, 2 * self._look_took + _QUICK_S / 5)
        with self._lock:
            now = monotonic()
            self._resting = {subject: until for subject, until in self._resting.items() if until > now}
            away = busy | self._running.keys() | self._resting.keys()
            return [one for one in found if one.subject not in away and _free(one)]

    def _give_out(self, found: Sequence[Waiting]) -> None:
        """Start what there are places for, and ask for places for the rest."""
        if self._lost:
            self._lost, found = False, _parted(found)
        for n, one in enumerate(found):
            with self._lock:
                if len(self._running) >= self._places:
                    self._hurry(found[n:])
                    return
                self._running[one.subject] = place = _Place(one, monotonic())
            place.thread = threading.Thread(target=self._serve, args=(place,), name="everlog-run", daemon=True)
            place.thread.start()

    def _hurry(self, found: Sequence[Waiting]) -> None:
        """Ask runs to leave after their pass: of backfill for what is live, and of long ones for their equals."""
        now = monotonic()
        leaving = [place for place in self._running.values() if place.leave.is_set()]
        staying = sorted(
            (place for place in self._running.values() if not place.leave.is_set()),
            key=lambda place: (place.waiting.live, place.since),
        )
        for one, place in zip(found[len(leaving) :], staying, strict=False):
            if one.live > place.waiting.live or (one.live == place.waiting.live and now - place.since > TURN_S):
                place.leave.set()

    def _rest(self, stop: threading.Event) -> None:
        """Wait until a place is free, or it is time to look again."""
        until = monotonic() + max(self._poll_s, self._look_took * _IDLE_SHARE)
        while not stop.is_set() and not self._wake.is_set() and monotonic() < until:
            self._wake.wait(min(0.1, self._poll_s))
        self._wake.clear()

    def _serve(self, place: _Place) -> None:
        subject = place.waiting.subject
        ran = Ran(steps=0, done=False)
        trouble = blocked = True
        try:
            ran = run(
                self._store,
                subject.tenant,
                subject.key,
                self._memories[subject.memory],
                self._compactor,
                options=self._options,
                calls=self._calls,
                stop=lambda: self._leaves(place),
            )
            trouble, blocked = ran.reason is not None, ran.busy or ran.reason == "erased"
        except (Mistake, Exception) as error:  # noqa: BLE001 -- one subject's trouble is recorded in its row
            _log.warning("a run failed", extra={"error": name_of(error), "memory": subject.memory})
            if isinstance(error, Mistake):
                self._fatal = self._fatal or error
        except BaseException as error:  # noqa: BLE001 -- raised in the thread that called `work`
            self._fatal = self._fatal or error
        finally:
            self._note(subject, ran, failed=trouble, blocked=blocked)

    def _note(self, subject: Subject, ran: Ran, *, failed: bool, blocked: bool) -> None:
        with self._lock:
            del self._running[subject]
            if blocked:
                self._resting[subject] = monotonic() + REST_S
            self._lost = self._lost or ran.busy
            done = self._done
            self._done = replace(done, runs=done.runs + 1, steps=done.steps + ran.steps, failed=done.failed + failed)
        self._wake.set()

    def _leaves(self, place: _Place) -> bool:
        """Whether a run is to leave its place; one of backfill looks whether something live waits without one."""
        if place.leave.is_set():
            return True
        pause = 0.0 if self._look_took <= _QUICK_S else self._look_took * (_SHARE - 1)
        if not place.waiting.live and monotonic() - self._looked_at >= pause:
            found = self._look()
            if found and found[0].live:
                self._wake.set()
                with self._lock:
                    if len(self._running) >= self._places:
                        self._hurry(found)
        return place.leave.is_set()

    def _leave(self) -> None:
        """Ask all runs to end, and wait for them, but not for ever."""
        with self._lock:
            places = list(self._running.values())
        for place in places:
            place.leave.set()
        until = monotonic() + self._options.grace_s + LONGEST_SLEEP_S / 4
        for place in places:
            if place.thread is not None:
                place.thread.join(max(0.0, until - monotonic()))


def _free(one: Waiting) -> bool:
    return not one.leased or (one.lease_owner is not None and is_gone(one.lease_owner))


def _parted(found: Sequence[Waiting]) -> list[Waiting]:
    """Return the same, each class from this worker's own bucket on, so that workers that read the same list part."""
    own = crc32(this_worker().encode()) % BUCKETS
    return sorted(found, key=lambda one: (not one.live, (one.bucket - own) % BUCKETS))
