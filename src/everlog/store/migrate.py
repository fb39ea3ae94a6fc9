"""The version of a database, and the way up from an older one.

Revisions are Alembic scripts inside the package, under a version table of our own, so that a host application's
Alembic neither sees nor moves them. An embedded database upgrades itself when it is opened, in one transaction under
SQLite's write lock; a server's is upgraded by `everlog db upgrade`, one at a time by a locked row.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine.url import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from everlog.errors import Mistake, SchemaMismatch, StoreUnavailable
from everlog.store.failpoints import hit
from everlog.store.postgres import PostgresEngine
from everlog.store.sqlite import SQLiteEngine

if TYPE_CHECKING:
    import psycopg

VERSION_TABLE = "everlog_version"
REVISIONS = ("0001",)
HEAD = REVISIONS[-1]
LOCK_TRIES = 8

_MADE_BY_ANOTHER = ("23505", "42710", "42P07")
"""unique_violation, duplicate_object, duplicate_table."""

_OUR_TABLES = (
    "SELECT pg_class.oid::regclass::text FROM pg_class JOIN pg_policy ON polrelid = pg_class.oid"
    " WHERE polname = 'tenant_only' AND NOT relispartition AND relnamespace = current_schema()::regnamespace ORDER BY 1"
)


def prepare(engine: SQLiteEngine | PostgresEngine, *, encrypted: bool) -> None:
    """Make sure the tables are of this version: an embedded database is made or upgraded, a server's is checked.

    Raises:
        SchemaMismatch: it is newer than this code, or a server's that is missing or older.
        Mistake: the file is a database of something else.
    """
    found = version(engine)
    if found == HEAD:
        return
    if found is not None:
        refuse_unknown(found)
    if isinstance(engine, PostgresEngine):
        state = f"has schema {found}, older than {HEAD}" if found else "has no Everlog tables yet"
        raise SchemaMismatch(f"the database {state}; run `everlog db upgrade`")
    upgrade(engine, encrypted=encrypted)


def refuse_unknown(found: str) -> None:
    """Raise SchemaMismatch for a revision that this code does not know."""
    if found not in REVISIONS:
        raise SchemaMismatch(
            f"the database has schema {found}, this Everlog knows up to {HEAD}: it was written by a newer version; "
            "upgrade the everlog package"
        )


def version(engine: SQLiteEngine | PostgresEngine) -> str | None:
    """Return the revision of the tables, or None where there are none.

    Raises:
        Mistake: the SQLite file holds tables, but none of ours.
    """
    if isinstance(engine, PostgresEngine):
        with engine.maintain() as raw:
            return postgres_version(raw.cursor())
    return engine.maintain(lambda raw: sqlite_version(raw, engine.path), wal=False)


def upgrade(
    engine: SQLiteEngine | PostgresEngine, *, encrypted: bool, partitions: int = 0, app_role: str | None = None
) -> None:
    """Bring the tables to this version; a database that is there already at it is left alone.

    Args:
        engine: the database.
        encrypted: whether a database made now keeps its text sealed.
        partitions: on PostgreSQL, hash partitions by tenant for each table of a new database; 0 for none.
        app_role: on PostgreSQL, the role that reads and writes at run time, if it is not the one that upgrades.
    """
    attributes = {"encrypted": encrypted, "partitions": partitions}
    if isinstance(engine, PostgresEngine):
        url = make_url(engine.dsn).set(drivername="postgresql+psycopg")
        with translated(), create_engine(url, poolclass=NullPool).connect() as connection:
            _lock(connection)
            _run(connection, attributes)
            if app_role is not None:
                _grant(connection, app_role)
            hit("upgrade.before_commit")
            connection.commit()
    else:
        engine.maintain(partial(_upgrade_sqlite, path=engine.path, attributes=attributes))
    hit("upgrade.after_commit")


def _lock(connection: Connection) -> None:
    """Hold the one row that lets one upgrade run at a time, until the transaction ends."""
    for tries in count(1):
        try:
            with connection.begin():
                connection.execute(text("CREATE TABLE IF NOT EXISTS everlog_upgrade (name VARCHAR(8) PRIMARY KEY)"))
                connection.execute(text("INSERT INTO everlog_upgrade VALUES ('lock') ON CONFLICT DO NOTHING"))
            break
        except (IntegrityError, ProgrammingError) as error:
            # Of several that make the table at the same moment all but one fail here, and then find it there.
            if tries == LOCK_TRIES or getattr(error.orig, "sqlstate", None) not in _MADE_BY_ANOTHER:
                raise
    connection.execute(text("SELECT name FROM everlog_upgrade FOR UPDATE"))


def _grant(connection: Connection, role: str) -> None:
    quoted = connection.dialect.identifier_preparer.quote(role)
    ours = connection.execute(text(_OUR_TABLES)).scalars().all()
    for table in ours:
        connection.execute(text(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {quoted}"))
    connection.execute(text(f"GRANT SELECT, UPDATE ON store_state TO {quoted}"))
    connection.execute(text(f"GRANT SELECT ON {VERSION_TABLE} TO {quoted}"))


def _upgrade_sqlite(raw: sqlite3.Connection, path: Path | None, attributes: dict[str, Any]) -> None:
    # The toolkit rolls back what it finds on a connection it is given, so the transaction begins after that.
    toolkit = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    try:
        with toolkit.connect() as connection, connection.begin():
            raw.execute("BEGIN IMMEDIATE")
            if sqlite_version(raw, path) != HEAD:
                _run(connection, attributes)
            hit("upgrade.before_commit")
    except DBAPIError as error:
        # The engine knows what an error of the driver means to a caller.
        raise (error.orig or error) from error


def _run(connection: Connection, attributes: dict[str, Any]) -> None:
    # Loaded only when a schema changes: its toolkit would take a third of the time that opening a database takes.
    import_module("everlog.store.migrations.run").run(connection, attributes)


def postgres_version(raw: "psycopg.Cursor[Any]") -> str | None:
    """Return the revision of an open PostgreSQL database, or None if it has none of our tables."""
    there = raw.execute("SELECT to_regclass(%s) IS NOT NULL", [VERSION_TABLE]).fetchone()
    row = raw.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() if there and there[0] else None
    return None if row is None else str(row[0])


def sqlite_version(raw: sqlite3.Connection, path: Path | None) -> str | None:
    """Return the revision of an open SQLite database, or None if it is empty; as `version`."""
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if VERSION_TABLE not in tables:
        if tables:
            raise Mistake(f"{path} is a SQLite database of something else; name another file")
        return None
    row = raw.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
    return None if row is None else str(row[0])


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn the toolkit's errors into ours."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreUnavailable(f"PostgreSQL: {str(error).splitlines()[0]}") from error
