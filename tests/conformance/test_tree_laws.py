"""Laws 3 and 4 over real stores: any history of appends, forks, erasures, half-done pumping, deaths and rebuilding.

After each step every view of the thread that was touched tiles it within its budget, and by zooming from what one of them
shows all its messages come back byte for byte.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from everlog import log
from everlog.log import NewTurn
from everlog.memory.interface import Subject
from everlog.memory.tree import ENTRIES, Extractive, Shown, Tree, drop, parse, show, zoom
from everlog.memory.tree.lines import ERASED, PLACEHOLDER
from everlog.memory.tree.nodes import cover, start_of, stop_of
from everlog.messages import Message, Origin
from everlog.store import Store, Unit, failpoints, open_store
from everlog.testing import FrozenClock
from everlog.tokens import size_bytes
from tests.conformance.conftest import Database
from tests.conformance.log_strategies import texts

BUDGETS = [256, 300, 1_000, 4_000, 24_000, 200_000]
KEYS = ["a", "b", "c"]
USERS = [None, "u1", "u2"]
TREE = Tree()

keys = st.sampled_from(KEYS)
words = st.one_of(texts, st.integers(1, 900).map(lambda size: f"detail {size}, part {size % 7}; " * (size // 18 + 1)))


@dataclass(slots=True)
class Said:
    """An entry as it should be; a fork shares it with its parent."""

    text: str
    user: str | None


@dataclass(slots=True)
class Talk:
    """A thread as it should be."""

    id: str
    said: list[Said]


class Died(BaseException):
    """The process is gone: nothing that comes after runs."""


class Zooming(RuleBasedStateMachine):
    """Anything that changes what a tree shows."""

    fresh: Callable[[], tuple[str, Callable[[], Store]]]
    """Returns an empty tenant, and what opens its store."""

    def __init__(self) -> None:
        super().__init__()
        self.tenant, self.open = type(self).fresh()
        self.store = self.open()
        self.talks: dict[str, Talk] = {}
        self.names = count()
        self.turns = count()

    @rule(key=keys, said=st.lists(words, min_size=1, max_size=40), user=st.sampled_from(USERS))
    def append(self, key: str, said: list[str], user: str | None) -> None:
        talk = self.talks.get(key)

        def act(unit: Unit) -> str:
            name = f"{key}-{next(self.names)}"
            row = log.create(unit, name) if talk is None else log.load(unit, talk.id)
            messages = [Message(kind="user", text=text) for text in said]
            log.append(unit, row, [NewTurn(messages=(one,), origin=Origin(user=user)) for one in messages])
            return row.id

        thread = self.store.write(self.tenant, act, name="test.append")
        talk = self.talks.setdefault(key, Talk(thread, []))
        talk.said.extend(Said(text, user) for text in said)
        self.check(talk)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), new=keys)
    def fork(self, data: st.DataObject, new: str) -> None:
        parent = self.draw(data)
        if new in self.talks:
            return
        at = data.draw(st.integers(0, len(parent.said)))
        name = f"{new}-{next(self.names)}"
        made = self.store.write(self.tenant, lambda unit: log.fork(unit, parent.id, at, name).id, name="test.fork")
        self.talks[new] = Talk(made, parent.said[:at])
        self.check(self.talks[new])

    @precondition(lambda self: self.talks)
    @rule(data=st.data())
    def erase_thread(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.talks)))
        log.erase_thread(self.store, self.tenant, self.talks.pop(key).id)
        for talk in self.talks.values():
            self.check(talk)

    @rule(user=st.sampled_from(["u1", "u2"]))
    def erase_user(self, user: str) -> None:
        log.erase_user(self.store, self.tenant, user)
        for talk in self.talks.values():
            for said in talk.said:
                if said.user == user:
                    said.text = ERASED
            self.check(talk)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), passes=st.integers(1, 4), most=st.sampled_from([1, 7, 60, 1000]), free=st.booleans())
    def pump(self, data: st.DataObject, passes: int, most: int, free: bool) -> None:
        """Build a few nodes; or only those that need no model, which leaves holes."""
        talk = self.draw(data)
        for _ in range(passes):
            self.build(talk, most, free=free)
        self.check(talk)

    @precondition(lambda self: self.talks)
    @rule(data=st.data())
    def rebuild(self, data: st.DataObject) -> None:
        """Drop what is built from somewhere on."""
        talk = self.draw(data)
        assert len(talk.said) < ENTRIES
        start = data.draw(st.integers(0, len(talk.said)))
        self.store.write(self.tenant, partial(drop, thread=talk.id, start=start), name="test.drop")
        self.check(talk)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), budget=st.sampled_from(BUDGETS), point=st.sampled_from(["before_commit", "after_commit"]))
    def die(self, data: st.DataObject, budget: int, point: str) -> None:
        """End where a view is saved, if it is, and start again."""
        talk = self.draw(data)

        def listener(name: str) -> None:
            if name == f"tree.view.{point}":
                raise Died

        failpoints.listen(listener)
        try:
            show(self.store, self.tenant, talk.id, budget)
        except Died:
            pass
        finally:
            failpoints.listen(None)
        self.store.close()
        self.store = self.open()
        self.check(talk)

    def draw(self, data: st.DataObject) -> Talk:
        return self.talks[data.draw(st.sampled_from(sorted(self.talks)))]

    def build(self, talk: Talk, most: int, *, free: bool) -> None:
        subject = Subject(tenant=self.tenant, memory=TREE.name, key=talk.id)
        state = self.store.read(self.tenant, lambda unit: TREE.read(unit, subject))
        steps = TREE.plan(state, self.store.clock.now(), 1000).steps
        verdicts = []
        for step in steps[:most]:
            if step.request is None or not free:
                reply = None if step.request is None else Extractive()(step.request)
                verdicts.append(TREE.judge(state, step, reply))
        self.store.write(self.tenant, lambda unit: TREE.write(unit, subject, verdicts), name="test.build")  # type: ignore[arg-type]

    def check(self, talk: Talk) -> None:
        turn = next(self.turns)
        for n, budget in enumerate(BUDGETS):
            shown = show(self.store, self.tenant, talk.id, budget)
            assert size_bytes(shown.text) <= budget
            assert parse(shown.text) == shown
            blocks = [*cover(0, shown.hidden), *(nid for nid, _ in shown.lines)]
            assert [start_of(nid) for nid in blocks] == [0, *map(stop_of, blocks)][: len(blocks)]
            assert shown.count == len(talk.said)
            if n == turn % len(BUDGETS):
                self.check_words(talk, shown, blocks)

    def check_words(self, talk: Talk, shown: Shown, blocks: list[int]) -> None:
        found = self.store.read(self.tenant, partial(opened, thread=talk.id, blocks=blocks))
        assert found == [said.text for said in talk.said]
        assert show(self.store, self.tenant, talk.id, 256).count == shown.count

    def teardown(self) -> None:
        for talk in self.talks.values():
            while self.missing(talk):
                self.build(talk, 1000, free=False)
            for _ in BUDGETS:
                self.check(talk)
            whole = show(self.store, self.tenant, talk.id, 200_000)
            assert PLACEHOLDER not in [text for _, text in whole.lines], "what was dropped is made again"
        self.store.close()

    def missing(self, talk: Talk) -> int:
        subject = Subject(tenant=self.tenant, memory=TREE.name, key=talk.id)
        state = self.store.read(self.tenant, lambda unit: TREE.read(unit, subject))
        return TREE.plan(state, self.store.clock.now(), 1).remaining


def opened(unit: Unit, thread: str, blocks: list[int]) -> list[str]:
    """Zoom from these blocks down to every message; return their words."""
    row = log.load(unit, thread)
    found: list[str] = []
    todo = blocks[::-1]
    while todo:
        nid = todo.pop()
        one = zoom(unit, row, start_of(nid), stop_of(nid) - start_of(nid))
        todo += [half for half, _ in reversed(one.lines)]
        if one.message is not None:
            assert start_of(nid) == len(found)
            tag, _, text = one.message.text.partition(": ")
            assert tag.partition(" (")[0] == "user"
            found.append(text)
    return found


def effort(database: Database) -> settings:
    """Return how long to try: with the profile `long` as long as it says, else seconds, without smaller examples."""
    if settings.get_current_profile_name() == "long":
        return settings(stateful_step_count=30)
    fast = database.engine == "sqlite"
    return settings(max_examples=10 if fast else 4, stateful_step_count=12, deadline=None, phases=[Phase.generate])


@pytest.fixture
def fresh(database: Database, store: Store, tenants: Iterator[str]) -> Callable[[], tuple[str, Callable[[], Store]]]:
    """Return what makes empty places: files of their own on SQLite, tenants of one database on PostgreSQL."""
    if database.engine == "postgresql":
        return lambda: (next(tenants), database.open)
    empty = Path(database.address)
    store.close()
    numbers = count()

    def copied() -> tuple[str, Callable[[], Store]]:
        folder = database.folder.with_name(f"example-{next(numbers)}")
        folder.mkdir()
        shutil.copy(empty, folder / "everlog.db")
        clock = FrozenClock(step=timedelta(milliseconds=1))
        return "ada", partial(open_store, folder / "everlog.db", keys=database.keys, clock=clock)

    return copied


@pytest.mark.covers("A118", "A121", "A123", "A126", "A127")
def test_every_view_tiles_within_its_budget_and_opens_to_every_message(
    database: Database, fresh: Callable[[], tuple[str, Callable[[], Store]]]
):
    machine = type("ZoomingHere", (Zooming,), {"fresh": staticmethod(fresh)})
    run_state_machine_as_test(machine, settings=effort(database))
