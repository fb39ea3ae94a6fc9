"""Every store there is: SQLite and PostgreSQL, plain and encrypted.

What must hold in each of them takes `store`; what needs a second opening of the same database, as another process would
have, takes `database` and calls `open()`. Both start empty: no tenant, no thread. A test that needs an empty place
again and again, as those of Hypothesis do, draws a new tenant from `tenants` instead of a new database.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from everlog.store import Store, open_store
from everlog.store.keys import MasterKeys
from everlog.store.migrate import upgrade
from everlog.store.postgres import PostgresEngine
from everlog.testing import FrozenClock
from tests.postgres import PostgresServer

KEYS = MasterKeys([bytes(range(32))])
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
        store = open_store(self.address, **({"keys": self.keys, "clock": self.clock} | options))
        self.opened.append(store)
        return store


@pytest.fixture(params=EVERY_STORE)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database, four times: on each engine, plain and encrypted."""
    engine, form = request.param.split("-")
    keys = KEYS if form == "encrypted" else None
    folder = tmp_path / "database"
    folder.mkdir()
    if engine == "sqlite":
        database = Database(engine="sqlite", address=str(folder / "everlog.db"), folder=folder, keys=keys)
        yield database
        close_all(database)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    template: str = request.getfixturevalue("postgres_template")(keys is not None)
    name = f"copy_{next(server.numbers)}"
    server.admin(f"CREATE DATABASE {name} OWNER app TEMPLATE {template}")
    database = Database(engine="postgresql", address=server.url("app", name), folder=folder, keys=keys)
    yield database
    close_all(database)
    server.admin(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def store(database: Database) -> Store:
    """An open store, four times: on each engine, plain and encrypted."""
    return database.open()


@pytest.fixture
def tenants() -> Iterator[str]:
    """Names of tenants that nobody had before."""
    return (f"tenant-{n}" for n in count())


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> Callable[[bool], str]:
    """Return the name of a database with our tables, to be copied; made once, since copying is quicker."""
    made: dict[bool, str] = {}

    def template(encrypted: bool) -> str:
        if encrypted not in made:
            database = postgres_server.create()
            upgrade(PostgresEngine(database.url), encrypted=encrypted)
            made[encrypted] = database.name
        return made[encrypted]

    return template


def close_all(database: Database) -> None:
    for store in database.opened:
        store.close()
