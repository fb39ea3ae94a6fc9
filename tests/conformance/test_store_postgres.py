"""PostgreSQL: the pipeline, what is retried, the second wall between tenants, and upgrades of a server's database."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import bindparam

from everlog.errors import Conflict, Mistake, SchemaMismatch, StoreUnavailable
from everlog.store import Store, Unit, metadata, migrate, open_store, postgres, scoped
from everlog.store.engine import THREADS
from everlog.store.pooled import split
from everlog.store.postgres import PostgresEngine
from tests.conformance.conftest import Database
from tests.postgres import PostgresDatabase, PostgresServer, running_server
from tests.unit.store.relay import relay
from tests.unit.store.sample import ALL, CLEAR, PUT, PUT_IF_NEW, SET, names, put, receipt, row

LOCKED = scoped(receipt).select(receipt.c.report).where(receipt.c.id == bindparam("id")).with_for_update()


@pytest.fixture
def database(postgresql: Any) -> Iterator[Database]:
    with postgresql(None) as database:
        yield database


OTHERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user"
    " AND pid <> pg_backend_pid()"
)
"""The other sessions of the role that stores use; the one that empties the database is a superuser's."""


def maintain(store: Store) -> AbstractContextManager["psycopg.Connection[Any]"]:
    assert isinstance(store.engine, PostgresEngine)
    return store.engine.maintain()


def pooled(store: Store) -> AbstractContextManager["psycopg.Connection[Any]"]:
    assert isinstance(store.engine, PostgresEngine)
    return store.engine._pool().connection()


def kill_sessions(store: Store) -> None:
    """End all of the server's sessions that the store has open, and wait for it."""
    with maintain(store) as raw:
        found = raw.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM ({OTHERS}) AS others").fetchall()
    assert found
    assert set(found) == {(True,)}


# The pipeline


def test_an_error_of_a_write_is_raised_at_the_next_answer_and_is_that_error(store: Store):
    put(store, "ada", "1")
    reached: list[str] = []

    def act(unit: Unit) -> None:
        unit.run(PUT, row("1"))
        reached.append("after the write")
        unit.rows(ALL)
        reached.append("after the answer")

    with pytest.raises(Conflict, match="pk_receipt"):
        store.write("ada", act, name="put")
    assert set(reached) == {"after the write"}


def test_an_error_of_the_last_write_is_raised_by_the_commit(store: Store):
    with pytest.raises(psycopg.errors.NotNullViolation):
        store.write("ada", lambda unit: unit.run(PUT, row("1") | {"target": None}), name="put")
    assert names(store, "ada") == []


def test_a_unit_that_swallows_an_error_of_the_server_is_not_taken_for_stored(store: Store):
    def act(unit: Unit) -> None:
        unit.run(PUT, row("1"))
        unit.run(PUT, row("2") | {"target": None})
        try:
            unit.rows(ALL)
        except psycopg.Error:
            return

    with pytest.raises(StoreUnavailable, match="nothing of this was stored"):
        store.write("ada", act, name="put")
    assert names(store, "ada") == []


def test_writes_may_stand_between_answers(store: Store):
    def act(unit: Unit) -> list[Any]:
        first, _ = unit.ask(ALL), unit.ask(ALL)
        unit.run(PUT, [row("1"), row("2")])
        second = unit.ask(ALL)
        unit.run(CLEAR)
        changed = unit.count(PUT, **row("3"))
        unit.run(PUT, row("4"))
        return [second(), first(), changed]

    assert store.write("ada", act, name="put") == [[("1", ""), ("2", "")], [], 1]
    assert names(store, "ada") == ["3", "4"]


def test_a_unit_that_asks_first_and_writes_last_takes_two_round_trips(database: Database):
    put(database.open(), "ada", "1")
    with relay(database.address) as (address, wire):
        store = database.open_at(address)

        def act(unit: Unit) -> None:
            locked, everything = unit.ask(LOCKED, id="1"), unit.ask(ALL)
            unit.expect("1" * 32)
            secret = unit.secret()
            assert locked() == [("",)]
            assert len(everything()) + len(secret) > 32
            unit.run(PUT_IF_NEW, [row("2"), row("3")])
            unit.run(SET, {"of": "1", "new_report": ""})

        def blind(unit: Unit) -> None:
            unit.run(PUT_IF_NEW, row("4"))

        for unit, trips in ((act, 2), (blind, 2), (lambda unit: unit.count(SET, of="1", new_report=""), 2)):
            for _ in range(8):
                wire.trips = 0
                store.write("ada", unit, name="put")
            assert wire.trips == trips
        store.read("ada", lambda unit: unit.rows(ALL))
        wire.trips = 0
        store.read("ada", lambda unit: unit.rows(ALL))
        assert wire.trips == 2
        store.close()


# What is run again


def test_a_unit_is_run_again_whole_when_another_stored_the_same_row_first(store: Store):
    """Both look, find nothing, and insert; the second one waits, fails, looks again, and finds it."""
    both = threading.Barrier(2, timeout=20)
    tries: list[int] = []

    def act(unit: Unit) -> bool:
        tries.append(1)
        there = bool(unit.rows(ALL))
        if not there:
            if len(tries) <= 2:
                both.wait()
            unit.run(PUT, row("1"))
        return there

    with ThreadPoolExecutor(2) as threads:
        found = [threads.submit(store.write, "ada", act, name="put") for _ in range(2)]
        assert sorted(one.result(20) for one in found) == [False, True]
    assert len(tries) == 3


def test_a_deadlock_is_resolved_by_running_one_of_the_units_again(store: Store):
    put(store, "ada", "1", "2")
    both = threading.Barrier(2, timeout=20)
    tries: list[str] = []

    def crossing(first: str, second: str) -> Callable[[Unit], None]:
        def act(unit: Unit) -> None:
            tries.append(first)
            unit.rows(LOCKED, id=first)
            if len(tries) <= 2:
                both.wait()
            unit.run(SET, {"of": second, "new_report": f"by {first}"})

        return act

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(store.write, "ada", crossing(*order), name="x") for order in ("12", "21")]:
            done.result(20)
    assert len(tries) == 3
    assert store.read("ada", lambda unit: unit.rows(ALL)) == [("1", "by 2"), ("2", "by 1")]


def test_a_session_that_the_server_ends_in_the_midst_of_a_unit_is_replaced_and_the_unit_run_again(store: Store):
    tries: list[int] = []

    def act(unit: Unit) -> None:
        tries.append(1)
        unit.run(PUT, row("1"))
        if len(tries) == 1:
            unit.rows(ALL)
            kill_sessions(store)
        unit.run(PUT, row("2"))

    store.write("ada", act, name="put")
    assert (len(tries), names(store, "ada")) == (2, ["1", "2"])


def test_sessions_that_ended_while_nobody_used_them_are_replaced(store: Store):
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: put(store, "ada", f"{n}"), range(32)))
    kill_sessions(store)
    put(store, "ada", "after")
    assert names(store, "ada")[-1] == "after"


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("asks", [True, False])
def test_a_wire_that_breaks_in_a_commit_stores_the_unit_exactly_once(database: Database, cut: Any, asks: bool):
    """The unit is not idempotent on purpose: it makes a new row each time it runs."""
    with relay(database.address) as (address, wire):
        store = database.open_at(address)
        put(store, "ada", "first")
        tries: list[int] = []

        def act(unit: Unit) -> int:
            tries.append(1)
            if asks:
                unit.rows(ALL)
            unit.run(PUT, row(f"try-{len(tries)}"))
            return len(tries)

        wire.cut = cut
        result = store.write("ada", act, name="put")
        assert wire.cuts == 1
        assert result == len(tries) == (2 if cut == "before" else 1)
        assert names(store, "ada") == ["first", f"try-{result}"]
        store.close()


def test_if_nobody_can_tell_whether_it_was_stored_the_error_says_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgres, "RESOLVE_S", 0.2)
    with relay(database.address) as (address, wire):
        store = database.open_at(address)
        put(store, "ada", "first")
        monkeypatch.setattr(store.engine, "dsn", "postgresql://nobody@127.0.0.1:1/none")
        wire.cut = "before"
        with pytest.raises(StoreUnavailable, match="whether this was stored is not known"):
            put(store, "ada", "1")
        store.close()


def test_a_server_that_is_away_is_a_clear_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgres, "CONNECT_S", 1.0)
    with running_server() as server:
        own = server.create()
        migrate.upgrade(PostgresEngine(own.url), encrypted=False)
        store = open_store(own.url)
        put(store, "ada", "1")
    with pytest.raises(StoreUnavailable, match="PostgreSQL: "):
        put(store, "ada", "2")
    store.close()
    with pytest.raises(StoreUnavailable, match=r"PostgreSQL: .*refused"):
        open_store(own.url)


def test_a_wrong_password_or_database_is_a_clear_error(
    postgres_database: PostgresDatabase, postgres_server: PostgresServer
):
    for url in (
        postgres_database.url.replace(postgres_server.password, "wrong"),
        postgres_database.url.replace(postgres_database.name, "none"),
    ):
        with pytest.raises(
            StoreUnavailable, match=r"PostgreSQL: .*(password authentication failed|does not exist)"
        ) as caught:
            open_store(url)
        assert postgres_server.password not in str(caught.value)


def test_without_the_driver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Mistake, match=r"pip install 'everlog\[postgres\]'"):
        open_store("postgresql://x@localhost/x")


# Poolers


def test_no_state_of_a_session_outlives_a_transaction(store: Store):
    put(store, "ada", "1")
    names(store, "bob")

    with pooled(store) as raw:
        assert raw.execute("SELECT coalesce(current_setting('everlog.tenant', true), '')").fetchone() == ("",)
        assert raw.execute("SELECT count(*) FROM receipt").fetchone() == (0,)
        assert raw.execute("SELECT count(*) FROM pg_cursors").fetchone() == (0,)


def test_prepared_statements_can_be_turned_off_for_a_pooler(database: Database):
    prepared, plain = database.open(), database.open(prepared=False)
    mark = "&" if "?" in database.address else "?"
    said = open_store(f"{database.address}{mark}prepared=no")
    for store in (prepared, plain, said):
        for _ in range(12):
            store.write("ada", lambda unit: unit.run(PUT_IF_NEW, row("1")), name="put")
            names(store, "ada")

    def statements(store: Store) -> int:
        with pooled(store) as raw:
            found = raw.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        return 0 if found is None else int(found[0])

    with said:
        assert (statements(prepared) > 0, statements(plain), statements(said)) == (True, 0, 0)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("postgresql://h/d", ("postgresql://h/d", None)),
        ("postgresql://h/d?prepared=no", ("postgresql://h/d", False)),
        ("postgresql://h/d?a=1&prepared=yes&b=2", ("postgresql://h/d?a=1&b=2", True)),
    ],
)
def test_what_an_address_says_of_prepared_statements_is_for_us_and_not_for_the_driver(address: str, found: object):
    assert split(address) == found
    with pytest.raises(Mistake, match="prepared=maybe"):
        split("postgresql://h/d?prepared=maybe")


# The second wall


@pytest.fixture
def walled(database: Database) -> psycopg.Connection[Any]:
    """A raw session of the role that owns the tables, in a database with rows of two tenants."""
    store = database.open()
    for tenant in ("ada", "bob"):
        put(store, tenant, "1", "2")
        store.write(tenant, lambda unit: unit.secret(), name="secret")
    return psycopg.connect(database.address)


def test_raw_sql_without_a_condition_sees_the_rows_of_the_named_tenant_only(walled: psycopg.Connection[Any]):
    with walled as raw:
        tables = [table.name for table in metadata.sorted_tables if "tenant" in table.c]
        for table in tables:
            assert raw.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        for tenant, count in (("ada", 2), ("bob", 2), ("eve", 0), ("", 0), ("%", 0)):
            raw.execute("SELECT set_config('everlog.tenant', %s, true)", [tenant])
            assert raw.execute("SELECT count(*) FROM receipt").fetchone() == (count,)
        raw.rollback()


def test_raw_sql_cannot_write_rows_of_another_tenant(walled: psycopg.Connection[Any]):
    insert = (
        "INSERT INTO receipt (tenant, id, target, state, at, wrapper, report) VALUES ('bob', '9', '', '', 0, '', '')"
    )
    with walled as raw:
        for statement in (insert, "UPDATE receipt SET tenant = 'bob'"):
            raw.execute("SELECT set_config('everlog.tenant', 'ada', true)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                raw.execute(statement)
            raw.rollback()
        raw.execute("SELECT set_config('everlog.tenant', 'ada', true)")
        assert raw.execute("UPDATE receipt SET report = 'mine'").rowcount == 2
        assert raw.execute("DELETE FROM receipt WHERE tenant = 'bob'").rowcount == 0
        raw.commit()
        raw.execute("SELECT set_config('everlog.tenant', 'bob', true)")
        assert raw.execute("SELECT DISTINCT report FROM receipt").fetchall() == [("",)]


def test_a_session_for_everyone_reads_the_tables_marked_for_it_and_writes_nothing(walled: psycopg.Connection[Any]):
    marked = {table.name for table in metadata.sorted_tables if table.info.get("everyone")}
    with walled as raw:
        seen = set()
        for table in metadata.sorted_tables:
            if "tenant" in table.c:
                raw.execute("SELECT set_config('everlog.tenant', '*', true)")
                if raw.execute(f"SELECT count(*) FROM {table.name}").fetchone() != (0,):
                    seen.add(table.name)
                assert raw.execute(f"DELETE FROM {table.name}").rowcount == 0
                assert raw.execute(f"UPDATE {table.name} SET tenant = '*'").rowcount == 0
                raw.commit()
        assert seen == {"receipt", "tenant"} <= marked
        raw.execute("SELECT set_config('everlog.tenant', '*', true)")
        assert raw.execute("SELECT tenant FROM tenant ORDER BY 1").fetchall() == [("ada",), ("bob",)]


def test_every_table_and_every_partition_of_it_is_walled(postgres_database: PostgresDatabase):
    """Else a partition, named directly, would be a way around the wall of its table."""
    migrate.upgrade(PostgresEngine(postgres_database.url), encrypted=False, partitions=8)
    with open_store(postgres_database.url) as store:
        for tenant in ("ada", "bob", "eve"):
            put(store, tenant, "1")
    with psycopg.connect(postgres_database.url) as raw:
        found = raw.execute(
            "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class"
            " WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        open_tables = {name for name, walled in found if not walled}
        assert open_tables == {"everlog_upgrade", "everlog_version", "store_state"}
        parts = [name for name, _ in found if name.startswith("receipt_p")]
        assert len(parts) == 8
        raw.execute("SELECT set_config('everlog.tenant', 'ada', true)")
        assert sum(raw.execute(f"SELECT count(*) FROM {part}").fetchone()[0] for part in parts) == 1  # type: ignore[index]


def test_a_role_of_its_own_for_the_app_can_do_its_work_and_no_more(
    postgres_server: PostgresServer, postgres_database: PostgresDatabase
):
    role = f"run time {postgres_database.name}"
    postgres_server.admin(f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{postgres_server.password}'")
    address = postgres_server.url(role.replace(" ", "%20"), postgres_database.name)
    owner = PostgresEngine(postgres_database.url)
    try:
        migrate.upgrade(owner, encrypted=False, partitions=2)
        with pytest.raises(StoreUnavailable, match="permission denied"):
            open_store(address)
        migrate.upgrade(owner, encrypted=False, app_role=role)
        with open_store(address) as store:
            put(store, "ada", "1")
            assert (names(store, "ada"), names(store, "bob"), store.tenants()) == (["1"], [], [])
        with psycopg.connect(address) as raw:
            for statement in ("DROP TABLE receipt", "ALTER TABLE receipt DISABLE ROW LEVEL SECURITY"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner"):
                    raw.execute(statement)
                raw.rollback()
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                raw.execute("SELECT * FROM receipt_p0")
    finally:
        with psycopg.connect(postgres_database.superuser_url, autocommit=True) as admin:
            admin.execute(f'DROP OWNED BY "{role}"')
            admin.execute(f'DROP ROLE "{role}"')


def test_binary_columns_keep_no_samples_in_the_statistics(store: Store):
    """They would outlive what they were taken from."""
    with maintain(store) as raw:
        found = raw.execute(
            "SELECT count(*), count(*) FILTER (WHERE attstattarget = 0) FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND atttypid = 'bytea'::regtype AND attnum > 0"
        ).fetchone()
    assert found is not None
    assert found[0] == found[1] > 5


# Upgrades


def test_a_database_without_our_tables_is_not_touched_but_explained(postgres_database: PostgresDatabase):
    with pytest.raises(SchemaMismatch, match="has no Everlog tables yet; run `everlog db upgrade`"):
        open_store(postgres_database.url)
    with psycopg.connect(postgres_database.url) as raw:
        assert raw.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace").fetchone() == (
            0,
        )


@pytest.mark.parametrize(
    ("found", "says"),
    [("9999", "has schema 9999, this Everlog knows up to .* a newer version"), ("0000", "has schema 0000, older than")],
)
def test_a_database_of_another_version_is_refused(
    database: Database, found: str, says: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(migrate, "REVISIONS", ("0000", *migrate.REVISIONS))
    with psycopg.connect(database.address) as raw:
        raw.execute("UPDATE everlog_version SET version_num = %s", [found])
    with pytest.raises(SchemaMismatch, match=says):
        open_store(database.address)


def test_upgrading_at_once_from_many_places_is_done_once(postgres_database: PostgresDatabase):
    engines = [PostgresEngine(postgres_database.url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda engine: migrate.upgrade(engine, encrypted=True), engines))
    with psycopg.connect(postgres_database.url) as raw:
        assert raw.execute("SELECT value FROM store_state").fetchall() == [("complete",)]


def test_an_upgrade_that_fails_leaves_nothing(postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch):
    def fail(connection: Any, role: str) -> None:
        raise LookupError(role)

    monkeypatch.setattr(migrate, "_grant", fail)
    with pytest.raises(LookupError):
        migrate.upgrade(PostgresEngine(postgres_database.url), encrypted=False, app_role="nobody")
    assert migrate.version(PostgresEngine(postgres_database.url)) is None


def test_a_server_that_cannot_be_reached_for_an_upgrade_is_a_clear_error():
    with pytest.raises(StoreUnavailable, match="PostgreSQL: "):
        migrate.upgrade(PostgresEngine("postgresql://x@127.0.0.1:1/x"), encrypted=False)


# Forks


def test_a_child_has_sessions_of_its_own_and_leaves_its_parents_alone(database: Database):
    program = f"""
import os, sys
from everlog.store import open_store
from tests.unit.store.sample import names, put
store = open_store({database.address!r})
put(store, "ada", "before")
codes = []
for n in range(4):
    if (child := os.fork()) == 0:
        assert "before" in names(store, "ada")
        put(store, "ada", f"child-{{n}}")
        if n % 2:
            sys.exit(0)
        store.close()
        os._exit(0)
    put(store, "ada", f"parent-{{n}}")
    codes.append(os.waitpid(child, 0)[1])
print(codes, len(names(store, "ada")))
store.close()
"""
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("[0, 0, 0, 0] 9\n", "")


def test_an_interrupt_in_the_midst_of_a_unit_leaves_nothing_and_the_store_in_order(store: Store):
    def act(unit: Unit) -> None:
        unit.run(PUT, row("1"))
        unit.rows(ALL)
        signal.raise_signal(signal.SIGINT)

    for _ in range(2 * THREADS):
        with pytest.raises(KeyboardInterrupt):
            store.write("ada", act, name="put")
    put(store, "ada", "after")
    assert names(store, "ada") == ["after"]
