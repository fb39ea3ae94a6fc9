"""Turning encryption on for a store that has text already, and giving every owner a fresh key.

Both are long, so both are many short units that can be killed at any time and go on where they were: what is left to
do is read off the rows. Meanwhile others read and write: each value names the key it is sealed with, who seals holds
the newest key until it commits, and a key is dropped only when nothing can be sealed under it any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from everlog.errors import Mistake, StoreUnavailable
from everlog.store import rows, sealed, state
from everlog.store.failpoints import hit
from everlog.store.keys import version_of
from everlog.store.postgres import PostgresEngine
from everlog.store.residue import rewrite
from everlog.store.sqlite import SQLiteEngine
from everlog.store.store import Store, check_keys
from everlog.store.unit import Unit
from everlog.store.vault import TENANT_OWNER, tenant_version

WAIT_S = 10.0
"""How long to wait, at the end, for others to let go of old pages."""


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
        store: opened with keys, `encrypting=True`. One that is encrypted already is left as it is.

    Raises:
        Mistake: the store was opened without keys.
        Damaged: what the database says of its encryption was changed, so that not everything in it is ours.
        StoreUnavailable: all is sealed, but old pages could not be removed while others read; do it again.
    """
    if store.vault.provider is None:
        raise Mistake("a master key is needed to encrypt; set EVERLOG_MASTER_KEY or name a key file")
    check_keys(store, store.vault.provider, encrypting=True)
    if _begin(store) == state.COMPLETE:
        return
    for tenant in store.tenants():
        store.write(tenant, _seal_secret, name="encrypt.secret")
        owners, changed = store.read(tenant, sealed.owners), 0
        for done, owner in enumerate(owners, start=1):
            changed += _reseal(store, tenant, owner, 0, name="encrypt.rows")
            yield Progress(tenant=tenant, owners=done, of=len(owners), changed=changed)
    _clean(store)
    while (was := store.state()) != state.COMPLETE:
        store.vault.believe(was)
        _set_state(store, was, state.COMPLETE)
    store.vault.believe(state.COMPLETE)


def rotate(store: Store) -> Iterator[Progress]:
    """Give every tenant and thread a new key, seal all rows under it, and drop the old keys.

    Tenants' keys are wrapped by the first master key given, so a change of master key is: give both, new one first,
    rotate, then give the new one alone.

    Raises:
        Mistake: the database is not encrypted, or not to its end: what has begun names the master key that began it.
        StoreUnavailable: all is done, but old pages could not be removed while others read.
    """
    if store.vault.provider is None or (said := store.encryption()) == state.OFF:
        raise Mistake("this database is not encrypted; `everlog encrypt` turns it on")
    if said == state.ON:
        raise Mistake("the encryption of this database is not finished; run `everlog encrypt`, then change keys")
    for tenant in store.tenants():
        version = store.write(tenant, partial(_renew, owner=TENANT_OWNER), name="rotate.tenant_key")
        store.write(tenant, _seal_secret, name="rotate.secret")
        owners = store.read(tenant, _owners)
        changed = done = 0
        while owners:
            for owner in owners:
                done += 1
                changed += rotate_owner(store, tenant, owner)
                yield Progress(tenant=tenant, owners=done, of=max(done, len(owners)), changed=changed)
            owners = store.write(tenant, partial(_under_old_tenant_key, version=version), name="rotate.left")
        store.write(tenant, partial(_retire, owner=TENANT_OWNER, version=version), name="rotate.drop_tenant_key")
    _clean(store)


def rotate_owner(store: Store, tenant: str, owner: str) -> int:
    """Give one owner a new key, seal its rows under it, and destroy the old one; return how many rows changed."""
    version = store.write(tenant, partial(_renew, owner=owner), name="rotate.key")
    if not version:
        return 0
    changed = _reseal(store, tenant, owner, version, name="rotate.rows")
    store.write(tenant, partial(_retire, owner=owner, version=version), name="rotate.drop_keys")
    return changed


def _reseal(store: Store, tenant: str, owner: str, version: int, *, name: str) -> int:
    """Seal under the newest key what is sealed under one before `version`, or is plain."""
    changed = 0
    for table in sealed.sealed_tables():
        after: object = None
        while True:
            batch = partial(sealed.reseal, table=table, owner=owner, after=after, version=version)
            step = store.write(tenant, batch, name=name)
            if step is None:
                break
            after = step[0]
            changed += step[1]
    return changed


def _owners(unit: Unit) -> list[str]:
    """Return all owners that have a key."""
    return sorted(owner for (owner,) in unit.rows(rows.KEY_OWNERS))


def _renew(unit: Unit, owner: str) -> int:
    """Make the owner's next key and return its version, 0 if it has none and so was erased.

    After a crash in an earlier rotation the key which that one made is used up first, unless another master key wraps
    it than the one that wraps now.
    """
    found = unit.rows(rows.KEYS_TO_CHANGE, owner=owner)
    if not found:
        return 0
    newest, wrapper, _ = found[0]
    current = owner != TENANT_OWNER or wrapper == unit.master_key_name
    return int(newest) if len(found) > 1 and current else unit.renew_key(owner, newest + 1).version


def _under_old_tenant_key(unit: Unit, version: int) -> list[str]:
    """Return owners with keys under an older key of the tenant; they were made while the rotation began."""
    unit.rows(rows.KEYS_TO_CHANGE, owner=TENANT_OWNER)
    found = unit.rows(rows.OWNERS_AND_WRAPPERS)
    return sorted({owner for owner, wrapper in found if tenant_version(wrapper) < version})


def _retire(unit: Unit, owner: str, version: int) -> None:
    unit.rows(rows.KEYS_TO_CHANGE, owner=owner)
    unit.run(rows.DROP_OLD_KEYS, {"owner": owner, "keep": version})


def _seal_secret(unit: Unit) -> None:
    found = unit.row(rows.GET_TENANT)
    key = unit.sealing_key(TENANT_OWNER)
    if found is not None and key is not None and version_of(bytes(found[1])) < key.version:
        sealed_secret = unit.seal(rows.tenant.c.secret, (TENANT_OWNER,), unit.secret())
        unit.run(rows.SET_SECRET, {"secret": sealed_secret})


def _clean(store: Store) -> None:
    """On SQLite, let no page of the file, and no log beside it, hold what rows no longer do."""
    engine = store.engine
    if isinstance(engine, SQLiteEngine) and not rewrite(engine, wait_s=WAIT_S):
        raise StoreUnavailable(
            f"all rows of {engine.path} are sealed, but old pages are left in the log beside it, because another"
            " connection is reading; do the same again when it has ended"
        )


def _begin(store: Store) -> str:
    """See that encryption has begun, and return what is said of it; one that somebody else began stays theirs."""
    assert store.vault.provider is not None
    while store.vault.believe(was := store.state()) == state.OFF:
        _set_state(store, was, state.begun(store.vault.provider, store.clock))
    return store.vault.believe(was)


def _set_state(store: Store, was: str | None, value: str) -> None:
    """Change what is said of the database, unless it has changed; after this, no unit runs that saw it as it was."""
    if isinstance(store.engine, PostgresEngine):
        with store.engine.maintain() as raw, raw.transaction():
            raw.execute("LOCK TABLE store_state IN ACCESS EXCLUSIVE MODE")
            raw.execute("UPDATE store_state SET value = %s WHERE name = 'encryption' AND value = %s", [value, was])
            hit("encrypt.state.before_commit")
        hit("encrypt.state.after_commit")
    else:
        tenant = next(iter(store.tenants()), "-")
        store.write(
            tenant, lambda unit: unit.run(rows.SET_STATE, {"was": was, "new_value": value}), name="encrypt.state"
        )
