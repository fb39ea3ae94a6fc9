"""SQL as data: statements are built once, scoped to a tenant, checked, and compiled for a dialect.

`scoped(table)` is how every statement of Everlog begins: it adds `tenant = :tenant`, and the unit of work binds its own
tenant to it. `lint.py` proves the scope, from the structure of each statement and from its text. The few that cross
tenants are named in `unscoped`, each with its reason. SQLAlchemy builds and compiles; rows go straight to and from the
driver (measured: a fifth of the cost of executing through SQLAlchemy's connections).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import ARRAY, Column, ColumnElement, LargeBinary, MetaData, Table, bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import Delete, Select, Update, visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal

from everlog.store.lint import check
from everlog.store.shapes import Shape, shape_of

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)
"""The one schema; each package registers the tables it owns from its `rows.py`."""

Statement: TypeAlias = Select[Any] | postgresql.Insert | Update | Delete
S = TypeVar("S", bound=Statement)

DIALECTS = {
    "sqlite": sqlite.dialect(paramstyle="named"),
    "postgresql": postgresql.psycopg.dialect(),  # type: ignore[no-untyped-call]
}

_crossing: dict[int, tuple[Statement, str]] = {}


@dataclass(frozen=True, slots=True)
class Scoped:
    """Builds statements over one table that cannot leave the unit's tenant."""

    table: Table

    def select(self, *columns: ColumnElement[Any]) -> Select[Any]:
        """Select columns (all, if none is named) of the tenant's rows."""
        return select(*(columns or tuple(self.table.c))).where(self._mine)

    def insert(self, *, ignore: bool = False) -> postgresql.Insert:
        """Insert whole rows; with `ignore`, a row whose key exists already is left as it is."""
        statement = postgresql.insert(self.table)
        return statement.on_conflict_do_nothing() if ignore else statement

    def upsert(self, *, replace: Sequence[str]) -> postgresql.Insert:
        """Insert whole rows; where the primary key exists, replace the named columns by the new values."""
        statement = postgresql.insert(self.table)
        return statement.on_conflict_do_update(
            index_elements=list(self.table.primary_key),
            set_={name: statement.excluded[name] for name in replace},
        )

    def update(self) -> Update:
        """Update the tenant's rows; name conditions and values on the result."""
        return update(self.table).where(self._mine)

    def delete(self) -> Delete:
        """Delete the tenant's rows; name conditions on the result."""
        return delete(self.table).where(self._mine)

    @property
    def _mine(self) -> ColumnElement[bool]:
        return self.table.c.tenant == bindparam("tenant")


def scoped(table: Table) -> Scoped:
    """Begin a statement over `table` within the unit's tenant."""
    return Scoped(table)


def joined(left: Table, right: Table) -> ColumnElement[bool]:
    """Return the condition that keeps a join within the tenant."""
    return left.c.tenant == right.c.tenant


def unscoped(statement: S, *, reason: str) -> S:
    """Name a statement that crosses tenants on purpose, and why."""
    _crossing[id(statement)] = (statement, reason)
    return statement


class among(ColumnElement[bool]):  # noqa: N801 -- reads as an operator in a statement
    """`column IN (…)` for a list parameter of any length, without making the statement anew for each length.

    The column is of numbers, strings, or bytes of one fixed length.
    """

    inherit_cache = False
    _traverse_internals = [  # noqa: RUF012 -- the toolkit reads a list here
        ("column", InternalTraversal.dp_clauseelement),
        ("name", InternalTraversal.dp_string),
    ]

    def __init__(self, column: Column[Any], name: str) -> None:
        self.column = column
        self.name = name


@compiles(among)
def _among_sqlite(element: among, compiler: SQLCompiler, **kw: Any) -> str:
    column = compiler.process(element.column, **kw)
    values = compiler.process(bindparam(element.name), **kw)
    if isinstance(element.column.type, LargeBinary):
        size = element.column.type.length
        return (
            f"{column} IN (WITH RECURSIVE at(n) AS (VALUES (1) UNION ALL SELECT n + {size} FROM at"
            f" WHERE n + {size} <= length({values})) SELECT substr({values}, n, {size}) FROM at)"
        )
    return f"{column} IN (SELECT value FROM json_each({values}))"


@compiles(among, "postgresql")
def _among_postgresql(element: among, compiler: SQLCompiler, **kw: Any) -> str:
    column = compiler.process(element.column, **kw)
    values = bindparam(element.name, type_=ARRAY(element.column.type))
    return f"{column} = ANY({compiler.process(values, **kw)})"


def flat(values: Sequence[Any]) -> str | bytes:
    """Return the values of a list parameter as SQLite takes them: JSON, or bytes one after the other."""
    return b"".join(values) if values and isinstance(values[0], bytes) else json.dumps(values)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The text of a statement for one dialect, with the values it already carries."""

    sql: str
    fixed: Mapping[str, Any]
    lists: tuple[str, ...]
    """Names of its list parameters."""
    shape: Shape
    """What its rows can hold."""


class Compiler:
    """Compiles and checks statements for one dialect, each once; statements are constants, so all are kept."""

    def __init__(self, dialect: str) -> None:
        self._dialect = DIALECTS[dialect]
        self._known: dict[int, tuple[Statement, Compiled]] = {}

    def __call__(self, statement: Statement) -> Compiled:
        """Return the compiled form; raises ValueError for a statement that is not scoped to a tenant."""
        known = self._known.get(id(statement))
        if known is not None:
            return known[1]
        compiled = statement.compile(dialect=self._dialect)
        sql = str(compiled)
        if id(statement) not in _crossing:
            check(statement, sql)
        fixed = {name: bind.value for bind, name in compiled.bind_names.items() if not bind.required}
        lists = tuple(part.name for part in visitors.iterate(statement) if isinstance(part, among))
        result = Compiled(sql, fixed, lists, shape_of(statement))
        self._known[id(statement)] = (statement, result)
        return result


@cache
def compiler(dialect: str) -> Compiler:
    """Return the one compiler of a dialect: what is compiled for one store need not be for the next (0.1 s each)."""
    return Compiler(dialect)


def crossing() -> list[tuple[str, str]]:
    """Return every statement that crosses tenants, as text, and its reason."""
    return [(str(statement), reason) for statement, reason in _crossing.values()]
