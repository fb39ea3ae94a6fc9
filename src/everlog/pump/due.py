"""Marks: saying that a subject has something to do; and finding out which ones have."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

from everlog.clock import micros
from everlog.memory.interface import Mark, Subject
from everlog.pump import rows
from everlog.store import Store, Unit

BUCKETS = 64
PER_TENANT = 8
"""Subjects of one tenant that are worked on at the same time, as long as others wait."""
LONGEST_LEASE_S = 600.0
"""The longest that a lease holds without being renewed. One that would hold longer was taken by a clock that runs ahead,
and counts as over."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A subject that is due."""

    subject: Subject
    live: bool
    bucket: int
    lease_owner: str | None
    """Who has it, as far as the row says."""
    leased: bool
    """Whether that lease still holds by time."""


def mark(unit: Unit, mark: Mark, *, thread: str | None = None) -> None:
    """Note that a subject has something to do, in the unit that changes what it reads.

    A mark for now leaves a subject that waits already at its place in the line. A mark for later replaces the time.

    Args:
        unit: the unit of work.
        mark: the subject, and when to look.
        thread: the thread that the subject hangs on, so that it is erased with it.
    """
    at = micros(mark.due_at)
    enter(unit, mark.subject, thread, due_at=mark.due_at, live=mark.live)
    unit.run(
        rows.MARK,
        {
            "of_memory": mark.subject.memory,
            "of_subject": mark.subject.key,
            "at": at,
            "keeps": int(at <= unit.now_us),
            "is_live": int(mark.live),
            "to": mark.upto,
        },
    )


def mark_tree(unit: Unit, thread: str, *, upto: int, live: bool = True) -> None:
    """Note that a thread, by its id, has entries that its tree may not cover yet."""
    _mark_thread(unit, "tree", thread, upto, live=live)


def mark_rolling(unit: Unit, thread: str, *, upto: int, live: bool = True) -> None:
    """Note that a thread, by its id, may have entries that are to be folded into its summary."""
    _mark_thread(unit, "rolling", thread, upto, live=live)


def _mark_thread(unit: Unit, memory: str, thread: str, upto: int, *, live: bool) -> None:
    subject = Subject(tenant=unit.tenant, memory=memory, key=thread)
    mark(unit, Mark(subject=subject, due_at=unit.now, upto=upto, live=live), thread=thread)


def enter(unit: Unit, subject: Subject, thread: str | None, *, due_at: datetime, live: bool) -> None:
    """Make a subject's row, unless it is there."""
    unit.run(
        rows.PUT_DUE,
        {
            "memory": subject.memory,
            "subject": subject.key,
            "thread": thread,
            "bucket": crc32(subject.key.encode()) % BUCKETS,
            "live": int(live),
            "due_at": micros(due_at),
            "upto": 0,
            "marked": 0,
            "lease_owner": None,
            "lease_until": None,
            "fence": 0,
            "failures": 0,
            "error_code": None,
        },
    )


def waiting(store: Store, memories: Sequence[str], *, tenant: str | None = None, limit: int = 64) -> list[Waiting]:
    """Return the subjects that are due now, leased ones included, in the order in which they are to be taken on.

    Live ones come before all others; within a class each tenant's first before any tenant's second; then the oldest.

    Args:
        store: the database.
        memories: names of the memories that are asked for.
        tenant: only this tenant's; everybody's if None.
        limit: the most that are returned.
    """
    time = store.clock.now()
    now, longest = micros(time), micros(time + timedelta(seconds=LONGEST_LEASE_S))
    given = {"memories": list(memories), "now": now, "most": PER_TENANT, "limit": limit}
    if tenant is None:
        found = store.everywhere(lambda unit: unit.rows(rows.WAITING, **given))
    else:
        found = store.read(tenant, lambda unit: unit.rows(rows.WAITING_HERE, **given))
    return [
        Waiting(
            subject=Subject(tenant=of, memory=memory, key=key),
            live=bool(live),
            bucket=bucket,
            lease_owner=owner,
            leased=until is not None and now <= until <= longest,
        )
        for of, memory, key, bucket, live, _, owner, until, _ in found
    ]
