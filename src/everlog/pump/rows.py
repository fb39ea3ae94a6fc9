"""The pump's table, and all of its SQL.

One row a subject: *look here*, never *do this*. What is pending follows from the log and what is derived from it, so
the row is a hint that can be made again.
"""

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, Select, SmallInteger, String, Table, bindparam, case, func
from sqlalchemy import select as _select

from everlog.store.rows import ID, KEY, TENANT
from everlog.store.shapes import COUNT, FLAG, SIZE, TIME
from everlog.store.statements import among, metadata, scoped, unscoped

due = Table(
    "due",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("memory", String(16), primary_key=True),
    Column("subject", KEY, primary_key=True),
    Column("thread", ID),
    Column("bucket", SmallInteger, nullable=False),
    Column("live", SmallInteger, nullable=False, info=FLAG),
    Column("due_at", BigInteger, info=TIME),
    Column("upto", BigInteger, nullable=False, info=SIZE),
    Column("marked", BigInteger, nullable=False, info=SIZE),
    Column("lease_owner", ID),
    Column("lease_until", BigInteger, info=TIME),
    Column("fence", BigInteger, nullable=False, info=SIZE),
    Column("failures", Integer, nullable=False, info=COUNT),
    Column("error_code", String(64)),
    Index(None, "tenant", "thread"),
    Index(None, "tenant", "live", "due_at"),
    info={"erase": "thread", "everyone": True},
)
"""When to look at a subject (`due_at`; NULL: nothing to do), for whom (`live`, `upto`), and who is at it.

`marked` counts the marks. `fence` rises with each lease, so that one who lost it cannot write any more. `lease_owner`
names the process. `thread` is the thread that the subject hangs on, if it does. `bucket` spreads subjects over workers.
"""

TABLES = (due,)

_of_subject = (due.c.memory == bindparam("memory"), due.c.subject == bindparam("subject"))
_subject = (due.c.memory == bindparam("of_memory"), due.c.subject == bindparam("of_subject"))
_held = (*_subject, due.c.fence == bindparam("held"))

PUT_DUE = scoped(due).insert(ignore=True)
MARK = (
    scoped(due)
    .update()
    .where(*_subject)
    .values(
        due_at=case(
            ((due.c.due_at < bindparam("at")) & (bindparam("keeps") == 1), due.c.due_at),
            else_=bindparam("at"),
        ),
        live=case(
            (due.c.due_at.is_(None) | (due.c.live < bindparam("is_live")), bindparam("is_live")), else_=due.c.live
        ),
        upto=bindparam("to"),
        marked=due.c.marked + 1,
    )
)
"""`keeps`: whether a time that comes before `at` stays."""

DUE = (
    scoped(due)
    .select(
        due.c.fence,
        due.c.due_at,
        due.c.upto,
        due.c.lease_owner,
        due.c.lease_until,
        due.c.failures,
        due.c.error_code,
        due.c.live,
        due.c.marked,
    )
    .where(*_of_subject)
)
CLAIM = (
    scoped(due)
    .update()
    .where(
        *_subject,
        due.c.lease_until.is_(None)
        | (due.c.lease_until < bindparam("now"))
        | (due.c.lease_until > bindparam("longest"))
        | (due.c.lease_owner == bindparam("gone")),
    )
    .values(lease_owner=bindparam("by"), lease_until=bindparam("until"), fence=due.c.fence + 1)
)
RENEW = scoped(due).update().where(*_held).values(lease_until=bindparam("until"))
FINISH = (
    scoped(due)
    .update()
    .where(*_held, due.c.marked == bindparam("seen"))
    .values(
        due_at=bindparam("next_due"),
        lease_owner=None,
        lease_until=None,
        failures=bindparam("failed"),
        error_code=bindparam("reason"),
    )
)
RELEASE = (
    scoped(due)
    .update()
    .where(*_held)
    .values(lease_owner=None, lease_until=None, failures=bindparam("failed"), error_code=bindparam("reason"))
)
GIVE_BACK = (
    scoped(due).update().where(*_held, due.c.lease_owner == bindparam("by")).values(lease_owner=None, lease_until=None)
)
SLEEP = RELEASE.values(due_at=bindparam("next_due"))


def _waiting(rows: "Select[Any]") -> "Select[Any]":
    """Return what waits, or is being worked on, in the order in which it is to be taken on."""
    mine = rows.where(due.c.due_at <= bindparam("now"), among(due.c.memory, "memories")).subquery()
    return (
        _select(mine)
        .where(mine.c.nth <= bindparam("most"))
        .order_by(mine.c.live.desc(), mine.c.nth, mine.c.due_at, mine.c.tenant, mine.c.memory, mine.c.subject)
        .limit(bindparam("limit"))
    )


_RANKED = (
    due.c.tenant,
    due.c.memory,
    due.c.subject,
    due.c.bucket,
    due.c.live,
    due.c.due_at,
    due.c.lease_owner,
    due.c.lease_until,
    func.row_number()
    .over(partition_by=due.c.tenant, order_by=(due.c.live.desc(), due.c.due_at, due.c.memory, due.c.subject))
    .label("nth"),
)
WAITING = unscoped(_waiting(_select(*_RANKED)), reason="a worker takes on what is due, whoever's it is")
WAITING_HERE = _waiting(scoped(due).select(*_RANKED))
"""The same for one tenant."""
