"""One turn at a time, of a thread and of a chat; the second waits, and says so when it gives up."""

import threading
import time
from datetime import timedelta

import pytest

from everlog import Busy, Chat, StoreUnavailable, TurnState
from everlog.conversation.recording import gate
from everlog.memory.interface import Subject
from everlog.pump import claim
from everlog.testing import failpoints
from everlog.testing.upstream import Answer

OTHER = "00000000-1"


class Held:
    """A tool that the first turn calls, and that waits until it is let go."""

    def __init__(self):
        self.asked, self.go = threading.Event(), threading.Event()

    def hold(self) -> str:
        """Wait."""
        self.asked.set()
        assert self.go.wait(20)
        return "went on"

    def script(self, received):
        said = received.body["messages"]
        newest = [one["content"] for one in said if one["role"] == "user"][-1]
        if newest == "first" and said[-1]["role"] == "user":
            return Answer(calls=(("h", "hold", {}),))
        return Answer(text=f"to {newest}")


def beside(made, held, text):
    """Say something in a thread beside this one, by another memory of the same log."""
    told: list[object] = []

    def act():
        memory = made.home.attach(lambda: Chat("m-1", **made.wire).with_tools(held.hold), **made.wishes)
        try:
            told.append(memory.turn(text).text)
        except Busy as error:
            told.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    assert held.asked.wait(20)
    return thread, told


@pytest.fixture
def waiting(remembering):
    held = Held()
    return remembering(held.script, wait_s=10), held


def test_the_second_turn_of_a_thread_waits_for_the_first(waiting):
    made, held = waiting
    thread, told = beside(made, held, "first")
    timer = threading.Timer(0.2, held.go.set)
    timer.start()
    assert made.turn("second").text == "to second"
    thread.join()
    assert told == ["to first"]
    assert [text for kind, text in made.logged if kind in ("user", "assistant")] == [
        *("first", "to first", "second", "to second")
    ]


def test_who_waits_too_long_is_told_so_and_nothing_is_recorded(waiting):
    made, held = waiting
    thread, told = beside(made, held, "first")
    made.again(wait_s=0.05)
    with pytest.raises(Busy, match=r"'k' is under way and did not end within 0\.05 s"):
        made.turn("second")
    held.go.set()
    thread.join()
    assert told == ["to first"]
    assert [text for kind, text in made.logged if kind in ("user", "assistant")] == ["first", "to first"]


def test_turns_of_two_threads_run_at_the_same_time(waiting):
    made, held = waiting
    thread, told = beside(made, held, "first")
    made.again(key="other")
    assert made.turn("second").text == "to second"
    held.go.set()
    thread.join()
    assert told == ["to first"]


def taken(made, worker):
    """Have the thread leased to another process."""
    subject = Subject(tenant=made.home.name, memory=gate.TURN, key=made.memory.thread.id)
    return made.home.store.write(
        made.home.name, lambda unit: claim.claim(unit, subject, gate.LEASE_S, worker), name="test.claim"
    )


def test_a_thread_that_another_process_has_is_waited_for(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"), wait_s=0.05)
    made.turn("one")
    lease = taken(made, OTHER)
    with pytest.raises(Busy):
        made.turn("two")
    made.home.store.write(made.home.name, lambda unit: gate.leave(unit, lease), name="test.leave")
    assert made.turn("three").text == "2"


def test_a_thread_of_a_process_that_is_gone_is_free_at_once(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"), wait_s=0.05)
    made.turn("one")
    gone = f"{claim.this_worker().partition('-')[0]}-4194303"
    assert taken(made, gone) is not None
    assert made.turn("two").text == "2"


def test_a_turn_whose_thread_was_taken_over_records_nothing_more(remembering, clock):
    def script(received):
        clock.advance(timedelta(seconds=gate.LEASE_S + 1))
        assert taken(made, OTHER) is not None
        return Answer(text="too late")

    made = remembering(script)
    with pytest.raises(Busy, match="begun meanwhile"):
        made.turn("one")
    assert [text for _, text in made.logged] == ["one"]


def test_the_lease_is_renewed_while_a_turn_runs(remembering, monkeypatch):
    monkeypatch.setattr(gate, "RENEW_S", 0.01)
    renewed = threading.Event()

    def listen(name):
        if name == "turn.renew.after_commit":
            renewed.set()

    def script(received):
        assert renewed.wait(20)
        return Answer(text="1")

    made = remembering(script)
    with failpoints._listening(listen):
        made.turn("one")
    assert made.states == [TurnState.COMPLETE]
    ended = time.monotonic() + 5
    while any(one.name == "everlog-turn" for one in threading.enumerate()) and time.monotonic() < ended:
        threading.Event().wait(0.005)
    assert not any(one.name == "everlog-turn" for one in threading.enumerate())


def test_what_waits_is_not_recorded_into_a_turn_of_another_process(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"), Answer(text="3"), wait_s=0.05)
    made.turn("one")
    down = StoreUnavailable("the disk is gone")
    with failpoints._listening(lambda name: (_ for _ in ()).throw(down) if name.endswith("before_commit") else None):
        made.turn("two")
    lease = taken(made, OTHER)
    with pytest.raises(Busy):
        made.turn("three")
    assert made.do("status").waiting == 2
    made.home.store.write(made.home.name, lambda unit: gate.leave(unit, lease), name="test.leave")
    made.turn("three")
    assert [text for _, text in made.logged] == ["one", "1", "two", "2", "three", "3"]


def test_a_fork_of_the_process_has_none_of_the_turns_of_its_parent(monkeypatch):
    places = gate.Places()
    assert places.take(["k"])
    assert not places.take(["k"])
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert places.take(["k"])


def test_a_lease_that_nobody_renews_ends_before_others_stop_waiting():
    assert 3 * gate.RENEW_S < gate.LEASE_S < 30


@pytest.mark.parametrize("failures", [1, 3])
def test_a_thread_that_could_not_be_let_go_of_is_free_for_others_as_soon_as_the_database_is_back(remembering, failures):
    left = iter(range(failures))

    def listen(name):
        if name == "turn.release.before_commit" and next(left, None) is not None:
            raise StoreUnavailable("the disk is gone")

    made = remembering(Answer(text="1"), Answer(text="2"), Answer(text="3"))
    with failpoints._listening(listen):
        made.turn("one")
        for thread in threading.enumerate():
            if thread.name == "everlog-turn":
                thread.join(20)
    assert taken(made, OTHER) is not None
    assert made.states == [TurnState.COMPLETE]


def test_what_lets_go_later_lets_go_of_no_turn_that_was_begun_since(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"))
    store, tenant = made.home.store, made.home.name
    made.turn("one")
    lease = taken(made, OTHER)
    beats = gate.Heartbeat(store, lease)
    newer = store.write(
        tenant, lambda unit: claim.claim(unit, lease.subject, gate.LEASE_S, OTHER, retake=True), name="turn.take"
    )
    beats.let_go()
    beats._thread.join(20)
    assert not beats._thread.is_alive()
    store.write(tenant, lambda unit: gate.hold(unit, newer), name="turn.renew")
