"""Work over whole tables that is read off the schema: paging, sealing anew, copies for an heir, dropping."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy import Table

from everlog.log.rows import blob_use, entry, turn
from everlog.store import Store, Unit, metadata, scoped, sealed
from everlog.store.keys import version_of
from everlog.store.rotation import rotate_owner
from tests.conformance.conftest import Database
from tests.unit.store.sealed_sample import ENTRIES, counts, fill, owner, saying, words

PUT_USE = scoped(blob_use).insert()
TURNS = scoped(turn).select(turn.c.n, turn.c.client_key).where(turn.c.thread == owner(1))
PLANS = {"thread", "tombstone", "owner", "tenant", "keep"}


def test_every_table_says_how_erasure_finds_its_rows():
    """A table that can hold text or name a thread, and is not in the plan, would be forgotten by it."""
    loose = []
    for table in metadata.sorted_tables:
        plan = table.info.get("erase")
        sealed_columns = sealed.sealed_columns(table)
        if plan not in PLANS or (plan in ("thread", "tombstone") and "thread" not in table.c):
            loose.append(table.name)
        if plan == "keep" and ("thread" in table.c or sealed_columns):
            loose.append(table.name)
        if plan == "tombstone":
            kept = {column.name for column in table.c} - set(table.info["clear"])
            loose += [f"{table.name}.{column.name}" for column in sealed_columns if column.name in kept]
            loose += [f"{table.name}.{name}" for name in table.info["clear"] if not table.c[name].nullable]
    assert loose == []


def test_every_sealed_table_has_the_key_that_sealing_anew_needs():
    shapes = {table.name: [column.name for column in table.primary_key] for table in sealed.sealed_tables()}
    assert {name: key for name, key in shapes.items() if key[:2] != ["tenant", "thread"] or len(key) > 3} == {}
    assert {"entry", "thread", "turn", "blob"} <= shapes.keys()


def test_a_binary_column_that_is_not_sealed_holds_a_digest_or_a_key_only():
    binary = [
        (table.name, column.name, getattr(column.type, "length", None))
        for table in metadata.sorted_tables
        for column in table.c
        if type(column.type).__name__ == "LargeBinary" and not column.info.get("sealed")
    ]
    assert [one for one in binary if one[2] != 16] == [
        ("api_key", "hash", 32),
        ("wrapped_key", "wrapped", None),
    ]


def pages(store: Store, table: Table, limit: int) -> list[list[tuple[Any, ...]]]:
    found, after = [], None
    place = [column.name for column in table.c].index(sealed.key_columns(table)[-1].name)
    while page := store.read("ada", partial(sealed.rows_of, table=table, owner=owner(0), after=after, limit=limit)):
        found.append(page)
        after = page[-1][place]
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_paging_gives_every_row_once_even_where_many_share_the_last_key(store: Store, limit: int):
    uses = [(name, i) for i in range(6) for name in "abcdefg"[: i + 1]]
    rows = [{"thread": owner(0), "name": name, "i": i} for name, i in uses]
    store.write("ada", lambda unit: unit.run(PUT_USE, rows), name="put")
    found = [(row[2], row[3]) for page in pages(store, blob_use, limit) for row in page]
    assert len(found) == len(uses)
    assert sorted(found) == sorted(uses)


def test_paging_of_entries_is_in_order(store: Store):
    fill(store, "ada", 2, 23)
    assert [len(page) for page in pages(store, entry, 10)] == [10, 10, 3]
    assert [row[2] for page in pages(store, entry, 10) for row in page] == list(range(23))


def copy_all(unit: Unit, table: Table) -> None:
    sealed.copy(unit, table, owner(0), owner(1), sealed.rows_of(unit, table, owner(0), None))


def test_an_heir_gets_copies_of_its_own_and_keeps_what_it_has(store: Store):
    fill(store, "ada", 1, 5)
    for table in (entry, turn):
        store.write("ada", partial(copy_all, table=table), name="copy")
    rows = store.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(1)))

    def opened(unit: Unit) -> list[bytes]:
        return [unit.open(entry.c.body, (owner(1), i), body) for i, body in rows]

    assert store.read("ada", opened) == [words(owner(0), i) for i in range(5)]
    store.write("ada", partial(copy_all, table=entry), name="copy")
    assert store.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(1))) == rows
    assert store.read("ada", lambda unit: unit.rows(TURNS)) == [(0, None)]
    assert counts(store, "ada", [0]) == [5]


@pytest.mark.parametrize("database", ["sqlite-encrypted", "postgresql-encrypted"], indirect=True)
def test_sealing_anew_goes_through_any_number_of_rows(database: Database):
    store = database.open()
    fill(store, "ada", 1, 2 * sealed.BATCH)
    store.write("ada", saying(owner(0), 2 * sealed.BATCH), name="say")
    assert rotate_owner(store, "ada", owner(0)) == 2 * sealed.BATCH + 1 + 3
    found = store.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(0)))
    assert {version_of(bytes(body)) for _, body in found} == {2}
    assert counts(store, "ada", [0]) == [2 * sealed.BATCH + 1]


def test_dropping_deletes_one_owners_rows(store: Store):
    fill(store, "ada", 2, 4)
    fill(store, "bob", 1, 4)
    assert store.write("ada", partial(sealed.drop, table=entry, owner=owner(0)), name="drop") == 4
    assert (counts(store, "ada", range(2)), counts(store, "bob", [0])) == ([0, 4], [4])
