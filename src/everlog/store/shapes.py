"""What the rows of a query can hold, read off the schema: each row is held against its columns before it is used.

SQLite keeps any value in any column, and rows of either engine can be changed by a hand or a disk. A column's type says
which values it takes, and whether NULL is one; column `info["holds"]` narrows that to a range of numbers, or a few words.
Table `info["mend"]` says what makes its rows anew, where something does.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Column, ColumnElement, Integer, LargeBinary, Select, SmallInteger
from sqlalchemy.sql import functions
from sqlalchemy.sql.functions import FunctionElement

from everlog.clock import TIMES
from everlog.errors import Damaged

MANY = 8
"""From so many rows on, whole columns are looked at (measured: half the time)."""

LOOK = "`everlog verify` says where, and a backup has what was stored"

COUNT = {"holds": range(1 << 31)}
"""`info` of a column that counts something."""

SIZE = {"holds": range(1 << 63)}
"""`info` of a column that counts bytes, or whatever else can be as many."""

FLAG = {"holds": range(2)}
"""`info` of a column that says yes or no."""

TIME = {"holds": TIMES}
"""`info` of a column of time stamps."""

_NULL = type(None)
_NUMBER: frozenset[type] = frozenset([int])
_TEXT: frozenset[type] = frozenset([str])
_BYTES: frozenset[type] = frozenset([bytes, memoryview])
_RANGES: dict[type, range] = {SmallInteger: range(-(1 << 15), 1 << 15), Integer: range(-(1 << 31), 1 << 31)}


@dataclass(frozen=True, slots=True)
class Field:
    """What one column of a query can hold."""

    name: str
    table: str
    types: frozenset[type]
    holds: range | frozenset[str] | None
    mend: str

    def check(self, values: Sequence[Any]) -> None:
        """Make sure that values can stand here.

        Raises:
            Damaged: one of them cannot.
        """
        if not self.types.issuperset(map(type, values)):
            raise self.damage("nothing" if None in values and _NULL not in self.types else "a value of another type")
        holds = self.holds
        if holds is None:
            return
        if _NULL in self.types:
            values = [value for value in values if value is not None]
        if isinstance(holds, range):
            if values and (min(values) < holds.start or max(values) >= holds.stop):
                raise self.damage("a number that is out of its range")
        elif not holds.issuperset(values):
            raise self.damage("a word that is none of its own")

    def damage(self, what: str) -> Damaged:
        """Return the error for something that cannot stand here."""
        return Damaged(f"a row of the table {self.table!r} is damaged: {self.name!r} holds {what}; {self.mend}")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rows of one query can hold."""

    fields: tuple[Field, ...]

    def check(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Make sure that all rows can be what was stored.

        Raises:
            Damaged: one cannot.
        """
        if len(rows) >= MANY:
            for n, field in enumerate(self.fields):
                field.check([row[n] for row in rows])
            return
        for row in rows:
            for field, value in zip(self.fields, row, strict=True):
                holds: Container[Any] | None = field.holds
                if type(value) not in field.types or not (holds is None or value is None or value in holds):
                    field.check((value,))


def shape_of(statement: object) -> Shape:
    """Return what the rows of a statement can hold; one that is no query has none."""
    return Shape(tuple(map(_field, statement.selected_columns)) if isinstance(statement, Select) else ())


def _field(element: ColumnElement[Any]) -> Field:
    """Return what a column of a query holds: that of a table, or a count, sum or maximum of one."""
    inner = element.clauses if isinstance(element, FunctionElement) else (element,)
    column = next((base for one in inner for base in one.base_columns if isinstance(base, Column)), None)
    if column is None:
        return Field("a count", "", _NUMBER, None, LOOK)
    info = column.info
    counted = isinstance(element, FunctionElement)
    types = _NUMBER | {_NULL, Decimal} if counted else _types(column)
    holds = None if isinstance(element, functions.sum) else info.get("holds", _RANGES.get(type(column.type)))
    return Field(column.name, column.table.name, types, holds, column.table.info.get("mend", LOOK))


def _types(column: "Column[Any]") -> frozenset[type]:
    types = _NUMBER if isinstance(column.type, Integer) else _BYTES if isinstance(column.type, LargeBinary) else _TEXT
    return types | {_NULL} if column.nullable else types
