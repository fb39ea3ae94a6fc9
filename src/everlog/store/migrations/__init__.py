"""The revisions of the schema, oldest first, and how a table is made on each engine.

`make_table` gives every table what it needs beyond its columns: on PostgreSQL hash partitions by tenant if asked for,
the row-level security that is the second wall between tenants, and no statistics on binary columns, which would keep
samples of them. On SQLite, small rows live in their primary key's tree.
"""

from typing import Any

from alembic import context, op
from sqlalchemy import Column, LargeBinary, PrimaryKeyConstraint, UniqueConstraint

_TENANT = "current_setting('everlog.tenant', true)"


def make_table(
    name: str,
    *columns: "Column[Any] | PrimaryKeyConstraint | UniqueConstraint",
    indexes: tuple[tuple[str, ...], ...] = (),
    everyone: bool = False,
    large: bool = False,
) -> None:
    """Create a table whose first column is `tenant`, on the engine at hand.

    Args:
        name: of the table.
        columns: its columns and constraints.
        indexes: column names of further indexes, `tenant` first.
        everyone: whether statements that are named as crossing tenants may read it.
        large: whether rows are often above a kilobyte. SQLite then keeps them beside their key instead of in it, where
            each of them would fill a page of its own (measured at 1 KB: a third of the space, faster to read).
    """
    partitions: int = context.config.attributes.get("partitions") or 0
    by_tenant = "HASH (tenant)" if partitions else None
    op.create_table(name, *columns, sqlite_with_rowid=large, postgresql_partition_by=by_tenant)
    for names in indexes:
        op.create_index(f"ix_{name}_{'_'.join(names)}", name, list(names))
    if op.get_context().dialect.name != "postgresql":
        return
    binary = [column.name for column in columns if isinstance(column, Column) and isinstance(column.type, LargeBinary)]
    for column in binary:
        op.execute(f"ALTER TABLE {name} ALTER COLUMN {column} SET STATISTICS 0")
    _wall(name, everyone=everyone)
    for n in range(partitions):
        part = f"{name}_p{n}"
        op.execute(f"CREATE TABLE {part} PARTITION OF {name} FOR VALUES WITH (MODULUS {partitions}, REMAINDER {n})")
        for column in binary:
            op.execute(f"ALTER TABLE {part} ALTER COLUMN {column} SET STATISTICS 0")
        _wall(part, everyone=everyone)


def _wall(table: str, *, everyone: bool) -> None:
    """Hold every session to the rows of the tenant it names, whatever its statements say."""
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant_only ON {table} USING (tenant = {_TENANT})")
    if everyone:
        op.execute(f"CREATE POLICY everyone ON {table} FOR SELECT USING ({_TENANT} = '*')")
