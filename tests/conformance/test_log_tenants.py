"""Law 8: tenants never meet. Whatever one does, under whatever names, the rows of the others stay as they are."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from everlog import Everlog, Media, Message, Mistake, UnknownThread, log
from everlog.errors import Damaged, Erased
from everlog.store import Store, Unit, metadata
from everlog.store import rows as store_rows
from everlog.store.unit import Unit as SealingUnit
from tests.conformance.conftest import Database
from tests.conformance.log_model import World, dump, pieces_in, pieces_of
from tests.conformance.test_log_laws import KEYS, effort

WORLDS = 3
worlds = st.integers(0, WORLDS - 1)
keys = st.sampled_from(KEYS[:2])
users = st.sampled_from(["u1", "u2"])


def if_there(erase: Callable[[], object]) -> None:
    """Erase, where there is something to be erased."""
    with suppress(Mistake):
        erase()


class Sharing(RuleBasedStateMachine):
    """Three tenants that use the same names in one database."""

    store: Store
    tenants: Iterator[str]

    def __init__(self) -> None:
        super().__init__()
        here = type(self)
        self.worlds = [World(Everlog(here.store, tenant=next(here.tenants))) for _ in range(WORLDS)]
        self.dumps = [dump(here.store, world.memory.name) for world in self.worlds]

    @rule(n=worlds, key=keys, user=users, client_key=st.none() | st.just("k"))
    def say(self, n: int, key: str, user: str, client_key: str | None) -> None:
        world = self.worlds[n]
        thread = world.threads.get(key)
        taken = thread is not None and client_key in thread.keyed
        turn = world.turn(["user", "assistant"], user, client_key=None if taken else client_key)
        self.only(n, partial(world.append, key, [turn]))

    @rule(n=worlds, key=keys, at=st.integers(0, 4), new=st.sampled_from(KEYS))
    def fork(self, n: int, key: str, at: int, new: str) -> None:
        if key in self.worlds[n].threads:
            self.only(n, partial(self.worlds[n].fork, key, at, new, titled=True))

    @rule(n=worlds, key=st.sampled_from(KEYS))
    def pump(self, n: int, key: str) -> None:
        if key in self.worlds[n].threads:
            self.only(n, partial(self.worlds[n].pump, key))

    @rule(n=worlds, key=keys)
    def erase_a_thread(self, n: int, key: str) -> None:
        if key in self.worlds[n].threads:
            self.only(n, partial(self.worlds[n].erase_thread, key))

    @rule(n=worlds, user=users)
    def erase_a_user(self, n: int, user: str) -> None:
        self.only(n, partial(if_there, partial(self.worlds[n].erase_user, user)))

    @rule(n=worlds)
    def erase_all(self, n: int) -> None:
        self.only(n, partial(if_there, self.worlds[n].erase_tenant))

    @rule(n=worlds)
    def finish_what_waits(self, n: int) -> None:
        self.only(n, self.worlds[n].memory.resume)

    @rule(n=worlds, key=keys, session=st.sampled_from(["s1", "s2"]))
    def name_a_session(self, n: int, key: str, session: str) -> None:
        world = self.worlds[n]
        if key in world.threads:
            self.only(
                n,
                partial(
                    world.memory.store.write,
                    world.memory.name,
                    partial(_join, key=key, session=session),
                    name="session",
                ),
            )

    def only(self, n: int, act: object) -> None:
        """Do something for one tenant: it sees its own threads, and the rows of the others stay as they are."""
        assert callable(act)
        act()
        world = self.worlds[n]
        self.dumps[n] = dump(world.memory.store, world.memory.name)
        assert {overview.key for overview in world.memory.threads()} == set(world.threads)
        for other, dumped in zip(self.worlds, self.dumps, strict=True):
            assert dump(other.memory.store, other.memory.name) == dumped

    def teardown(self) -> None:
        mine = [pieces_of(words for said in world.everything for words in said.words()) for world in self.worlds]
        for n, world in enumerate(self.worlds):
            world.check_all()
            foreign = set().union(*(pieces for m, pieces in enumerate(mine) if m != n))
            for found in self.dumps[n].values():
                for row in found:
                    shown = b" | ".join(bytes(v) if isinstance(v, bytes) else str(v).encode() for v in row.values())
                    assert not pieces_in(shown) & foreign
            sessions = world.memory.store.read(world.memory.name, partial(_members, sessions=["s1", "s2"]))
            assert sessions <= {*world.ids}
            counted = world.memory.store.read(world.memory.name, log.thread_count)
            assert counted == len(world.threads)


def _join(unit: Unit, key: str, session: str) -> None:
    log.join(unit, log.find(unit, key), session)


def _members(unit: Unit, sessions: list[str]) -> set[str]:
    return {thread for session in sessions for thread in log.members(unit, session)}


def test_tenants_never_meet_whatever_they_do_under_the_same_names(
    database: Database, store: Store, tenants: Iterator[str]
):
    machine = type("SharingHere", (Sharing,), {"store": store, "tenants": tenants})
    run_state_machine_as_test(machine, settings=effort(database))


def test_a_thread_of_another_tenant_cannot_be_reached_by_its_id(store: Store):
    ada, eve = Everlog(store, tenant="ada"), Everlog(store, tenant="eve")
    ada.thread("diary").append("user", "a secret that is hers alone")
    stolen = ada.thread("diary").id
    eve.thread("diary").append("user", "another diary")

    with pytest.raises(Erased):
        store.read("eve", partial(log.load, thread=stolen))
    with pytest.raises(Erased):
        store.write("eve", partial(log.load, thread=stolen), name="steal")
    with pytest.raises(Erased):
        log.erase_thread(store, "eve", stolen)
    with pytest.raises(UnknownThread):
        eve.thread("letters").row()
    assert eve.erase_tenant().entries == 1
    assert [entry.text for entry in ada.thread("diary").entries()] == ["a secret that is hers alone"]


def test_the_same_picture_has_another_name_with_every_tenant(store: Store):
    picture = Media(media_type="image/png", content=b"the very same bytes" * 10)
    names = set()
    for tenant in ("ada", "eve"):
        Everlog(store, tenant=tenant).thread("t").turn([Message(kind="user", text="look", parts=(picture,))])
        names |= {row["name"] for row in dump(store, tenant)["blob"]}
    assert len(names) == 2
    prints = {row["fp"] for tenant in ("ada", "eve") for row in dump(store, tenant)["entry"]}
    assert len(prints) == 2


def test_a_sealed_value_moved_to_another_tenant_does_not_open(database: Database, store: Store):
    if not database.encrypted:
        return
    for tenant in ("ada", "eve"):
        Everlog(store, tenant=tenant).thread("t").append("user", f"words of {tenant}")
    (stolen,) = dump(store, "ada")["entry"]
    (own,) = dump(store, "eve")["entry"]

    def open_it(unit: SealingUnit) -> bytes:
        return unit.open(log.rows.entry.c.body, (own["thread"], own["i"]), stolen["body"])  # type: ignore[arg-type]

    with pytest.raises(Damaged):
        store.read("eve", open_it)


def test_names_that_look_alike_are_different_tenants(store: Store):
    names = ["ada", "Ada", "ada.", "a-da", "ada%", "ad_"]
    first = Everlog(store, tenant=names[0])
    for name in names:
        assert list(first.tenant(name).threads()) == []
        first.tenant(name).thread("diary").append("user", f"words of {name}")
    for name in names:
        assert [entry.text for entry in first.tenant(name).thread("diary").entries()] == [f"words of {name}"]
    first.tenant("ad_").erase_tenant()
    assert store.tenants() == sorted({*names} - {"ad_"})


@pytest.mark.parametrize("name", ["", "*", "with space", "é", "x" * 65, "a\nb"])
def test_a_tenant_without_a_lawful_name_is_refused(store: Store, name: str):
    with pytest.raises(Mistake):
        Everlog(store, tenant=name).thread("t").append("user", "words")


def test_every_table_says_how_its_rows_are_erased_and_has_the_tenant_first():
    for table in metadata.sorted_tables:
        assert table.info["erase"] in {"thread", "tombstone", "owner", "tenant", "keep"}, table.name
        if table is not store_rows.store_state:
            assert next(iter(table.primary_key)).name == "tenant", table.name
        if table.info["erase"] == "thread":
            assert "thread" in table.c, table.name
        if table.info["erase"] == "keep":
            assert {column.name for column in table.c} <= {
                *("tenant", "id", "target", "state", "at", "wrapper", "report", "name", "value")
            }, table.name
        if table.info["erase"] == "tombstone":
            kept = {column.name for column in table.c} - {*table.info["clear"]}
            names = {column.name for column in table.c if str(column.type).startswith(("VARCHAR", "BLOB", "TEXT"))}
            assert names & kept <= {"tenant", "thread"}, table.name
