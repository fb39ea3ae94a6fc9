"""One turn at a time: of a thread, in all processes, and of a chat, in this one.

In this process names are taken and left; between processes a lease is (`pump/claim.py`), which is renewed while the turn
runs, and free at once where its process is gone.
"""

import logging
import os
import threading
from collections.abc import Hashable, Iterable
from contextlib import suppress
from functools import partial
from time import sleep

from everlog.clock import monotonic
from everlog.conversation.recording.pace import Pace
from everlog.errors import EverlogError
from everlog.memory.interface import Subject
from everlog.pump.claim import Lease, LeaseLost, claim, finish, is_leased, marks, renew, this_worker
from everlog.store import Store, Unit

LEASE_S = 24.0
"""How long a thread stays taken if the machine that holds it goes away, or cannot let go of it: less than others wait."""
RENEW_S = 7.0

FIRST_RELEASE_S, LONGEST_RELEASE_S = 0.05, 1.0
"""How long until it is tried again to let go of a thread, where that failed: others wait for it."""

TURN = "turn"
"""The name under which the lease stands among those of memories."""

_logger = logging.getLogger(__name__)


class Places:
    """What is taken in this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[Hashable, Pace | None] = {}
        self._process = os.getpid()

    def take(self, names: Iterable[Hashable], pace: Pace | None = None) -> bool:
        """Take all of the names, or none; `pace` tells others how it goes."""
        wanted = set(names)
        if self._process != os.getpid():  # a fork has none of the turns of its parent
            self._process, self._lock, self._taken = os.getpid(), threading.Lock(), {}
        with self._lock:
            if wanted & self._taken.keys():
                return False
            self._taken.update(dict.fromkeys(wanted, pace))
            return True

    def leave(self, names: Iterable[Hashable]) -> None:
        """Leave what was taken."""
        with self._lock:
            for name in names:
                self._taken.pop(name, None)

    def taken_by(self, names: Iterable[Hashable]) -> Pace | None:
        """Return how that goes which has taken one of the names; None if that is free, or unknown."""
        with self._lock:
            return next((found for name in names if (found := self._taken.get(name)) is not None), None)


PLACES = Places()


class Ticket:
    """A way in that may be given up while another thread is still on it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_used = False
        self._is_given_up = False

    def use(self) -> bool:
        """Note that one is in; return False if it was given up before, so that what was taken must be let go of."""
        with self._lock:
            self._is_used = not self._is_given_up
            return self._is_used

    def give_up(self) -> bool:
        """Take the way no more; say whether one is in already, so that what was taken must be let go of here."""
        with self._lock:
            self._is_given_up = True
            return self._is_used


def take(unit: Unit, thread: str, *, retake: bool = False) -> Lease | None:
    """Take a thread on for a turn, within a unit; None while another process has it.

    Args:
        unit: the unit.
        thread: its id.
        retake: whether it may still be taken by an earlier turn of the same memory, which could not let go of it.
    """
    subject = Subject(tenant=unit.tenant, memory=TURN, key=thread)
    return claim(unit, subject, LEASE_S, this_worker(), retake=retake)


def hold(unit: Unit, lease: Lease) -> None:
    """Hold on to a thread, within the unit that records something of the turn.

    Raises:
        LeaseLost: another process took it over.
    """
    renew(unit, lease)


def is_taken(unit: Unit, thread: str) -> bool:
    """Return whether a turn of a thread is under way, in any process."""
    return is_leased(unit, Subject(tenant=unit.tenant, memory=TURN, key=thread))


def leave(unit: Unit, lease: Lease) -> None:
    """Let go of a thread, unless it was lost."""
    with suppress(LeaseLost):
        finish(unit, lease, None, seen=marks(unit, lease))


class Heartbeat:
    """Renews the lease of one turn, in a thread of its own, until it is stopped, or has let go of it."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store = store
        self._lease = lease
        self._stopped = threading.Event()
        self._lets_go = False
        self._thread = threading.Thread(target=self._beat, name="everlog-turn", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Renew no more."""
        self._stopped.set()

    def let_go(self) -> None:
        """Renew no more, and let go of the lease as soon as the database takes that; the fence keeps it from taking another."""
        self._lets_go = True
        self._stopped.set()

    def _beat(self) -> None:
        self._renew()
        until, pause = monotonic() + self._lease.seconds, FIRST_RELEASE_S
        while self._lets_go and monotonic() < until and not self._store.is_closed:
            sleep(pause)
            try:
                self._store.write(self._lease.subject.tenant, partial(leave, lease=self._lease), name="turn.release")
            except EverlogError:
                pause = min(LONGEST_RELEASE_S, pause * 2)
            else:
                return

    def _renew(self) -> None:
        while not self._stopped.wait(RENEW_S):
            try:
                self._store.write(self._lease.subject.tenant, partial(hold, lease=self._lease), name="turn.renew")
            except LeaseLost:
                return
            except EverlogError as error:
                _logger.warning("the lease of a turn was not renewed", extra={"error": type(error).__name__})
