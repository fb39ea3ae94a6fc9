"""Tables of keys and of what was used under each, and all of their SQL.

Names, users and projects of keys are opaque ids and stand as they are. Of the key itself only a hash is kept.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, SmallInteger, String, Table, bindparam, func

from everlog.store.rows import ID, KEY, TENANT
from everlog.store.shapes import COUNT, FLAG, SIZE, TIME
from everlog.store.statements import metadata, scoped

ROLES = ("chat", "read", "admin")

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
    Column("requests_per_minute", Integer, info=COUNT),
    Column("tokens_per_day", BigInteger, info=SIZE),
    Column("nano_usd_per_month", BigInteger, info=SIZE),
    Column("created_at", BigInteger, nullable=False, info=TIME),
    Column("expires_at", BigInteger, info=TIME),
    Column("revoked_at", BigInteger, info=TIME),
    info={"erase": "tenant"},
)
"""A caller's key: who presents it, and what for. A NULL limit is none."""

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

TABLES = (api_key, key_use)

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
