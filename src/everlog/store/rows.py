"""Tables of the store itself: tenants, wrapped keys, receipts of erasure, and one row of state for the whole database.

Column `info`: `sealed` marks a value sealed under the data key of the row's owner (its first key column after the
tenant), `holds` says what there can be (`shapes.py`). Table `info["erase"]` says how erasure finds the rows: see `erase.py`;
`info["everyone"]` marks the few tables that a statement named in `unscoped` may read across tenants.
"""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, String, Table, Text, bindparam, select, update

from everlog.store.shapes import COUNT, TIME
from everlog.store.statements import metadata, scoped, unscoped

TENANT = String(64)
ID = String(32)
KEY = String(200)

tenant = Table(
    "tenant",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("created_at", BigInteger, nullable=False, info=TIME),
    Column("generation", Integer, nullable=False, info={"holds": range(-1, 1 << 31)}),
    Column("secret", LargeBinary, nullable=False, info={"sealed": True}),
    info={"erase": "tenant", "everyone": True},
)
"""A tenant, and the secret that keys its fingerprints and hashes (sealed under its own key)."""

wrapped_key = Table(
    "wrapped_key",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("owner", ID, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False, info=COUNT),
    Column("wrapper", String(32), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False, info=TIME),
    info={"erase": "owner", "everyone": True},
)
"""Keys at rest: owner '' is the tenant's key, wrapped by the master; the others are data keys, wrapped by that one."""

receipt = Table(
    "receipt",
    metadata,
    Column("tenant", TENANT, primary_key=True),
    Column("id", ID, primary_key=True),
    Column("target", String(8), nullable=False, info={"holds": frozenset({"thread", "user", "tenant"})}),
    Column("state", String(8), nullable=False, info={"holds": frozenset({"rows", "files", "pending", "done"})}),
    Column("at", BigInteger, nullable=False, info=TIME),
    Column("wrapper", String(32), nullable=False),
    Column("report", Text, nullable=False),
    info={"erase": "keep", "everyone": True},
)
"""What an erasure did (counts and states, no names, no text); kept as its proof."""

store_state = Table(
    "store_state",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", Text, nullable=False),
    info={"erase": "keep"},
)
"""Facts about the whole database: whether it is encrypted, and how far that has come (`state.py`)."""

GET_TENANT = scoped(tenant).select(tenant.c.generation, tenant.c.secret)
TENANT_TO_ENTER = GET_TENANT.with_for_update(read=True)
TENANT_TO_ERASE = GET_TENANT.with_for_update()
PUT_TENANT = scoped(tenant).insert()
SET_SECRET = scoped(tenant).update().values(secret=bindparam("secret"))
CLOSED = -1
"""The generation of a tenant that is being erased: nothing new can be made in it."""
CLOSE_TENANT = scoped(tenant).update().values(generation=CLOSED)
TENANTS = unscoped(
    select(tenant.c.tenant).order_by(tenant.c.tenant), reason="rotation, retention and upgrades visit every tenant"
)

KEYS_OF = (
    scoped(wrapped_key)
    .select(wrapped_key.c.version, wrapped_key.c.wrapper, wrapped_key.c.wrapped)
    .where(wrapped_key.c.owner == bindparam("owner"))
    .order_by(wrapped_key.c.version.desc())
)
KEYS_TO_WRITE = KEYS_OF.with_for_update(read=True)
KEYS_TO_CHANGE = KEYS_OF.with_for_update()
PUT_KEY = scoped(wrapped_key).insert()
KEY_OWNERS = scoped(wrapped_key).select(wrapped_key.c.owner).where(wrapped_key.c.owner != "").distinct()
OWNERS_AND_WRAPPERS = (
    scoped(wrapped_key).select(wrapped_key.c.owner, wrapped_key.c.wrapper).where(wrapped_key.c.owner != "").distinct()
)
DROP_OLD_KEYS = (
    scoped(wrapped_key)
    .delete()
    .where(wrapped_key.c.owner == bindparam("owner"), wrapped_key.c.version < bindparam("keep"))
)
DROP_KEYS = scoped(wrapped_key).delete().where(wrapped_key.c.owner == bindparam("owner"))
WRAPPERS = unscoped(
    select(wrapped_key.c.wrapper).where(wrapped_key.c.owner == "").distinct(),
    reason="which master keys are still needed is a question about the whole database",
)

PUT_RECEIPT = scoped(receipt).upsert(replace=["state", "report"])
RECEIPTS = scoped(receipt).select().order_by(receipt.c.id)
TENANTS_WITH_RECEIPTS = unscoped(
    select(receipt.c.tenant).distinct(),
    reason="erasures of tenants that are gone are settled like those of others",
)
GET_RECEIPT = scoped(receipt).select().where(receipt.c.id == bindparam("id"))

SET_STATE = unscoped(
    update(store_state)
    .where(store_state.c.name == "encryption", store_state.c.value == bindparam("was"))
    .values(value=bindparam("new_value")),
    reason="whether the database is encrypted is a fact about the whole of it",
)
STATE = unscoped(select(store_state.c.name, store_state.c.value), reason="one row for the whole database")
