"""Turns in every store, plain and encrypted: the same prompts in any process, and what waits beside a database."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from everlog import Chat, Everlog, KeyTrouble, MasterKeys, StoreUnavailable
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.store import Store
from everlog.testing import failpoints
from everlog.testing.upstream import Answer, Upstream

SECRET = "the lighthouse of Roscoff"
DOWN = StoreUnavailable("the disk is gone")


def numbered(received: Any) -> Answer:
    return Answer(
        text=f"Answer to {received.body['messages'][-1]['content']}: {'the sea is warm, ' * 8}", thinking="Hm."
    )


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(numbered) as upstream:
        yield upstream


Attach = Callable[..., Any]


@pytest.fixture
def attach(upstream: Upstream) -> Attach:
    """Attaches a memory to a store, as a process of its own would."""
    config = ChatConfig(base_urls={"openai": upstream.url}, environ={}, retry=Retry(retries=0))

    def make(store: Store, **wishes: Any) -> Any:
        chat = Chat("m-1", provider="openai", protocol="chat_completions", assume_model_exists=True, config=config)
        return Everlog(store).attach(chat, **{"key": "k", "budget": 1_200, "pump": "inline", **wishes})

    return make


def away() -> Any:
    """The database takes nothing."""

    def listen(name: str) -> None:
        if name.endswith("before_commit"):
            raise DOWN

    return failpoints._listening(listen)


def test_prompts_of_an_epoch_begin_with_the_one_before_in_whichever_process(database, upstream, attach):
    epochs = []
    for n in range(12):
        memory = attach(database.open())
        memory.turn(f"number {n}")
        status = memory.status()
        assert status.memory_bytes <= 1_200
        assert status.is_well
        epochs.append(status.epoch)
        memory.close()
    assert epochs[-1] >= 2
    prompts = [one.body["messages"] for one in upstream.requests]
    for n in range(11):
        if epochs[n] == epochs[n + 1]:
            assert prompts[n + 1][: len(prompts[n])] == prompts[n]


def test_what_waits_when_a_program_ends_is_taken_in_by_the_next(database, attach):
    first = attach(database.open())
    first.turn("before")
    with away():
        first.turn(SECRET)
        first.close()
    beside = [path for path in database.folder.iterdir() if ".waiting-" in path.name]
    second = attach(database.open())
    if database.engine == "postgresql":
        assert beside == []
        assert second.status().waiting == 0
        return
    (path,) = beside
    assert (SECRET.encode() in path.read_bytes()) == (not database.encrypted)
    assert path.stat().st_mode & 0o077 == 0
    assert second.status().waiting == 2
    second.turn("after")
    said = [entry.text.partition(":")[0] for entry in second.thread.entries()]
    assert said == [*("before", "Answer to before", SECRET, f"Answer to {SECRET}", "after", "Answer to after")]
    assert not path.exists()
    assert [part.faults for part in second.thread.verify() if part.faults] == []


def test_files_of_two_programs_are_taken_in_oldest_first(database, attach):
    if database.engine == "postgresql":
        return
    memories = [attach(database.open()) for _ in range(2)]
    with away():
        for n, memory in enumerate(memories):
            memory.turn(f"number {n}")
            memory.close()
    memory = attach(database.open())
    memory.turn("number 2")
    assert [one.text for one in memory.thread.entries() if one.kind == "user"] == [f"number {n}" for n in range(3)]


def test_a_file_under_another_key_stops_and_a_damaged_one_is_left_alone(database, attach, caplog):
    if database.engine == "postgresql":
        return
    memory = attach(database.open())
    with away():
        memory.turn(SECRET)
        memory.close()
    (path,) = [path for path in database.folder.iterdir() if ".waiting-" in path.name]
    kept = path.read_bytes()
    path.write_bytes(kept[:-9])
    again = attach(database.open())
    assert again.status().waiting == 0
    assert "cannot be read" in caplog.text
    assert path.exists()
    path.write_bytes(kept)
    if database.encrypted:
        store = database.open()
        store.vault.provider = MasterKeys(keys=[bytes(32)])
        with pytest.raises(KeyTrouble):
            attach(store)


def test_what_waits_for_a_thread_that_is_erased_does_not_come_back(database, attach):
    if database.engine == "postgresql":
        return
    store = database.open()
    memory = attach(store)
    memory.turn("before")
    with away():
        memory.turn(SECRET)
        memory.close()
    Everlog(store).erase(thread="k")
    again = attach(store)
    again.turn("after")
    assert [one.text for one in again.thread.entries() if one.kind == "user"] == ["after"]
    assert [path for path in database.folder.iterdir() if ".waiting-" in path.name] == []


@pytest.mark.parametrize("what", ["thread", "user", "tenant"])
def test_an_erasure_reaches_what_waits_beside_the_database(database, attach, what):
    if database.engine == "postgresql":
        return
    store = database.open()
    attach(store, user="u-1").turn("before")
    with away():
        for user in ("u-1", "u-2"):
            memory = attach(store, user=user)
            memory.turn(f"of {user}")
            memory.close()
    home = Everlog(store)
    match what:
        case "thread":
            home.erase(thread="k")
        case "user":
            home.erase(user="u-1")
        case _:
            home.erase_tenant()
    beside = [path for path in database.folder.iterdir() if ".waiting-" in path.name]
    assert len(beside) == (what == "user")
    if what == "user":
        again = attach(store)
        again.turn("after")
        said = [one.text for one in again.thread.entries() if one.kind == "user" and one.text]
        assert said == ["of u-2", "after"]
