"""Law 1 and erasure, over any history of appends, forks, erasures and readings, beside a model of a few dictionaries."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from everlog import Everlog, Mistake
from everlog.messages import Kind
from everlog.store import Store, open_store
from everlog.testing import FrozenClock
from tests.conformance.conftest import Database
from tests.conformance.log_model import World

KEYS = ["a", "b", "c", "d"]
USERS = [None, "u1", "u2", "u3"]
REPLIES: list[list[Kind]] = [[], ["assistant"], ["tool_call", "tool_result", "assistant"], ["system", "note"]]

keys = st.sampled_from(KEYS)
users = st.sampled_from(USERS)
client_keys = st.none() | st.sampled_from(["k1", "k2", "k3"])
replies = st.sampled_from(REPLIES)
sizes = st.sampled_from([17, 40, 40, 600, 5_000])
places = st.integers(0, 12)


class Logging(RuleBasedStateMachine):
    """Anything that can be done to a log."""

    fresh: Callable[[], tuple[Everlog, Path | None]]
    """Returns an empty tenant, and the folder of its files if they are its own."""

    def __init__(self) -> None:
        super().__init__()
        memory, self.folder = type(self).fresh()
        self.world = World(memory)

    @rule(key=keys, user=users, reply=replies, client_key=client_keys, size=sizes)
    def say(self, key: str, user: str | None, reply: list[Kind], client_key: str | None, size: int) -> None:
        thread = self.world.threads.get(key)
        if client_key is not None and thread is not None and client_key in thread.keyed:
            client_key = None
        self.world.append(key, [self.world.turn(["user", *reply], user, client_key=client_key, size=size)])

    @rule(key=keys, user=users, several=st.lists(replies, min_size=2, max_size=4))
    def say_more_at_once(self, key: str, user: str | None, several: list[list[Kind]]) -> None:
        self.world.append(key, [self.world.turn(["user", *reply], user) for reply in several])

    @rule(key=keys, kind=st.sampled_from(["assistant", "tool_result", "note", "system"]))
    def go_on(self, key: str, kind: Kind) -> None:
        turn = self.world.turn([kind], None)
        self.world.append(key, [type(turn)(messages=turn.messages, more=True)])

    @precondition(lambda self: self.world.threads)
    @rule(data=st.data(), client_key=st.sampled_from(["k1", "k2", "k3"]), changed=st.booleans())
    def say_again(self, data: st.DataObject, client_key: str, changed: bool) -> None:
        self.world.repeat(self.draw_key(data), client_key, changed=changed)

    @precondition(lambda self: self.world.threads)
    @rule(data=st.data(), new=keys, at=places, titled=st.booleans())
    def fork(self, data: st.DataObject, new: str, at: int, titled: bool) -> None:
        self.world.fork(self.draw_key(data), at, new, titled=titled)

    @precondition(lambda self: self.world.threads)
    @rule(data=st.data())
    def fork_at_the_end(self, data: st.DataObject) -> None:
        key = self.draw_key(data)
        free = [name for name in KEYS if name not in self.world.threads]
        if free:
            self.world.fork(key, len(self.world.threads[key].said), free[0], titled=False)

    @precondition(lambda self: self.world.threads)
    @rule(data=st.data(), start=places, length=places)
    def read(self, data: st.DataObject, start: int, length: int) -> None:
        self.world.check(self.draw_key(data), start, start + length)

    @precondition(lambda self: self.world.threads)
    @rule(data=st.data())
    def pump(self, data: st.DataObject) -> None:
        self.world.pump(self.draw_key(data))

    @precondition(lambda self: self.world.threads)
    @rule(data=st.data())
    def erase_a_thread(self, data: st.DataObject) -> None:
        self.world.erase_thread(self.draw_key(data))
        self.check_what_is_left()

    @rule(user=st.sampled_from(USERS[1:]))
    def erase_a_user(self, user: str) -> None:
        with suppress(Mistake):  # nothing of theirs is there
            self.world.erase_user(user)
        self.check_what_is_left()

    @precondition(lambda self: len(self.world.threads) > 2)
    @rule()
    def erase_all(self) -> None:
        self.world.erase_tenant()
        self.check_what_is_left()

    def draw_key(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.world.threads)))

    def check_what_is_left(self) -> None:
        for key in self.world.threads:
            self.world.check(key)
        if self.folder is not None:
            self.world.check_files(self.folder)

    def teardown(self) -> None:
        self.world.check_all()
        self.world.check_rows()
        self.check_what_is_left()
        if self.folder is not None:
            self.world.memory.close()


def effort(database: Database) -> settings:
    """Return how long to try: with the profile `long` as long as it says, else seconds."""
    if settings.get_current_profile_name() == "long":
        return settings()
    fast = database.engine == "sqlite"
    return settings(max_examples=25 if fast else 8, stateful_step_count=30 if fast else 20, deadline=None)


@pytest.fixture
def fresh(database: Database, store: Store, tenants: Iterator[str]) -> Callable[[], tuple[Everlog, Path | None]]:
    """Return what makes empty places: files of their own on SQLite, tenants of one database on PostgreSQL."""
    if database.engine == "postgresql":
        return lambda: (Everlog(store, tenant=next(tenants)), None)
    empty = Path(database.address)
    store.close()
    numbers = count()

    def copied() -> tuple[Everlog, Path | None]:
        folder = database.folder.with_name(f"example-{next(numbers)}")
        folder.mkdir()
        shutil.copy(empty, folder / "everlog.db")
        clock = FrozenClock(step=timedelta(milliseconds=1))
        return Everlog(open_store(folder / "everlog.db", keys=database.keys, clock=clock)), folder

    return copied


@pytest.mark.covers("A1", "A112", "C30")
def test_the_log_only_grows_and_what_was_erased_is_nowhere(
    database: Database, fresh: Callable[[], tuple[Everlog, Path | None]]
):
    machine = type("LoggingHere", (Logging,), {"fresh": staticmethod(fresh)})
    run_state_machine_as_test(machine, settings=effort(database))
