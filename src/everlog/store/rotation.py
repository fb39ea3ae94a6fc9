"""Turning encryption on for a store that has text already, and giving every owner a fresh key.

Both are long, so both are many short units that can be killed at any time and go on where they were: what is left to
do is read off the rows. Meanwhile everything stays readable, since each value names the key it is sealed with.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from sqlalchemy import bindparam, update

from everlog.errors import Mistake
from everlog.store import rows, sealed
from everlog.store.keys import version_of
from everlog.store.sqlite import SQLiteEngine
from everlog.store.statements import unscoped
from everlog.store.store import Store
from everlog.store.unit import Unit
from everlog.store.vault import TENANT_OWNER

_SET_STATE = unscoped(
    update(rows.store_state).where(rows.store_state.c.name == "encryption").values(value=bindparam("new_value")),
    reason="whether the database is encrypted is a fact about the whole of it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long operation has come."""

    tenant: str
    owners: int
    """Threads done so far."""
    of: int
    """Threads in all."""
    changed: int
    """Rows sealed anew so far."""


def encrypt(store: Store) -> Iterator[Progress]:
    """Seal everything a plain database holds, then leave no plain copy in its file.

    Args:
        store: opened with keys, `encrypting=True`.

    Raises:
        Mistake: the store was opened without keys.
    """
    if store.vault.provider is None:
        raise Mistake("a master key is needed to encrypt; set EVERLOG_MASTER_KEY or name a key file")
    _set_state(store, "on")
    for tenant in store.tenants():
        store.write(tenant, _seal_secret, name="encrypt.tenant")
        yield from _reseal_all(store, tenant, _first)
    _set_state(store, "complete")
    clean(store)


def rotate(store: Store) -> Iterator[Progress]:
    """Give every tenant and thread a new key, seal all rows under it, and drop the old keys.

    Tenants' keys are wrapped by the first master key given, so a change of master key is: give both, new one first,
    rotate, then give the new one alone.

    Raises:
        Mistake: the database is not encrypted.
    """
    if store.vault.provider is None:
        raise Mistake("this database is not encrypted; `everlog encrypt` turns it on")
    for tenant in store.tenants():
        tenant_version = store.write(tenant, partial(_renew, owner=TENANT_OWNER), name="rotate.tenant_key")
        store.write(tenant, _seal_secret, name="rotate.secret")
        yield from _reseal_all(store, tenant, _renew)
        store.write(tenant, partial(_retire, owner=TENANT_OWNER, version=tenant_version), name="rotate.drop_keys")
    clean(store)


def clean(store: Store) -> None:
    """On SQLite, rewrite the file so that no page of it, and no log beside it, holds what rows no longer do."""
    if isinstance(store.engine, SQLiteEngine):

        def act(raw: sqlite3.Connection) -> None:
            raw.execute("VACUUM")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        store.engine.maintain(act)


def rotate_owner(store: Store, tenant: str, owner: str) -> int:
    """Give one owner a new key, seal its rows under it, and destroy the old one; return how many rows changed."""
    return _reseal_owner(store, tenant, owner, _renew)


def _reseal_all(store: Store, tenant: str, renew: Callable[[Unit, str], int]) -> Iterator[Progress]:
    owners = store.read(tenant, sealed.owners)
    changed = 0
    for done, owner in enumerate(owners, start=1):
        changed += _reseal_owner(store, tenant, owner, renew)
        yield Progress(tenant=tenant, owners=done, of=len(owners), changed=changed)


def _reseal_owner(store: Store, tenant: str, owner: str, renew: Callable[[Unit, str], int]) -> int:
    version = store.write(tenant, lambda unit: renew(unit, owner), name="rotate.key")
    changed = 0
    for table in sealed.sealed_tables():
        after: object = None
        while True:
            batch = partial(sealed.reseal, table=table, owner=owner, after=after, version=version)
            step = store.write(tenant, batch, name="rotate.rows")
            if step is None:
                break
            after = step[0]
            changed += step[1]
    store.write(tenant, partial(_retire, owner=owner, version=version), name="rotate.drop_keys")
    return changed


def _first(unit: Unit, owner: str) -> int:
    """Make sure the owner has a key, and return its version."""
    key = unit.sealing_key(owner)
    return 0 if key is None else key.version


def _renew(unit: Unit, owner: str) -> int:
    """Make the owner's next key; after a crash in an earlier rotation, the one it made is used up first."""
    found = unit.rows(rows.KEYS_TO_CHANGE, owner=owner)
    newest = found[0][0] if found else 0
    return newest if len(found) > 1 else unit.renew_key(owner, newest + 1).version


def _retire(unit: Unit, owner: str, version: int) -> None:
    unit.rows(rows.KEYS_TO_CHANGE, owner=owner)
    unit.run(rows.DROP_OLD_KEYS, {"owner": owner, "keep": version})


def _seal_secret(unit: Unit) -> None:
    found = unit.row(rows.GET_TENANT)
    key = unit.sealing_key(TENANT_OWNER)
    if found is not None and key is not None and version_of(bytes(found[1])) < key.version:
        sealed_secret = unit.seal(rows.tenant.c.secret, (TENANT_OWNER,), unit.secret())
        unit.run(rows.SET_SECRET, {"secret": sealed_secret})


def _set_state(store: Store, value: str) -> None:
    tenants = store.tenants() or ["-"]
    store.write(tenants[0], lambda unit: unit.run(_SET_STATE, {"new_value": value}), name="encrypt.state")
