"""Names that people have are kept by every database, and found again by these very names."""

from collections.abc import Iterator

import pytest

from everlog import Everlog, Message, Mistake, Origin
from everlog.store import Store
from tests.unit.test_names import NAMES, REFUSED


def test_threads_and_users_are_found_by_the_names_that_people_have(store: Store, tenants: Iterator[str]):
    memory = Everlog(store, tenant=next(tenants))
    for name in NAMES:
        memory.thread(name).append("user", f"words of {name}", origin=Origin(user=name, session=name))
    assert [one.key for one in memory.threads()] == NAMES
    for name in NAMES:
        (entry,) = memory.thread(name).entries()
        assert (entry.text, entry.origin.user) == (f"words of {name}", name)
        assert memory.erase(user=name).entries == 1


@pytest.mark.parametrize("name", [name for name in REFUSED if name], ids=ascii)
def test_what_deceives_names_nothing(store: Store, tenants: Iterator[str], name: str):
    memory = Everlog(store, tenant=next(tenants))
    with pytest.raises(Mistake, match="printable characters; this one"):
        memory.thread(name)
    with pytest.raises(Mistake, match="printable characters; one"):
        memory.thread("t").turn([Message(kind="user", text="x")], client_key=name)
