"""Tables of the tree, and all of its SQL.

A node lies under the thread that owns its last entry, so a fork reads its parent's nodes. Nodes can be dropped and made
again; a view cannot, since it depends on when it was read, but it holds no text: only which nodes it shows. Counts of
what was opened are records too.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, SmallInteger, String, Table, Text, bindparam, func

from everlog.log.rows import POSITION
from everlog.memory.tree.nodes import INDEX_BITS, pack, stop_of
from everlog.store.rows import ID, KEY, TENANT
from everlog.store.sealed import Share
from everlog.store.shapes import COUNT, FLAG, SIZE, TIME
from everlog.store.statements import among, metadata, scoped


def last_entry(nid: int) -> int:
    """Return the last entry that a node covers."""
    return stop_of(nid) - 1


def covering(i: int) -> list[int]:
    """Return the keys of every node that an entry can be under."""
    return [pack(level, i >> level) for level in range(INDEX_BITS + 1)]


NODE = {"holds": range(pack(INDEX_BITS + 1, 0))}
"""Keys of nodes."""

MEND = "`everlog rebuild` makes the lines of its thread again"

node = Table(
    "node",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("nid", BigInteger, primary_key=True, autoincrement=False, info=NODE),
    Column("size", Integer, nullable=False, info=COUNT),
    Column("prompt", String(64)),
    Column("model", KEY),
    Column("inputs", LargeBinary(16), nullable=False),
    Column("fallback", SmallInteger, nullable=False, info=FLAG),
    Column("body", LargeBinary, nullable=False, info={"sealed": True}),
    info={"erase": "thread", "share": Share(column="nid", last=last_entry), "covers": covering, "mend": MEND},
)
"""A line. `size` is its bytes as shown; `model` made it, from `inputs`, or it is its own source if NULL."""

view = Table(
    "saved_view",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("budget", BigInteger, primary_key=True, autoincrement=False, info=SIZE),
    Column("version", Integer, nullable=False, info=COUNT),
    Column("owed", SmallInteger, nullable=False, info=FLAG),
    Column("runs", Text, nullable=False),
    info={"erase": "thread"},
)
"""A saved view: [[level, how many in a row], …] from entry 0 on."""

attempt = Table(
    "try",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("nid", BigInteger, primary_key=True, autoincrement=False, info=NODE),
    Column("inputs", LargeBinary(16), nullable=False),
    Column("body", LargeBinary, nullable=False, info={"sealed": True}),
    info={"erase": "thread", "covers": covering, "mend": MEND},
)
"""A model's answers so far for a node that is not built yet, none of which could be kept; gone once it is."""

dig = Table(
    "dig",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("nid", BigInteger, primary_key=True, autoincrement=False, info=NODE),
    Column("count", Integer, nullable=False, info=COUNT),
    Column("last_at", BigInteger, nullable=False, info=TIME),
    info={"erase": "thread"},
)
"""How often agents opened a line of a thread, and when last; under the thread in which they did."""

zoom_event = Table(
    "zoom_event",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("id", ID, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False, info=COUNT),
    Column("leaf", BigInteger, info=POSITION),
    Column("steps", Integer, info=COUNT),
    Column("turn", Integer, info=COUNT),
    Column("at", BigInteger, nullable=False, info=TIME),
    info={"erase": "thread"},
)
"""What the digs of a turn reached: rows 1, 2 … are digs; row 0 says that all of it is counted."""

TABLES = (node, view, attempt, dig, zoom_event)

_mine = (among(node.c.thread, "owners"), among(node.c.nid, "nids"))

NODES = scoped(node).select(node.c.thread, node.c.nid, node.c.size, node.c.body).where(*_mine)
HOW_MADE = (
    scoped(node)
    .select(node.c.prompt, node.c.model, node.c.inputs, node.c.fallback)
    .where(node.c.thread == bindparam("thread"), among(node.c.nid, "nids"))
)
NIDS = (
    scoped(node)
    .select(node.c.nid)
    .where(node.c.thread == bindparam("thread"), node.c.nid > bindparam("after"))
    .order_by(node.c.nid)
    .limit(bindparam("limit"))
)
BUILT = scoped(node).select(node.c.thread, node.c.nid).where(*_mine)
PUT_NODE = scoped(node).insert(ignore=True)
MADE = (
    scoped(node)
    .select(node.c.prompt, node.c.model, node.c.fallback, func.count())
    .where(node.c.thread == bindparam("thread"))
    .group_by(node.c.prompt, node.c.model, node.c.fallback)
)

LAST_LEAF = (
    scoped(node)
    .select(node.c.nid)
    .where(node.c.thread == bindparam("thread"), node.c.nid < bindparam("stop"))
    .order_by(node.c.nid.desc())
    .limit(1)
)
DROP_NODES = (
    scoped(node)
    .delete()
    .where(node.c.thread == bindparam("thread"), node.c.nid >= bindparam("first"), node.c.nid < bindparam("stop"))
)

TRIED = (
    scoped(attempt)
    .select(attempt.c.thread, attempt.c.nid, attempt.c.inputs, attempt.c.body)
    .where(among(attempt.c.thread, "owners"), among(attempt.c.nid, "nids"))
)
TRIES = scoped(attempt).select(attempt.c.nid, attempt.c.body).where(attempt.c.thread == bindparam("thread"))
PUT_TRIED = scoped(attempt).upsert(replace=["inputs", "body"])
DROP_TRIED = scoped(attempt).delete().where(attempt.c.thread == bindparam("thread"), among(attempt.c.nid, "nids"))
_of_budget = (view.c.thread == bindparam("thread"), view.c.budget == bindparam("budget"))

VIEW = scoped(view).select(view.c.version, view.c.owed, view.c.runs).where(*_of_budget)
PUT_VIEW = scoped(view).insert(ignore=True)
SET_VIEW = (
    scoped(view)
    .update()
    .where(
        view.c.thread == bindparam("thread"),
        view.c.budget == bindparam("of_budget"),
        view.c.version == bindparam("seen"),
    )
    .values(version=bindparam("new_version"), owed=bindparam("new_owed"), runs=bindparam("new_runs"))
)

PUT_EVENT = scoped(zoom_event).insert(ignore=True)
EVENTS = (
    scoped(zoom_event)
    .select(zoom_event.c.leaf, zoom_event.c.steps, zoom_event.c.turn, zoom_event.c.at)
    .where(zoom_event.c.thread == bindparam("thread"), zoom_event.c.n > 0)
    .order_by(zoom_event.c.id.desc(), zoom_event.c.n.desc())
    .limit(bindparam("limit"))
)
PUT_DIG = scoped(dig).insert(ignore=True)
DUG = (
    scoped(dig)
    .update()
    .where(dig.c.thread == bindparam("of_thread"), dig.c.nid == bindparam("of_nid"))
    .values(count=dig.c.count + bindparam("more"), last_at=bindparam("now"))
)
HOT = (
    scoped(dig)
    .select(dig.c.nid, dig.c.count, dig.c.last_at)
    .where(dig.c.thread == bindparam("thread"))
    .order_by(dig.c.count.desc(), dig.c.last_at.desc(), dig.c.nid)
    .limit(bindparam("limit"))
)
