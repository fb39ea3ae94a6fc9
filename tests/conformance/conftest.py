"""Every store there is: SQLite and PostgreSQL, plain and encrypted.

A test of a layer above the store runs on SQLite plain, and beside that on PostgreSQL encrypted, or on SQLite encrypted and
PostgreSQL plain, by its name; in a long run on all four.

What must hold in each of them takes `store`; what needs a second opening of the same database, as another process would
have, takes `database` and calls `open()`. Both start empty: no tenant, no thread. A test that needs an empty place
again and again, as those of Hypothesis do, draws a new tenant from `tenants` instead of a new database.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest

from everlog.store import Store, open_store
from everlog.store.keys import MasterKeys
from everlog.store.migrate import HEAD, upgrade
from everlog.store.postgres import PostgresEngine
from everlog.testing import FrozenClock
from tests.postgres import PostgresDatabase, PostgresServer

KEYS = MasterKeys(keys=[bytes(range(32))])
HERE = Path(__file__).parent
EVERY_STORE = ["sqlite-plain", "sqlite-encrypted", "postgresql-plain", "postgresql-encrypted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An empty database of the current schema."""

    engine: Literal["sqlite", "postgresql"]
    address: str
    folder: Path
    """Where its files are; for PostgreSQL, an empty folder of the test's own."""
    keys: MasterKeys | None
    """The master keys it was made with; None if it is plain."""
    clock: FrozenClock = field(default_factory=lambda: FrozenClock(step=timedelta(milliseconds=1)))
    """Shared by all that open it, so that ids are never drawn twice."""
    opened: list[Store] = field(default_factory=list)

    @property
    def encrypted(self) -> bool:
        return self.keys is not None

    def open(self, **options: Any) -> Store:
        """Open it once more; closed with the test."""
        return self.open_at(self.address, **options)

    def open_at(self, address: str, **options: Any) -> Store:
        """Open it by another address."""
        store = open_store(address, **({"keys": self.keys, "clock": self.clock} | options))
        self.opened.append(store)
        return store


@pytest.fixture(params=EVERY_STORE)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database, four times: on each engine, plain and encrypted."""
    engine, form = request.param.split("-")
    keys = KEYS if form == "encrypted" else None
    if engine == "sqlite":
        with sqlite_database(tmp_path, keys) as database:
            yield database
    else:
        with request.getfixturevalue("postgresql")(keys) as database:
            yield database


BESIDE = (["postgresql-encrypted"], ["sqlite-encrypted", "postgresql-plain"])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what does not run beside SQLite plain to long runs; tests of the store itself run on all."""
    for item in items:
        if not isinstance(item, pytest.Function) or not item.path.is_relative_to(HERE) or is_of_the_store(item):
            continue
        form = getattr(item, "callspec", None) and item.callspec.params.get("database")
        if form in BESIDE[zlib.crc32(item.function.__name__.encode()) % 2]:
            item.add_marker(pytest.mark.long)


def is_of_the_store(item: pytest.Function) -> bool:
    """Whether a test is about the store, or names the forms that it wants."""
    named = (mark.args[0] for mark in item.iter_markers("parametrize"))
    return item.path.name.startswith("test_store_") or any("database" in names for names in named)


@pytest.fixture
def store(database: Database) -> Store:
    """An open store, four times: on each engine, plain and encrypted."""
    return database.open()


@pytest.fixture
def tenants() -> Iterator[str]:
    """Names of tenants that nobody had before."""
    return (f"tenant-{n}" for n in count())


@contextlib.contextmanager
def sqlite_database(folder: Path, keys: MasterKeys | None) -> Iterator[Database]:
    """Give a name in a folder of its own; opening makes the database."""
    home = folder / "database"
    home.mkdir()
    yield from closing(Database(engine="sqlite", address=str(home / "everlog.db"), folder=home, keys=keys))


@dataclass(slots=True)
class Shelf:
    """Databases of the server that have our tables and no rows; making one takes longer than emptying it."""

    server: PostgresServer
    free: dict[tuple[bool, int], list[PostgresDatabase]] = field(default_factory=dict)
    brooms: "dict[str, psycopg.Connection[Any]]" = field(default_factory=dict)
    """By the name of a database, the connection that empties it; a new one would take ten times as long."""

    def take(self, *, encrypted: bool, partitions: int) -> PostgresDatabase:
        kept = self.free.setdefault((encrypted, partitions), [])
        if kept:
            return kept.pop()
        database = self.server.create()
        # A unit commits three times as fast, and no test here takes the power away.
        self.server.admin(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
        upgrade(PostgresEngine(database.url), encrypted=encrypted, partitions=partitions)
        return database

    def give_back(self, database: PostgresDatabase, *, encrypted: bool, partitions: int) -> None:
        try:
            if database.name not in self.brooms:
                self.brooms[database.name] = psycopg.connect(
                    database.superuser_url, autocommit=True, options="-c lock_timeout=3s"
                )
            broom = self.brooms[database.name]
            with broom.transaction():
                for (table,) in broom.execute(WITH_ROWS).fetchall():
                    broom.execute(f"DELETE FROM {table}")
                broom.execute("UPDATE store_state SET value = %s", ["complete" if encrypted else "off"])
                broom.execute("UPDATE everlog_version SET version_num = %s", [HEAD])
        except psycopg.Error:
            if database.name in self.brooms:
                self.brooms.pop(database.name).close()
            self.server.drop(database)
        else:
            self.free[encrypted, partitions].append(database)

    def close(self) -> None:
        for broom in self.brooms.values():
            broom.close()


WITH_ROWS = (
    "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
    " AND relnamespace = 'public'::regnamespace AND relrowsecurity"
)


@pytest.fixture(scope="session")
def shelf(postgres_server: PostgresServer) -> Iterator[Shelf]:
    shelf = Shelf(postgres_server)
    yield shelf
    shelf.close()


@pytest.fixture
def postgresql(shelf: Shelf, tmp_path: Path) -> Callable[..., "contextlib.AbstractContextManager[Database]"]:
    """Return what gives an empty database on the server, and takes it back."""

    @contextlib.contextmanager
    def database(keys: MasterKeys | None, *, partitions: int = 0) -> Iterator[Database]:
        form: Any = {"encrypted": keys is not None, "partitions": partitions}
        taken = shelf.take(**form)
        yield from closing(Database(engine="postgresql", address=taken.url, folder=tmp_path, keys=keys))
        shelf.give_back(taken, **form)

    return database


def closing(database: Database) -> Iterator[Database]:
    yield database
    for store in database.opened:
        store.close()
