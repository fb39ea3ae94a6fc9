"""Workers: who is taken on first, who has to wait, and that nothing stops them but being told to."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlog.clock import micros
from everlog.errors import Mistake, StoreUnavailable
from everlog.memory.interface import Failure, Mark, Reply, Request
from everlog.memory.tree import Extractive, Tree
from everlog.memory.tree.nodes import nodes_in
from everlog.pump import Options, Worker, mark, waiting
from everlog.pump import worker as workers
from everlog.pump.claim import Lease, LeaseLost, claim, finish, marks, release, renew, this_worker
from everlog.store import Store, Unit
from everlog.testing import Bad, EchoModel, ScriptedModel
from tests.conformance.pumping import (
    TENANT,
    Gate,
    beside,
    bodies,
    built,
    due,
    filled,
    listening,
    long,
    pumped,
    subject,
    tree,
)


def worked(store: Store, model: Any = None, *, stop: threading.Event | None = None, **more: Any) -> Any:
    """Let a worker run until nothing is due."""
    model = model or EchoModel()
    memory = Tree() if getattr(model, "inline", False) else tree(model)
    worker = Worker(store, [memory], model, **{"poll_s": 0.02, **more})
    return worker.work(stop or threading.Event(), until_idle=True)


def marked(
    store: Store, thread: str, *, tenant: str = TENANT, live: bool = True, later: float = 0, upto: int = 1
) -> None:
    def act(unit: Unit) -> None:
        due_at = unit.now + timedelta(seconds=later)
        mark(unit, Mark(subject=subject(thread, tenant), due_at=due_at, live=live, upto=upto), thread=thread)

    store.write(tenant, act, name="test.mark")


def order(store: Store, **more: Any) -> list[tuple[str, str]]:
    return [(one.subject.tenant, one.subject.key) for one in waiting(store, ["tree"], **more)]


def test_live_comes_before_backfill_each_tenant_in_its_turn_and_the_oldest_first(store: Store):
    marked(store, "import", tenant="a", live=False)
    for n in range(3):
        marked(store, f"a{n}", tenant="a")
    marked(store, "b0", tenant="b")
    marked(store, "b1", tenant="b", live=False)
    marked(store, "c0", tenant="c", later=3600)
    assert order(store) == [
        *(("a", "a0"), ("b", "b0"), ("a", "a1"), ("a", "a2")),
        *(("b", "b1"), ("a", "import")),
    ]
    assert order(store, tenant="b") == [("b", "b0"), ("b", "b1")]
    assert order(store, limit=1) == [("a", "a0")]
    assert waiting(store, ["rolling"]) == []


def test_at_most_eight_of_one_tenant_are_taken_on_and_those_in_work_count(store: Store):
    for n in range(12):
        marked(store, f"t{n:02}")
    assert order(store) == [(TENANT, f"t{n:02}") for n in range(8)]
    taken = partial(claim, subject=subject("t00"), seconds=30.0, worker="elsewhere-1")
    with pytest.raises(Exception, match="erased"):
        store.write(TENANT, taken, name="test.claim")  # no thread has this id
    assert [one.leased for one in waiting(store, ["tree"])] == [False] * 8


def test_a_subject_keeps_its_place_in_line_however_often_it_is_marked(store: Store):
    marked(store, "busy")
    marked(store, "quiet")
    for upto in range(2, 5):
        marked(store, "busy", upto=upto)
    assert order(store) == [(TENANT, "busy"), (TENANT, "quiet")]
    assert (due(store, "busy")["upto"], due(store, "busy")["marked"]) == (4, 4)


def test_an_import_never_makes_backfill_of_what_waits_as_live(store: Store):
    marked(store, "x", live=False)
    assert due(store, "x")["live"] == 0
    marked(store, "x")
    marked(store, "x", live=False)
    assert due(store, "x")["live"] == 1
    settle(store, "x")
    marked(store, "x", live=False)
    assert due(store, "x")["live"] == 0


def settle(store: Store, key: str) -> None:
    """Let a subject be done, as a run does."""

    def act(unit: Unit) -> None:
        finish(unit, Lease(subject(key), 0, 30.0), None, seen=marks(unit, Lease(subject(key), 0, 30.0)))

    store.write(TENANT, act, name="test.finish")


def test_a_mark_for_later_puts_off_and_one_for_now_brings_forward(store: Store):
    marked(store, "x", later=60)
    first = due(store, "x")["due_at"]
    marked(store, "x", later=120)
    assert due(store, "x")["due_at"] > first
    marked(store, "x")
    assert due(store, "x")["due_at"] <= micros(store.clock.now())


def test_a_mark_between_the_last_look_and_the_letting_go_is_never_lost(store: Store):
    thread = filled(store, ["x"])
    act = partial(claim, subject=subject(thread), seconds=30.0, worker=this_worker())
    lease = store.write(TENANT, act, name="test.claim")
    assert lease is not None
    seen = store.write(TENANT, partial(marks, lease=lease), name="test.look")
    marked(store, thread)
    let_go = partial(finish, lease=lease, next_due=None, seen=seen)
    assert not store.write(TENANT, let_go, name="test.finish")
    assert due(store, thread)["due_at"] is not None
    assert store.write(TENANT, partial(finish, lease=lease, next_due=None, seen=seen + 1), name="test.finish")
    assert due(store, thread)["due_at"] is None


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(st.tuples(st.sampled_from("mmbccfrxw"), st.integers(0, 1)), max_size=30))
def test_whoever_claims_loses_or_finishes_one_may_write_and_nothing_marked_is_forgotten(
    database: Any, store: Store, tenants: Iterator[str], acts: list[tuple[str, int]]
):
    """Law 6 of the line. Leases lie in the hands of two workers, one of which may have lost its own without knowing."""
    tenant = next(tenants)
    thread = filled(store, ["x"], tenant=tenant)
    pending = True
    hands: dict[int, tuple[Lease, int]] = {}
    holder: int | None = None

    def do(act: Callable[[Unit], Any]) -> Any:
        return store.write(tenant, act, name="test.act")

    for act, worker in acts:
        if act in "mb":
            marked(store, thread, tenant=tenant, live=act == "m")
            pending = True
        elif act == "x":
            database.clock.advance(timedelta(seconds=31))
            holder = None
        elif act == "c":
            name = f"worker-{worker}"
            lease = do(partial(claim, subject=subject(thread, tenant), seconds=30.0, worker=name))
            assert (lease is None) == (holder is not None), "one lease at a time"
            if lease is not None:
                holder = worker
                hands[worker] = lease, do(partial(marks, lease=lease))
                pending = False
        elif worker in hands:
            lease, seen = hands[worker]
            newest = max(one.fence for one, _ in hands.values())
            mine = lease.fence == newest and due(store, thread, tenant=tenant)["fence"] == newest
            if act == "w":
                if mine:
                    do(partial(renew, lease=lease))
                    holder = worker
                else:
                    with pytest.raises(LeaseLost):
                        do(partial(renew, lease=lease))
            elif act == "r":
                do(partial(release, lease=lease, reason=None))
                pending, holder = (True, None) if mine else (pending, holder)
            elif do(partial(finish, lease=lease, next_due=None, seen=seen)):
                assert mine
                assert not pending, "a mark came in between"
                holder = None
                assert due(store, thread, tenant=tenant)["due_at"] is None
        assert not pending or due(store, thread, tenant=tenant)["due_at"] is not None


def test_a_worker_builds_what_is_due_of_every_tenant_and_memory_stays_as_it_would_be(store: Store):
    threads = {
        (tenant, filled(store, [long(n) for n in range(9)], tenant=tenant)) for tenant in "abc" for _ in range(2)
    }
    alone = filled(store, [long(n) for n in range(9)], tenant="alone")
    assert pumped(store, alone, EchoModel(), tenant="alone").done
    wanted = bodies(store, alone, 9, tenant="alone")
    done = worked(store)
    assert (done.runs, done.steps, done.failed) == (6, 6 * nodes_in(9), 0)
    assert all(bodies(store, thread, 9, tenant=tenant) == wanted for tenant, thread in threads)
    assert waiting(store, ["tree"]) == []
    assert worked(store).runs == 0


def test_a_worker_for_one_tenant_leaves_the_others_alone(store: Store):
    mine, other = filled(store, [long(0)]), filled(store, [long(0)], tenant="other")
    assert worked(store, tenant=TENANT).steps == 1
    assert len(built(store, mine)) == 1
    assert built(store, other, tenant="other") == {}


def test_several_workers_at_once_ask_once_about_each_step(database: Any):
    store = database.open()
    threads = [filled(store, [long(n) for n in range(12)]) for _ in range(4)]
    model = ScriptedModel(otherwise=EchoModel(line_bytes=300))
    ended: list[Any] = []
    crowd = [threading.Thread(target=lambda: ended.append(worked(store, model))) for _ in range(3)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(60)
    assert worked(store, model).steps == 0
    assert all(len(built(store, thread)) == nodes_in(12) for thread in threads)
    assert sum(done.steps for done in ended) == 4 * nodes_in(12)
    assert len(model.requests) == 4 * nodes_in(12)


class Witness:
    """Answers as `Extractive`, and does something before one of its answers."""

    model = Extractive.model
    inline = True

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.asked = 0
        self.about: list[str] = []
        self._at = at
        self._act = act

    def __call__(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked == self._at:
            self._act()
        self.about.append(request.source[0].text[:4])
        return Extractive()(request)


def imported(store: Store, total: int) -> None:
    """A live message, said in the midst of a large import, is folded after one more pass of it at most."""
    backlog = ["import of many words " * 4] * total
    at = 0
    imported = ""
    while at < total:
        imported = filled(store, backlog[at : at + 2_000], thread=imported or None, live=False)
        at += 2_000
    writes: list[str] = []
    said: list[int] = []
    stop = threading.Event()

    def listener(name: str) -> None:
        if name == "pump.write.after_commit":
            writes.append(name)

    def say() -> None:
        filled(store, ["live " * 150])
        said.append(len(writes))

    model = Witness(200, say)
    folded = model.__call__

    def answer(request: Request) -> Reply:
        reply = folded(request)
        if request.source[0].text.startswith("live"):
            said.append(len(writes))
            stop.set()
        return reply

    asked = ScriptedModel(otherwise=answer, model=Extractive.model)
    asked.inline = True  # type: ignore[attr-defined]
    with listening(listener):
        worked(store, asked, stop=stop, places=1, poll_s=30)
    before, after = said
    assert after - before <= 1
    assert before >= 1, "the import was under way"


def test_an_import_delays_a_live_message_by_one_pass_at_most(store: Store):
    imported(store, 4_000)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_an_import_of_a_million_messages_delays_a_live_one_by_one_pass_at_most(database: Any):
    if database.encrypted:
        return
    imported(database.open(), 1_000_000)


def test_equals_take_turns_when_there_are_fewer_places_than_threads(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "TURN_S", 0.0)
    threads = [filled(store, [f"{name} of many words " * 40] * 60) for name in ("aaaa", "bbbb")]
    gate = threading.Event()

    class Slow(Witness):
        inline = False

        def __call__(self, request: Request) -> Reply:
            gate.wait(0.002)
            return super().__call__(request)

    model = Slow(0, lambda: None)
    worker = Worker(store, [tree(model)], model, poll_s=0.01, places=1)
    done = worker.work(threading.Event(), until_idle=True)
    assert done.runs > 2, "they gave up their places"
    half = len(model.about) // 2
    assert {"aaaa", "bbbb"} <= set(model.about[:half]), "the second began long before the first was done"
    assert all(len(built(store, thread)) == nodes_in(60) for thread in threads)


def test_while_the_provider_is_down_one_request_is_sent_for_all_threads(database: Any):
    store = database.open()
    threads = [filled(store, [long(n) for n in range(3)]) for _ in range(6)]
    down = True
    model = ScriptedModel(when=lambda request: Bad.UNAVAILABLE if down else None)
    worker = Worker(store, [tree(model)], model, poll_s=0.01)
    first = worker.work(threading.Event(), until_idle=True)
    assert first.failed == 6
    assert len(model.requests) <= 8
    database.clock.advance(timedelta(seconds=60))
    asked = len(model.requests)
    worker.work(threading.Event(), until_idle=True)
    assert len(model.requests) == asked + 1
    down = False
    database.clock.advance(timedelta(seconds=60))
    worker.work(threading.Event(), until_idle=True)
    assert all(len(built(store, thread)) == nodes_in(3) for thread in threads)
    assert {fallback for thread in threads for _, fallback in built(store, thread).values()} == {0}


def test_a_thread_in_trouble_sleeps_and_the_others_go_on(store: Store):
    bad = filled(store, ["poison " * 100])
    good = [filled(store, [long(0)]) for _ in range(3)]

    def when(request: Request) -> Any:
        return Failure(kind="unavailable") if request.source[0].text.startswith("poison") else None

    model = ScriptedModel(when=when)
    later = Worker(store, [tree(model)], model, poll_s=0.01, places=1)
    assert later.work(threading.Event(), until_idle=True).failed >= 1
    assert due(store, bad)["failures"] == 1
    assert [due(store, thread)["lease_until"] for thread in good] == [None] * 3


def test_a_worker_told_to_stop_lets_go_of_what_it_holds(store: Store):
    thread = filled(store, [long(n) for n in range(4)])
    model = Gate()
    stop = threading.Event()
    worker = Worker(store, [tree(model)], model, options=Options(grace_s=0.1), poll_s=0.01)
    with beside(lambda: worker.work(stop)) as ended:
        model.has(4)
        stop.set()
    model.go_on.set()
    assert ended[0].steps == 0
    assert due(store, thread)["lease_until"] is None
    assert worked(store, EchoModel(model.model)).steps == nodes_in(4)


@pytest.mark.parametrize("error", [Mistake("no such model"), KeyboardInterrupt()], ids=repr)
def test_what_no_thread_is_to_blame_for_ends_the_worker(store: Store, error: BaseException):
    filled(store, [long(0)])
    with pytest.raises(type(error)):
        worked(store, ScriptedModel([error]))


def test_a_database_that_cannot_be_asked_for_a_while_does_not_end_a_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    thread = filled(store, [long(0)])
    asked: list[int] = []
    everywhere = store.everywhere

    def flaky(act: Any) -> Any:
        asked.append(1)
        if len(asked) < 4:
            raise StoreUnavailable("the disk is full")
        return everywhere(act)

    monkeypatch.setattr(store, "everywhere", flaky)
    assert worked(store).steps == 1
    assert len(built(store, thread)) == 1


def test_a_worker_that_is_held_back_does_not_spin(store: Store):
    filled(store, [long(0)])
    heard: list[int] = []
    stop = threading.Event()

    def before(count: int) -> bool:
        heard.append(count)
        return False

    worker = Worker(store, [tree(EchoModel())], EchoModel(), options=Options(before_pass=before), poll_s=0.01)
    with beside(lambda: worker.work(stop)):
        stop.wait(0.3)
        stop.set()
    assert heard == [1]
