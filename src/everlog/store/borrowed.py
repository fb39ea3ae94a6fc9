"""A store on a connection of somebody else's, such as Django's inside `atomic()`.

Units run at once, in the caller's thread and transaction, each in a savepoint of its own: one that fails leaves nothing,
and the transaction goes on. What is stored is there when the owner of the connection commits; Everlog never commits,
rolls back or closes it. So there are no failpoints, async twins run at once too, and engine work (upgrade, backup,
encryption) needs the database opened by its address.

On SQLite the owner should begin with BEGIN IMMEDIATE (Django: `"OPTIONS": {"transaction_mode": "IMMEDIATE"}`): a
transaction that reads first and writes later fails at once if another one wrote in between, and cannot be retried here.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from everlog.clock import Clock, SystemClock
from everlog.errors import Mistake, SchemaMismatch
from everlog.store import migrate
from everlog.store.engine import Answer, Connection, Params
from everlog.store.files import translated
from everlog.store.keys import KeyProvider
from everlog.store.postgres import UNIQUE_TRIES, translation
from everlog.store.sqlite import SQLiteConnection, bound
from everlog.store.statements import Compiled, Compiler, compiler
from everlog.store.store import Store, check_keys
from everlog.store.vault import KeyGone, Vault

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

_OUTSIDE = "begin a transaction first (in Django: atomic()); Everlog never commits a connection it was given"


def borrow(
    connection: "sqlite3.Connection | psycopg.Connection[Any]",
    *,
    keys: KeyProvider | None = None,
    clock: Clock | None = None,
) -> Store:
    """Return a store on an open connection, for as long as that is open.

    Args:
        connection: of `sqlite3` or `psycopg`, to a database that has Everlog's tables of this version.
        keys: master keys, if the database is encrypted.
        clock: where time and randomness come from.

    Raises:
        Mistake: it is another kind of connection, or stands outside a transaction.
        SchemaMismatch: the tables are missing, or of another version.
        KeyTrouble: keys are missing, or given for a database that is not encrypted.
    """
    place = _InSQLite(connection) if isinstance(connection, sqlite3.Connection) else _InPostgres(connection)
    found = place.version()
    if found != migrate.HEAD:
        state = f"has schema {found}" if found else "has no Everlog tables"
        raise SchemaMismatch(f"the database {state}, this Everlog needs {migrate.HEAD}; run `everlog db upgrade`")
    # What works on an engine asks first which one it has, and finds none that it knows.
    engine: Any = BorrowedEngine(place)
    store = Store(engine, Vault(keys), clock or SystemClock())
    check_keys(store, keys, encrypting=False)
    return store


class BorrowedEngine:
    """Runs units at once, where the caller stands."""

    path = None

    def __init__(self, place: "_InSQLite | _InPostgres") -> None:
        self.dialect = place.dialect
        self._place = place

    def write(self, name: str, act: Callable[[Connection], T]) -> T:  # noqa: ARG002 -- there is no commit to name
        return self._place.run(act)

    def read(self, act: Callable[[Connection], T]) -> T:
        return self._place.run(act)

    def submit(self, name: str, act: Callable[[Connection], T]) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(self.write(name, act))
        except BaseException as error:  # noqa: BLE001 -- who waits for the future gets it
            future.set_exception(error)
        return future

    def submit_read(self, act: Callable[[Connection], T]) -> "Future[T]":
        return self.submit("read", act)

    def close(self) -> None:
        """Nothing here is ours."""


class _InSQLite:
    dialect = "sqlite"

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self._compiler = compiler("sqlite")
        raw.execute("PRAGMA secure_delete = ON")

    def version(self) -> str | None:
        with translated(None):
            return migrate.sqlite_version(self._raw, None)

    def run(self, act: Callable[[Connection], T]) -> T:
        with translated(None), self._savepoint():
            return act(_TupleConnection(self._raw, self._compiler))

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        if not self._raw.in_transaction:
            if self._raw.isolation_level is None:
                raise Mistake(_OUTSIDE)
            self._raw.execute("BEGIN IMMEDIATE")  # as the driver would, before the first change
        with _savepoint(self._raw.execute):
            yield


class _TupleConnection(SQLiteConnection):
    """Rows are tuples here, whatever the owner of the connection has made of them."""

    alone = False

    def execute(self, compiled: Compiled, params: Params) -> sqlite3.Cursor:
        cursor = self._raw.cursor()
        cursor.row_factory = None
        return cursor.execute(compiled.sql, bound(compiled, params))


class _InPostgres:
    dialect = "postgresql"

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        try:
            import psycopg  # noqa: PLC0415 -- an optional extra
        except ImportError as error:
            raise Mistake("PostgreSQL needs a driver: pip install 'everlog[postgres]'") from error
        if not isinstance(raw, psycopg.Connection):
            raise Mistake(f"a store runs on a connection of sqlite3 or psycopg, not on a {type(raw).__name__}")
        self._driver = psycopg
        self._raw = raw
        self._compiler = compiler("postgresql")

    def version(self) -> str | None:
        with self._savepoint():
            return migrate.postgres_version(self._cursor())

    def run(self, act: Callable[[Connection], T]) -> T:
        try:
            for _ in range(UNIQUE_TRIES):
                # Another transaction may store the same row, or replace a key, while this one looks.
                with suppress(self._driver.errors.UniqueViolation, KeyGone):
                    return self._run_once(act)
            return self._run_once(act)
        except self._driver.Error as error:
            heard, cause = translation(self._driver, error)
            raise heard from cause

    def _run_once(self, act: Callable[[Connection], T]) -> T:
        with self._savepoint():
            return act(_InlineConnection(self._cursor(), self._compiler))

    def _cursor(self) -> "psycopg.Cursor[Any]":
        return self._raw.cursor(row_factory=self._driver.rows.tuple_row)

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        idle = self._raw.info.transaction_status == self._driver.pq.TransactionStatus.IDLE
        if self._raw.autocommit and idle:
            raise Mistake(_OUTSIDE)
        with _savepoint(self._raw.execute):
            yield


class _InlineConnection:
    """A unit's view of a transaction without a pipeline."""

    alone = False
    pipelined = False

    def __init__(self, cursor: "psycopg.Cursor[Any]", compiler: Compiler) -> None:
        self.compiler = compiler
        self._cursor = cursor

    def enter(self, tenant: str) -> None:
        self._cursor.execute("SELECT set_config('everlog.tenant', %s, true)", [tenant])

    def touch(self) -> None:
        self._cursor.execute("SELECT pg_current_xact_id()")

    def ask(self, compiled: Compiled, params: Params) -> Answer:
        rows = self._cursor.execute(compiled.sql, params).fetchall()
        return lambda: rows

    def run(self, compiled: Compiled, params: Sequence[Params]) -> None:
        self._cursor.executemany(compiled.sql, params)

    def count(self, compiled: Compiled, params: Params) -> int:
        return self._cursor.execute(compiled.sql, params).rowcount


@contextmanager
def _savepoint(execute: Callable[[str], object]) -> Iterator[None]:
    execute("SAVEPOINT everlog")
    try:
        yield
    except BaseException:
        execute("ROLLBACK TO everlog")
        raise
    finally:
        execute("RELEASE everlog")
