"""Leases: taking a subject on so that one worker is at it, holding on to it, and letting go.

A lease is a row's `lease_until` and its `fence`, a number that rises with each lease. Whoever holds it renews it in
each unit in which it writes; if the fence has moved on, that unit stores nothing. A worker that was killed loses its
lease by time, or at once to one on the same machine, which can see that its process is gone.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from everlog import log
from everlog.clock import micros
from everlog.memory.interface import Subject
from everlog.pump import rows
from everlog.pump.due import LONGEST_LEASE_S, enter
from everlog.store import Unit

OF_THREADS = ("tree", "rolling", "turn")
"""Names of what hangs on a thread, by its id: memories, and a turn under way. What is noted of one is erased with it."""

SLEEP_S = 10.0
"""How long a subject is left alone after trouble that does not say how long: a fixed time, since somebody may wait for
it, …"""
LONGEST_SLEEP_S = 60.0
"""… that grows to this one where the trouble lasts."""
PATIENCE = 3
"""Failures in a row after which it does."""


class LeaseLost(Exception):
    """The subject is leased to another worker by now."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A subject taken on."""

    subject: Subject
    fence: int
    seconds: float
    """How long it holds without being renewed."""
    live: bool = True
    failures: int = 0
    """How many runs before this one failed, in a row."""
    reason: str | None = None
    """Why the last of them did."""

    @property
    def sleep(self) -> timedelta:
        """How long to leave the subject alone if this run fails too."""
        longer = 2.0 ** min(10, max(0, self.failures + 1 - PATIENCE))
        return timedelta(seconds=min(LONGEST_SLEEP_S, SLEEP_S * longer))


def claim(unit: Unit, subject: Subject, seconds: float, worker: str, *, retake: bool = False) -> Lease | None:
    """Take a subject on, or return None while another worker has it; with `retake`, also from the same worker.

    Raises:
        Erased: it is a thread that was erased.
    """
    thread = subject.key if subject.memory in OF_THREADS else None
    if thread is not None:
        log.load(unit, thread)
    seconds = min(seconds, LONGEST_LEASE_S)
    enter(unit, subject, thread, due_at=unit.now, live=False)
    holder = _row(unit, subject)[3]
    taken = unit.count(
        rows.CLAIM,
        of_memory=subject.memory,
        of_subject=subject.key,
        now=unit.now_us,
        longest=_until(unit, LONGEST_LEASE_S),
        gone=holder if holder is not None and (is_gone(holder) or (retake and holder == worker)) else "",
        by=worker,
        until=_until(unit, seconds),
    )
    if taken != 1:
        return None
    fence, _, _, _, _, failures, reason, live, _ = _row(unit, subject)
    return Lease(subject, fence, seconds, live=bool(live), failures=failures, reason=reason)


def is_leased(unit: Unit, subject: Subject) -> bool:
    """Return whether a worker that is still there has a subject."""
    row = unit.row(rows.DUE, memory=subject.memory, subject=subject.key)
    return row is not None and row[4] is not None and row[4] >= unit.now_us and not is_gone(row[3])


def this_worker() -> str:
    """Return the name under which this process takes leases."""
    return f"{_machine()}-{os.getpid()}"


def is_gone(worker: str) -> bool:
    """Return whether a worker was a process of this machine that runs no more; if in doubt, it is still there."""
    machine, _, number = worker.partition("-")
    if machine != _machine() or not number.isdecimal() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)  # asks, and sends nothing
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def renew(unit: Unit, lease: Lease) -> None:
    """Hold on to a subject; what the unit writes besides is stored only if that succeeds.

    Raises:
        LeaseLost: another worker has it, or it was erased.
    """
    if unit.count(rows.RENEW, **_held(lease), until=_until(unit, lease.seconds)) != 1:
        raise LeaseLost


def marks(unit: Unit, lease: Lease) -> int:
    """Return how often a subject was marked, to be asked before the last look at it.

    Raises:
        LeaseLost: it was erased.
    """
    return int(_row(unit, lease.subject)[8])


def finish(
    unit: Unit, lease: Lease, next_due: datetime | None, *, seen: int, failures: int = 0, reason: str | None = None
) -> bool:
    """Let go of a subject that has nothing to do before `next_due`; not if it was marked since `seen` was counted."""
    when = None if next_due is None else micros(next_due)
    kept = {"failed": failures, "reason": reason}
    return unit.count(rows.FINISH, **_held(lease), next_due=when, seen=seen, **kept) == 1


def release(
    unit: Unit, lease: Lease, reason: str | None, *, failures: int = 0, sleep_until: datetime | None = None
) -> None:
    """Let go of a subject that is still due, from a time on if one is given, after so many failures in a row."""
    statement, when = rows.RELEASE, {}
    if sleep_until is not None:
        statement, when = rows.SLEEP, {"next_due": micros(sleep_until)}
    unit.count(statement, **_held(lease), failed=failures, reason=reason, **when)


def give_back(unit: Unit, lease: Lease, worker: str) -> None:
    """Let go of a subject as if it had not been taken on, if this worker has it by this lease."""
    unit.count(rows.GIVE_BACK, **_held(lease), by=worker)


def _held(lease: Lease) -> dict[str, object]:
    return {"of_memory": lease.subject.memory, "of_subject": lease.subject.key, "held": lease.fence}


def _row(unit: Unit, subject: Subject) -> tuple[Any, ...]:
    row = unit.row(rows.DUE, memory=subject.memory, subject=subject.key)
    if row is None:
        raise LeaseLost
    return row


@cache
def _machine() -> str:
    """Return what names this machine, and where containers share it the one: only there a process number means anything."""
    found = [socket.gethostname()]
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii"))
    with suppress(OSError):
        found.append(str(Path("/proc/self/ns/pid").readlink()))
    return f"{crc32(' '.join(found).encode()):08x}"


def _until(unit: Unit, seconds: float) -> int:
    return micros(unit.now + timedelta(seconds=seconds))
