"""Turns in every store, plain and encrypted: the same prompts in any process, and what waits beside a database."""

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from everlog import BadRequest, Chat, Damaged, Erased, Everlog, KeyTrouble, MasterKeys, Mistake, StoreUnavailable, tool
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.store import Store
from everlog.testing import failpoints
from everlog.testing.upstream import Answer, Refused, Upstream

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
        tenant = wishes.pop("tenant", "default")
        return Everlog(store, tenant=tenant).attach(chat, **{"key": "k", "budget": 1_200, "pump": "inline", **wishes})

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


def test_what_is_said_while_the_file_of_the_database_is_moved_away_is_recorded_when_it_is_back(database, attach):
    if database.engine == "postgresql":
        return
    memory, aside = attach(database.open()), database.folder.with_name("aside")
    memory.turn("before")
    database.folder.rename(aside)
    memory.turn(SECRET)
    assert (memory.status().waiting, memory.status().is_well) == (2, False)
    aside.rename(database.folder)
    memory.turn("after")
    assert [one.text for one in memory.thread.entries() if one.kind == "user"] == ["before", SECRET, "after"]


def test_what_waits_of_a_database_that_was_lost_is_not_taken_for_erased(database, attach):
    if database.engine == "postgresql":
        return
    first = attach(database.open())
    first.turn("before")
    for path in list(database.folder.glob("*.db*")):
        path.unlink()
    first.turn(SECRET)
    first.close()
    (path,) = [one for one in database.folder.iterdir() if ".waiting-" in one.name]
    second = attach(database.open())
    second.turn("after")
    assert [one.text for one in second.thread.entries() if one.kind == "user"] == ["after"]
    assert path.exists()


def test_a_database_that_is_closed_while_a_stream_is_half_read_leaves_its_thread_free(database, attach):
    store = database.open()
    first = attach(store, pump="none")
    stream = first.stream("When?")
    next(stream)
    Everlog(store).close()
    second = attach(database.open(), pump="none", wait_s=0)
    assert second.turn("Really?").text.startswith("Answer to Really?")
    stream.close()
    assert [one.text for one in second.thread.entries() if one.kind == "user"] == ["When?", "Really?"]


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


def beside(database) -> list[Any]:
    """Files of words that wait, or were refused."""
    return [path for path in database.folder.iterdir() if ".waiting-" in path.name or ".refused-" in path.name]


def left(attach, store, *, tenant="default", key="k", **wishes):
    """Leave the words of a turn in a file."""
    memory = attach(store, tenant=tenant, key=key, **wishes)
    with away():
        memory.turn(f"{SECRET} of {tenant} {key}")
        memory.close()


def test_words_that_wait_outlive_a_program_that_is_killed_and_are_recorded_once_if_it_was_not(database, attach):
    first = attach(database.open())
    first.turn("before")
    with away():
        first.turn(SECRET)
        first.turn("more")
    assert len(beside(database)) == (database.engine == "sqlite")
    second = attach(database.open())
    assert second.status().waiting == (4 if database.engine == "sqlite" else 0)
    second.turn("after")
    first.turn("late")
    said = [one.text for one in first.thread.entries() if one.kind == "user"]
    assert sorted(said) == sorted(["before", SECRET, "more", "after", "late"])
    assert beside(database) == []


def test_what_waits_for_a_thread_that_is_erased_before_its_file_is_found_does_not_come_back(database, attach):
    if database.engine == "postgresql":
        return
    store = database.open()
    memory = attach(store)
    memory.turn("before")
    with away():
        memory.turn(SECRET)
        memory.close()
    (path,) = beside(database)
    kept = path.read_bytes()
    Everlog(store).erase(thread="k")
    path.write_bytes(kept)
    assert attach(store).status().waiting == 0
    assert beside(database) == []


def test_what_waits_for_one_tenant_is_not_taken_in_by_another(database, attach):
    store = database.open()
    left(attach, store, tenant="a", key="b/c")
    other = attach(store, tenant="a/b", key="c")
    other.turn("mine")
    assert [one.text for one in other.thread.entries() if one.kind == "user"] == ["mine"]
    if database.engine == "postgresql":
        return
    (path,) = beside(database)
    assert "b/c" not in path.name
    assert attach(store, tenant="a", key="b/c").status().waiting == 2


def test_a_file_in_the_place_of_another_thread_s_is_not_taken_in_where_it_is_sealed(database, attach):
    if database.engine == "postgresql" or not database.encrypted:
        return
    store = database.open()
    left(attach, store, key="one")
    left(attach, store, key="two")
    first, second = sorted(beside(database), key=lambda path: path.stat().st_mtime_ns)
    second.unlink()
    first.rename(second)
    with pytest.raises(KeyTrouble):
        attach(store, key="two")


@pytest.mark.parametrize("of", ["thread", "user", "tenant"])
def test_an_erasure_reaches_what_waits_in_files(database, attach, of):
    if database.engine == "postgresql":
        return
    store = database.open()
    for key, user in (("k", "u"), ("other", "v"), ("unknown", "u")):
        attach(store, key=key, user=user).turn("before")
        left(attach, store, key=key, user=user)
    left(attach, store, tenant="elsewhere", user="u")
    log = Everlog(store)
    log.erase_tenant() if of == "tenant" else log.erase(**{of: {"thread": "k", "user": "u"}[of]})
    gone = {"thread": {"k"}, "user": {"k", "unknown"}, "tenant": {"k", "other", "unknown"}}[of]
    assert len(beside(database)) == 4 - len(gone)
    waiting = {key: attach(store, key=key).status().waiting for key in ("k", "other", "unknown")}
    assert waiting == {key: 0 if key in gone else 2 for key in waiting}
    assert attach(store, tenant="elsewhere").status().waiting == 2


def test_an_erasure_of_a_user_stops_at_a_file_that_nobody_can_read(database, attach):
    if database.engine == "postgresql":
        return
    store = database.open()
    attach(store, user="u").turn("before")
    left(attach, store, user="u")
    (path,) = beside(database)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Damaged, match="nobody knows whose words"):
        Everlog(store).erase(user="u")
    path.unlink()
    assert Everlog(store).erase(user="u").state == "done"


@pytest.mark.parametrize("of", ["thread", "user"])
def test_an_erasure_reaches_what_waits_in_this_process(database, upstream, attach, of):
    store = database.open()
    memory = attach(store, user="u")
    memory.turn("before")
    with away():
        memory.turn(SECRET)
    assert memory.status().waiting == 2
    Everlog(store).erase(**{of: {"thread": "k", "user": "u"}[of]})
    assert memory.status().waiting == 0
    memory = attach(store, user="u") if of == "thread" else memory
    with away():
        memory.turn("away again")
    memory.turn("after")
    words = [one.text for one in memory.thread.entries() if one.kind == "user" and one.text]
    assert words == ["away again", "after"]
    assert not any(SECRET in str(one.body) for one in upstream.requests[2:])


def test_what_waits_of_a_user_who_was_erased_by_another_process_is_dropped_and_the_rest_goes_in(database, attach):
    store = database.open()
    memory = attach(store, user="u")

    def rest_is_away(name: str) -> None:
        if name.startswith(("turn.record", "turn.spool")) and name.endswith("before_commit"):
            raise DOWN

    with failpoints._listening(rest_is_away):
        memory.turn(SECRET)
    Everlog(database.open()).erase(user="u")
    with pytest.raises(Erased, match="1 messages"):
        memory.turn("after")
    memory.turn("more")
    assert [one.text for one in memory.thread.entries() if one.kind == "user" and one.text] == ["more"]


@pytest.mark.parametrize("opens", [False, True])
def test_what_waits_in_another_process_of_a_user_who_is_erased_is_not_stored_later(database, attach, opens):
    memory = attach(database.open(), user="u")
    other = attach(database.open(), user="v", key="other")
    for one in (memory, other):
        one.turn("before")
    with away():
        memory.turn(SECRET)
        other.turn("of v")
        if opens:
            memory.turn(f"more of {SECRET}")
    for path in beside(database):
        path.unlink()  # as where the other process writes it a moment later
    receipt = Everlog(database.open()).erase(user="u")
    assert "u" not in (receipt.subject, receipt.wrapper)
    with pytest.raises(Erased, match=f"{4 if opens else 2} messages"):
        memory.turn("first")
    memory.turn("after")
    other.turn("after")
    assert [one.text for one in memory.thread.entries() if one.text and one.kind == "user"] == ["after"]
    assert [one.text for one in other.thread.entries() if one.kind == "user"] == ["before", "of v", "after"]
    assert memory.status().waiting == 0
    assert not any(SECRET in one.text for one in memory.thread.entries())


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


def test_a_disk_that_is_full_leaves_no_part_of_a_file_and_stops_no_turn(database, attach, monkeypatch, caplog):
    def full(path: Any, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    memory = attach(database.open())
    with away(), monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.write_bytes", full)
        assert memory.turn(SECRET).text
        memory.close()
    assert "messages are lost with this process" in caplog.text
    assert memory.status().waiting == 2
    assert [path for path in database.folder.iterdir() if "waiting" in path.name] == []


def refused_once() -> Upstream:
    """A provider that turns the first request down."""

    def script(received: Any) -> Any:
        return Refused(status=400) if len(refusing.requests) == 1 else numbered(received)

    refusing = Upstream(script)
    return refusing


def speaking(store: Store, upstream: Upstream, *tools: Any) -> Any:
    """A memory of the thread, as a process of its own would have it."""
    config = ChatConfig(base_urls={"openai": upstream.url}, environ={}, retry=Retry(retries=0))
    chat = Chat("m-1", provider="openai", protocol="chat_completions", assume_model_exists=True, config=config)
    return Everlog(store).attach(chat.with_tools(*tools), key="k", budget=1_200, pump="none")


def test_a_turn_that_failed_in_one_process_is_asked_for_again_in_another(database):
    with refused_once() as upstream:
        with pytest.raises(BadRequest):
            speaking(database.open(), upstream).turn(SECRET)
        again = speaking(database.open(), upstream)
        assert again.resume().text.startswith(f"Answer to {SECRET}")
        assert [one.kind for one in again.thread.entries()] == ["user", "assistant"]
        with pytest.raises(Mistake, match="no turn waits"):
            speaking(database.open(), upstream).resume()
        assert [part.faults for part in again.thread.verify() if part.faults] == []


def test_calls_that_wait_and_words_of_others_are_seen_in_every_process(database):
    @tool(requires_approval=True)
    def book(city: str) -> str:
        """Book a room."""
        Everlog(database.open()).thread("k").append("user", "I come too")
        return f"booked {city}"

    script = [Answer(calls=(("c", "book", {"city": "Roscoff"}),)), Answer(text="Booked.")]
    with Upstream(script) as upstream:
        assert speaking(database.open(), upstream, book).turn("Book.").calls
        again = speaking(database.open(), upstream, book)
        assert again.status().is_open
        for call in again.pending():
            again.chat.approve(call)
        assert again.resume().text == "Booked."
        kinds = [one.kind for one in again.thread.entries()]
        assert kinds == ["user", "tool_call", "user", "tool_result", "assistant"]
        assert not again.status().is_open
        assert [part.faults for part in again.thread.verify() if part.faults] == []
