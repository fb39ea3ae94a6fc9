"""A store on a connection of somebody else's, such as Django's inside `atomic()`.

Units run at once, in the caller's thread and transaction, each in a savepoint of its own: one that fails leaves nothing,
and the transaction goes on. What is stored is there when the owner of the connection commits; Everlog never commits, rolls
back or closes it. So there are no failpoints, no async twins and no engine work (upgrade, backup, encryption): for those,
open the database by its address.

On SQLite the owner should begin with BEGIN IMMEDIATE (Django: `"OPTIONS": {"transaction_mode": "IMMEDIATE"}`): a
transaction that reads first and writes later fails at once if another one wrote in between, and cannot be retried here.
"""

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, cast

from everlog.clock import Clock, SystemClock
from everlog.errors import Conflict, Mistake, SchemaMismatch
from everlog.store import migrate
from everlog.store.engine import Answer, Connection, Params
from everlog.store.files import translated
from everlog.store.keys import KeyProvider
from everlog.store.postgres import translation
from everlog.store.sqlite import SQLiteConnection
from everlog.store.statements import Compiled, Compiler
from everlog.store.store import Store, check_keys
from everlog.store.vault import KeyGone, Vault

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

TRIES = 3


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
        Mistake: it is another kind of connection.
        SchemaMismatch: the tables are missing, or of another version.
        KeyTrouble: keys are missing, or given for a database that is not encrypted.
    """
    engine: _BorrowedSQLite | _BorrowedPostgres
    if isinstance(connection, sqlite3.Connection):
        engine = _BorrowedSQLite(connection)
    elif type(connection).__module__.partition(".")[0] == "psycopg" or hasattr(connection, "pgconn"):
        engine = _BorrowedPostgres(connection)
    else:
        raise Mistake(f"a store runs on a connection of sqlite3 or psycopg, not {type(connection).__name__}")
    found = engine.version()
    if found != migrate.HEAD:
        raise SchemaMismatch(
            f"the database has {f'schema {found}' if found else 'no Everlog tables'}, and this is {migrate.HEAD};"
            " run `everlog db upgrade`"
        )
    # Whatever asks for the engine itself asks which one it is first, and finds none of those it can work on.
    store = Store(cast("Any", engine), Vault(keys), clock or SystemClock())
    check_keys(store, keys, encrypting=False)
    return store
