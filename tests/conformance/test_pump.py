"""The pump over every store: runs that are killed, meet each other, lose their lease, or find the model down."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self

import pytest
from sqlalchemy import bindparam

from everlog import log
from everlog.clock import micros
from everlog.log import NewTurn
from everlog.memory.interface import (
    Accept,
    Again,
    Failure,
    Mark,
    Plan,
    Reject,
    Reply,
    Request,
    Step,
    Subject,
    Verdict,
)
from everlog.memory.tree import Extractive, Tree, rows
from everlog.memory.tree.nodes import nodes_in
from everlog.messages import Message
from everlog.pump import LeaseLost, Ran, mark, mark_tree, run, waiting
from everlog.pump import rows as pump_rows
from everlog.pump.claim import Lease, claim, renew, this_worker
from everlog.pump.due import LONGEST_LEASE_S
from everlog.store import Store, Unit, scoped
from tests.conformance.pumping import listening

TENANT = "ada"
COUNT = 60


DUE_COLUMNS = ("fence", "due_at", "upto", "lease_owner", "lease_until", "failures", "error_code", "live", "marked")
MAKERS = (
    scoped(rows.node).select(rows.node.c.model, rows.node.c.fallback).where(rows.node.c.thread == bindparam("thread"))
)


class Scripted:
    """A compactor that does something before each answer, and may answer otherwise."""

    model = Extractive.model
    inline = True

    def __init__(self, act: Callable[[int], Reply | None]) -> None:
        self.asked = 0
        self._act = act

    def __call__(self, request: Request) -> Reply:
        self.asked += 1
        return self._act(self.asked) or Extractive()(request)


def filled(store: Store, count: int = COUNT) -> str:
    """Make a thread of long and short messages; return its id."""

    def act(unit: Unit) -> str:
        row = log.create(unit, f"thread-{unit.now_us}")
        messages = [Message(kind="user", text=f"message {n} " + "of many words " * (n % 4 * 30)) for n in range(count)]
        log.append(unit, row, [NewTurn(messages=tuple(messages))])
        mark_tree(unit, row.id, upto=count)
        return row.id

    return store.write(TENANT, act, name="test.fill")


def pumped(store: Store, thread: str, compactor: Any = None, **options: Any) -> Ran:
    return run(store, TENANT, thread, Tree(), compactor or Extractive(), **options)


def built(store: Store, thread: str) -> dict[int, bytes]:
    nids = [nid for level in range(10) for nid in range(level << 40, (level << 40) + 200)]

    def act(unit: Unit) -> dict[int, bytes]:
        found = unit.rows(rows.NODES, owners=[thread], nids=nids)
        return {nid: unit.open(rows.node.c.body, (thread, nid), body) for _, nid, _, body in found}

    return store.read(TENANT, act)


def made_by(store: Store, thread: str) -> dict[tuple[str | None, int], int]:
    found = store.read(TENANT, lambda unit: unit.rows(MAKERS, thread=thread))
    return dict(Counter((model, fallback) for model, fallback in found))


def due(store: Store, thread: str, memory: str = "tree") -> dict[str, Any]:
    row = store.read(TENANT, lambda unit: unit.row(pump_rows.DUE, memory=memory, subject=thread))
    assert row is not None
    return dict(zip(DUE_COLUMNS, row, strict=True))


def leased(store: Store, thread: str, worker: str | None = None) -> Lease | None:
    subject = Subject(tenant=TENANT, memory="tree", key=thread)
    act = partial(claim, subject=subject, seconds=30.0, worker=worker or this_worker())
    return store.write(TENANT, act, name="test.claim")


@pytest.mark.covers("A28", "A96")
def test_a_run_builds_every_node_tells_its_progress_and_leaves_nothing_due(store: Store):
    thread = filled(store)
    told: list[tuple[int, int]] = []
    ran = pumped(store, thread, on_progress=lambda done, left: told.append((done, left)))
    assert ran == Ran(steps=nodes_in(COUNT), done=True)
    assert len(built(store, thread)) == nodes_in(COUNT)
    assert told[-1] == (nodes_in(COUNT), 0)
    assert all(done + left == nodes_in(COUNT) for done, left in told)
    assert due(store, thread)["due_at"] is None
    assert due(store, thread)["lease_until"] is None
    assert pumped(store, thread) == Ran(steps=0, done=True)


def test_appending_marks_the_tree_in_the_same_unit(store: Store):
    thread = filled(store)
    row = due(store, thread)
    assert (row["upto"], row["lease_until"], row["fence"]) == (COUNT, None, 0)
    assert row["due_at"] is not None


def test_rows_are_kept_a_few_hundred_at_a_time(store: Store):
    thread = filled(store, 1200)
    commits: list[str] = []
    with listening(commits.append):
        ran = pumped(store, thread)
    writes = commits.count("pump.write.after_commit")
    assert ran.steps == nodes_in(1200)
    assert nodes_in(1200) / 500 <= writes <= nodes_in(1200) / 500 + 5


def test_two_workers_at_once_build_each_node_once(store: Store):
    thread = filled(store)
    started, go_on = threading.Event(), threading.Event()

    def act(asked: int) -> None:
        if asked == 1:
            started.set()
            assert go_on.wait(30)

    ran: list[Ran] = []
    first = threading.Thread(target=lambda: ran.append(pumped(store, thread, Scripted(act))))
    first.start()
    assert started.wait(30)
    second = Scripted(lambda asked: None)
    assert pumped(store, thread, second) == Ran(steps=0, done=False, busy=True)
    assert second.asked == 0
    go_on.set()
    first.join(30)
    assert ran == [Ran(steps=nodes_in(COUNT), done=True)]


def test_a_lease_ends_by_time_and_its_old_holder_writes_nothing_more(database: Any):
    store = database.open()
    thread = filled(store)
    old = leased(store, thread)
    assert old is not None
    assert leased(store, thread) is None
    assert pumped(store, thread).busy
    database.clock.advance(timedelta(seconds=31))
    assert pumped(store, thread).done
    with pytest.raises(LeaseLost):
        store.write(TENANT, partial(renew, lease=old), name="test.renew")


def test_a_lease_that_a_clock_far_ahead_took_has_ended_and_its_holder_writes_nothing_more(database: Any):
    store = database.open()
    thread = filled(store)
    database.clock.advance(timedelta(days=1000))
    old = leased(store, thread, "elsewhere-1")
    assert old is not None
    database.clock.advance(-timedelta(days=1000))
    assert [one.leased for one in waiting(store, ["tree"])] == [False], "a worker takes it on"
    assert pumped(store, thread).done
    assert len(built(store, thread)) == nodes_in(COUNT)
    with pytest.raises(LeaseLost):
        store.write(TENANT, partial(renew, lease=old), name="test.renew")


def test_no_lease_is_longer_than_the_longest_so_none_that_is_asked_for_counts_as_over(store: Store):
    thread = filled(store)
    subject = Subject(tenant=TENANT, memory="tree", key=thread)
    act = partial(claim, subject=subject, seconds=86_400.0, worker="elsewhere-1")
    lease = store.write(TENANT, act, name="test.claim")
    assert lease is not None
    assert lease.seconds == LONGEST_LEASE_S
    assert pumped(store, thread).busy
    store.write(TENANT, partial(renew, lease=lease), name="test.renew")
    assert pumped(store, thread).busy
    assert [one.leased for one in waiting(store, ["tree"])] == [True]


def test_the_lease_of_a_process_that_is_gone_is_free_at_once(store: Store):
    thread = filled(store)
    machine = this_worker().partition("-")[0]
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    old = leased(store, thread, f"{machine}-{int(gone.stdout)}")
    assert old is not None
    assert pumped(store, thread).done
    with pytest.raises(LeaseLost):
        store.write(TENANT, partial(renew, lease=old), name="test.renew")


def test_a_worker_that_lost_its_lease_meanwhile_keeps_none_of_its_answers(database: Any):
    store = database.open()
    thread = filled(store)
    taken: list[Lease | None] = []

    def act(asked: int) -> None:
        if asked == 5:
            database.clock.advance(timedelta(seconds=31))
            taken.append(leased(store, thread))

    ran = pumped(store, thread, Scripted(act))
    assert (ran.busy, ran.steps) == (True, 0)
    assert taken[0] is not None
    assert built(store, thread) == {}
    assert due(store, thread)["fence"] == taken[0].fence


def test_a_model_that_is_down_burns_no_try_and_the_tree_goes_on_when_it_is_back(store: Store):
    thread = filled(store)
    down = Scripted(lambda asked: Failure(kind="unavailable"))
    for outage in range(1, 8):
        ran = pumped(store, thread, down)
        assert (ran.done, ran.reason) == (False, "unavailable")
        assert (due(store, thread)["failures"], due(store, thread)["error_code"]) == (outage, "unavailable")
        assert due(store, thread)["due_at"] is not None
        assert due(store, thread)["lease_until"] is None
    assert down.asked == 7
    assert set(made_by(store, thread)) == {(None, 0)}, "what needs no model was kept"
    assert pumped(store, thread).done
    assert made_by(store, thread).keys() == {(None, 0), (Extractive.model, 0)}
    assert (due(store, thread)["failures"], due(store, thread)["error_code"]) == (0, None)


def test_messages_that_no_model_answers_stop_nothing(store: Store):
    thread = filled(store)
    poisoned = Scripted(lambda asked: Failure(kind="refused"))
    assert pumped(store, thread, poisoned).done
    assert len(built(store, thread)) == nodes_in(COUNT)
    assert made_by(store, thread).keys() == {(None, 0), (Extractive.model, 1)}
    assert poisoned.asked == 5 * made_by(store, thread)[Extractive.model, 1]


def test_a_compactor_that_raises_ends_the_run_and_the_next_one_goes_on(store: Store):
    thread = filled(store)

    def act(asked: int) -> None:
        if asked == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pumped(store, thread, Scripted(act))
    row = due(store, thread)
    assert (row["lease_until"], row["error_code"]) == (None, "KeyboardInterrupt")
    assert pumped(store, thread).done
    assert len(built(store, thread)) == nodes_in(COUNT)


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
@pytest.mark.parametrize("point", ["pump.claim", "pump.write", "pump.finish"])
def test_a_run_that_dies_at_any_commit_is_finished_by_the_next_with_the_same_bytes(
    database: Any, point: str, moment: str
):
    store = database.open()
    whole, other = filled(store, 300), filled(store, 300)
    pumped(store, whole)
    times = 0

    def die(name: str) -> None:
        nonlocal times
        if name == f"{point}.{moment}" or name.startswith("pump.release"):
            times += 1
            raise Died

    with listening(die), pytest.raises(Died):
        pumped(store, other)
    assert times >= 1
    database.clock.advance(timedelta(seconds=31))
    assert pumped(store, other).done
    assert built(store, other) == built(store, whole)


class Died(BaseException):
    """The process is gone: nothing that comes after runs."""


def test_entries_that_arrive_while_a_run_ends_are_seen_by_it_or_stay_due(store: Store):
    thread = filled(store)

    def act(asked: int) -> None:
        if asked == 4:
            store.write(TENANT, partial(more, thread=thread), name="test.more")

    assert pumped(store, thread, Scripted(act)).done
    assert len(built(store, thread)) == nodes_in(COUNT + 1)
    store.write(TENANT, partial(more, thread=thread), name="test.more")
    assert due(store, thread)["due_at"] is not None


def more(unit: Unit, thread: str) -> None:
    appended = log.append(unit, log.load(unit, thread), [NewTurn(messages=(Message(kind="user", text="one more"),))])
    mark_tree(unit, thread, upto=appended.stop)


def test_an_erased_thread_is_nothing_to_work_on(store: Store):
    thread = filled(store)

    def act(asked: int) -> None:
        if asked == 2:
            log.erase_thread(store, TENANT, thread)

    ran = pumped(store, thread, Scripted(act))
    assert (ran.done, ran.steps) == (False, 0)
    assert built(store, thread) == {}


@dataclass(frozen=True, slots=True)
class Count:
    """What the memory below sees of its subject."""

    subject: Subject
    left: int

    def after(self, verdicts: Sequence[Verdict]) -> Self | None:
        return None


class Countdown:
    """The smallest other memory: it has a number of steps to do, marks somebody at each, and keeps nothing."""

    name = "countdown"

    def __init__(self, left: int, *, stop_at: int = -1) -> None:
        self.left = left
        self._stop_at = stop_at

    def read(self, unit: Unit, subject: Subject) -> Count:
        return Count(subject, self.left)

    def plan(self, state: Count, now: datetime, room: int) -> Plan:
        steps = tuple(
            Step(subject=state.subject, name=f"step {n}", span=None, request=None, inputs="")
            for n in range(state.left, max(0, state.left - 2), -1)
        )
        return Plan(steps=steps[:room], next_due=now + timedelta(hours=1), remaining=state.left)

    def judge(self, state: Count, step: Step, reply: Reply | None) -> Verdict:
        if step.name == f"step {self._stop_at}":
            return Reject(reason="enough")
        other = Subject(tenant=TENANT, memory="other", key=step.name)
        return Accept(rows=(1,), marks=(Mark(subject=other, due_at=datetime.fromisoformat("2030-01-01T00:00Z")),))

    def write(self, unit: Unit, subject: Subject, verdicts: Sequence[Accept | Again]) -> None:
        self.left -= len(verdicts)


def test_any_memory_of_four_verbs_is_worked_off(store: Store):
    ran = run(store, TENANT, "x", Countdown(5), Extractive())
    assert ran == Ran(steps=5, done=True)
    assert due(store, "x", "countdown")["due_at"] is not None, "it said when to look again"
    assert due(store, "step 3", "other")["due_at"] == micros(datetime.fromisoformat("2030-01-01T00:00Z"))


def test_a_reply_that_says_to_stop_keeps_what_was_done_before_it(store: Store):
    memory = Countdown(6, stop_at=3)
    assert run(store, TENANT, "x", memory, Extractive()) == Ran(steps=3, done=False, reason="enough", remaining=3)
    assert memory.left == 3


def test_a_mark_does_not_disturb_the_lease_that_is_held(store: Store):
    thread = filled(store)
    lease = leased(store, thread)
    assert lease is not None
    subject = Subject(tenant=TENANT, memory="tree", key=thread)
    later = store.clock.now() + timedelta(days=1)
    store.write(TENANT, lambda unit: mark(unit, Mark(subject=subject, due_at=later, upto=9)), name="test.mark")
    row = due(store, thread)
    assert (row["fence"], row["upto"], row["due_at"]) == (lease.fence, 9, micros(later))
    assert row["lease_until"] is not None
    store.write(TENANT, partial(renew, lease=lease), name="test.renew")
