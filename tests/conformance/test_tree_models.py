"""The tree with a model: contexts that depend on nothing but the log, tries that outlive a crash, and law 2."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlog import log
from everlog.clock import moment
from everlog.conversation.tree import Tree as PublicTree
from everlog.log import NewTurn
from everlog.memory import tree as memory_tree
from everlog.memory.interface import Accept, Failure, Reply, Request, Step, Subject
from everlog.memory.tree import CONTEXT_BYTES, Extractive, Tree, parse, questions, rows, upkeep
from everlog.memory.tree.nodes import nodes_in, pack, stop_of
from everlog.messages import Call, Media, Message, Origin, Result
from everlog.pump import Ran, run
from everlog.pump import rows as pump_rows
from everlog.store import Store, Unit, failpoints, scoped, sealed
from everlog.testing import Bad, EchoModel, ScriptedModel
from everlog.tokens import size_bytes

TENANT = "ada"
PROMPTS = questions.prompts()
CONTEXT = 2_000
_names = count()


def filled(store: Store, messages: list[Message], thread: str | None = None, tenant: str = TENANT) -> str:
    def act(unit: Unit) -> str:
        row = log.create(unit, f"thread-{next(_names)}") if thread is None else log.load(unit, thread)
        if messages:
            log.append(unit, row, [NewTurn(messages=tuple(messages))])
        return row.id

    return store.write(tenant, act, name="test.fill")


def long(n: int, words: int = 120) -> Message:
    return Message(kind="user" if n % 2 == 0 else "assistant", text=f"message {n} " + f"word{n} " * words)


def short(n: int) -> Message:
    return Message(kind="user", text=f"message {n} is short")


def tree(model: Any, context: int = CONTEXT) -> Tree:
    return Tree(model=model.model, prompts=PROMPTS, context_bytes=context)


def pumped(store: Store, thread: str, model: Any, tenant: str = TENANT) -> Ran:
    return run(store, tenant, thread, tree(model), model)


def stored(store: Store, thread: str, total: int, tenant: str = TENANT) -> dict[int, tuple[Any, ...]]:
    """Every byte of every node."""

    def act(unit: Unit) -> dict[int, tuple[Any, ...]]:
        nids = [pack(level, index) for level in range(12) for index in range(total >> level)]
        return {
            row[2]: (*row[3:8], unit.open(rows.node.c.body, (row[1], row[2]), row[8]))
            for row in unit.rows(ALL, owners=[thread], nids=nids)
        }

    return store.read(tenant, act)


ALL = scoped(rows.node).select().where(*rows._mine)


def dropped(store: Store, thread: str, tenant: str = TENANT) -> None:
    store.write(tenant, lambda unit: sealed.drop(unit, rows.node, thread), name="test.drop")


def state(store: Store, thread: str, memory: Tree, tenant: str = TENANT) -> Any:
    return store.read(tenant, partial(memory.read, subject=Subject(tenant=tenant, memory="tree", key=thread)))


def steps(store: Store, thread: str, memory: Tree, tenant: str = TENANT) -> tuple[Step, ...]:
    return memory.plan(state(store, thread, memory, tenant), datetime.now(UTC), 1000).steps


def named(found: tuple[Step, ...], *, asking: bool = True) -> list[str]:
    return [step.name.removeprefix("node ") for step in found if (step.request is not None) == asking]


@pytest.mark.covers("A97", "A115")
def test_the_leaves_of_one_block_are_offered_together_and_share_their_first_two_messages(store: Store):
    thread = filled(store, [long(n) for n in range(13)])
    model = EchoModel()
    found = steps(store, thread, tree(model))
    assert named(found) == [f"0:{n}" for n in range(8)]
    heads = {tuple(message.text for message in step.request.messages[:2]) for step in found if step.request}
    assert heads == {(PROMPTS.system.text, "<chat>\n</chat>")}
    seventh = found[7].request
    assert seventh is not None
    assert [f"{n}+1|" in seventh.messages[2].text for n in range(9)] == [True] * 7 + [False] * 2


@pytest.mark.covers("A125")
def test_a_leaf_sees_the_whole_past_in_a_view_of_24_kb_with_every_line_built(store: Store):
    total = 120
    thread = filled(store, [long(n) for n in range(total)])
    model = ScriptedModel(otherwise=EchoModel(line_bytes=420))
    assert pumped_with(store, thread, model, CONTEXT_BYTES).done
    views = {request.messages[1].text for request in model.requests}
    assert max(map(size_bytes, views)) <= CONTEXT_BYTES
    assert max(map(size_bytes, views)) > CONTEXT_BYTES * 0.8
    assert all("not summarized" not in view for view in views)
    for request in model.requests:
        if "Shorten" in request.messages[2].text:
            n = int(request.source[0].text.split()[1])
            assert parse(request.messages[1].text).count == n // 8 * 8


def pumped_with(store: Store, thread: str, model: Any, context: int) -> Ran:
    return run(store, TENANT, thread, tree(model, context), model)


def test_no_later_text_and_no_placeholder_is_in_a_context(store: Store):
    """Fault 47."""
    thread = filled(store, [long(n) for n in range(30)])
    model = ScriptedModel(otherwise=EchoModel(line_bytes=420))
    assert pumped(store, thread, model).done
    for request in model.requests:
        last = max(int(message.text.split()[1]) for message in request.source)
        said = "\n".join(message.text for message in request.messages)
        assert "not summarized" not in said
        assert not any(f"word{n} " in said for n in range(last + 1 + len(request.source) * 16, 31))


def test_a_merge_sees_its_own_stretch_two_levels_finer(store: Store):
    thread = filled(store, [long(n) for n in range(8)])
    model = ScriptedModel(otherwise=EchoModel(line_bytes=420))
    assert pumped(store, thread, model).done
    merges = [request for request in model.requests if "Merge" in request.messages[2].text]
    top = merges[-1].messages[2].text
    assert [f"{n}+2|" in top for n in (0, 2, 4, 6)] == [True] * 4
    pair = next(request for request in merges if "word7 word7" in request.messages[2].text)
    assert "6+1|user: message 6" in pair.messages[2].text


@pytest.mark.covers("A114")
def test_short_messages_are_built_at_once_even_after_one_that_never_is(store: Store):
    """Faults 35 and 1.5: a stuck leaf holds up no free node."""
    thread = filled(store, [long(0), *(short(n) for n in range(1, 20))])
    ran = pumped(store, thread, ScriptedModel(when=lambda request: Bad.UNAVAILABLE))
    assert (ran.done, ran.reason) == (False, "unavailable")
    built = stored(store, thread, 20)
    assert {n for n in range(20) if n in built} == set(range(1, 20))


@pytest.mark.covers("A115", "A116")
def test_a_message_that_no_model_can_shorten_gets_clauses_of_itself_and_the_rest_goes_on(store: Store):
    """Faults 23, 35, 38."""
    thread = filled(store, [long(n) for n in range(20)])
    model = ScriptedModel(
        when=lambda request: Bad.ERROR_TEXT if request.source[0].text.startswith("message 0 ") else None
    )
    assert pumped(store, thread, model).done
    built = stored(store, thread, 20)
    assert len(built) == nodes_in(20)
    assert [(nid, row[1:3]) for nid, row in sorted(built.items()) if row[4]][:1] == [
        (0, (PROMPTS.id, Extractive.model))
    ]
    asked = len(model.requests)
    assert pumped(store, thread, model).steps == 0
    assert len(model.requests) == asked, "built once, never again"


def test_tries_outlive_a_crash_and_are_gone_once_the_node_is_built(store: Store):
    thread = filled(store, [long(0)])
    first = ScriptedModel([Bad.TOO_LONG, Bad.EMPTY, Bad.UNTAGGED, KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        pumped(store, thread, first)
    (step,) = steps(store, thread, tree(first))
    assert [attempt.size_bytes for attempt in step.tries] == [513, 0, 23]
    second = ScriptedModel([Bad.TOO_LONG, Bad.TOO_LONG])
    assert pumped(store, thread, second).done
    assert len(second.requests) == 2, "three of five were paid before"
    (body,) = [row[-1] for row in stored(store, thread, 1).values()]
    assert size_bytes(body.decode()) > 512
    assert tried(store, thread) == []


def tried(store: Store, thread: str) -> list[Any]:
    return store.read(TENANT, lambda unit: unit.rows(rows.TRIED, owners=[thread], nids=list(range(50))))


def test_tries_of_another_prompt_or_model_do_not_count(store: Store):
    thread = filled(store, [long(0)])
    with pytest.raises(KeyboardInterrupt):
        pumped(store, thread, ScriptedModel([Bad.TOO_LONG, KeyboardInterrupt()]))
    (step,) = steps(store, thread, tree(EchoModel("another")))
    assert step.tries == ()


def test_tries_are_erased_with_the_words_they_are_made_of(store: Store):
    thread = filled(store, [])
    turn = NewTurn(messages=(long(0),), origin=Origin(user="eve"))
    store.write(TENANT, lambda unit: log.append(unit, log.load(unit, thread), [turn]), name="test.append")
    with pytest.raises(KeyboardInterrupt):
        pumped(store, thread, ScriptedModel([Bad.TOO_LONG, KeyboardInterrupt()]))
    assert len(tried(store, thread)) == 1
    log.erase_user(store, TENANT, "eve")
    assert tried(store, thread) == []


def test_a_provider_that_is_down_burns_no_try_and_the_subject_sleeps(database: Any):
    store = database.open()
    thread = filled(store, [long(0)])
    later = store.clock.now() + timedelta(minutes=5)
    model = ScriptedModel([Failure(kind="unavailable", retry_at=later), Bad.UNAVAILABLE])
    for wait in (later, store.clock.now() + timedelta(seconds=10)):
        assert pumped(store, thread, model).reason == "unavailable"
        row = store.read(TENANT, lambda unit: unit.row(pump_rows.DUE, memory="tree", subject=thread))
        assert row is not None
        assert timedelta(0) <= moment(row[1]) - wait < timedelta(seconds=1)
        assert tried(store, thread) == []
    assert pumped(store, thread, model).done


TEXTS = st.lists(st.sampled_from([0, 3, 60, 70, 130, 300]), min_size=1, max_size=40)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=TEXTS, random=st.randoms(use_true_random=False), data=st.data())
def test_what_is_dropped_comes_back_in_any_order_and_with_any_interruption(
    store: Store, tenants: Iterator[str], sizes: list[int], random: Random, data: st.DataObject
):
    """Law 2: the echo of a request is in each line, so equal bytes mean equal requests all the way up."""
    tenant = next(tenants)
    messages = [long(n, words) for n, words in enumerate(sizes)]
    thread = filled(store, messages, tenant=tenant)
    echo = EchoModel(line_bytes=data.draw(st.sampled_from([100, 300, 480])))
    assert pumped(store, thread, echo, tenant).done
    first = stored(store, thread, len(messages), tenant)
    assert len(first) == nodes_in(len(messages))
    dropped(store, thread, tenant)
    scattered(store, thread, echo, tenant, random)
    assert stored(store, thread, len(messages), tenant) == first
    piecemeal = filled(store, [], tenant=tenant)
    at = 0
    while at < len(messages):
        step = random.randint(1, 9)
        filled(store, messages[at : at + step], piecemeal, tenant)
        at += step
        if random.random() < 0.5:
            flaky = ScriptedModel(
                [random.choice([None, None, Bad.UNAVAILABLE]) for _ in range(20)], otherwise=echo, model=echo.model
            )
            pumped(store, piecemeal, flaky, tenant)
    assert pumped(store, piecemeal, echo, tenant).done
    assert stored(store, piecemeal, len(messages), tenant) == first


def scattered(store: Store, thread: str, model: Any, tenant: str, random: Random) -> None:
    """Do what is pending in random handfuls, those that need a model in any order, from snapshots that may be old."""
    memory = tree(model)
    subject = Subject(tenant=tenant, memory="tree", key=thread)
    while found := list(steps(store, thread, memory, tenant)):
        old = state(store, thread, memory, tenant)
        free = [step for step in found if step.request is None]
        asking = [step for step in found if step.request is not None]
        random.shuffle(asking)
        some = free[: random.randint(not asking, len(free))] + asking[: random.randint(not free, len(asking))]
        for step in some:
            reply = None if step.request is None else model(step.request)
            verdict = memory.judge(old, step, reply)
            if isinstance(verdict, Accept):
                act = partial(memory.write, subject=subject, verdicts=[verdict])
                store.write(tenant, act, name="test.write")


def test_two_workers_one_of_which_dies_leave_the_same_bytes(database: Any):
    store = database.open()
    messages = [long(n, 60 + n % 3 * 40) for n in range(40)]
    whole, shared = filled(store, messages), filled(store, messages)
    echo = EchoModel(line_bytes=300)
    assert pumped(store, whole, echo).done
    for at in (3, 9, 17):
        with pytest.raises(KeyboardInterrupt):
            pumped(store, shared, ScriptedModel([None] * at + [KeyboardInterrupt()], otherwise=echo, model=echo.model))
    workers = [threading.Thread(target=pumped, args=(store, shared, echo)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert pumped(store, shared, echo).done
    assert stored(store, shared, 40) == stored(store, whole, 40)


def test_a_fork_asks_with_its_parents_lines_as_if_they_were_its_own(store: Store):
    messages = [long(n) for n in range(24)]
    parent = filled(store, messages)
    echo = EchoModel(line_bytes=300)
    fork = store.write(TENANT, lambda unit: log.fork(unit, parent, 13, "fork").id, name="test.fork")
    filled(store, messages[13:], fork)
    assert pumped(store, fork, echo).done
    assert pumped(store, parent, echo).done
    mine, theirs = stored(store, fork, 24), stored(store, parent, 24)
    assert mine == {nid: row for nid, row in theirs.items() if stop_of(nid) > 13}


def call(name: str, arguments: Any, key: str) -> Message:
    said = json.dumps(arguments)
    return Message(kind="tool_call", text=f"{name} {said}", parts=(Call(call_id=key, name=name, arguments=said),))


def result(text: str, key: str, name: str | None = None) -> Message:
    return Message(kind="tool_result", text=text, parts=(Result(call_id=key, name=name),))


@pytest.mark.covers("A133")
def test_a_tools_result_is_summarised_with_its_own_call_whatever_stands_before_it(store: Store):
    thread = filled(
        store,
        [
            short(0),
            call("grep", {"pattern": "alpha"}, "a"),
            call("grep", {"pattern": "beta"}, "b"),
            result("found beta: " + "b " * 400, "b"),
            result("found alpha: " + "a " * 400, "a"),
        ],
    )
    found = {step.name: step.request for step in steps(store, thread, tree(EchoModel())) if step.request}
    first, second = found["node 0:3"], found["node 0:4"]
    assert first is not None
    assert second is not None
    assert [message.kind for message in first.source] == ["tool_call", "tool_result"]
    assert ("beta" in first.source[0].text, "alpha" in first.source[0].text) == (True, False)
    assert 'result of this call:\ntool_call: grep {"pattern": "alpha"}' in second.messages[2].text
    assert pumped(store, thread, Extractive()).done


def test_a_call_is_found_also_when_it_lies_before_the_stretch_that_is_read(store: Store):
    thread = filled(store, [short(0), call("grep", {"pattern": "alpha"}, "a")])
    pumped(store, thread, EchoModel())
    filled(store, [result("found: " + "a " * 400, "a")], thread)
    (step,) = [step for step in steps(store, thread, tree(EchoModel())) if step.request]
    assert step.request is not None
    assert "alpha" in step.request.source[0].text


OURS = [
    ("zoom", {"id": 0, "n": 64}),
    ("mcp__everlog__zoom", {"id": 0, "n": 64}),
    ("read", {"id": 3, "page": 1}),
    ("read", {"id": 3}),
    ("date", {"id": 3}),
    ("search", {"words": "harbour"}),
    ("search", {"words": "harbour", "before": 30}),
]
OTHERS = [
    ("read", {"file_path": "/tmp/x"}),
    ("search", {"query": "harbour"}),
    ("search", {"words": "harbour", "limit": 3}),
    ("zoom", {"id": "a", "n": 2}),
    ("zoom", [0, 1]),
    ("grep", {"id": 0, "n": 1}),
]


@pytest.mark.parametrize(("name", "arguments"), OURS)
def test_what_our_own_tools_brought_back_is_not_said_again(store: Store, name: str, arguments: Any):
    """Fault 33."""
    thread = filled(store, [call(name, arguments, "a"), result("0+32|user: the secret harbour " * 40, "a")])
    model = ScriptedModel(when=lambda request: AssertionError("no model is needed"))
    assert pumped(store, thread, model).done
    line = stored(store, thread, 2)[1][-1].decode()
    assert line.startswith("|tool_result: (recalled from this conversation by ")
    assert "harbour" not in line


@pytest.mark.parametrize(("name", "arguments"), OTHERS)
def test_a_tool_of_another_that_has_such_a_name_is_summarised(store: Store, name: str, arguments: Any):
    thread = filled(store, [call(name, arguments, "a"), result("the secret harbour " * 40, "a")])
    assert named(steps(store, thread, tree(EchoModel()))) == ["0:1"]


def test_speakers_keep_their_names_and_a_picture_alone_is_a_readable_line(store: Store):
    thread = filled(
        store,
        [
            Message(kind="user", text="I sold the boat.", author="Caroline"),
            Message(kind="user", text="", author="Melanie", parts=(Media(media_type="image/png", name="photo.png"),)),
        ],
    )
    assert pumped(store, thread, Extractive()).done
    assert stored(store, thread, 2)[pack(1, 0)][-1].decode().partition("|")[2] == (
        "user (Caroline): I sold the boat.\nuser (Melanie): (image image/png photo.png)"
    )


def test_an_answer_that_comes_after_an_erasure_is_not_kept_and_neither_is_a_try(store: Store):
    """Fault 45."""
    thread = filled(store, [long(0), long(1)])
    turn = NewTurn(messages=(long(2),), origin=Origin(user="eve"))
    store.write(TENANT, lambda unit: log.append(unit, log.load(unit, thread), [turn]), name="test.append")

    def act(request: Request) -> Reply | Bad | None:
        log.erase_user(store, TENANT, "eve")
        return Bad.TOO_LONG

    model = ScriptedModel(when=once(act))
    ran = pumped(store, thread, model)
    assert ran.reason == "erased"
    assert tried(store, thread) == []
    assert pumped(store, thread, EchoModel()).done


def once(act: Callable[[Request], Any]) -> Callable[[Request], Any]:
    done: list[bool] = []

    def first(request: Request) -> Any:
        if done:
            return None
        done.append(True)
        return act(request)

    return first


def test_while_nothing_can_be_built_a_view_shows_placeholders_and_the_run_says_why_and_it_goes_on_later(store: Store):
    """Fault 38."""
    messages = [long(n) for n in range(6)]
    thread = filled(store, messages)
    ran = pumped(store, thread, ScriptedModel(when=lambda request: Bad.UNAVAILABLE))
    assert (ran.done, ran.reason, ran.remaining) == (False, "unavailable", nodes_in(6))
    public = PublicTree(store, TENANT, thread)
    assert public.view_lines(2_000) == [f"{i}+1|(not summarized yet: zoom it)" for i in range(6)]
    assert [public.zoom(i) for i in range(6)] == [f"{i}+1|{one.kind}: {one.text}" for i, one in enumerate(messages)]
    row = store.read(TENANT, lambda unit: unit.row(pump_rows.DUE, memory="tree", subject=thread))
    assert row is not None
    assert (row[1] is not None, row[6]) == (True, "unavailable"), "it is looked at again, and says why"
    assert pumped(store, thread, EchoModel()).done
    assert "not summarized" not in public.view(2_000)


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
def test_a_run_that_dies_as_it_keeps_a_try_is_finished_by_the_next(database: Any, moment: str):
    store = database.open()
    thread = filled(store, [long(0)])

    def die(name: str) -> None:
        if name == f"pump.try.{moment}" or name.startswith("pump.release"):
            raise SystemExit

    failpoints.listen(die)
    try:
        with pytest.raises(SystemExit):
            pumped(store, thread, ScriptedModel([Bad.EMPTY]))
    finally:
        failpoints.listen(None)
    database.clock.advance(timedelta(seconds=31))
    (step,) = steps(store, thread, tree(ScriptedModel()))
    assert len(step.tries) == (moment == "after_commit")
    assert pumped(store, thread, ScriptedModel()).done


def stale(store: Store, thread: str, model: Any) -> int:
    return store.read(TENANT, lambda unit: upkeep.stale(unit, thread, model=model.model, prompt=PROMPTS.id))


@pytest.mark.covers("A116")
def test_what_another_model_or_prompt_made_can_be_counted_and_dropped_and_comes_back(store: Store):
    thread = filled(store, [*(long(n) for n in range(12)), *(short(n) for n in range(12, 20))])
    echo, other = EchoModel(), EchoModel("echo@2")
    assert pumped(store, thread, echo).done
    first = stored(store, thread, 20)
    asked = sum(row[2] is not None for row in first.values())
    assert (stale(store, thread, echo), stale(store, thread, other)) == (0, asked)
    public = PublicTree(store, TENANT, thread)
    before = public.view(1_000)
    assert public.rebuild() == nodes_in(20)
    assert stored(store, thread, 20) == {}
    assert store.read(TENANT, lambda unit: unit.row(pump_rows.DUE, memory="tree", subject=thread)) is not None
    assert "not summarized" in public.view(1_000)
    assert pumped(store, thread, other).done
    assert (stale(store, thread, echo), stale(store, thread, other)) == (asked, 0)
    public.rebuild()
    assert pumped(store, thread, echo).done
    assert stored(store, thread, 20) == first
    assert public.view(1_000) == before


def test_a_worker_that_read_lines_before_they_were_dropped_writes_nothing_above_them(store: Store):
    """A built node vouches for all below it, so one that outlives its halves would leave a hole for good."""
    thread = filled(store, [long(n) for n in range(4)])

    def act(request: Request) -> None:
        PublicTree(store, TENANT, thread).rebuild()

    merging = once(act)
    model = ScriptedModel(when=lambda request: merging(request) if "Merge" in request.messages[2].text else None)
    ran = pumped(store, thread, model)
    assert (ran.done, ran.reason, stored(store, thread, 4)) == (False, "erased", {})
    assert pumped(store, thread, model).done
    assert len(stored(store, thread, 4)) == nodes_in(4)


def test_a_long_thread_is_dropped_from_its_end_so_that_no_line_outlives_its_halves(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    thread = filled(store, [short(n) for n in range(50)])
    assert pumped(store, thread, EchoModel()).done
    monkeypatch.setattr(memory_tree, "ENTRIES", 16)
    left: list[set[int]] = []

    def listen(name: str) -> None:
        if name == "tree.rebuild.after_commit":
            left.append(set(stored(store, thread, 50)))

    failpoints.listen(listen)
    try:
        assert PublicTree(store, TENANT, thread).rebuild() == nodes_in(50)
    finally:
        failpoints.listen(None)
    assert [max((stop_of(nid) for nid in some), default=0) for some in left] == [34, 18, 2, 0]
    assert [len(some) for some in left] == [nodes_in(34), nodes_in(18), nodes_in(2), 0]
