"""Tables of keys, of what was used under each, and of what each request was, and all of their SQL.

Names, users and projects of keys are opaque ids and stand as they are. Of the key itself only a hash is kept.
"""

from itertools import combinations
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    Select,
    SmallInteger,
    String,
    Table,
    bindparam,
    func,
)

from everlog.store.rows import ID, KEY, TENANT
from everlog.store.shapes import COUNT, FLAG, SIZE, TIME
from everlog.store.statements import among, metadata, scoped

ROLES = ("chat", "read", "admin")
MODES = ("off", "record", "rolling", "tree")
FILTERS = ("key", "user", "session", "project")
"""By what requests are looked for."""

api_key = Table(
    "api_key",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("id", ID, primary_key=True),
    Column("hash", LargeBinary(32), nullable=False),
    Column("role", String(8), nullable=False, info={"holds": frozenset(ROLES)}),
    Column("name", KEY),
    Column("user", KEY),
    Column("project", KEY),
    Column("one_person", SmallInteger, nullable=False, info=FLAG),
    Column("mode", String(8), info={"holds": frozenset(MODES)}),
    Column("budget_tokens", Integer, info=COUNT),
    Column("requests_per_minute", Integer, info=COUNT),
    Column("tokens_per_day", BigInteger, info=SIZE),
    Column("nano_usd_per_month", BigInteger, info=SIZE),
    Column("created_at", BigInteger, nullable=False, info=TIME),
    Column("expires_at", BigInteger, info=TIME),
    Column("revoked_at", BigInteger, info=TIME),
    info={"erase": "tenant"},
)
"""A caller's key: who presents it, and what for. A NULL limit is none, a NULL mode or budget that of the server."""

key_use = Table(
    "key_use",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("id", ID, primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False, info=COUNT),
    Column("requests", BigInteger, nullable=False, info=SIZE),
    Column("unpriced", BigInteger, nullable=False, info=SIZE),
    Column("tokens", BigInteger, nullable=False, info=SIZE),
    Column("nano_usd", BigInteger, nullable=False, info=SIZE),
    info={"erase": "tenant"},
)
"""What was used under a key on a day, counted from 1970 in UTC."""

exchange = Table(
    "exchange",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("id", ID, primary_key=True),
    Column("at", BigInteger, nullable=False, info=TIME),
    Column("key", ID, nullable=False),
    Column("user", KEY, nullable=False),
    Column("session", KEY),
    Column("project", KEY),
    Column("protocol", String(32), nullable=False),
    Column("upstream", KEY),
    Column("response", KEY),
    Column("previous", KEY),
    Column("model", KEY),
    Column("status", SmallInteger, info={"holds": range(1000)}),
    Column("decision", String(16), nullable=False),
    Column("thread", ID, nullable=False),
    Column("first", BigInteger, info=SIZE),
    Column("stop", BigInteger, info=SIZE),
    Column("ms", BigInteger, nullable=False, info=SIZE),
    Column("tokens_in", BigInteger, info=SIZE),
    Column("tokens_out", BigInteger, info=SIZE),
    Column("tokens_read", BigInteger, info=SIZE),
    Column("tokens_written", BigInteger, info=SIZE),
    Column("nano_usd", BigInteger, info=SIZE),
    Index(None, "tenant", "thread"),
    Index(None, "tenant", "key", "id"),
    Index(None, "tenant", "user", "id"),
    Index(None, "tenant", "session", "id"),
    Index(None, "tenant", "project", "id"),
    Index(None, "tenant", "response"),
    info={"erase": "thread"},
)
"""What a request to a model was: who asked, what became of it, what it took. No text. Key, user and thread are '' for none."""

TABLES = (api_key, key_use, exchange)

PUT_KEY = scoped(api_key).insert()
KEYS = scoped(api_key).select().order_by(api_key.c.created_at, api_key.c.id)
KEY_OF = scoped(api_key).select().where(api_key.c.id == bindparam("id"))
REVOKE = (
    scoped(api_key)
    .update()
    .where(api_key.c.id == bindparam("of_id"), api_key.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)
DROP_KEYS_OF_USER = scoped(api_key).delete().where(api_key.c.user == bindparam("of_user"))

PUT_USE = scoped(key_use).insert(ignore=True)
ADD_USE = (
    scoped(key_use)
    .update()
    .where(key_use.c.id == bindparam("of_id"), key_use.c.day == bindparam("of_day"))
    .values(
        requests=key_use.c.requests + bindparam("more_requests"),
        unpriced=key_use.c.unpriced + bindparam("more_unpriced"),
        tokens=key_use.c.tokens + bindparam("more_tokens"),
        nano_usd=key_use.c.nano_usd + bindparam("more_nano_usd"),
    )
)
USED = (
    scoped(key_use)
    .select(
        func.sum(key_use.c.requests),
        func.sum(key_use.c.unpriced),
        func.sum(key_use.c.tokens),
        func.sum(key_use.c.nano_usd),
    )
    .where(key_use.c.id == bindparam("id"), key_use.c.day >= bindparam("since"))
)

PUT_REQUEST = scoped(exchange).insert(ignore=True)
REQUEST_OF = scoped(exchange).select().where(exchange.c.id == bindparam("id"))


def _requests(*filters: str) -> Select[Any]:
    """Return the query for requests of which these columns are given: each has an index of its own."""
    return (
        scoped(exchange)
        .select()
        .where(
            exchange.c.id < bindparam("before"),
            *(exchange.c[name] == bindparam(f"of_{name}") for name in filters),
        )
        .order_by(exchange.c.id.desc())
        .limit(bindparam("limit"))
    )


REQUESTS = {some: _requests(*some) for n in range(len(FILTERS) + 1) for some in combinations(FILTERS, n)}
"""By the columns that are given, in the order of `FILTERS`."""

BY_MODEL = (
    scoped(exchange)
    .select(
        exchange.c.model,
        func.count(),
        func.sum(exchange.c.tokens_in),
        func.sum(exchange.c.tokens_out),
        func.sum(exchange.c.tokens_read),
        func.sum(exchange.c.tokens_written),
        func.sum(exchange.c.nano_usd),
    )
    .where(exchange.c.model.is_not(None))
    .group_by(exchange.c.model)
    .order_by(exchange.c.model)
)
"""What the requests that are kept took, by the model that was asked for."""

REQUEST_OF_ANSWER = (
    scoped(exchange)
    .select()
    .where(exchange.c.response == bindparam("response"), exchange.c.key == bindparam("of_key"))
    .order_by(exchange.c.id.desc())
    .limit(1)
)
FIRST_TOO_MANY = (
    scoped(exchange).select(exchange.c.id).order_by(exchange.c.id.desc()).limit(1).offset(bindparam("most"))
)
OLDEST = (
    scoped(exchange)
    .select(exchange.c.id)
    .where(exchange.c.id <= bindparam("upto"))
    .order_by(exchange.c.id)
    .limit(bindparam("limit"))
)
DROP_REQUESTS = scoped(exchange).delete().where(among(exchange.c.id, "ids"))
DROP_REQUESTS_OF_USER = scoped(exchange).delete().where(exchange.c.user == bindparam("of_user"))
