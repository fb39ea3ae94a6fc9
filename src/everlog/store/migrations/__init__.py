"""The revisions of the schema, oldest first, and how a table is made on each engine.

`make_table` gives every table what it needs beyond its columns: on PostgreSQL hash partitions by tenant if asked for,
the row-level security that is the second wall between tenants, and no statistics on sealed columns, which would keep
samples of them. On SQLite, rows live in their primary key's tree.
"""

from alembic import context, op
from sqlalchemy import Column, Index, PrimaryKeyConstraint, UniqueConstraint

_MINE = "tenant = current_setting('everlog.tenant', true)"
_ALL = "current_setting('everlog.tenant', true) = '*'"


def make_table(
    name: str,
    *columns: "Column[object] | PrimaryKeyConstraint | UniqueConstraint",
    indexes: tuple[tuple[str, ...], ...] = (),
    everyone: bool = False,
) -> None:
    """Create a table whose first column is `tenant`, on the engine at hand.

    Args:
        name: of the table.
        columns: its columns and constraints.
        indexes: column names of further indexes, `tenant` first.
        everyone: whether statements that are named as crossing tenants may read it.
    """
    postgres = op.get_context().dialect.name == "postgresql"
    partitions = context.config.attributes.get("partitions") or 0
    by_tenant = "HASH (tenant)" if partitions else None
    op.create_table(name, *columns, sqlite_with_rowid=False, postgresql_partition_by=by_tenant)
    for names in indexes:
        op.create_index(f"ix_{name}_{'_'.join(names)}", name, list(names))
    if not postgres:
        return
    for n in range(partitions):
        op.execute(
            f"CREATE TABLE {name}_p{n} PARTITION OF {name} FOR VALUES WITH (MODULUS {partitions}, REMAINDER {n})"
        )
    for column in columns:
        if isinstance(column, Column) and str(column.type) == "BLOB":
            op.execute(f"ALTER TABLE {name} ALTER COLUMN {column.name} SET STATISTICS 0")
    allowed = f"{_MINE} OR {_ALL}" if everyone else _MINE
    op.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant_only ON {name} USING ({allowed}) WITH CHECK ({_MINE})")
