"""Whatever tenants do, in whatever order, each finds its own rows and nobody else's."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlog.errors import Conflict
from everlog.store import Store, Unit
from tests.unit.store.sample import ALL, CLEAR, DROP, PUT, PUT_IF_NEW, PUT_OR_SET, SET, SOME, row

IDS = ("1", "2", "3")
ACTS = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["put", "put if new", "put or set", "set", "drop", "clear"]),
    st.sampled_from(IDS),
    st.sampled_from(["", "a", "b"]),
)


def act(unit: Unit, what: str, name: str, report: str) -> None:
    match what:
        case "put":
            unit.run(PUT, row(name, report))
        case "put if new":
            unit.run(PUT_IF_NEW, row(name, report))
        case "put or set":
            unit.run(PUT_OR_SET, row(name, report))
        case "set":
            unit.run(SET, {"of": name, "new_report": report})
        case "drop":
            unit.run(DROP, {"id": name})
        case _:
            unit.run(CLEAR)


def acting(what: str, name: str, report: str) -> Callable[[Unit], None]:
    return lambda unit: act(unit, what, name, report)


def expected(rows: dict[str, str], what: str, name: str, report: str) -> dict[str, str]:
    """Return a tenant's rows after an act; raises Conflict where the act must."""
    if what == "put" and name in rows:
        raise Conflict
    if what in ("put", "put or set") or (what == "put if new" and name not in rows) or (what == "set" and name in rows):
        return rows | {name: report}
    if what == "drop":
        return {one: kept for one, kept in rows.items() if one != name}
    return {} if what == "clear" else rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(ACTS, max_size=12))
def test_no_tenant_ever_meets_another(store: Store, tenants: Iterator[str], acts: list[tuple[int, str, str, str]]):
    people = [next(tenants) for _ in range(3)]
    model: dict[str, dict[str, str]] = {tenant: {} for tenant in people}
    for who, *what in acts:
        tenant = people[who]
        try:
            model[tenant] = expected(model[tenant], *what)
        except Conflict:
            with pytest.raises(Conflict):
                store.write(tenant, acting(*what), name="act")
        else:
            store.write(tenant, acting(*what), name="act")
    for tenant in people:
        assert dict(store.read(tenant, lambda unit: unit.rows(ALL))) == model[tenant]
        assert {name for (name,) in store.read(tenant, lambda unit: unit.rows(SOME, ids=list(IDS)))} == set(
            model[tenant]
        )
