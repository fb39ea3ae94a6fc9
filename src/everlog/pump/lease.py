"""Marks and leases: saying that a subject has something to do, and taking it on so that one worker is at it.

A lease is a row's `lease_until` and its `fence`, a number that rises with each lease. Whoever holds it renews it in
each unit in which it writes; if the fence has moved on, that unit stores nothing. A worker that was killed loses its
lease by time, or at once to one on the same machine, which can see that its process is gone.
"""

import os
import socket
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

from everlog import log
from everlog.clock import micros
from everlog.memory.interface import Mark, Subject
from everlog.pump import rows
from everlog.store import Unit

BUCKETS = 64
OF_THREADS = ("tree",)
"""Memories whose subjects are threads, by their ids; what is noted of one is erased with it."""


class LeaseLost(Exception):
    """The subject is leased to another worker by now."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A subject taken on."""

    subject: Subject
    fence: int
    seconds: float
    """How long it holds without being renewed."""


def mark(unit: Unit, mark: Mark, *, thread: str | None = None) -> None:
    """Note that a subject has something to do, in the unit that changes what it reads.

    Args:
        unit: the unit of work.
        mark: the subject, and when to look.
        thread: the thread that the subject hangs on, so that it is erased with it.
    """
    unit.run(rows.MARK, _new(mark.subject, thread, mark.due_at, mark.upto, live=mark.live))


def mark_tree(unit: Unit, thread: str, *, upto: int, live: bool = True) -> None:
    """Note that a thread, by its id, has entries that its tree may not cover yet."""
    subject = Subject(tenant=unit.tenant, memory="tree", key=thread)
    mark(unit, Mark(subject=subject, due_at=unit.now, upto=upto, live=live), thread=thread)


def claim(unit: Unit, subject: Subject, seconds: float, worker: str) -> Lease | None:
    """Take a subject on, or return None while another worker has it.

    Raises:
        Erased: it is a thread that was erased.
    """
    thread = subject.key if subject.memory in OF_THREADS else None
    if thread is not None:
        log.load(unit, thread)
    unit.run(rows.PUT_DUE, _new(subject, thread, unit.now, 0, live=False))
    holder = _row(unit, subject)[3]
    taken = unit.count(
        rows.CLAIM,
        of_memory=subject.memory,
        of_subject=subject.key,
        now=unit.now_us,
        gone=holder if holder is not None and is_gone(holder) else "",
        by=worker,
        until=_until(unit, seconds),
    )
    return Lease(subject, _row(unit, subject)[0], seconds) if taken == 1 else None


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


def finish(unit: Unit, lease: Lease, next_due: datetime | None) -> None:
    """Let go of a subject that has nothing to do before `next_due`."""
    unit.count(rows.FINISH, **_held(lease), next_due=None if next_due is None else micros(next_due))


def release(unit: Unit, lease: Lease, reason: str | None, *, sleep_until: datetime | None = None) -> None:
    """Let go of a subject that is still due, from a time on if one is given; a reason counts as a failure."""
    statement, when = rows.RELEASE, {}
    if sleep_until is not None:
        statement, when = rows.SLEEP, {"next_due": micros(sleep_until)}
    unit.count(statement, **_held(lease), more=int(reason is not None), reason=reason, **when)


def _held(lease: Lease) -> dict[str, object]:
    return {"of_memory": lease.subject.memory, "of_subject": lease.subject.key, "held": lease.fence}


def _row(unit: Unit, subject: Subject) -> tuple[Any, ...]:
    row = unit.row(rows.DUE, memory=subject.memory, subject=subject.key)
    assert row is not None
    return row


def _machine() -> str:
    return f"{crc32(socket.gethostname().encode()):08x}"


def _until(unit: Unit, seconds: float) -> int:
    return micros(unit.now + timedelta(seconds=seconds))


def _new(subject: Subject, thread: str | None, due_at: datetime, upto: int, *, live: bool) -> dict[str, object]:
    return {
        "memory": subject.memory,
        "subject": subject.key,
        "thread": thread,
        "bucket": crc32(subject.key.encode()) % BUCKETS,
        "live": int(live),
        "due_at": micros(due_at),
        "upto": upto,
        "lease_owner": None,
        "lease_until": None,
        "fence": 0,
        "failures": 0,
        "error_code": None,
    }
