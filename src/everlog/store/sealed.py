"""Work over every sealed value of an owner, read off the schema: sealing anew, copying to an heir, dropping.

What this needs to know of a table it finds in its `info`:

* `erase`: `thread`, rows go with their thread; `tombstone`, rows stay and the columns in `clear` become NULL; `owner`,
  `tenant`, `keep`, the store's own.
* `share`: a `Share`, for rows that a fork reads from its parent.
* `covers`: for rows derived from entries, a function from a position to the values of the row's last key column.
* `derived`: set where a row may be derived from any entry of its thread.
* `since`: for rows derived from all entries below a position, which their last key column is.

A table with sealed columns has the primary key (tenant, owner) or (tenant, owner, one more).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, bindparam
from sqlalchemy import Table as Table  # noqa: PLC0414 -- for those who walk the schema

from everlog.errors import Damaged
from everlog.store.engine import Row
from everlog.store.keys import version_of
from everlog.store.statements import Statement, among, metadata, scoped
from everlog.store.unit import Unit

BATCH = 500


@dataclass(frozen=True, slots=True)
class Share:
    """How a fork's heir takes over a row: which column places it, and the last position it speaks of."""

    column: str
    last: Callable[[int], int] = int
    blank: tuple[str, ...] = ()
    """Columns that an heir's copy leaves empty."""


@cache
def tables(kind: str) -> tuple[Table, ...]:
    """Return all tables whose rows are erased in a certain way."""
    return tuple(table for table in metadata.sorted_tables if table.info.get("erase") == kind)


@cache
def sealed_tables() -> tuple[Table, ...]:
    """Return all tables with sealed columns, the tenant's own left out."""
    return tuple(
        table for table in metadata.sorted_tables if sealed_columns(table) and table.info["erase"] in _WITH_OWNER
    )


def owners(unit: Unit) -> list[str]:
    """Return all owners of sealed values that the tenant has."""
    found: set[str] = set()
    for table in sealed_tables():
        if len(key_columns(table)) == 1:
            found |= {owner for (owner,) in unit.rows(_owners(table))}
    return sorted(found)


_WITH_OWNER = ("thread", "tombstone")


@cache
def sealed_columns(table: Table) -> tuple["Column[Any]", ...]:
    """Return the columns of a table that hold sealed values."""
    return tuple(column for column in table.c if column.info.get("sealed"))


def reseal(unit: Unit, table: Table, owner: str, after: object, *, version: int) -> tuple[object, int] | None:
    """Seal one batch of an owner's rows in a table under its newest key.

    Args:
        unit: the unit of work.
        table: one of `sealed_tables()`.
        owner: whose rows.
        after: value of the last key column to go on from; None for the beginning.
        version: values under this version or newer are left alone; 0 seals what is plain.

    Returns:
        The value to go on from and how many rows changed, or None at the end.
    """
    keys = key_columns(table)
    if len(keys) == 1 and after is not None:
        return None
    found = unit.rows(_batch(table, first=after is None, lock=True), owner=owner, after=after, limit=BATCH)
    if not found:
        return None
    names = [column.name for column in table.c]
    changed = []
    for row in found:
        values = dict(zip(names, row, strict=True))
        key = [values[column.name] for column in keys]
        stale = {c: values[c.name] for c in sealed_columns(table) if _stale(values[c.name], version)}
        if stale:
            fresh = {c.name: values[c.name] for c in sealed_columns(table)}
            for column, sealed in stale.items():
                fresh[column.name] = unit.seal(column, key, unit.open(column, key, sealed))
            changed.append(
                {f"key_{column.name}": value for column, value in zip(keys, key, strict=True)}
                | {f"new_{name}": value for name, value in fresh.items()}
            )
    if changed:
        unit.run(_set_sealed(table), changed)
    return onward(found[-1][names.index(keys[-1].name)], after), len(changed)


def onward(last: Any, after: Any) -> Any:
    """Return the last key of a page that was read after another key, to go on from.

    Such keys are numbers and hexadecimal names, which stand in the same order in every collation.

    Raises:
        Damaged: it is not above that one, so the pages of a damaged table would be read for ever.
    """
    if type(last) is type(after) and last <= after:
        raise Damaged("the rows of a table do not stand in their order: it is damaged; restore a backup")
    return last


def copy(unit: Unit, table: Table, owner: str, heir: str, found: Sequence[Row]) -> None:
    """Give an heir its own copy of rows, sealed under its key; rows it has already stay as they are."""
    share: Share | None = table.info.get("share")
    names = [column.name for column in table.c]
    copies = []
    for row in found:
        values = dict(zip(names, row, strict=True))
        key = [owner, *(values[column.name] for column in key_columns(table)[1:])]
        values |= {"thread": heir} | dict.fromkeys(share.blank if share else ())
        for column in sealed_columns(table):
            if values[column.name] is not None:
                plain = unit.open(column, key, values[column.name])
                values[column.name] = unit.seal(column, [heir, *key[1:]], plain)
        copies.append(values)
    if copies:
        unit.run(_put(table), copies)


def rows_of(unit: Unit, table: Table, owner: str, after: object, limit: int = BATCH) -> list[Row]:
    """Return a batch of an owner's rows in the order of their last key column, after a value of it.

    Rows that are equal in that column come together, so a batch can be a little smaller or larger than `limit`.
    """
    found = unit.rows(_batch(table, first=after is None), owner=owner, after=after, limit=limit)
    keys = key_columns(table)
    if len(found) < limit or len(keys) <= 2:
        return found
    place = [column.name for column in table.c].index(keys[-1].name)
    whole = [row for row in found if row[place] != found[-1][place]]
    return whole or rows_of(unit, table, owner, after, limit * 2)


def beside(unit: Unit, table: Table, owner: str | None = None) -> list[Row]:
    """Return what stands in an owner's rows of a table, or in all of the tenant's, sealed values left out."""
    return unit.rows(_everything(table)) if owner is None else unit.rows(_beside(table), owner=owner)


def drop(unit: Unit, table: Table, owner: str) -> int:
    """Delete an owner's rows of a table."""
    return unit.count(_drop(table), owner=owner)


def drop_derived(unit: Unit, owner: str, positions: Sequence[int]) -> int:
    """Delete what was derived from entries at some positions, in one thread's rows; return how many."""
    dropped = 0
    for table in metadata.sorted_tables:
        if positions and table.info.get("derived"):
            dropped += drop(unit, table, owner)
        covers: Callable[[int], Sequence[int]] | None = table.info.get("covers")
        if covers is not None:
            keys = sorted({key for i in positions for key in covers(i)})
            for begin in range(0, len(keys), BATCH):
                dropped += unit.count(_drop_some(table), owner=owner, keys=keys[begin : begin + BATCH])
        if positions and table.info.get("since"):
            dropped += unit.count(_drop_above(table), owner=owner, position=min(positions))
    return dropped


@cache
def key_columns(table: Table) -> tuple["Column[Any]", ...]:
    """Return the primary key without the tenant: the owner, then at most one more for sealed tables."""
    return tuple(table.primary_key)[1:]


def _stale(value: bytes | None, version: int) -> bool:
    if value is None:
        return False
    found = version_of(bytes(value))
    return not found or found < version


@cache
def _batch(table: Table, *, first: bool, lock: bool = False) -> Statement:
    keys = key_columns(table)
    conditions: list[ColumnElement[bool]] = [keys[0] == bindparam("owner")]
    if not first:
        conditions.append(keys[-1] > bindparam("after"))
    batch = scoped(table).select().where(*conditions).order_by(keys[-1], *keys[:-1]).limit(bindparam("limit"))
    return batch.with_for_update() if lock else batch


@cache
def _everything(table: Table) -> Select[Any]:
    return scoped(table).select(*(column for column in table.c if not column.info.get("sealed")))


@cache
def _beside(table: Table) -> Select[Any]:
    return _everything(table).where(_owner(table) == bindparam("owner"))


@cache
def _owners(table: Table) -> Statement:
    return scoped(table).select(key_columns(table)[0])


@cache
def _set_sealed(table: Table) -> Statement:
    keys = [column == bindparam(f"key_{column.name}") for column in key_columns(table)]
    values: dict[str, Any] = {column.name: bindparam(f"new_{column.name}") for column in sealed_columns(table)}
    return scoped(table).update().where(*keys).values(values)


@cache
def _put(table: Table) -> Statement:
    return scoped(table).insert(ignore=True)


@cache
def _drop(table: Table) -> Statement:
    return scoped(table).delete().where(_owner(table) == bindparam("owner"))


@cache
def drop_all(table: Table) -> Statement:
    """Return the statement that deletes all of a tenant's rows of a table."""
    return scoped(table).delete()


@cache
def _drop_some(table: Table) -> Statement:
    last = key_columns(table)[-1]
    return scoped(table).delete().where(_owner(table) == bindparam("owner"), among(last, "keys"))


@cache
def _drop_above(table: Table) -> Statement:
    last = key_columns(table)[-1]
    return scoped(table).delete().where(_owner(table) == bindparam("owner"), last > bindparam("position"))


def _owner(table: Table) -> "Column[Any]":
    return table.c.thread if "thread" in table.c else table.c.owner
