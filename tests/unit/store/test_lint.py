"""No statement that could touch another tenant's rows gets past the compiler."""

import re
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    LargeBinary,
    MetaData,
    String,
    Table,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects import postgresql

from everlog.store.lint import check
from everlog.store.statements import Compiler, among, joined, scoped, unscoped

schema = MetaData()
note = Table(
    "note",
    schema,
    Column("tenant", String(64), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("owner", String(32)),
    Column("mark", LargeBinary(4)),
)
owner = Table(
    "owner",
    schema,
    Column("tenant", String(64), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("next", BigInteger),
)
mine = note.c.tenant == bindparam("tenant")
twin = note.alias()

LOOSE: dict[str, Any] = {
    "select": select(note),
    "by another column": select(note).where(note.c.id == bindparam("id")),
    "the parameter in another column": select(note).where(note.c.id == bindparam("tenant")),
    "another parameter": select(note).where(note.c.tenant == bindparam("other")),
    "a named tenant": select(note).where(note.c.tenant == "bob"),
    "unequal": select(note).where(note.c.tenant != bindparam("tenant")),
    "or": select(note).where(or_(mine, note.c.id == "x")),
    "or beside and": select(note).where(and_(note.c.id == "x", or_(mine, true()))),
    "not": select(note).where(not_(mine)),
    "case": select(note).where(case((mine, True), else_=True)),
    "having": select(note.c.id).group_by(note.c.id, note.c.tenant).having(mine),
    "join without tenant": scoped(note).select().join(owner, owner.c.id == note.c.owner),
    "cross join": scoped(note).select(note.c.id, owner.c.id),
    "join of what is loose": select(note).join(owner, joined(note, owner)),
    "outer join held only by its ON": select(note).outerjoin(owner, and_(mine, joined(note, owner))),
    "full join": scoped(note).select().join(owner, joined(note, owner), full=True),
    "alias": select(twin),
    "alias in a join": scoped(note).select().join(twin, twin.c.id == note.c.owner),
    "subquery": scoped(note).select().where(note.c.owner.in_(select(owner.c.id))),
    "subquery of the same table": scoped(note).select().where(note.c.id.in_(select(note.c.id))),
    "correlated exists": scoped(note).select().where(exists().where(owner.c.id == note.c.owner)),
    "scalar subquery": scoped(note).select(select(func.max(owner.c.next)).scalar_subquery()),
    "subquery in from": select(select(note.c.id).subquery()),
    "subquery that calls a column tenant": scoped(note)
    .select()
    .join((other := select(owner.c.id.label("tenant")).subquery()), other.c.tenant == note.c.tenant),
    "cte": scoped(note).select().join((named := select(owner.c.id).cte()), named.c.id == note.c.owner),
    "union": scoped(note).select(note.c.id).union(select(owner.c.id)),
    "lateral": scoped(note).select(note.c.id).join(select(owner.c.id).lateral(), true()),
    "function as table": scoped(note).select(note.c.id).select_from(func.pg_ls_dir("/")),
    "function as table with columns": scoped(note).select(func.json_each("[]").table_valued("value").c.value),
    "text": scoped(note).select().where(text("1 = 1")),
    "literal column": scoped(note).select(literal_column("(SELECT id FROM owner)")),
    "delete": delete(note),
    "delete or": delete(note).where(or_(mine, note.c.id == "x")),
    "update": update(note).values(owner="x"),
    "update from": scoped(note).update().where(note.c.owner == owner.c.id).values(id=owner.c.id),
    "update that moves rows": scoped(note).update().values(tenant=bindparam("other")),
    "update with a loose value": scoped(note).update().values(owner=select(owner.c.id).scalar_subquery()),
    "insert for another parameter": scoped(note).insert().values(tenant=bindparam("other"), id=bindparam("id")),
    "insert without tenant": scoped(note).insert().values(id=bindparam("id"), owner="x"),
    "insert from select": postgresql.insert(note).from_select(["tenant", "id"], select(owner.c.tenant, owner.c.id)),
    "insert of a subquery": scoped(note)
    .insert()
    .values(tenant=bindparam("tenant"), id=select(owner.c.id).scalar_subquery()),
    "insert returning": scoped(note).insert().returning(note.c.id),
    "upsert that moves rows": scoped(note).upsert(replace=["tenant"]),
    "upsert of a subquery": postgresql.insert(note).on_conflict_do_update(
        index_elements=list(note.primary_key), set_={"owner": select(owner.c.id).scalar_subquery()}
    ),
}

LAWFUL: dict[str, Any] = {
    "select": scoped(note).select(),
    "aggregate": scoped(note).select(func.count(), func.max(note.c.id)).group_by(note.c.owner),
    "conditions": scoped(note).select(note.c.id).where(or_(note.c.id == "x", note.c.id == "y")),
    "lists": scoped(note).select(note.c.id).where(among(note.c.id, "ids"), among(note.c.mark, "marks")),
    "join": scoped(note).select().join(owner, and_(joined(note, owner), owner.c.id == note.c.owner)),
    "outer join": scoped(note).select().outerjoin(owner, and_(joined(note, owner), owner.c.id == note.c.owner)),
    "join held from its other side": select(note)
    .join(owner, joined(note, owner))
    .where(owner.c.tenant == bindparam("tenant")),
    "alias": scoped(note).select().join(twin, and_(twin.c.tenant == note.c.tenant, twin.c.id == note.c.owner)),
    "subquery": scoped(note).select().where(note.c.owner.in_(scoped(owner).select(owner.c.id))),
    "exists": scoped(note).select().where(exists().where(joined(owner, note), owner.c.tenant == bindparam("tenant"))),
    "cte": scoped(note).select().join((held := scoped(owner).select(owner.c.id).cte()), held.c.id == note.c.owner),
    "union": scoped(note).select(note.c.id).union(scoped(owner).select(owner.c.id)),
    "locking": scoped(note).select().with_for_update(),
    "insert": scoped(note).insert(),
    "insert or ignore": scoped(note).insert(ignore=True),
    "upsert": scoped(note).upsert(replace=["owner", "mark"]),
    "update": scoped(note).update().where(note.c.id == bindparam("of")).values(owner=None, mark=bindparam("new")),
    "update from": scoped(note)
    .update()
    .where(joined(note, owner), note.c.owner == owner.c.id)
    .values(owner=owner.c.id),
    "delete": scoped(note).delete().where(note.c.id == bindparam("id")),
}


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("what", LOOSE)
def test_a_statement_that_is_not_held_to_the_tenant_is_refused(what: str, dialect: str):
    with pytest.raises(ValueError, match=r"not scoped to a tenant|cannot be proven"):
        Compiler(dialect)(LOOSE[what])


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("what", LAWFUL)
def test_a_statement_that_is_held_to_the_tenant_compiles(what: str, dialect: str):
    assert "tenant" in Compiler(dialect)(LAWFUL[what]).sql


def test_the_error_names_the_loose_table():
    with pytest.raises(ValueError, match=re.escape("not scoped to a tenant in an alias of note")):
        Compiler("sqlite")(LOOSE["alias in a join"])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT note.id FROM note",
        "SELECT note.id FROM note WHERE note.tenant = :other",
        "SELECT note.id FROM note WHERE note.tenant = 'bob'",
        "UPDATE note SET tenant=:x WHERE note.tenant = :tenant",
        "DELETE FROM note",
    ],
)
def test_the_text_is_checked_even_if_the_structure_seems_right(sql: str):
    with pytest.raises(ValueError, match="not scoped to a tenant"):
        check(scoped(note).select(), sql)


def test_a_statement_named_as_crossing_tenants_is_let_through():
    everyone = unscoped(select(note.c.tenant), reason="a test")
    assert Compiler("sqlite")(everyone).sql.startswith("SELECT note.tenant")


def test_a_statement_is_compiled_once():
    compiler, statement = Compiler("sqlite"), scoped(note).select()
    assert compiler(statement) is compiler(statement)
