"""The table of rolling summaries, and all of its SQL.

A summary lies under the thread that owns the last entry it stands for, so a fork reads its parent's.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, SmallInteger, String, Table, bindparam

from everlog.log.rows import COUNTED
from everlog.store.rows import ID, KEY, TENANT
from everlog.store.sealed import Share
from everlog.store.shapes import COUNT, FLAG, SIZE
from everlog.store.statements import metadata, scoped


def last_entry(upto: int) -> int:
    """Return the last entry that a summary stands for."""
    return upto - 1


MEND = "`thread.rolling.rebuild()` drops the summaries of its thread, and they are made again"

summary = Table(
    "summary",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("upto", BigInteger, primary_key=True, autoincrement=False, info=COUNTED),
    Column("prev", BigInteger, nullable=False, info=COUNTED),
    Column("covered", LargeBinary(16), nullable=False),
    Column("said", BigInteger, nullable=False, info=SIZE),
    Column("size", Integer, nullable=False, info=COUNT),
    Column("prompt", String(64), nullable=False),
    Column("model", KEY, nullable=False),
    Column("inputs", LargeBinary(16), nullable=False),
    Column("fallback", SmallInteger, nullable=False, info=FLAG),
    Column("body", LargeBinary, nullable=False, info={"sealed": True}),
    info={"erase": "thread", "share": Share(column="upto", last=last_entry), "since": True, "mend": MEND},
)
"""A summary of entries `[0, upto)`, made of the one over `[0, prev)` and what came since. `covered` is a hash over what it
stands for, `said` the characters of that, `size` its own."""

TABLES = (summary,)

_of_thread = summary.c.thread == bindparam("thread")
_ROW = tuple(summary.c)[1:]

BELOW = (
    scoped(summary)
    .select(*_ROW)
    .where(_of_thread, summary.c.upto > bindparam("above"), summary.c.upto <= bindparam("limit"))
    .order_by(summary.c.upto.desc())
    .limit(bindparam("count"))
)
MADE = scoped(summary).select(summary.c.prompt, summary.c.model, summary.c.fallback).where(_of_thread)
OTHERS = (
    scoped(summary)
    .delete()
    .where(_of_thread, summary.c.upto == bindparam("at"), summary.c.covered != bindparam("hash"))
)
PUT = scoped(summary).insert(ignore=True)
