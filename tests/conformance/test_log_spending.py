"""What requests to models took: added up by thread and purpose, with the unit that keeps their answers, and erased with the thread."""

import contextlib
from datetime import timedelta
from typing import Any

import pytest

import everlog
from everlog import ChatConfig, Costs, Everlog, Mistake, ProtocolError, Spent, Usage, log
from everlog.log import Purpose
from everlog.memory.interface import Answer, Bill, Failure, Request
from everlog.pump import run
from everlog.store import Store
from everlog.testing import Bad, EchoModel, ScriptedModel
from everlog.testing.upstream import Answer as Says
from everlog.testing.upstream import Upstream
from tests.conformance.pumping import TENANT, filled, long, tree

HAIKU = "anthropic/claude-haiku-4-5"


def spent(store: Store, thread: str | None = None, tenant: str = TENANT) -> Spent:
    return store.read(tenant, lambda unit: log.spent(unit, thread))[Purpose.MEMORY]


def spend(store: Store, thread: str | None, purpose: Purpose, *requests: Any) -> None:
    def act(unit: Any) -> None:
        for usage, cost in requests:
            log.spend(unit, thread, purpose, HAIKU, usage, cost)

    store.write(TENANT, act, name="test.spend")


class Paid:
    """A compactor whose every reply costs a hundredth of a dollar."""

    def __init__(self, answers: Any) -> None:
        self.answers = answers
        self.model = answers.model

    def __call__(self, request: Request) -> Any:
        bill = Bill(model=self.model, usage=Usage(input=100, cache_read=50, output=10), cost_usd=0.01)
        reply = self.answers(request)
        shape = Answer if isinstance(reply, Answer) else Failure
        fields = {name: getattr(reply, name) for name in shape.__slots__}
        return shape(**{**fields, "bills": (bill,)})


def test_requests_are_added_up_by_thread_and_purpose_and_a_price_that_nobody_knows_is_counted(store: Store):
    one, other = filled(store, ["a"]), filled(store, ["b"])
    usage = Usage(input=1000, output=20, cache_read=300, cache_write=4)
    spend(store, one, Purpose.TALK, (usage, 0.1), (usage, 0.2))
    spend(store, one, Purpose.MEMORY, (usage, None), (None, None), (Usage(), 1e-9))
    spend(store, other, Purpose.TALK, (usage, 0.3))
    spend(store, None, Purpose.MEMORY, (usage, 0.4))
    talk, memory = store.read(TENANT, lambda unit: log.spent(unit, one)).values()
    assert talk == Spent(
        requests=2,
        input_tokens=2000,
        output_tokens=40,
        cache_read_tokens=600,
        cache_write_tokens=8,
        nano_usd=300_000_000,
    )
    assert (talk.usd, talk.tokens) == (0.3, 2648)
    assert (memory.requests, memory.unpriced, memory.nano_usd, memory.usd, memory.tokens) == (3, 2, 1, None, 1324)
    whole = store.read(TENANT, log.spent)
    assert (whole[Purpose.TALK].nano_usd, whole[Purpose.MEMORY].nano_usd) == (600_000_000, 400_000_001)


def test_days_are_rows_and_a_thread_that_is_erased_takes_its_own_along(database: Any):
    store = database.open()
    one, other = filled(store, ["a"]), filled(store, ["b"])
    for thread in (one, other):
        spend(store, thread, Purpose.MEMORY, (None, 0.5))
    database.clock.advance(timedelta(days=2))
    spend(store, one, Purpose.MEMORY, (None, 0.5))
    assert [spent(store, thread).usd for thread in (one, other, None)] == [1.0, 0.5, 1.5]
    log.erase_thread(store, TENANT, one)
    assert [spent(store, thread).requests for thread in (one, other, None)] == [0, 1, 1]
    with pytest.raises(everlog.Erased):
        spend(store, one, Purpose.MEMORY, (None, 0.5))


def test_tries_that_were_rejected_and_failures_are_counted_as_they_were_billed(store: Store):
    thread = filled(store, [long(0)])
    model = Paid(ScriptedModel([Bad.TOO_LONG, Bad.EMPTY, Bad.UNUSABLE, None]))
    ran = run(store, TENANT, thread, tree(model), model)
    assert (ran.done, ran.steps) == (True, 1)
    assert spent(store, thread) == Spent(
        requests=4, input_tokens=400, output_tokens=40, cache_read_tokens=200, nano_usd=40_000_000
    )


@pytest.mark.parametrize("ending", [Bad.UNAVAILABLE, KeyboardInterrupt(), Mistake("no")])
def test_what_was_paid_before_a_run_ended_is_kept_however_it_ended(store: Store, ending: Any):
    thread = filled(store, [long(0)])
    model = Paid(ScriptedModel([Bad.TOO_LONG, ending]))
    with contextlib.suppress(KeyboardInterrupt, Mistake):
        assert run(store, TENANT, thread, tree(model), model).reason == "unavailable"
    assert spent(store, thread).requests == (2 if ending is Bad.UNAVAILABLE else 1)
    left = Paid(ScriptedModel())
    assert run(store, TENANT, thread, tree(left), left).done
    assert spent(store, thread).requests == (3 if ending is Bad.UNAVAILABLE else 2)


def test_an_answer_that_is_thrown_away_was_paid_all_the_same(store: Store):
    """Of a thread that was erased meanwhile nothing is kept, not even that."""
    thread = filled(store, [long(0)])

    class Erases(EchoModel):
        def __call__(self, request: Request) -> Answer:
            log.erase_thread(store, TENANT, thread)
            return super().__call__(request)

    model = Paid(Erases())
    assert run(store, TENANT, thread, tree(model), model).reason == "erased"
    assert spent(store).requests == 0


def test_code_without_a_model_costs_nothing_and_adds_no_row():
    with everlog.open(":memory:") as memory:
        thread = memory.thread("a")
        thread.append("user", "The harbour master called about the berth. " * 40)
        assert thread.pump().done
        assert thread.cost() == memory.stats().cost == Costs(talk=Spent(), memory=Spent())
        assert (thread.cost().usd, thread.cost().tokens) == (0.0, 0)


def priced(memory: Everlog, url: str, **options: Any) -> Any:
    thread = memory.thread("a")
    for n in range(9):
        thread.append("user", long(n))
    config = ChatConfig(base_urls={"anthropic": url}, environ={})
    return thread, thread.pump(HAIKU, compactor_options={"config": config, **options})


@pytest.mark.covers("A33")
def test_a_tree_is_built_by_a_model_over_http_and_its_price_is_that_of_the_registry():
    says = Says(text="user: a line", input_tokens=10_000, cached_tokens=8_000, output_tokens=100)
    with Upstream(lambda received: says) as upstream, everlog.open(":memory:") as memory:
        thread, ran = priced(memory, upstream.url)
        assert (ran.done, len(upstream.requests)) == (True, 9)
        cost = thread.cost()
        assert cost.memory.usd == pytest.approx(9 * (2_000 * 1.0 + 8_000 * 0.1 + 100 * 5.0) / 1e6)
        assert (cost.talk, cost.usd, cost.memory.unpriced) == (Spent(), cost.memory.usd, 0)
        assert thread.tree.stale() > 0
        heads = {one.raw[: one.raw.index(b'"cache_control"')] for one in upstream.requests[:8]}
        assert len(heads) == 1, "eight leaves share one prefix"


@pytest.mark.covers("A91", "A93")
def test_a_required_protocol_holds_for_every_tenant_and_stops_a_pump_before_any_request():
    with Upstream() as upstream, everlog.open(":memory:", required_protocol="chat_completions") as memory:
        for door in (memory, memory.tenant("other")):
            assert door.required_protocol == "chat_completions"
            with pytest.raises(ProtocolError):
                priced(door, upstream.url)
            assert door.thread("a").pump().done
            fork = door.thread("a").fork(3, "b")
            with pytest.raises(ProtocolError):
                fork.pump(EchoModel())
        assert upstream.requests == []
    with pytest.raises(Mistake, match="it is one of"):
        everlog.open(":memory:", required_protocol="chat-completions")


@pytest.mark.covers("A115")
def test_five_tries_are_one_conversation_that_goes_on_after_a_kill():
    words = "user: " + "far too long " * 60

    def script(received: Any) -> Says:
        if len(upstream.requests) == 3:
            raise ConnectionResetError  # the answer never comes
        return Says(text=f"{words}{len(upstream.requests)}")

    with Upstream(script) as upstream, everlog.open(":memory:") as memory:
        thread = memory.thread("a")
        thread.append("user", long(0))
        config = ChatConfig(base_urls={"anthropic": upstream.url}, environ={})
        first = thread.pump(HAIKU, compactor_options={"config": config})
        assert (first.done, first.reason) == (False, "unavailable")
        second = thread.pump(HAIKU, compactor_options={"config": config})
        assert (second.done, len(upstream.requests)) == (True, 6), "two of five were paid before"
        talks = [[one["role"] for one in sent.body["messages"]] for sent in upstream.requests]
        assert [len(talk) for talk in talks] == [2, 4, 6, 6, 8, 10]
        assert talks[-1] == ["user", "user", *["assistant", "user"] * 4]
        assert thread.cost().memory.requests == 6, "five answers, and one that may have been"
