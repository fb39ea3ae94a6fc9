"""A store on a connection of somebody else's: their transaction, their commit."""

import asyncio
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from everlog.errors import Conflict, KeyTrouble, Mistake, SchemaMismatch, StoreUnavailable
from everlog.store import Store, Unit
from everlog.store.backup import backup
from everlog.store.borrowed import borrow
from everlog.store.rotation import encrypt
from tests.conformance.conftest import Database
from tests.unit.store.sample import PUT, names, put, row
from tests.unit.store.sealed_sample import counts, fill


def connect(database: Database) -> Any:
    return sqlite3.connect(database.address) if database.engine == "sqlite" else psycopg.connect(database.address)


@pytest.fixture
def connection(database: Database) -> Iterator[Any]:
    """An open connection of the driver's own, to a database that has our tables and one row."""
    put(database.open(), "ada", "before")
    connection = connect(database)
    yield connection
    connection.close()


@pytest.fixture
def borrowed(database: Database, connection: Any) -> Store:
    return borrow(connection, keys=database.keys, clock=database.clock)


def test_what_a_unit_stored_is_there_when_the_owner_commits(database: Database, connection: Any, borrowed: Store):
    put(borrowed, "ada", "1")
    assert names(borrowed, "ada") == ["1", "before"]
    assert names(database.open(), "ada") == ["before"]
    connection.commit()
    assert names(database.open(), "ada") == ["1", "before"]


def test_what_the_owner_rolls_back_was_never_stored(database: Database, connection: Any, borrowed: Store):
    put(borrowed, "ada", "1")
    fill(borrowed, "bob", 1, 3)
    assert counts(borrowed, "bob", [0]) == [3]
    connection.rollback()
    assert names(database.open(), "ada") == ["before"]
    assert database.open().tenants() == []


def test_a_unit_that_fails_leaves_nothing_and_the_transaction_goes_on(
    database: Database, connection: Any, borrowed: Store
):
    put(borrowed, "ada", "1")
    with pytest.raises(Conflict, match="there is such a row already"):
        put(borrowed, "ada", "2", "before")

    def fail(unit: Unit) -> None:
        unit.run(PUT, row("3"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        borrowed.write("ada", fail, name="fail")
    put(borrowed, "ada", "4")
    connection.commit()
    assert names(database.open(), "ada") == ["1", "4", "before"]


def test_all_that_a_store_does_it_does_here(database: Database, connection: Any, borrowed: Store):
    fill(borrowed, "ada", 2, 3)
    connection.commit()
    assert (counts(borrowed, "ada", range(2)), borrowed.tenants()) == ([3, 3], ["ada"])
    assert counts(database.open(), "ada", range(2)) == [3, 3]
    assert borrowed.encryption() == ("complete" if database.encrypted else "off")
    with pytest.raises(RuntimeError, match="a reading unit cannot write"):
        borrowed.read("ada", lambda unit: unit.run(PUT, row("1")))
    with pytest.raises(RuntimeError, match="compose them in one function"):
        borrowed.write("ada", lambda _: names(borrowed, "ada"), name="nested")


def test_async_callers_get_their_answer_too(connection: Any, borrowed: Store):
    async def work() -> Any:
        await borrowed.awrite("ada", lambda unit: unit.run(PUT, row("1")), name="put")
        with pytest.raises(ZeroDivisionError):
            await borrowed.aread("ada", lambda _: 1 // 0)
        return await borrowed.aread("ada", lambda unit: unit.tenant)

    assert asyncio.run(work()) == "ada"
    assert names(borrowed, "ada") == ["1", "before"]


def test_rows_are_read_right_whatever_the_owner_has_made_of_rows(database: Database, connection: Any):
    connection.row_factory = sqlite3.Row if database.engine == "sqlite" else dict_row
    borrowed = borrow(connection, keys=database.keys)
    fill(borrowed, "ada", 1, 2)
    assert (counts(borrowed, "ada", [0]), names(borrowed, "ada")) == ([2], ["before"])
    connection.rollback()


def test_outside_a_transaction_it_would_have_to_commit_and_so_it_refuses(database: Database, connection: Any):
    if database.engine == "sqlite":
        connection.isolation_level = None
        with pytest.raises(Mistake, match="begin a transaction first"):
            borrow(connection, keys=database.keys)
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection.autocommit = True
        with pytest.raises(Mistake, match="begin a transaction first"):
            borrow(connection, keys=database.keys)
        connection.execute("BEGIN")
    borrowed = borrow(connection, keys=database.keys)
    put(borrowed, "ada", "1")
    connection.execute("COMMIT")
    with pytest.raises(Mistake, match="begin a transaction first"):
        put(borrowed, "ada", "2")
    assert names(database.open(), "ada") == ["1", "before"]


def test_closing_it_leaves_the_connection_open(connection: Any, borrowed: Store):
    put(borrowed, "ada", "1")
    borrowed.close()
    connection.commit()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_connection_that_was_closed_is_a_clear_error(connection: Any, borrowed: Store):
    connection.close()
    with pytest.raises((StoreUnavailable, sqlite3.ProgrammingError), match="closed"):
        names(borrowed, "ada")


def test_engine_work_is_refused(borrowed: Store, tmp_path: Any):
    with pytest.raises(Mistake, match="open the database by its address"):
        backup(borrowed, tmp_path / "copy")
    if borrowed.vault.provider is None:
        with pytest.raises(Mistake):
            list(encrypt(borrowed))


def test_the_keys_must_be_those_of_the_database(database: Database, connection: Any):
    if database.encrypted:
        with pytest.raises(KeyTrouble, match="this database is encrypted"):
            borrow(connection)
    else:
        put(borrow(connection), "ada", "1")
        connection.rollback()


def test_a_database_without_our_tables_is_explained(postgres_url: str):
    with pytest.raises(SchemaMismatch, match=r"has no Everlog tables, this Everlog needs .*; run `everlog db upgrade`"):
        borrow(sqlite3.connect(":memory:"))
    with psycopg.connect(postgres_url) as raw, pytest.raises(SchemaMismatch, match="has no Everlog tables"):
        borrow(raw)


def test_what_is_no_connection_is_refused():
    with pytest.raises(Mistake, match="on a connection of sqlite3 or psycopg, not on a str"):
        borrow("postgresql://x")  # type: ignore[arg-type]


@pytest.mark.parametrize("database", ["sqlite-plain"], indirect=True)
def test_a_transaction_that_read_before_another_wrote_fails_at_once_and_says_why(database: Database, connection: Any):
    connection.isolation_level = None
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM receipt").fetchone()
    borrowed = borrow(connection)
    put(database.open(), "ada", "other")
    with pytest.raises(StoreUnavailable, match="database is locked"):
        put(borrowed, "ada", "1")
    connection.execute("ROLLBACK")


@pytest.mark.parametrize("database", ["postgresql-plain"], indirect=True)
def test_a_client_side_cursor_as_django_has_it_does_as_well(database: Database, connection: Any):
    connection.cursor_factory = psycopg.ClientCursor
    borrowed = borrow(connection)
    fill(borrowed, "ada", 1, 2)
    assert counts(borrowed, "ada", [0]) == [2]
    connection.rollback()
