"""The table of the tally, and all of its SQL."""

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, String, Table, and_, bindparam, func
from sqlalchemy.schema import CreateTable

from everlog.log import TurnState
from everlog.log.rows import thread, turn
from everlog.store.rows import ID, KEY, TENANT
from everlog.store.sealed import Share
from everlog.store.statements import DIALECTS, joined, metadata, scoped

tally = Table(
    "tally",
    MetaData(naming_convention=metadata.naming_convention),
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("user", KEY, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("model", KEY),
    Column("inputs", LargeBinary(16), nullable=False),
    Column("body", LargeBinary, nullable=False, info={"sealed": True}),
    info={"erase": "thread", "share": Share(column="first"), "covers": lambda position: [position]},
)
"""What was learned from a turn, which `first`, its first entry, names; gone with that entry."""

_same_turn = and_(joined(tally, turn), tally.c.thread == turn.c.thread, tally.c.first == turn.c.first)
_unlearned = (
    turn.c.user == bindparam("of_user"),
    turn.c.learn == 1,
    turn.c.state == int(TurnState.COMPLETE),
    tally.c.first.is_(None),
)

PENDING = (
    scoped(turn)
    .select(turn.c.thread, turn.c.n, turn.c.first, turn.c.at, thread.c.generation)
    .join(thread, and_(joined(turn, thread), turn.c.thread == thread.c.thread))
    .outerjoin(tally, _same_turn)
    .where(*_unlearned, thread.c.erased_at.is_(None))
    .order_by(turn.c.at, turn.c.thread, turn.c.n)
    .limit(bindparam("limit"))
)
WAITING = scoped(turn).select(func.count(), func.min(turn.c.at)).outerjoin(tally, _same_turn).where(*_unlearned)
PUT = scoped(tally).insert(ignore=True)
OF_USER = (
    scoped(tally)
    .select(tally.c.thread, tally.c.first, tally.c.outcome, tally.c.model, tally.c.inputs, tally.c.body)
    .where(tally.c.user == bindparam("of_user"))
    .order_by(tally.c.thread, tally.c.first)
)
DROP = scoped(tally).delete().where(tally.c.user == bindparam("of_user"))


def ddl(dialect: str) -> list[str]:
    """Return the statements that make the table; on PostgreSQL with its wall between tenants."""
    made = [str(CreateTable(tally).compile(dialect=DIALECTS[dialect]))]
    if dialect == "postgresql":
        made += [
            "ALTER TABLE tally ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE tally FORCE ROW LEVEL SECURITY",
            "CREATE POLICY tenant_only ON tally USING (tenant = current_setting('everlog.tenant', true))",
        ]
    return made
