"""Rows to write and read in tests of the store, in a table that is its own: receipts."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import bindparam

from everlog.store import Store, Unit, among, rows, scoped

receipt = rows.receipt
PUT = scoped(receipt).insert()
PUT_IF_NEW = scoped(receipt).insert(ignore=True)
PUT_OR_SET = scoped(receipt).upsert(replace=["report"])
ALL = scoped(receipt).select(receipt.c.id, receipt.c.report).order_by(receipt.c.id)
SOME = scoped(receipt).select(receipt.c.id).where(among(receipt.c.id, "ids")).order_by(receipt.c.id)
SOME_TIMES = scoped(receipt).select(receipt.c.id).where(among(receipt.c.at, "times")).order_by(receipt.c.id)
SET = scoped(receipt).update().where(receipt.c.id == bindparam("of")).values(report=bindparam("new_report"))
SET_IF = SET.where(receipt.c.report == bindparam("seen"))
SET_STATE_OF_SOME = scoped(receipt).update().where(among(receipt.c.id, "ids")).values(state="some")
DROP = scoped(receipt).delete().where(receipt.c.id == bindparam("id"))
CLEAR = scoped(receipt).delete()


def row(name: str, report: str = "", at: int = 0) -> dict[str, Any]:
    return {"id": name, "target": "test", "state": "", "at": at, "wrapper": "", "report": report}


def putting(*names: str) -> Callable[[Unit], None]:
    return lambda unit: unit.run(PUT, [row(name) for name in names])


def put(store: Store, tenant: str, *names: str) -> None:
    store.write(tenant, putting(*names), name="put")


def names(store: Store, tenant: str) -> list[str]:
    return [name for name, _ in store.read(tenant, lambda unit: unit.rows(ALL))]
