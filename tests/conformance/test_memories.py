"""Every memory passes the same checks, on every store: the tree with and without a model, the rolling summary, and the tally."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from threading import Event
from typing import Any

import pytest

from everlog import log
from everlog.clock import micros
from everlog.conversation.tree import Tree as PublicTree
from everlog.log import NewTurn, TurnState
from everlog.memory.interface import Answer, Subject
from everlog.memory.tree import Extractive, Tree, rows
from everlog.memory.tree.nodes import pack
from everlog.messages import Kind, Message, Origin
from everlog.pump import Ran, Worker, run
from everlog.pump import rows as pump_rows
from everlog.store import Store, Unit, metadata
from everlog.testing import Bad, EchoModel, MemoryCase, ScriptedModel, TallyMemory, memories
from everlog.testing.tally import Learned, installed
from tests.conformance import rolling
from tests.conformance.pumping import PROMPTS, TENANT, Gate, beside, tree

SIZES = (3, 120, 130, 5, 100, 2, 140, 90)
USER = "caroline"
_names = count()


def words(n: int) -> str:
    return f"message {n} " + f"word{n} " * SIZES[n % len(SIZES)]


def of_tree(store: Store, memory: Tree, model: Any) -> MemoryCase:
    def make(unit: Unit) -> str:
        return log.create(unit, f"case-{next(_names)}").id

    thread = store.write(TENANT, make, name="test.make")
    said = count()

    def say(more: int) -> None:
        def act(unit: Unit) -> None:
            turns = [turn(n) for n in [next(said) for _ in range(more)]]
            log.append(unit, log.load(unit, thread), turns)

        store.write(TENANT, act, name="test.say")

    def turn(n: int) -> NewTurn:
        origin = Origin(user="eve" if n % 5 == 4 else "ada")
        return NewTurn(messages=(Message(kind="user", text=words(n)),), origin=origin)

    return MemoryCase(
        store=store,
        tenant=TENANT,
        subject=Subject(tenant=TENANT, memory="tree", key=thread),
        memory=memory,
        model=model,
        say=say,
        drop=lambda: PublicTree(store, TENANT, thread).rebuild(),
        erase=lambda: log.erase_user(store, TENANT, "eve"),
        stored=lambda: store.read(TENANT, partial(nodes, thread=thread)),
    )


def nodes(unit: Unit, thread: str) -> list[Any]:
    nids = [pack(level, index) for level in range(6) for index in range(40 >> level)]
    column = rows.node.c.body
    return sorted(
        (nid, size, unit.open(column, (owner, nid), body))
        for owner, nid, size, body in unit.rows(rows.NODES, owners=[thread], nids=nids)
    )


def said_by(store: Store, thread: str, n: int, *, user: str = USER, memory: TallyMemory | None = None) -> None:
    """Add a turn of a user to a thread, and mark the user."""
    kinds: list[tuple[Kind, str | None]] = [("user", "Caroline"), ("assistant", None), ("assistant", None)]
    messages = [Message(kind=kind, text=f"{words(n)}{kind}", author=author) for kind, author in kinds[: 2 + n % 2]]

    def act(unit: Unit) -> None:
        log.append(unit, log.ensure(unit, thread), [NewTurn(messages=tuple(messages), origin=Origin(user=user))])
        if memory is not None:
            memory.mark(unit, user)

    store.write(TENANT, act, name="test.say")


def of_tally(store: Store, model: Any) -> MemoryCase:
    memory = TallyMemory(model.model)
    threads = [f"tally-{next(_names)}" for _ in range(3)]
    said = count()

    def say(more: int) -> None:
        for n in [next(said) for _ in range(more)]:
            said_by(store, threads[n % 3], n, memory=memory)

    def erase() -> None:
        thread = store.read(TENANT, lambda unit: log.find(unit, threads[1]).id)
        log.erase_thread(store, TENANT, thread)

    return MemoryCase(
        store=store,
        tenant=TENANT,
        subject=Subject(tenant=TENANT, memory="tally", key=USER),
        memory=memory,
        model=model,
        say=say,
        drop=lambda: store.write(TENANT, partial(memory.drop, user=USER), name="test.drop"),
        erase=erase,
        stored=lambda: learned(store, memory),
    )


def learned(store: Store, memory: TallyMemory, user: str = USER) -> list[Learned]:
    return store.read(TENANT, partial(memory.learned, user=user))


@pytest.fixture(params=["tree with a model", "tree without a model", "rolling", "tally"])
def case(request: pytest.FixtureRequest, store: Store) -> Iterator[MemoryCase]:
    match request.param:
        case "tree with a model":
            model = EchoModel(line_bytes=300)
            yield of_tree(store, Tree(model=model.model, prompts=PROMPTS, context_bytes=2_000), model)
        case "tree without a model":
            yield of_tree(store, Tree(), Extractive())
        case "rolling":
            yield rolling.case(store)
        case _:
            with installed(store):
                yield of_tally(store, EchoModel())


@pytest.mark.parametrize("check", memories.CHECKS, ids=lambda check: check.__name__)
def test_a_memory(case: MemoryCase, check: Callable[[MemoryCase], None]):
    check(case)


@pytest.fixture
def tallied(store: Store) -> Iterator[Store]:
    with installed(store):
        yield store


def due_at(store: Store, user: str = USER) -> int | None:
    row = store.read(TENANT, lambda unit: unit.row(pump_rows.DUE, memory="tally", subject=user))
    assert row is not None
    found: int | None = row[1]
    return found


def test_a_user_is_counted_over_all_threads_once_per_turn(tallied: Store):
    memory = TallyMemory("echo@1")
    for n, thread in enumerate(["one", "two", "one", "three"]):
        said_by(tallied, thread, n, memory=memory)
    said_by(tallied, "one", 4, user="melanie", memory=memory)
    assert run(tallied, TENANT, USER, memory, EchoModel()) == Ran(steps=4, done=True)
    counts = tallied.read(TENANT, partial(memory.counts, user=USER))
    assert counts == {"Caroline": 4, "assistant": 6}
    assert learned(tallied, memory, "melanie") == []
    assert run(tallied, TENANT, USER, memory, EchoModel()) == Ran(steps=0, done=True)


def test_a_turn_that_gave_nothing_has_an_outcome_too_and_is_not_asked_about_again(tallied: Store):
    memory = TallyMemory("scripted@1")
    said_by(tallied, "one", 0, memory=memory)
    model = ScriptedModel([Bad.EMPTY, Bad.REFUSED])
    assert run(tallied, TENANT, USER, memory, model).done
    assert [(one.outcome, one.line) for one in learned(tallied, memory)] == [("nothing", "")]
    assert len(model.requests) == 2
    assert run(tallied, TENANT, USER, memory, model) == Ran(steps=0, done=True)


def test_what_may_not_be_learned_from_and_what_is_not_complete_is_left_out(tallied: Store):
    memory = TallyMemory("echo@1")
    message = (Message(kind="user", text="hello"),)
    turns = [
        NewTurn(messages=message, origin=Origin(user=USER), learn=False),
        NewTurn(messages=message, origin=Origin(user=USER), state=TurnState.ABORTED),
        NewTurn(messages=message, origin=Origin(user=USER)),
    ]
    tallied.write(TENANT, lambda unit: log.append(unit, log.ensure(unit, "one"), turns), name="test.say")
    assert run(tallied, TENANT, USER, memory, EchoModel()) == Ran(steps=1, done=True)


def test_a_debounce_waits_until_the_user_is_quiet_but_not_for_ever(database: Any):
    store = database.open()
    memory = TallyMemory("echo@1", quiet=timedelta(minutes=1), max_wait=timedelta(minutes=3), enough=50)
    with installed(store):
        began = store.clock.now()
        seen: list[int] = []
        for n in range(5):
            said_by(store, "one", n, memory=memory)
            found = due_at(store)
            assert found is not None
            seen.append(round((found - micros(began)) / 1_000_000))
            assert run(store, TENANT, USER, memory, EchoModel()) == Ran(steps=0, done=True)
            assert due_at(store) is not None, "a time is kept where nothing can be done yet"
            database.clock.advance(timedelta(seconds=40))
        assert seen == [60, 100, 140, 180, 180]
        assert run(store, TENANT, USER, memory, EchoModel()) == Ran(steps=5, done=True)


def test_enough_turns_are_not_waited_with(database: Any):
    store = database.open()
    memory = TallyMemory("echo@1", quiet=timedelta(hours=1), max_wait=timedelta(hours=2), enough=3)
    with installed(store):
        for n in range(3):
            said_by(store, "one", n, memory=memory)
            assert run(store, TENANT, USER, memory, EchoModel()).steps == (3 if n == 2 else 0)


def test_one_worker_keeps_several_memories_of_several_kinds_of_subject(tallied: Store):
    model = EchoModel()
    memory = TallyMemory(model.model)
    case = of_tree(tallied, tree(model), model)
    case.say(5)
    for n in range(10):
        said_by(tallied, "one", n, memory=memory)
    worker = Worker(tallied, [tree(model), memory], model, poll_s=0.01)
    assert worker.work(Event(), until_idle=True).steps == 10, "no mark, no work: only the user was marked"
    assert len(learned(tallied, memory)) == 10


def test_two_threads_of_a_user_that_change_while_it_is_learned_from_lose_nothing(tallied: Store):
    """A user's row is no thread's: nothing but its own marks tells that there is more."""
    memory = TallyMemory("gate@1")
    model = Gate(lambda request: Answer(text="line", model="gate@1"))
    said_by(tallied, "one", 0, memory=memory)
    with beside(lambda: run(tallied, TENANT, USER, memory, model)) as ended:
        model.has(1)
        said_by(tallied, "two", 1, memory=memory)
        model.go_on.set()
    assert ended == [Ran(steps=2, done=True)]
    assert len(learned(tallied, memory)) == 2


def test_the_table_is_gone_from_schema_and_database_after_the_block(store: Store):
    before = sorted(table.name for table in metadata.sorted_tables)
    with installed(store):
        assert "tally" in metadata.tables
    assert sorted(table.name for table in metadata.sorted_tables) == before
    with installed(store):
        assert learned(store, TallyMemory("echo@1")) == []


def test_a_users_erasure_takes_what_was_learned_of_the_user(tallied: Store):
    memory = TallyMemory("echo@1")
    said_by(tallied, "one", 0, memory=memory)
    said_by(tallied, "one", 1, user="melanie", memory=memory)
    for user in (USER, "melanie"):
        assert run(tallied, TENANT, user, memory, EchoModel()).done
    log.erase_user(tallied, TENANT, USER)
    assert learned(tallied, memory) == []
    assert len(learned(tallied, memory, "melanie")) == 1
    assert run(tallied, TENANT, USER, memory, EchoModel()) == Ran(steps=0, done=True)


def test_heirs_take_over_what_was_learned_of_what_they_share(tallied: Store):
    memory = TallyMemory("echo@1")
    for n in range(3):
        said_by(tallied, "parent", n, memory=memory)
    assert run(tallied, TENANT, USER, memory, EchoModel()).done
    parent = tallied.read(TENANT, lambda unit: log.find(unit, "parent").id)
    tallied.write(TENANT, lambda unit: log.fork(unit, parent, 5, "heir"), name="test.fork")
    before: Sequence[Learned] = learned(tallied, memory)
    log.erase_thread(tallied, TENANT, parent)
    after = learned(tallied, memory)
    assert [(one.first, one.counts, one.line) for one in after] == [
        (one.first, one.counts, one.line) for one in before if one.first < 5
    ]
    assert {one.thread for one in after} == {tallied.read(TENANT, lambda unit: log.find(unit, "heir").id)}
