"""Every statement of Everlog: compiled for both engines, scoped to a tenant, or on this list with its reason."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Delete, PrimaryKeyConstraint, Select, String, UniqueConstraint, Update
from sqlalchemy.dialects.postgresql import Insert

import everlog
from everlog.store import metadata, sealed
from everlog.store.statements import DIALECTS, Compiler, Statement, crossing

CROSSING = {
    "SELECT store_state.name, store_state.value FROM store_state": "one row for the whole database",
    "SELECT DISTINCT wrapped_key.wrapper FROM wrapped_key WHERE wrapped_key.owner = :owner_1": (
        "which master keys are still needed is a question about the whole database"
    ),
    "SELECT tenant.tenant FROM tenant ORDER BY tenant.tenant": "rotation, retention and upgrades visit every tenant",
    "SELECT DISTINCT receipt.tenant FROM receipt": "erasures of tenants that are gone are settled like those of others",
    "UPDATE store_state SET value=:new_value WHERE store_state.name = :name_1 AND store_state.value = :was": (
        "whether the database is encrypted is a fact about the whole of it"
    ),
    "SELECT anon_1.tenant, anon_1.memory, anon_1.subject, anon_1.bucket, anon_1.live, anon_1.due_at, anon_1.lease_owner, anon_1.lease_until, anon_1.nth FROM (SELECT due.tenant AS tenant, due.memory AS memory, due.subject AS subject, due.bucket AS bucket, due.live AS live, due.due_at AS due_at, due.lease_owner AS lease_owner, due.lease_until AS lease_until, row_number() OVER (PARTITION BY due.tenant ORDER BY due.live DESC, due.due_at, due.memory, due.subject) AS nth FROM due WHERE due.due_at <= :now AND due.memory IN (SELECT value FROM json_each(:memories))) AS anon_1 WHERE anon_1.nth <= :most ORDER BY anon_1.live DESC, anon_1.nth, anon_1.due_at, anon_1.tenant, anon_1.memory, anon_1.subject LIMIT :limit": "a worker takes on what is due, whoever's it is",
}
"""All that may cross tenants: an addition here is a decision about the wall between them."""

SOURCE = Path(everlog.__file__).parent
ROWS = [
    importlib.import_module(".".join(("everlog", *path.relative_to(SOURCE).with_suffix("").parts)))
    for path in sorted(SOURCE.rglob("rows.py"))
]


def statements() -> Iterator[tuple[str, Statement]]:
    for module in ROWS:
        for name, found in vars(module).items():
            many = found.items() if isinstance(found, dict) else [("", found)]
            for key, value in many:
                if isinstance(value, Select | Insert | Update | Delete):
                    yield f"{module.__name__}.{name}{key or ''}", value


def generated() -> Iterator[tuple[str, Statement]]:
    """Statements that `sealed` makes from the schema."""
    for table in sealed.sealed_tables():
        for make in (sealed._owners, sealed._set_sealed, sealed._put, sealed._drop, sealed.drop_all):
            yield f"{make.__name__}({table.name})", make(table)
        for first in (True, False):
            for lock in (True, False):
                yield f"_batch({table.name}, {first}, {lock})", sealed._batch(table, first=first, lock=lock)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_is_scoped_and_compiles(dialect: str):
    compiler = Compiler(dialect)
    found = dict([*statements(), *generated()])
    refused = {}
    for name, statement in found.items():
        try:
            compiler(statement)
        except ValueError as error:
            refused[name] = str(error)
    assert refused == {}


def test_statements_that_cross_tenants_are_the_pinned_ones():
    found = {" ".join(sql.split()): reason for sql, reason in crossing() if "FROM note" not in sql}
    assert found == CROSSING


def test_every_table_has_the_tenant_first_in_its_keys_and_indexes():
    loose = []
    for table in metadata.sorted_tables:
        if table.name == "store_state":
            continue
        unique = [one for one in table.constraints if isinstance(one, PrimaryKeyConstraint | UniqueConstraint)]
        keys = [*unique, *table.indexes]
        loose += [f"{table.name} {key.name}" for key in keys if next(iter(key.columns)).name != "tenant"]
        if next(iter(table.c)).name != "tenant" or table.foreign_keys:
            loose.append(table.name)
    assert loose == []


def test_only_types_that_every_engine_has_are_used():
    """MySQL is to come: no types of one engine, keys short enough for its indexes, text in binary columns."""
    lawful = {"String", "BigInteger", "Integer", "SmallInteger", "LargeBinary", "Text"}
    used = {
        (table.name, column.name, type(column.type).__name__) for table in metadata.sorted_tables for column in table.c
    }
    assert [one for one in used if one[2] not in lawful] == []
    unbounded = [
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.c
        if type(column.type) is String and not column.type.length
    ]
    assert unbounded == []
