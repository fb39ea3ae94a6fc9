"""The pump's table, and all of its SQL.

One row a subject: *look here*, never *do this*. What is pending follows from the log and what is derived from it, so
the row is a hint that can be made again.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, SmallInteger, String, Table, bindparam

from everlog.store.rows import ID, KEY, TENANT
from everlog.store.statements import metadata, scoped

due = Table(
    "due",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("memory", String(16), primary_key=True),
    Column("subject", KEY, primary_key=True),
    Column("thread", ID),
    Column("bucket", SmallInteger, nullable=False),
    Column("live", SmallInteger, nullable=False),
    Column("due_at", BigInteger),
    Column("upto", BigInteger, nullable=False),
    Column("lease_owner", ID),
    Column("lease_until", BigInteger),
    Column("fence", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("error_code", String(64)),
    Index(None, "tenant", "thread"),
    info={"erase": "thread"},
)
"""When to look at a subject (`due_at`; NULL: nothing to do), for whom (`live`, `upto`), and who is at it.

`fence` rises with each lease, so that one who lost it cannot write any more. `lease_owner` names the process. `thread` is the thread that the subject
hangs on, if it does. `bucket` spreads subjects over workers.
"""

TABLES = (due,)

_of_subject = (due.c.memory == bindparam("memory"), due.c.subject == bindparam("subject"))
_held = (
    due.c.memory == bindparam("of_memory"),
    due.c.subject == bindparam("of_subject"),
    due.c.fence == bindparam("held"),
)

MARK = scoped(due).upsert(replace=["live", "due_at", "upto"])
PUT_DUE = scoped(due).insert(ignore=True)
DUE = (
    scoped(due)
    .select(
        due.c.fence, due.c.due_at, due.c.upto, due.c.lease_owner, due.c.lease_until, due.c.failures, due.c.error_code
    )
    .where(*_of_subject)
)
CLAIM = (
    scoped(due)
    .update()
    .where(
        due.c.memory == bindparam("of_memory"),
        due.c.subject == bindparam("of_subject"),
        due.c.lease_until.is_(None) | (due.c.lease_until < bindparam("now")) | (due.c.lease_owner == bindparam("gone")),
    )
    .values(lease_owner=bindparam("by"), lease_until=bindparam("until"), fence=due.c.fence + 1)
)
RENEW = scoped(due).update().where(*_held).values(lease_until=bindparam("until"))
FINISH = (
    scoped(due)
    .update()
    .where(*_held)
    .values(due_at=bindparam("next_due"), lease_owner=None, lease_until=None, failures=0, error_code=None)
)
RELEASE = (
    scoped(due)
    .update()
    .where(*_held)
    .values(
        lease_owner=None, lease_until=None, failures=due.c.failures + bindparam("more"), error_code=bindparam("reason")
    )
)
SLEEP = RELEASE.values(due_at=bindparam("next_due"))
