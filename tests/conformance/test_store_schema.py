"""The tables that the revisions make are the tables that the code describes, on both engines."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, UniqueConstraint, create_engine, inspect
from sqlalchemy.dialects import postgresql, sqlite

import everlog
from everlog.errors import SchemaMismatch
from everlog.store import metadata, migrate, open_store
from everlog.store.postgres import PostgresEngine
from everlog.store.sqlite import SQLiteEngine
from everlog.testing import failpoints
from tests.tables import RUN, remembering
from tests.unit.store.sample import names, put
from tests.unit.store.test_statements import ROWS

pytestmark = pytest.mark.usefixtures("revisions")
OWN = {"everlog_version", "everlog_upgrade"}


@pytest.fixture(params=["sqlite", "postgresql", "postgresql-partitioned"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """The toolkit's engine on a database that the revisions have just made."""
    if request.param == "sqlite":
        migrate.upgrade(SQLiteEngine(tmp_path / "x.db"), encrypted=False)
        engine = create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    else:
        url = request.getfixturevalue("postgres_url")
        partitions = 4 if "partitioned" in request.param else 0
        migrate.upgrade(PostgresEngine(url), encrypted=False, partitions=partitions)
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


def described(dialect: Any) -> dict[str, Any]:
    """Return what the code says of each table, in the words of the inspection below."""
    return {
        table.name: {
            "columns": [
                (column.name, column.type.compile(dialect).lower(), column.nullable and not column.primary_key)
                for column in table.c
            ],
            "key": (str(table.primary_key.name), [column.name for column in table.primary_key]),
            "indexes": sorted((str(index.name), [column.name for column in index.columns]) for index in table.indexes),
            "unique": sorted(
                (str(one.name), [column.name for column in one.columns])
                for one in table.constraints
                if isinstance(one, UniqueConstraint)
            ),
            "references": [],
        }
        for table in metadata.sorted_tables
    }


def found(engine: Engine) -> dict[str, Any]:
    """Return what a database has."""
    eye = inspect(engine)
    parts = set()
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            parts = set(connection.exec_driver_sql("SELECT relname FROM pg_class WHERE relispartition").scalars())
    tables = set(eye.get_table_names()) - OWN - parts
    return {
        table: {
            "columns": [
                (
                    column["name"],
                    column["type"].compile(engine.dialect).lower(),
                    column["nullable"] and column["name"] not in eye.get_pk_constraint(table)["constrained_columns"],
                )
                for column in eye.get_columns(table)
            ],
            "key": (eye.get_pk_constraint(table)["name"], eye.get_pk_constraint(table)["constrained_columns"]),
            "indexes": sorted(
                (str(index["name"]), index["column_names"])
                for index in eye.get_indexes(table)
                if not index.get("duplicates_constraint")
            ),
            "unique": sorted((str(one["name"]), one["column_names"]) for one in eye.get_unique_constraints(table)),
            "references": eye.get_foreign_keys(table),
        }
        for table in sorted(tables)
    }


def test_every_table_column_key_and_index_is_as_described(made: Engine):
    assert ROWS
    dialect = sqlite.dialect() if made.dialect.name == "sqlite" else postgresql.psycopg.dialect()
    assert found(made) == dict(sorted(described(dialect).items()))


def test_the_toolkit_finds_nothing_to_add_either(made: Engine):
    if "receipt_p0" in inspect(made).get_table_names():
        return
    with made.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [one for one in compare_metadata(context, metadata) if not names_own_table(one)]
    assert differences == []


def names_own_table(difference: Any) -> bool:
    return difference[0] == "remove_table" and difference[1].name in OWN


def test_the_revisions_are_one_line_and_all_are_listed():
    config = Config()
    config.set_main_option("script_location", str(Path(everlog.__file__).parent / "store" / "migrations"))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [migrate.HEAD]
    assert tuple(revision.revision for revision in reversed(list(script.walk_revisions()))) == migrate.REVISIONS


def test_on_sqlite_small_rows_live_in_their_primary_key_and_large_ones_beside_it(tmp_path: Path):
    with open_store(tmp_path / "x.db") as store:
        put(store, "ada", "1")
    raw = sqlite3.connect(tmp_path / "x.db")
    tables = dict(raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    raw.close()
    with_rowid = {name for name, sql in tables.items() if "WITHOUT ROWID" not in sql}
    large = {table.name for table in metadata.sorted_tables if table.info.get("large")}
    assert with_rowid == {"everlog_version", "store_state"} | large


def test_a_database_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path):
    path = tmp_path / "x.db"
    with open_store(path) as store:
        put(store, "ada", "1")
    raw = sqlite3.connect(path)
    raw.execute("UPDATE everlog_version SET version_num = '9999'")
    raw.commit()
    raw.close()
    before = path.read_bytes()
    with pytest.raises(
        SchemaMismatch, match=r"has schema 9999, this Everlog knows up to \d+: .* a newer version; upgrade"
    ):
        open_store(path)
    assert path.read_bytes() == before


def test_making_a_database_is_one_transaction(tmp_path: Path):
    path = tmp_path / "x.db"
    with failpoints.raising("upgrade.before_commit", ZeroDivisionError()), pytest.raises(ZeroDivisionError):
        open_store(path)
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT name FROM sqlite_master").fetchall() == []
    raw.close()
    with open_store(path) as store:
        put(store, "ada", "1")


def test_opening_a_database_again_changes_nothing(tmp_path: Path):
    path = tmp_path / "x.db"
    with open_store(path) as store:
        put(store, "ada", "1")
    before = path.read_bytes()
    with open_store(path) as store:
        assert names(store, "ada") == ["1"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_what_tests_make_from_memory_is_what_the_revisions_make(tmp_path: Path, encrypted: bool):
    quick = remembering(RUN)
    dumps = []
    for n in range(2):  # the first by the revisions, the second from memory
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(migrate, "_run", quick)
            migrate.upgrade(SQLiteEngine(tmp_path / f"{n}.db"), encrypted=encrypted)
        with contextlib.closing(sqlite3.connect(tmp_path / f"{n}.db")) as raw:
            dumps.append((list(raw.iterdump()), raw.execute("SELECT * FROM store_state").fetchall()))
    assert dumps[0] == dumps[1]
    assert dumps[0][1] == [("encryption", "complete" if encrypted else "off")]
