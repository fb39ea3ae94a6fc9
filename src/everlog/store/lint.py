"""The proof that a statement cannot leave its tenant, from its structure; and a second look at its text.

Every table of every level of a statement must be held to `:tenant` by a condition that all rows have to meet: one of
the terms that AND joins in WHERE or in the ON of a join, never one inside OR, NOT or CASE. A table is also held by
`a.tenant = b.tenant` where the other one is held. The ON of an outer join holds only its right side. What cannot be
read (literal SQL, tables that are functions) is refused, and so is setting a row's tenant.
"""

import re
from collections.abc import Iterator

from sqlalchemy import CTE, Alias, BindParameter, Column, Join, Subquery, TextClause
from sqlalchemy.sql import Delete, FromClause, Insert, Select, Update, operators
from sqlalchemy.sql.elements import (
    BinaryExpression,
    BooleanClauseList,
    ClauseElement,
    ColumnClause,
    ColumnElement,
    Grouping,
)
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import SelectBase, TextualSelect

_PARAMETER = r"(?::\w+|%\(\w+\)s(?:::\w+(?:\[\])?)?)"
_TENANT = r"(?::tenant|%\(tenant\)s(?:::VARCHAR)?)"
_NAME = r'"?\w+"?'
_INSERT = re.compile(
    rf"INSERT INTO {_NAME} \(tenant(?:, {_NAME})*\) VALUES \({_TENANT}(?:, {_PARAMETER})*\)"
    rf"(?: ON CONFLICT DO NOTHING"
    rf"| ON CONFLICT \(tenant(?:, {_NAME})*\) DO UPDATE SET {_NAME} = excluded\.{_NAME}"
    rf"(?:, {_NAME} = excluded\.{_NAME})*)?"
)
_HELD = re.compile(rf"\btenant = {_TENANT}")
_SETS_TENANT = re.compile(r"\btenant = excluded\.|(?:SET |, )tenant=")


def check(statement: ClauseElement, sql: str) -> None:
    """Prove that a statement, compiled to `sql`, touches rows of the unit's tenant only.

    Raises:
        ValueError: it is not proven; the message says what is loose.
    """
    if not isinstance(statement, Insert):
        for level in _levels(statement):
            _check_level(level)
    held = _INSERT.fullmatch(sql) if isinstance(statement, Insert) else _HELD.search(sql)
    if held is None or _SETS_TENANT.search(sql):
        raise ValueError(f"this statement is not scoped to a tenant: {sql}")


def _levels(statement: ClauseElement) -> Iterator[ClauseElement]:
    """Yield the statement and every SELECT inside it."""
    yield statement
    for part in _parts(statement):
        if isinstance(part, SelectBase):
            yield from _levels(part)


def _parts(level: ClauseElement) -> Iterator[ClauseElement]:
    """Yield what a level consists of; the SELECTs inside it as wholes."""
    for child in level.get_children():
        yield child
        if not isinstance(child, SelectBase) and not (isinstance(child, Alias) and not _is_select(child)):
            yield from _parts(child)


def _check_level(level: ClauseElement) -> None:
    tables: set[FromClause] = set()
    for part in _parts(level):
        if isinstance(part, TextClause | TextualSelect) or (isinstance(part, ColumnClause) and _is_literal(part)):
            raise ValueError(f"literal SQL cannot be proven to be scoped to a tenant: {part}")
        if isinstance(part, Column) and part.table is not None:
            tables.add(part.table)
        elif isinstance(part, FromClause) and not isinstance(part, Join | SelectBase | FunctionElement):
            tables.add(part)
    if isinstance(level, Select):
        tables.update(source for source in level.get_final_froms() if isinstance(source, FunctionElement))
    elif isinstance(level, Update | Delete):
        tables.add(level.table)
    loose = sorted(_name(table) for table in tables - _held(level) if not _is_select(table))
    if loose:
        raise ValueError(f"statement is not scoped to a tenant in {', '.join(loose)}; begin it with scoped(table)")


def _held(level: ClauseElement) -> set[FromClause]:
    """Return the tables of a level whose rows all have the unit's tenant."""
    held: set[FromClause] = set()
    pairs: list[tuple[FromClause, FromClause]] = []
    for term, only in _terms(level):
        left, right = _sides(term)
        if left is not None and right is not None:
            pairs += [(a, b) for a, b in ((left, right), (right, left)) if only is None or b in only]
        elif left is not None and _is_tenant(term.right) and (only is None or left in only):
            held.add(left)
    for _ in pairs:
        held |= {after for before, after in pairs if before in held}
    return held


def _terms(level: ClauseElement) -> Iterator[tuple["BinaryExpression[object]", frozenset[FromClause] | None]]:
    """Yield the equations that all rows meet, each with the tables it holds, None for any."""
    if isinstance(level, Select | Update | Delete) and level.whereclause is not None:
        yield from ((term, None) for term in _all_of(level.whereclause))
    for join in level.get_final_froms() if isinstance(level, Select) else ():
        yield from _join_terms(join)


def _join_terms(source: FromClause) -> Iterator[tuple["BinaryExpression[object]", frozenset[FromClause] | None]]:
    if not isinstance(source, Join):
        return
    right = frozenset(_tables_of(source.right))
    only = frozenset[FromClause]() if source.full else right if source.isouter else None
    if source.onclause is not None:
        yield from ((term, only) for term in _all_of(source.onclause))
    for side, outer in ((source.left, source.full), (source.right, source.full or source.isouter)):
        if not outer:
            yield from _join_terms(side)


def _all_of(clause: object) -> Iterator["BinaryExpression[object]"]:
    if isinstance(clause, Grouping):
        yield from _all_of(clause.element)
    elif isinstance(clause, BooleanClauseList) and clause.operator is operators.and_:
        for term in clause.clauses:
            yield from _all_of(term)
    elif isinstance(clause, BinaryExpression) and clause.operator is operators.eq:
        yield clause


def _tables_of(source: FromClause) -> Iterator[FromClause]:
    if isinstance(source, Join):
        yield from _tables_of(source.left)
        yield from _tables_of(source.right)
    else:
        yield source


def _sides(term: "BinaryExpression[object]") -> tuple[FromClause | None, FromClause | None]:
    return _tenant_column(term.left), _tenant_column(term.right)


def _tenant_column(element: ColumnElement[object]) -> FromClause | None:
    return element.table if isinstance(element, Column) and element.name == "tenant" else None


def _is_tenant(element: ColumnElement[object]) -> bool:
    return isinstance(element, BindParameter) and element.key == "tenant"


def _is_literal(column: "ColumnClause[object]") -> bool:
    return column.is_literal and column.name != "*"


def _name(source: FromClause) -> str:
    return f"an alias of {_name(source.element)}" if isinstance(source, Alias) else str(getattr(source, "name", source))


def _is_select(source: FromClause) -> bool:
    """Whether a source is a SELECT, which is a level of its own."""
    while isinstance(source, Alias):
        source = source.element
    return isinstance(source, Subquery | CTE)
