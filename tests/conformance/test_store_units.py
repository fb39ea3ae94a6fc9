"""Units of work: what is stored when one ends, and what is not, on every store."""

import asyncio
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from everlog.errors import Conflict, Mistake, StoreUnavailable
from everlog.store import Store, Unit, scoped
from everlog.testing import failpoints
from tests.conformance.conftest import Database
from tests.unit.store.sample import (
    ALL,
    CLEAR,
    PUT,
    PUT_IF_NEW,
    PUT_OR_SET,
    SET,
    SET_IF,
    SET_STATE_OF_SOME,
    SOME,
    SOME_TIMES,
    names,
    put,
    putting,
    receipt,
    row,
)


def test_what_a_unit_wrote_is_there_when_it_returns(store: Store):
    put(store, "ada", "1", "2")
    assert names(store, "ada") == ["1", "2"]


def test_that_something_can_be_written_is_shown_without_changing_anything(store: Store):
    put(store, "ada", "1")
    store.prove()
    asyncio.run(store.aprove())
    assert names(store, "ada") == ["1"]
    store.close()
    with pytest.raises(StoreUnavailable):
        store.prove()


def test_a_unit_reads_what_it_wrote(store: Store):
    def act(unit: Unit) -> list[Any]:
        unit.run(PUT, row("1"))
        return unit.rows(ALL)

    assert store.write("ada", act, name="put") == [("1", "")]


def test_a_unit_that_raises_leaves_nothing_and_its_error_is_the_callers(store: Store):
    def act(unit: Unit) -> None:
        unit.run(PUT, row("1"))
        unit.rows(ALL)
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        store.write("ada", act, name="put")
    assert names(store, "ada") == []


def test_a_tenant_sees_its_own_rows_only(store: Store):
    put(store, "ada", "1")
    put(store, "bob", "1", "2")
    assert (names(store, "ada"), names(store, "bob"), names(store, "eve")) == (["1"], ["1", "2"], [])
    store.write("ada", lambda unit: unit.run(CLEAR), name="clear")
    assert (names(store, "ada"), names(store, "bob")) == ([], ["1", "2"])


def test_a_unit_cannot_name_another_tenant_as_parameter(store: Store):
    store.write("ada", lambda unit: unit.run(PUT, row("1") | {"tenant": "bob"}), name="put")
    assert store.read("bob", lambda unit: unit.rows(ALL, tenant="ada")) == []
    assert (names(store, "ada"), names(store, "bob")) == (["1"], [])


@pytest.mark.parametrize("tenant", ["", "*", "a b", "ä", "x" * 65, "a\n", "a\x00"])
def test_a_name_that_is_no_tenants_is_refused(store: Store, tenant: str):
    with pytest.raises(Mistake, match="a tenant is named by"):
        store.read(tenant, lambda unit: unit.rows(ALL))


@pytest.mark.parametrize("tenant", ["x" * 64, "';--", "a:b/c@d%20"])
def test_any_visible_ascii_names_a_tenant(store: Store, tenant: str):
    put(store, tenant, "1")
    assert names(store, tenant) == ["1"]


def test_count_tells_how_many_rows_changed(store: Store):
    put(store, "ada", "1", "2")

    def act(unit: Unit) -> list[int]:
        return [
            unit.count(SET_IF, of="1", seen="", new_report="a"),
            unit.count(SET_IF, of="1", seen="", new_report="b"),
            unit.count(SET, of="9", new_report="b"),
            unit.count(SET_STATE_OF_SOME, ids=["1", "2", "3"]),
            unit.count(CLEAR),
        ]

    assert store.write("ada", act, name="count") == [1, 0, 0, 2, 2]


def test_a_list_parameter_has_any_length(store: Store):
    put(store, "ada", *(f"{n:04}" for n in range(100)))
    store.write("ada", lambda unit: unit.run(PUT, row("at", at=1 << 61)), name="put")
    read = lambda **params: [name for (name,) in store.read("ada", lambda unit: unit.rows(SOME, **params))]  # noqa: E731
    assert read(ids=[]) == []
    assert read(ids=["0007", "none", "0042", "0042", "it's"]) == ["0007", "0042"]
    assert read(ids=[f"{n:04}" for n in range(40_000)]) == [f"{n:04}" for n in range(100)]
    assert store.read("ada", lambda unit: unit.rows(SOME_TIMES, times=[1 << 61, 1])) == [("at",)]


def test_a_write_without_parameter_sets_does_nothing(store: Store):
    put(store, "ada", "1")
    store.write("ada", lambda unit: unit.run(CLEAR, []), name="clear")
    assert names(store, "ada") == ["1"]


def test_ignored_and_replaced_rows(store: Store):
    put(store, "ada", "1")

    def act(unit: Unit) -> None:
        unit.run(PUT_IF_NEW, [row("1", "ignored"), row("2", "new")])
        unit.run(PUT_OR_SET, [row("2", "set"), row("3", "new")])

    store.write("ada", act, name="put")
    assert store.read("ada", lambda unit: unit.rows(ALL)) == [("1", ""), ("2", "set"), ("3", "new")]


def test_a_row_that_is_there_already_is_a_conflict_and_nothing_of_the_unit_stays(store: Store):
    put(store, "ada", "1")
    with pytest.raises(Conflict, match="there is such a row already"):
        put(store, "ada", "2", "1")
    assert names(store, "ada") == ["1"]


def test_a_reading_unit_cannot_write(store: Store):
    for act in (lambda unit: unit.run(CLEAR), lambda unit: unit.count(CLEAR)):
        with pytest.raises(RuntimeError, match="a reading unit cannot write"):
            store.read("ada", act)


def test_a_reading_unit_sees_one_moment(store: Store):
    put(store, "ada", "1")
    if store.engine.dialect == "sqlite" and store.engine.path is None:
        pytest.fail("a database in memory has one connection; this is about the others")
    seen: list[int] = []

    def act(unit: Unit) -> None:
        seen.append(len(unit.rows(ALL)))
        with ThreadPoolExecutor(1) as other:
            other.submit(put, store, "ada", "2").result()
        seen.append(len(unit.rows(ALL)))

    store.read("ada", act)
    assert (seen, names(store, "ada")) == ([1, 1], ["1", "2"])


@pytest.mark.parametrize("outer", ["read", "write"])
@pytest.mark.parametrize("inner", ["read", "write"])
def test_a_unit_in_a_unit_is_refused(store: Store, outer: str, inner: str):
    def run(kind: str, act: Any) -> Any:
        return store.read("ada", act) if kind == "read" else store.write("ada", act, name="nested")

    with pytest.raises(RuntimeError, match="compose them in one function"):
        run(outer, lambda _: run(inner, lambda unit: unit.rows(ALL)))
    put(store, "ada", "1")
    assert names(store, "ada") == ["1"]


def test_a_unit_has_one_time_which_is_the_clocks(database: Database):
    store = database.open()

    def act(unit: Unit) -> tuple[Any, int, Any]:
        database.clock.advance(timedelta(hours=1))
        return unit.now, unit.now_us, unit.now

    first, micros, again = store.write("ada", act, name="time")
    assert first == again
    assert micros == int(first.timestamp() * 1_000_000)


def test_many_threads_writing_and_reading_lose_nothing(store: Store):
    def work(n: int) -> None:
        for i in range(20):
            put(store, "ada", f"{n}-{i:02}")
            assert f"{n}-{i:02}" in names(store, "ada")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert names(store, "ada") == sorted(f"{n}-{i:02}" for n in range(8) for i in range(20))


def test_a_counter_that_eight_threads_raise_is_never_lost(store: Store):
    """A compare-and-set that fails is tried again by the caller; the row lock or the one writer decides."""
    put(store, "ada", "n")
    store.write("ada", lambda unit: unit.run(SET, {"of": "n", "new_report": "0"}), name="zero")
    locked = scoped(receipt).select(receipt.c.report).where(receipt.c.id == "n").with_for_update()

    def raise_it(_: int) -> None:
        def act(unit: Unit) -> None:
            found = unit.row(locked)
            assert found is not None
            unit.run(SET, {"of": "n", "new_report": str(int(found[0]) + 1)})

        store.write("ada", act, name="raise")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(raise_it, range(80)))
    assert store.read("ada", lambda unit: unit.row(ALL)) == ("n", "80")


def test_the_secret_of_a_tenant_is_made_once_and_is_its_own(database: Database):
    first, second = database.open(), database.open()

    def secret(store: Store, tenant: str) -> bytes:
        return store.write(tenant, lambda unit: unit.secret(), name="secret")

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda n: secret((first, second)[n % 2], "ada"), range(16)))
    assert len(found) == 1
    assert secret(second, "bob") not in found
    assert first.tenants() == ["ada", "bob"]
    assert first.read("ada", lambda unit: unit.secret()) in found


def test_async_units_are_the_same_units(store: Store):
    async def work() -> tuple[list[str], list[Any]]:
        await asyncio.gather(*(store.awrite("ada", putting(f"{n:03}"), name="put") for n in range(100)))
        found = await asyncio.gather(*(store.aread("ada", lambda unit: unit.rows(ALL)) for _ in range(20)))
        return [name for name, _ in found[0]], [len(one) for one in found]

    assert asyncio.run(work()) == ([f"{n:03}" for n in range(100)], [100] * 20)


def test_an_async_unit_that_fails_raises_in_the_task_that_awaits_it(store: Store):
    async def work() -> None:
        with pytest.raises(ZeroDivisionError):
            await store.awrite("ada", lambda _: 1 // 0, name="fail")
        with pytest.raises(Mistake):
            await store.aread("*", lambda unit: unit.rows(ALL))

    asyncio.run(work())


def test_an_async_unit_takes_one_hop_and_the_event_loop_goes_on(store: Store):
    """While a unit waits for this test, the loop must run other tasks."""
    go = threading.Event()

    def act(unit: Unit) -> str:
        unit.run(PUT, row("1"))
        return threading.current_thread().name if go.wait(20) else "the loop stood still"

    async def work() -> str:
        task = asyncio.create_task(store.awrite("ada", act, name="slow"))
        await asyncio.sleep(0)
        go.set()
        return await task

    assert asyncio.run(work()).startswith("everlog-")


def test_cancelling_a_task_stores_its_unit_whole_or_not_at_all_and_hurts_no_other(store: Store):
    """One unit runs and is cancelled: it is finished. Those behind it are cancelled before they begin: not run."""
    begun, go = threading.Event(), threading.Event()

    def slow(unit: Unit) -> None:
        unit.run(PUT, [row("slow-1"), row("slow-2")])
        begun.set()
        assert go.wait(20)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        running = asyncio.create_task(store.awrite("ada", slow, name="slow"))
        await loop.run_in_executor(None, begun.wait, 20)
        behind = [asyncio.create_task(store.awrite("ada", putting(f"b{n}"), name="put")) for n in range(40)]
        await asyncio.sleep(0)
        for task in (running, *behind[1::2]):
            task.cancel()
        go.set()
        await asyncio.gather(*behind[::2])
        for task in (running, *behind[1::2]):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(work())
    found = names(store, "ada")
    assert found[-2:] == ["slow-1", "slow-2"]
    assert {f"b{n}" for n in range(0, 40, 2)} <= set(found)
    put(store, "ada", "after")
    assert "after" in names(store, "ada")


def test_a_closed_store_says_so_and_closing_twice_is_fine(store: Store):
    put(store, "ada", "1")
    store.close()
    store.close()
    for act in (lambda: put(store, "ada", "2"), lambda: names(store, "ada")):
        with pytest.raises(StoreUnavailable, match="this store is closed"):
            act()
    with pytest.raises(StoreUnavailable, match="this store is closed"):
        asyncio.run(store.aread("ada", lambda unit: unit.rows(ALL)))


def test_closing_waits_for_what_was_submitted(database: Database):
    store = database.open()
    waiting = [store.engine.submit("put", store._unit("ada", putting(f"{n:02}"), writes=True)) for n in range(50)]
    store.close()
    assert all(one.done() and one.exception() is None for one in waiting)
    assert names(database.open(), "ada") == [f"{n:02}" for n in range(50)]


def test_no_error_says_what_was_to_be_stored(store: Store):
    """PostgreSQL quotes whole rows in the detail of an error; a traceback must not carry it on."""
    words = f"my-{'own'}-words"
    faults = [row("1", words) | {"target": None}, row("1", words) | {"id": None}, row("1", words) | {"at": words}]
    faults += [row("1") | {"id": words * 100}, row("1") | {"at": 1 << 70}]
    said = []
    for fault in faults:
        try:
            store.write("ada", partial(Unit.run, statement=PUT, params=fault), name="put")
        except Exception as error:  # noqa: BLE001 -- whatever it is, it must be silent
            said.append("".join(traceback.format_exception(error)))
    assert len(said) >= 3
    assert [one for one in said if words in one] == []


def test_a_commit_hits_its_two_failpoints_in_order(store: Store):
    with failpoints.heard() as hits:
        put(store, "ada", "1")
        names(store, "ada")
    assert hits == ["put.before_commit", "put.after_commit"]


def test_an_error_before_the_commit_stores_nothing_and_one_after_it_leaves_it_stored(store: Store):
    class Stop(Exception):
        pass

    for point, stored in (("put.before_commit", []), ("put.after_commit", ["1"])):
        with failpoints.raising(point, Stop()), pytest.raises(Stop):
            put(store, "ada", "1")
        assert names(store, "ada") == stored
    put(store, "ada", "2")
    assert names(store, "ada") == ["1", "2"]
