"""The store: opens a database by its address and runs units of work in it.

An address is a file path, `:memory:`, or `postgresql://…`. An embedded database is made and upgraded on opening; a
server's is only checked, and upgraded by `everlog db upgrade`.
"""

import asyncio
import re
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

from everlog.clock import Clock, SystemClock
from everlog.errors import Damaged, KeyTrouble, Mistake, StoreUnavailable, expect
from everlog.store import rows, state
from everlog.store.engine import Connection, Row
from everlog.store.keys import MISSING_KEY, KeyProvider, version_of
from everlog.store.migrate import prepare
from everlog.store.newfile import expanded
from everlog.store.postgres import PostgresEngine
from everlog.store.sqlite import SQLiteEngine
from everlog.store.unit import Unit
from everlog.store.vault import Vault

T = TypeVar("T")

MEMORY = ":memory:"
EVERYONE = "*"
_TENANT = re.compile(r"[\x21-\x7e]{1,64}\Z")
_SUCH_AS = "give a file path, :memory:, or postgresql://user@host/database"


class Store:
    """One database. Thread-safe; safe to keep across `fork()`."""

    def __init__(self, engine: SQLiteEngine | PostgresEngine, vault: Vault, clock: Clock) -> None:
        self.engine = engine
        self.vault = vault
        self.clock = clock
        self._here = _Here()

    def write(self, tenant: str, act: Callable[[Unit], T], *, name: str) -> T:
        """Run a unit that may write, and return its result once it is committed.

        Args:
            tenant: the tenant whose rows it sees; 1 to 64 visible ASCII characters.
            act: the unit; run again from the start on a conflict, so it must be idempotent.
            name: what it is called in failpoints: `<name>.before_commit`, `<name>.after_commit`.

        Raises:
            StoreUnavailable: nothing of it was stored.
        """
        return self.engine.write(name, self._unit(checked(tenant), act, writes=True))

    def read(self, tenant: str, act: Callable[[Unit], T]) -> T:
        """Run a unit that only reads, in one snapshot."""
        return self.engine.read(self._unit(checked(tenant), act, writes=False))

    async def awrite(self, tenant: str, act: Callable[[Unit], T], *, name: str) -> T:
        """As `write`, for async callers: one hop for the whole unit.

        Cancelling takes back a unit that has not begun; one that has is finished, though nobody hears of it.
        """
        return await asyncio.wrap_future(self.engine.submit(name, self._unit(checked(tenant), act, writes=True)))

    async def aread(self, tenant: str, act: Callable[[Unit], T]) -> T:
        """As `read`, for async callers, in threads of our own."""
        return await asyncio.wrap_future(self.engine.submit_read(self._unit(checked(tenant), act, writes=False)))

    async def aprove(self) -> None:
        """Make sure that something can be written now; nothing is changed.

        Raises:
            StoreUnavailable: nothing can.
        """
        await asyncio.wrap_future(self.engine.submit("prove", _touch))

    def prove(self) -> None:
        """As `aprove`, for callers in threads."""
        self.engine.write("prove", _touch)

    def tenants(self, *, erased: bool = False) -> list[str]:
        """Return the names of all tenants.

        Args:
            erased: whether to name those as well that were erased and left their receipts.
        """
        found = {name for (name,) in self.everywhere(lambda unit: unit.rows(rows.TENANTS))}
        if erased:
            found |= {name for (name,) in self.everywhere(lambda unit: unit.rows(rows.TENANTS_WITH_RECEIPTS))}
        return sorted(found)

    def everywhere(self, act: Callable[[Unit], T]) -> T:
        """Run a reading unit whose statements are named as crossing tenants."""
        return self.engine.read(self._unit(EVERYONE, act, writes=False))

    def encryption(self) -> str:
        """Return whether text is sealed: `off`, `on` (begun, not finished), or `complete`.

        Raises:
            Damaged: what the database says of it cannot be so.
        """
        return self.vault.believe(self.state())

    def state(self) -> str | None:
        """Return the row that says whether text is sealed, as it stands there."""
        found = dict[str, str](self.everywhere(lambda unit: unit.rows(rows.STATE)))
        return found.get("encryption")

    def wrappers(self) -> set[str]:
        """Return the names of the master keys that tenants' keys are wrapped with."""
        return {name for (name,) in self.everywhere(lambda unit: unit.rows(rows.WRAPPERS))}

    def engine_version(self) -> str:
        """Return the engine and its version, such as `SQLite 3.40.1`."""
        if isinstance(self.engine, SQLiteEngine):
            (version,) = self.engine.maintain(lambda raw: raw.execute("SELECT sqlite_version()").fetchone())
            return f"SQLite {version}"
        with self.engine.maintain() as raw:
            row = raw.execute("SHOW server_version").fetchone()
        return f"PostgreSQL {row[0] if row else ''}".strip()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be read or written here any more."""
        return self.engine.is_closed

    def close(self) -> None:
        """Finish what is queued and close every connection."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _unit(self, tenant: str, act: Callable[[Unit], T], *, writes: bool) -> Callable[[Connection], T]:
        here = self._here
        if here.inside:
            raise RuntimeError("a unit of work called another unit; compose them in one function instead")

        def run(connection: Connection) -> T:
            here.inside = True
            try:
                return act(Unit(tenant, connection, self.vault, self.clock, writes=writes))
            finally:
                here.inside = False

        return run


def _touch(connection: Connection) -> None:
    connection.touch()


class _Here(threading.local):
    inside = False
    """Whether this thread runs a unit of this store."""


def open_store(
    address: str | Path,
    *,
    keys: KeyProvider | None = None,
    clock: Clock | None = None,
    synchronous: str = "NORMAL",
    encrypting: bool = False,
    prepared: bool = True,
) -> Store:
    """Open a database; a new one is encrypted if keys are given.

    Args:
        address: a file path, `:memory:`, or `postgresql://user@host/database`.
        keys: master keys; needed to read an encrypted database.
        clock: where time and randomness come from.
        synchronous: SQLite's setting. NORMAL survives a crash of the process, FULL a loss of power as well.
        encrypting: open a plain database with keys, in order to encrypt it.
        prepared: on PostgreSQL, prepare statements on the server; not through a pooler that cannot keep them. What
            `?prepared=no` at the end of the address says counts before it.

    Raises:
        SchemaMismatch: the database is of another version.
        KeyTrouble: keys are missing, or given for a database that is not encrypted.
        StoreUnavailable: it cannot be reached, or the folder does not exist.
    """
    clock = clock or SystemClock()
    engine = engine_of(str(address), synchronous, prepared=prepared)
    try:
        prepare(engine, encrypted=keys is not None)
        store = Store(engine, Vault(keys), clock)
        check_keys(store, keys, encrypting=encrypting)
    except BaseException:
        engine.close()
        raise
    return store


def checked(tenant: str) -> str:
    """Return a tenant's name.

    Raises:
        Mistake: it is none.
    """
    expect(tenant, str, "the name of a tenant is a str")
    if tenant == EVERYONE or not _TENANT.match(tenant):
        raise Mistake(f"a tenant is named by 1 to 64 visible ASCII characters, and not {EVERYONE!r}")
    return tenant


def engine_of(address: str, synchronous: str = "NORMAL", *, prepared: bool = True) -> SQLiteEngine | PostgresEngine:
    """Return the engine for an address; nothing is opened yet.

    Raises:
        Mistake: it leads nowhere.
    """
    if address == MEMORY:
        return SQLiteEngine(None)
    scheme = scheme_of(address)
    if scheme in ("postgresql", "postgres"):
        return PostgresEngine(address, prepared=prepared)
    if scheme not in ("", "sqlite"):
        raise Mistake(f"cannot open {scheme}://…; {_SUCH_AS}")
    path = expanded(Path(re.sub(r"^sqlite://(/)?", "", address) if scheme else address))
    _refuse_what_is_no_file(path)
    if synchronous.upper() not in ("NORMAL", "FULL"):
        raise Mistake(f"synchronous is NORMAL or FULL, not {synchronous!r}")
    return SQLiteEngine(path.absolute(), synchronous=synchronous.upper())


def scheme_of(address: str) -> str:
    """Return the scheme of an address; empty for a path.

    Raises:
        Mistake: it is no address.
    """
    try:
        return urlsplit(address).scheme if "://" in address else ""
    except ValueError as error:
        raise Mistake(f"the address of the database cannot be read ({error}); {_SUCH_AS}") from error


def _refuse_what_is_no_file(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreUnavailable(f"{path}: {reason}; name a file that can be opened") from error
    if stat.S_ISDIR(mode):
        raise Mistake(f"{path} is a folder; name a file in it, such as {path / 'everlog.db'}")
    if not stat.S_ISREG(mode):
        raise Mistake(f"{path} is a device or a pipe, which keeps nothing; name a file")


def check_keys(store: Store, keys: KeyProvider | None, *, encrypting: bool) -> None:
    """Make sure that the keys given are those that the database needs.

    Raises:
        KeyTrouble: they are not.
        Damaged: what the database says of its encryption was changed.
    """
    said, wrappers, tenants = store.everywhere(_facts)
    if said == state.COMPLETE and tenants and not wrappers:
        raise Mistake(
            "the keys of this database are not in it, as in a backup; `everlog restore` makes a database of a backup"
        )
    if said == state.OFF:
        if wrappers or any(store.read(tenant, _was_sealed) for tenant in tenants[:1]):
            raise Damaged(state.FLIPPED)
        if keys is not None and not encrypting:
            raise KeyTrouble(
                "this database is not encrypted, but a master key is given; run `everlog encrypt` to turn it on"
            )
        return
    if keys is None:
        raise KeyTrouble(MISSING_KEY)
    for tenant in tenants[:1]:
        store.read(tenant, lambda unit: unit.secret())
    store.encryption()


def _facts(unit: Unit) -> tuple[str, list[Row], list[str]]:
    """Return what is said of encryption, the master keys in use, and the tenants, all of one moment."""
    said = state.word(dict[str, str](unit.rows(rows.STATE)).get("encryption"))
    return said, unit.rows(rows.WRAPPERS), [name for (name,) in unit.rows(rows.TENANTS)]


def _was_sealed(unit: Unit) -> bool:
    """Return whether a tenant's secret is sealed in a database that is marked as not encrypted."""
    found = unit.row(rows.GET_TENANT)
    return found is not None and not unit.encrypted and version_of(bytes(found[1])) > 0
