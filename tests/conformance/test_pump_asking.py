"""Runs that ask a model: how many at once, what becomes of errors, silence and outages, and what the hooks hear."""

import json
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everlog.clock import moment
from everlog.errors import Mistake, PumpTimeout
from everlog.memory.interface import Answer, Failure, Reply, Request
from everlog.memory.tree import Extractive, Tree
from everlog.memory.tree.nodes import nodes_in
from everlog.pump import Hold, Options, Ran, Result, run
from everlog.store import Store
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
    tree,
    tries,
)


def texts(count: int) -> list[str]:
    return [long(n) for n in range(count)]


def about(n: int) -> Callable[[Request], bool]:
    return lambda request: len(request.source) == 1 and request.source[0].text.startswith(f"message {n} ")


def raising(*numbers: int, error: BaseException | None = None, model: str = "raises@1") -> ScriptedModel:
    """A model that raises at each request about one of some messages."""

    def when(request: Request) -> Any:
        return (error or ValueError("words of a message")) if any(about(n)(request) for n in numbers) else None

    return ScriptedModel(when=when, model=model)


@pytest.mark.covers("A97", "A110")
def test_eight_are_asked_at_once_in_threads_of_their_own_and_everything_else_is_done_in_the_callers(store: Store):
    thread = filled(store, texts(20))
    model = Gate()
    here: set[int] = set()
    told = Options(
        before_pass=lambda count: here.add(threading.get_ident()),
        on_result=lambda result: here.add(threading.get_ident()),
    )
    with beside(lambda: (threading.get_ident(), pumped(store, thread, model, options=told))) as ended:
        model.has(8)
        assert not model.inside.acquire(timeout=0.05), "the ninth waits"
        model.go_on.set()
    ((caller, ran),) = ended
    assert ran.done
    assert here == {caller}
    assert caller not in model.threads
    assert model.most == 8
    assert len(built(store, thread)) == nodes_in(20)


def test_a_run_may_ask_fewer_at_once(store: Store):
    thread = filled(store, texts(6))
    model = Gate()
    with beside(lambda: pumped(store, thread, model, options=Options(at_once=2))) as ended:
        model.has(2)
        model.go_on.set()
    assert ended[0].done
    assert model.most == 2


def test_an_answer_that_was_waited_for_is_kept_at_once_and_not_when_all_have_come(store: Store):
    thread = filled(store, texts(3))
    model = Gate()
    kept = threading.Event()
    quick, slow = EchoModel(), model

    def answer(request: Request) -> Any:
        return quick(request) if about(0)(request) else slow(request)

    def listener(name: str) -> None:
        if name == "pump.write.after_commit":
            kept.set()

    with listening(listener), beside(lambda: pumped(store, thread, ScriptedModel(otherwise=answer))) as ended:
        model.has(2)
        assert kept.wait(8), "long before the lease would be renewed"
        assert built(store, thread).keys() == {0}
        model.go_on.set()
    assert ended[0].done


@pytest.mark.covers("A98")
def test_a_step_at_which_the_compactor_raises_is_asked_three_times_and_then_settled(
    store: Store, caplog: pytest.LogCaptureFixture
):
    """A poisoned message does not stop the tree."""
    thread = filled(store, texts(5))
    model = raising(2)
    results: list[Result] = []
    ran = pumped(store, thread, model, options=Options(on_result=results.append))
    assert ran.done
    found = built(store, thread)
    assert len(found) == nodes_in(5)
    assert found[2] == (Extractive.model, 1)
    assert {found[n] for n in (0, 1, 3, 4)} == {(model.model, 0)}
    assert sum(map(about(2), model.requests)) == 3
    assert [result.ok for result in results if result.step == "node 0:2"] == [False, False, True]
    assert [record.error for record in caplog.records] == ["ValueError"] * 3  # type: ignore[attr-defined]
    assert "words of a message" not in caplog.text
    assert tries(store, thread) == 0


def test_a_compactor_that_raises_at_everything_ends_the_run_and_puts_nothing_in_place_of_its_answers(store: Store):
    thread = filled(store, texts(3))
    model = raising(0, 1, 2)
    for failures in (1, 2, 3):
        ran = pumped(store, thread, model)
        assert (ran.done, ran.reason, ran.steps) == (False, "ValueError", 0)
        assert (due(store, thread)["failures"], due(store, thread)["error_code"]) == (failures, "ValueError")
        assert built(store, thread) == {}
    assert pumped(store, thread, EchoModel(model.model)).done
    assert {fallback for _, fallback in built(store, thread).values()} == {0}


def test_after_three_such_runs_it_is_taken_for_the_messages_fault_and_the_tree_goes_on(store: Store):
    thread = filled(store, texts(2))
    for _ in range(3):
        assert not pumped(store, thread, raising(0, 1)).done
    assert pumped(store, thread, raising(0, 1)).done
    assert len(built(store, thread)) == nodes_in(2)


@pytest.mark.covers("A99")
@pytest.mark.parametrize("error", [Mistake("no such model"), SystemExit(3), MemoryError()], ids=repr)
def test_what_is_no_ordinary_error_is_raised_after_the_pass_and_the_other_answers_are_kept(
    store: Store, error: BaseException
):
    """Fault 42."""
    thread = filled(store, texts(4))
    with pytest.raises(type(error)) as raised:
        pumped(store, thread, raising(1, error=error))
    assert raised.value is error
    assert built(store, thread).keys() == {0, 2, 3}
    assert due(store, thread)["lease_until"] is None
    assert pumped(store, thread, EchoModel("raises@1")).done


def test_refusals_are_told_to_the_model_with_their_reason_and_after_five_the_line_is_settled(store: Store):
    thread = filled(store, texts(2))
    model = ScriptedModel(when=lambda request: Bad.EMPTY if about(1)(request) else None)
    results: list[Result] = []
    assert pumped(store, thread, model, options=Options(on_result=results.append)).done
    asked = [request for request in model.requests if about(1)(request)]
    assert [len(request.messages) for request in asked] == [3, 4, 5, 6, 7], "each with what was wrong with the last"
    assert built(store, thread)[1] == (Extractive.model, 1)
    assert Result(step="node 0:1", ok=True, tries=5) in results
    assert Result(step="node 0:0", ok=True, tries=1) in results


@pytest.mark.covers("A100", "A101", "A102", "A103")
def test_a_pass_that_takes_too_long_is_given_up_and_a_late_answer_is_dropped(
    store: Store, caplog: pytest.LogCaptureFixture
):
    """Fault 41, fault 45."""
    thread = filled(store, texts(3))
    stuck, echo = Gate(), EchoModel("late@1")
    stuck.model = echo.model
    model = ScriptedModel(otherwise=lambda request: (stuck if about(1)(request) else echo)(request), model=echo.model)
    with pytest.raises(PumpTimeout, match="1 request"):
        pumped(store, thread, model, options=Options(pass_timeout_s=0.3))
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    place: str = record.at  # type: ignore[attr-defined]
    assert place.rpartition(":")[0].endswith("threading.py")
    assert place.endswith("wait")
    assert "word" not in caplog.text
    assert built(store, thread).keys() == {0, 2}, "what was answered is kept"
    row = due(store, thread)
    assert (row["lease_until"], row["error_code"]) == (None, "PumpTimeout")
    stuck.go_on.set()
    assert built(store, thread).keys() == {0, 2}
    assert pumped(store, thread, echo).done


def test_without_a_limit_a_run_waits(store: Store):
    thread = filled(store, texts(1))
    model = Gate()
    with beside(lambda: pumped(store, thread, model, options=Options(pass_timeout_s=None))) as ended:
        model.has(1)
        model.go_on.set()
    assert ended[0].done


@pytest.mark.covers("A105")
@pytest.mark.parametrize("says", [False, Hold()], ids=repr)
def test_before_pass_hears_how_much_is_to_be_asked_and_can_stop_the_run_there(store: Store, says: Any):
    thread = filled(store, [*texts(3), "short", "short too"])
    model = ScriptedModel()
    heard: list[int] = []

    def before(count: int) -> Any:
        heard.append(count)
        if isinstance(says, Exception):
            raise says
        return says

    ran = pumped(store, thread, model, options=Options(before_pass=before))
    assert (ran.done, ran.held, ran.reason) == (False, True, None)
    assert heard == [3]
    assert model.requests == []
    assert built(store, thread).keys() == {3, 4}, "what needs no model was kept"
    row = due(store, thread)
    assert (row["lease_until"], row["failures"], row["error_code"]) == (None, 0, None)
    assert pumped(store, thread, model, options=Options(before_pass=lambda count: None)).done


@pytest.mark.covers("A106")
def test_another_error_of_before_pass_stops_the_run_too_and_its_class_is_logged(
    store: Store, caplog: pytest.LogCaptureFixture
):
    """Fault 43."""
    thread = filled(store, texts(1))
    model = ScriptedModel()

    def before(count: int) -> bool:
        raise KeyError("a secret")

    ran = pumped(store, thread, model, options=Options(before_pass=before))
    assert (ran.done, ran.held, ran.reason, model.requests) == (False, True, "KeyError", [])
    assert [record.error for record in caplog.records] == ["KeyError"]  # type: ignore[attr-defined]
    assert "secret" not in caplog.text


@pytest.mark.covers("A107", "A108")
def test_on_result_hears_of_each_step_also_of_a_pass_that_ends_in_an_error(store: Store):
    thread = filled(store, [long(0), "short", long(2)])
    heard: list[Result] = []
    options = Options(on_result=heard.append)
    with pytest.raises(SystemExit):
        pumped(store, thread, raising(2, error=SystemExit()), options=options)
    assert sorted(heard, key=lambda result: result.step) == [
        Result(step="node 0:0", ok=True, tries=1),
        Result(step="node 0:1", ok=True, tries=0),
        Result(step="node 0:2", ok=False, tries=None),
    ]


@pytest.mark.covers("A109")
def test_an_error_of_on_result_is_logged_and_ignored_and_any_other_is_raised_after_all_results(
    store: Store, caplog: pytest.LogCaptureFixture
):
    thread = filled(store, texts(2))
    heard: list[str] = []

    def on_result(result: Result) -> None:
        heard.append(result.step)
        raise (KeyError("a secret") if len(heard) < 3 else KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        pumped(store, thread, EchoModel(), options=Options(on_result=on_result))
    assert sorted(heard) == ["node 0:0", "node 0:1", "node 1:0"]
    assert len(built(store, thread)) == 3, "the hook takes nothing back"
    assert "secret" not in caplog.text
    assert due(store, thread)["lease_until"] is None


def test_an_outage_of_an_hour_burns_no_try_and_costs_one_request_each_time_it_is_looked_at(database: Any):
    store = database.open()
    thread = filled(store, texts(12))
    healthy = pumped_twin(store)
    model = ScriptedModel(when=lambda request: Bad.UNAVAILABLE, model="echo@1")
    began = store.clock.now()
    asked: list[int] = []
    sleeps: list[float] = []
    while store.clock.now() - began < timedelta(hours=1):
        ran = pumped(store, thread, model)
        assert (ran.done, ran.reason) == (False, "unavailable")
        assert tries(store, thread) == 0
        asked.append(len(model.requests))
        model.requests.clear()
        sleep = moment(due(store, thread)["due_at"]) - store.clock.now()
        sleeps.append(round(sleep.total_seconds()))
        database.clock.advance(sleep)
    assert asked[0] <= 8
    assert set(asked[1:]) == {1}
    assert sleeps[:5] == [10, 10, 10, 20, 40]
    assert set(sleeps[5:]) == {60}, "nobody waits for minutes once the model is back"
    assert built(store, thread) == {}
    assert pumped(store, thread, EchoModel()).done
    assert bodies(store, thread, 12) == healthy
    assert due(store, thread)["failures"] == 0


def pumped_twin(store: Store) -> dict[int, bytes]:
    """Return the lines of a thread that nothing ever happened to."""
    thread = filled(store, texts(12))
    assert pumped(store, thread, EchoModel()).done
    return bodies(store, thread, 12)


def test_answers_that_are_out_when_the_provider_goes_down_are_kept(store: Store):
    thread = filled(store, texts(6))
    out = threading.Barrier(6)

    def answer(request: Request) -> Any:
        out.wait(30)
        return Failure(kind="unavailable") if about(3)(request) else EchoModel()(request)

    ran = pumped(store, thread, ScriptedModel(otherwise=answer, model="echo@1"))
    assert (ran.reason, ran.steps) == ("unavailable", 5)
    assert built(store, thread).keys() == {0, 1, 2, 4, 5}


def test_the_lease_is_renewed_while_an_answer_is_awaited(store: Store):
    thread = filled(store, texts(1))
    model = Gate()
    renewed = threading.Event()

    def listener(name: str) -> None:
        if name == "pump.renew.after_commit":
            renewed.set()

    with listening(listener), beside(lambda: pumped(store, thread, model, options=Options(lease_s=0.6))) as ended:
        model.has(1)
        before = due(store, thread)["lease_until"]
        assert renewed.wait(30)
        assert due(store, thread)["lease_until"] > before
        model.go_on.set()
    assert ended[0].done


def test_a_run_that_lost_its_lease_while_it_waited_writes_nothing(database: Any):
    store = database.open()
    thread = filled(store, texts(1))
    model = Gate()
    with beside(lambda: pumped(store, thread, model)) as ended:
        model.has(1)
        database.clock.advance(timedelta(seconds=31))
        assert pumped(store, thread, EchoModel("other@1")).done
        model.go_on.set()
    assert ended == [Ran(steps=0, done=False, busy=True)]
    assert built(store, thread) == {0: ("other@1", 0)}


def test_a_run_that_is_told_to_stop_keeps_what_has_come_and_lets_go(store: Store):
    thread = filled(store, texts(8))
    model, echo = Gate(), EchoModel()
    stop = threading.Event()

    def answer(request: Request) -> Answer:
        if about(5)(request):
            model(request)
        return echo(request)

    asked = ScriptedModel(otherwise=answer, model=echo.model)
    options = Options(grace_s=0.2)
    with beside(lambda: pumped(store, thread, asked, options=options, stop=stop.is_set)) as ended:
        model.has(1)
        stop.set()
    (ran,) = ended
    assert (ran.done, ran.reason, ran.held) == (False, None, False)
    assert 5 not in built(store, thread)
    row = due(store, thread)
    assert (row["lease_until"], row["failures"]) == (None, 0)
    assert row["due_at"] is not None
    model.go_on.set()
    assert pumped(store, thread, echo).done


SCHEDULER = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "vectors" / "scheduler.json").read_text("utf-8"))["cases"]
    if "id" in case
}


def in_flight(store: Store, thread: str, memory: Tree, model: Gate, number: int) -> list[str]:
    """Return the first messages of what is out when that is `number` requests."""
    stop = threading.Event()
    options = Options(grace_s=0)
    with beside(lambda: run(store, TENANT, thread, memory, model, options=options, stop=stop.is_set)) as ended:
        model.has(number)
        assert not model.inside.acquire(timeout=0.05)
        stop.set()
    model.go_on.set()
    assert not ended[0].done
    return [request.source[0].text.split(" ")[0] for request in model.asked]


def test_the_first_eight_merges_of_short_messages_are_out_at_once(store: Store):
    """Vector free-leaves."""
    thread = filled(store, [f"{n} " + "x" * 300 for n in range(32)])
    case = SCHEDULER["free-leaves"]
    found = in_flight(store, thread, Tree(model="gate@1"), Gate(), 8)
    assert sorted(map(int, found)) == [index * 2 for _, index in case["start"]]
    assert run(store, TENANT, thread, Tree(), Extractive()).done
    assert len(built(store, thread)) == case["total_nodes_when_done"]


def test_the_leaves_that_are_out_at_once_are_those_of_a_block(store: Store):
    """Vector v3-window, but for leaf 8, which starts a new block: it waits until this one's view is certain."""
    thread = filled(store, [f"0 {long(0)}"])
    assert pumped(store, thread, EchoModel("gate@1")).done
    filled(store, [f"{n} {long(n)}" for n in range(1, 13)], thread=thread)
    wanted = [n for n in SCHEDULER["v3-window"]["start_leaves"] if n < 8]
    found = in_flight(store, thread, tree(Gate()), Gate(), len(wanted))
    assert sorted(map(int, found)) == wanted


def test_a_merge_is_out_as_soon_as_its_halves_are_built_and_no_leaf_of_the_next_block(store: Store):
    """Vector v3-next, but for leaf 9, which belongs to the next block."""
    thread = filled(store, [f"0 {long(0)}"])
    echo = EchoModel("gate@1", line_bytes=300)
    assert pumped(store, thread, echo).done
    filled(store, [f"{n} {long(n)}" for n in range(1, 13)], thread=thread)

    def only_one(request: Request) -> Reply:
        if not request.source[0].text.startswith("1 "):
            raise ConnectionError
        return echo(request)

    once = ScriptedModel(otherwise=only_one, model="gate@1")
    assert pumped(store, thread, once, stop=lambda: True).steps == 1
    found = in_flight(store, thread, tree(Gate()), Gate(), 7)
    case = SCHEDULER["v3-next"]
    assert case["new_merge"] == [1, 0]
    assert sorted(map(int, found)) == [0, 2, 3, 4, 5, 6, 7], "the merge begins with message 0; the others are leaves"


def test_a_gap_before_a_leaf_keeps_everything_behind_it_out_of_its_context(store: Store):
    """Vector context-gap."""
    thread = filled(store, [long(0), "short", long(2)])
    model = ScriptedModel(otherwise=EchoModel(line_bytes=300))
    assert pumped(store, thread, model).done
    (request,) = [request for request in model.requests if about(2)(request)]
    assert request.messages[1].text == "<chat>\n</chat>"
    assert SCHEDULER["context-gap"]["context_for_leaf_2_lines"] == 0


def test_merges_that_a_model_always_refuses_are_settled_and_never_asked_about_again(store: Store):
    """In place of vector failing-merges, in which all of them are asked about again at each message."""
    thread = filled(store, [f"{n} " + "x" * 300 for n in range(20)])
    model = ScriptedModel(when=lambda request: Bad.REFUSED if len(request.source) > 1 else None)
    memory = Tree(model=model.model)
    assert run(store, TENANT, thread, memory, model).done
    assert len(built(store, thread)) == nodes_in(20)
    asked = len(model.requests)
    filled(store, ["one more"], thread=thread)
    assert run(store, TENANT, thread, memory, model).done
    assert len(model.requests) == asked
