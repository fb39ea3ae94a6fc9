"""Tables of compiled prompts, and all of their SQL: epochs, what is held for them, and what each request was made of.

They say which parts a prompt had, and hold no text but `held.body`. Rows belong to the thread whose requests they are;
a fork has its own.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, SmallInteger, String, Table, Text, bindparam, func

from everlog.context.values import HELD_KINDS, ITEM_KINDS, REASONS, STATUSES
from everlog.log.rows import COUNTED, POSITION
from everlog.store.rows import ID, KEY, TENANT
from everlog.store.shapes import COUNT, SIZE, TIME
from everlog.store.statements import metadata, scoped

RATE = {"holds": range(1, 1 << 31)}

epoch = Table(
    "epoch",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("consumer", KEY, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False, info=COUNT),
    Column("reason", SmallInteger, nullable=False, info={"holds": range(len(REASONS))}),
    Column("opened_at", BigInteger, nullable=False, info=TIME),
    Column("turn", Integer, nullable=False, info=COUNT),
    Column("looked", Integer, nullable=False, info=COUNT),
    Column("budget", BigInteger, nullable=False, info=SIZE),
    Column("rate_bytes", Integer, nullable=False, info=RATE),
    Column("rate_tokens", Integer, nullable=False, info=RATE),
    Column("renderer", String(64), nullable=False),
    Column("past", Text, nullable=False),
    Column("cut", BigInteger, nullable=False, info=COUNTED),
    Column("repeat", BigInteger, info=POSITION),
    Column("whole", BigInteger, nullable=False, info=COUNTED),
    Column("head_hash", LargeBinary(16), nullable=False),
    Column("tools_hash", LargeBinary(16), nullable=False),
    Column("past_hash", LargeBinary(16), nullable=False),
    Column("prefix_hash", LargeBinary(16), nullable=False),
    Column("prefix", Integer, nullable=False, info=COUNT),
    Column("sent", BigInteger, nullable=False, info=COUNTED),
    Column("seen_bytes", BigInteger, nullable=False, info=SIZE),
    Column("seen_tokens", BigInteger, nullable=False, info=SIZE),
    Column("last_at", BigInteger, nullable=False, info=TIME),
    info={"erase": "thread"},
)
"""A stretch of requests whose prompts only grow. `prefix` is how many pieces the last one had, `sent` the entries it knew;
`looked` the turn at which it was last asked whether placeholders are built; `seen_*` what providers counted."""

held = Table(
    "held",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("name", KEY, primary_key=True),
    Column("consumer", KEY, nullable=False),
    Column("epoch", Integer, nullable=False, info=COUNT),
    Column("position", BigInteger, nullable=False, info=COUNTED),
    Column("n", Integer, nullable=False, info=COUNT),
    Column("kind", SmallInteger, nullable=False, info={"holds": range(len(HELD_KINDS))}),
    Column("covers", Integer, nullable=False, info=COUNT),
    Column("body", LargeBinary, nullable=False, info={"sealed": True}),
    info={"erase": "thread", "derived": True},
)
"""What was sent before entry `position` and is no entry, or stands in the place of `covers` entries from there."""

request = Table(
    "request",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("id", ID, primary_key=True),
    Column("turn", Integer, nullable=False, info=COUNT),
    Column("at", BigInteger, nullable=False, info=TIME),
    Column("consumer", KEY, nullable=False),
    Column("epoch", Integer, nullable=False, info=COUNT),
    Column("model", KEY),
    Column("tokens_in", BigInteger, info=SIZE),
    Column("tokens_out", BigInteger, info=SIZE),
    Column("tokens_read", BigInteger, info=SIZE),
    Column("tokens_written", BigInteger, info=SIZE),
    Column("status", SmallInteger, nullable=False, info={"holds": range(len(STATUSES))}),
    info={"erase": "thread"},
)
"""One row for each request sent to a model: counts, no text."""

request_item = Table(
    "request_item",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("thread", ID, primary_key=True),
    Column("request", ID, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False, info=COUNT),
    Column("kind", SmallInteger, nullable=False, info={"holds": range(len(ITEM_KINDS))}),
    Column("ref", KEY, nullable=False),
    Column("tokens", Integer, nullable=False, info=COUNT),
    Column("reason", SmallInteger, nullable=False, info=COUNT),
    info={"erase": "thread"},
)
"""What a request was made of, and what was left out and why: references, no text."""

TABLES = (epoch, held, request, request_item)

_of_consumer = (epoch.c.thread == bindparam("thread"), epoch.c.consumer == bindparam("consumer"))
_current = (
    epoch.c.thread == bindparam("of_thread"),
    epoch.c.consumer == bindparam("of_consumer"),
    epoch.c.n == bindparam("of_n"),
)

NEWEST = scoped(epoch).select().where(*_of_consumer).order_by(epoch.c.n.desc()).limit(1)
CONSUMERS = scoped(epoch).select(epoch.c.consumer).where(epoch.c.thread == bindparam("thread")).distinct()
EPOCH_AT = scoped(epoch).select().where(*_of_consumer, epoch.c.n == bindparam("n"))
EPOCHS = scoped(epoch).select().where(*_of_consumer).order_by(epoch.c.n)
PUT_EPOCH = scoped(epoch).insert(ignore=True)
SENT = (
    scoped(epoch)
    .update()
    .where(*_current, epoch.c.prefix == bindparam("seen_prefix"), epoch.c.prefix_hash == bindparam("seen_hash"))
    .values(
        prefix=bindparam("new_prefix"),
        prefix_hash=bindparam("new_hash"),
        sent=bindparam("new_sent"),
        looked=bindparam("new_looked"),
        last_at=bindparam("now"),
    )
)
COUNTED_TOKENS = (
    scoped(epoch)
    .update()
    .where(*_current)
    .values(
        seen_bytes=epoch.c.seen_bytes + bindparam("more_bytes"),
        seen_tokens=epoch.c.seen_tokens + bindparam("more_tokens"),
    )
)

_of_epoch = (
    held.c.thread == bindparam("thread"),
    held.c.consumer == bindparam("consumer"),
    held.c.epoch == bindparam("epoch"),
)
HELD = (
    scoped(held)
    .select(held.c.name, held.c.position, held.c.n, held.c.kind, held.c.covers, held.c.body)
    .where(*_of_epoch)
    .order_by(held.c.position, held.c.n)
)
HELD_AT = (
    scoped(held)
    .select(held.c.position, func.max(held.c.n))
    .where(held.c.thread == bindparam("thread"), held.c.position >= bindparam("start"))
    .group_by(held.c.position)
)
PUT_HELD = scoped(held).insert(ignore=True)
DROP_HELD = (
    scoped(held)
    .delete()
    .where(
        held.c.thread == bindparam("thread"),
        held.c.consumer == bindparam("of_consumer"),
        held.c.epoch < bindparam("before"),
    )
)

PUT_REQUEST = scoped(request).insert(ignore=True)
ANSWERED = (
    scoped(request)
    .update()
    .where(request.c.thread == bindparam("of_thread"), request.c.id == bindparam("of_id"))
    .values(
        model=bindparam("new_model"),
        tokens_in=bindparam("new_in"),
        tokens_out=bindparam("new_out"),
        tokens_read=bindparam("new_read"),
        tokens_written=bindparam("new_written"),
        status=bindparam("new_status"),
    )
)
REQUESTS = (
    scoped(request)
    .select()
    .where(request.c.thread == bindparam("thread"))
    .order_by(request.c.id.desc())
    .limit(bindparam("limit"))
)
OF_TURN = (
    scoped(request)
    .select()
    .where(request.c.thread == bindparam("thread"), request.c.turn == bindparam("turn"))
    .order_by(request.c.id.desc())
    .limit(1)
)
FIRST_SINCE = (
    scoped(request)
    .select(request.c.id)
    .where(
        request.c.thread == bindparam("thread"),
        request.c.consumer == bindparam("consumer"),
        request.c.epoch >= bindparam("epoch"),
    )
    .order_by(request.c.id)
    .limit(1)
)
DROP_REQUESTS = (
    scoped(request).delete().where(request.c.thread == bindparam("of_thread"), request.c.id < bindparam("before"))
)
REQUEST_OF = (
    scoped(request)
    .select(request.c.id)
    .where(request.c.thread == bindparam("thread"), request.c.consumer == bindparam("consumer"))
    .limit(1)
)
PUT_ITEMS = scoped(request_item).insert(ignore=True)
ITEMS = (
    scoped(request_item)
    .select(request_item.c.n, request_item.c.kind, request_item.c.ref, request_item.c.tokens, request_item.c.reason)
    .where(request_item.c.thread == bindparam("thread"), request_item.c.request == bindparam("request"))
    .order_by(request_item.c.n)
)
DROP_ITEMS = (
    scoped(request_item)
    .delete()
    .where(request_item.c.thread == bindparam("of_thread"), request_item.c.request < bindparam("before"))
)
