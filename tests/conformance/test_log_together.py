"""Several at once, as several processes are: each has a store of its own, and all begin at the same moment."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count, takewhile

import pytest

from everlog import (
    Conflict,
    Conversation,
    Entry,
    Erased,
    Everlog,
    Media,
    Message,
    NewTurn,
    Origin,
    Thread,
    UnknownThread,
    log,
)
from everlog.log import rows
from everlog.store import Store, Unit
from tests.conformance.conftest import Database
from tests.conformance.log_model import dump

TRIES = 4
PATIENCE_S = 60


def together(*acts: Callable[[], object]) -> list[BaseException]:
    """Run acts at once, each in a thread, and return what they raised."""
    barrier = threading.Barrier(len(acts))
    raised: list[BaseException] = []

    def run(act: Callable[[], object]) -> None:
        barrier.wait()
        try:
            act()
        except BaseException as error:  # noqa: BLE001 -- the test says what may be raised
            raised.append(error)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.fixture
def open_two(database: Database, tenants: Iterator[str]) -> Callable[[], tuple[Everlog, Everlog]]:
    """Return what opens the same new tenant twice."""
    one, other = database.open(), database.open()

    def both() -> tuple[Everlog, Everlog]:
        tenant = next(tenants)
        return Everlog(one, tenant=tenant), Everlog(other, tenant=tenant)

    return both


Two = Callable[[], tuple[Everlog, Everlog]]


def talk(memory: Everlog, key: str, turns: int, *, user: str | None = None) -> None:
    picture = Media(media_type="image/png", content=f"picture of {key}".encode() * 4)
    for n in range(turns):
        asked = Message(kind="user", text=f"question {n} of {key}, at some length", parts=(picture,))
        memory.thread(key).turn([asked, Message(kind="assistant", text="answer " * n)], origin=Origin(user=user))


def texts(memory: Everlog, key: str) -> list[str]:
    return [entry.text for entry in memory.thread(key).entries()]


def faults(memory: Everlog) -> list[object]:
    return [fault for part in memory.verify() for fault in part.faults]


def left_of(store: Store, tenant: str, thread: str) -> list[str]:
    """Return the tables that have rows of an erased thread, tombstones apart."""
    found = []
    for name, there in dump(store, tenant).items():
        for row in there:
            whose = {row.get("thread"), row.get("owner"), row.get("subject")}
            tombstone = name == "thread" or (
                name == "entry" and all(row[column] is None for column in rows.entry.info["clear"])
            )
            if thread in whose and not tombstone:
                found.append(name)
    return found


def test_positions_are_given_out_once_to_writers_at_the_same_time(open_two: Two):
    """Fault 73 of the specification: an id taken by two writers."""
    one, other = open_two()
    assert together(*(partial(talk, memory, "t", 8) for memory in (one, other, one))) == []
    entries = list(one.thread("t").entries())
    assert [entry.i for entry in entries] == list(range(48))
    assert [entry.turn for entry in entries] == [i // 2 for i in range(48)]
    assert faults(one) == []


def test_the_same_client_key_sent_twice_at_once_is_stored_once(open_two: Two):
    """Fault 77: the same event delivered twice is one message, other content under its key is a conflict."""
    one, other = open_two()
    for n in range(TRIES):
        send = [partial(memory.thread("t").append, "user", f"once {n}", client_key=f"k{n}") for memory in (one, other)]
        assert together(*send) == []
    assert texts(one, "t") == [f"once {n}" for n in range(TRIES)]
    clash = [partial(one.thread("t").append, "user", text, client_key="x") for text in ("this", "that")]
    assert [type(error) for error in together(*clash)] == [Conflict]
    assert len(texts(one, "t")) == TRIES + 1


def conversation(size: int) -> Conversation:
    origin = Origin(session="s")
    said = [Message(kind="system", text="be brief")]
    for n in range(size):
        said += [Message(kind="user", text=f"question {n}"), Message(kind="assistant", text=f"answer {n}")]
    return Conversation(key="chat", messages=tuple(said), title="a chat", origin=origin)


def test_a_conversation_imported_twice_at_once_is_there_once(open_two: Two, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("everlog.conversation.alignment.intake.PAGE", 7)
    for n in range(TRIES):
        one, other = open_two()
        chat = conversation(20)
        branch = Conversation(key="branch", messages=(*chat.messages[:8], chat.messages[1]), parent="chat", shared=8)
        assert together(*(partial(bring, memory, [chat, branch]) for memory in (one, other))) == []
        assert texts(one, "chat") == [message.text for message in chat.messages[1:]]
        assert [entry.turn for entry in one.thread("chat").entries()] == [i // 2 for i in range(40)]
        assert texts(one, "branch") == [message.text for message in branch.messages[1:]]
        assert {overview.key for overview in one.threads()} == {"chat", "branch"}, n
        assert one.add(chat).entries == other.add(branch).entries == 0
        assert faults(one) == []


def bring(memory: Everlog, conversations: list[Conversation]) -> None:
    for found in conversations:
        memory.add(found)


def test_a_conversation_grows_and_is_edited_while_another_process_imports_it(open_two: Two):
    one, other = open_two()
    old, new = conversation(3), conversation(6)
    edited = replace(old, messages=(*old.messages[:5], Message(kind="user", text="a question of another kind, edited")))
    assert together(partial(one.add, old), partial(other.add, new), partial(one.add, edited)) == []
    for found in (old, new, edited):
        assert one.add(found).entries == 0
    known = {tuple(texts(one, overview.key)) for overview in one.threads()}
    for found in (new, edited):
        assert tuple(message.text for message in found.messages[1:]) in known
    assert faults(one) == []


def test_a_parent_and_its_forks_are_erased_at_once(open_two: Two, database: Database):
    for n in range(TRIES):
        one, other = open_two()
        talk(one, "parent", 4)
        one.thread("parent").fork(6, "first")
        one.thread("first").fork(5, "second").append("user", "and on")
        one.thread("parent").fork(3, "third").append("assistant", "another answer")
        wanted = {key: texts(one, key) for key in ("second", "third")}
        ids = [one.thread(key).id for key in ("parent", "first")]
        raised = together(partial(one.erase, thread="parent"), partial(other.erase, thread="first"))
        assert raised == [], n
        assert {key: texts(one, key) for key in wanted} == wanted
        assert [len(picture) for picture in pictures(one, "second")] == [1, 0, 1, 0, 1, 0]
        assert [left_of(one.store, one.name, thread) for thread in ids] == [[], []]
        assert faults(one) == []


def pictures(memory: Everlog, key: str) -> list[list[bytes | None]]:
    def content(entry: Entry) -> list[bytes | None]:
        return [part.content for part in entry.message.parts if isinstance(part, Media)]

    return [content(entry) for entry in memory.thread(key).entries()]


def test_nothing_is_left_of_a_thread_that_is_erased_while_others_write_and_derive(open_two: Two):
    for _ in range(TRIES):
        one, other = open_two()
        talk(one, "t", 3)
        thread = one.thread("t").id
        held, too = one.thread("t"), other.thread("t")
        assert {held.id, too.id} == {thread}
        acts = (partial(more, held), partial(derive, too), partial(branch, too))
        assert together(*(partial(until_erased, act) for act in acts), partial(one.erase, thread="t")) == []
        assert left_of(one.store, one.name, thread) == []
        for overview in one.threads():
            assert texts(one, overview.key) == ["question 0 of t, at some length", ""]
        assert faults(one) == []


def more(thread: Thread, n: int) -> None:
    thread.append("user", f"more {n}")


def derive(thread: Thread, n: int) -> None:
    if thread.pump().reason == "erased":
        raise Erased


def branch(thread: Thread, n: int) -> None:
    thread.fork(2, f"fork {n}")


def until_erased(act: Callable[[int], object]) -> None:
    """Do something again and again until it is told that the thread was erased."""
    until = time.monotonic() + PATIENCE_S
    with suppress(Erased):
        for n in takewhile(lambda _: time.monotonic() < until, count()):
            act(n)
        raise AssertionError("it was never told that the thread was erased")


def test_a_user_is_forgotten_everywhere_while_threads_are_erased_forked_and_derived(open_two: Two):
    for n in range(TRIES):
        one, other = open_two()
        for user in ("u1", "u2", "u1"):
            talk(one, "parent", 1, user=user)
        one.thread("parent").fork(5, "fork").append("assistant", "of u1, too")
        one.thread("fork").pump()
        raised = together(
            partial(one.erase, user="u1"),
            partial(other.erase, thread="parent"),
            partial(one.thread("fork").fork, 4, "grandchild"),
            partial(other.thread("fork").pump),
        )
        assert raised == [], n
        one.resume()
        wanted = [True, True, False, False, True, True]
        assert [entry.erased for entry in one.thread("fork").entries()] == wanted
        assert [entry.erased for entry in one.thread("grandchild").entries()] == wanted[:4]
        found = dump(one.store, one.name)
        assert [row for row in found["turn"] if row["user"] not in ("u2", None)] == []
        assert {row["thread"] for row in found["blob_use"]} == {one.thread("fork").id}
        assert [row["i"] for row in found["blob_use"]] == [2]
        assert faults(one) == []


def test_a_fork_of_a_fork_made_while_the_parent_is_erased_keeps_its_words(open_two: Two):
    for n in range(TRIES * 2):
        one, other = open_two()
        talk(one, "parent", 5)
        wanted = texts(one, "parent")
        for at in (9, 8, 4):
            one.thread("parent").fork(at, f"fork {at}")
        raised = together(
            partial(one.erase, thread="parent"),
            *(partial(other.thread(f"fork {at}").fork, at - 1, f"grandchild {at}") for at in (9, 8, 4)),
        )
        assert raised == [], n
        for at in (9, 8, 4):
            assert texts(one, f"fork {at}") == wanted[:at]
            assert texts(one, f"grandchild {at}") == wanted[: at - 1]
        assert faults(one) == []


def test_a_tenant_that_is_erased_while_others_write_is_empty_or_begins_whole(open_two: Two):
    for _ in range(TRIES):
        one, other = open_two()
        talk(one, "t", 2)

        def write(memory: Everlog = other) -> None:
            for n in range(30):
                try:
                    memory.thread(f"new {n % 3}").turn([Message(kind="user", text=f"words {n}")])
                except (Erased, UnknownThread):
                    continue

        assert together(one.erase_tenant, write, write) == []
        assert "t" not in {overview.key for overview in one.threads()}
        assert faults(one) == []
        found = dump(one.store, one.name)
        living = {row["thread"] for row in found["thread"]}
        for name in ("entry", "turn", "due"):
            assert {row["thread"] for row in found[name]} <= living
        one.thread("after").append("user", "a new beginning")
        assert texts(one, "after") == ["a new beginning"]


def test_the_last_turn_is_continued_from_two_sides_at_once_without_a_gap(open_two: Two):
    one, other = open_two()
    one.thread("parent").append("user", "a question")
    one.thread("parent").fork(1, "fork")
    answers = [
        partial(
            memory.thread(key).extend, [NewTurn(messages=(Message(kind="assistant", text=f"{key} {n}"),), more=True)]
        )
        for n, memory in enumerate((one, other, one, other))
        for key in ("parent", "fork")
    ]
    assert together(*answers) == []
    for key in ("parent", "fork"):
        entries = list(one.thread(key).entries())
        assert [entry.turn for entry in entries] == [0] * 5
        assert {entry.text for entry in entries[1:]} == {f"{key} {n}" for n in range(4)}
    assert len(dump(one.store, one.name)["turn"]) == 2
    assert faults(one) == []


@pytest.mark.parametrize("database", ["postgresql-plain", "postgresql-encrypted"], indirect=True)
@pytest.mark.parametrize("key", ["there", "new"])
def test_a_unit_that_meets_a_tenant_begun_anew_stores_under_the_secret_of_that_one(open_two: Two, key: str):
    """What it read before it held a lock is of the tenant that was erased, and would fit no hash ever after."""
    one, other = open_two()
    talk(one, "there", 2)
    tries = count()

    def act(unit: Unit) -> None:
        if next(tries) == 0:
            unit.secret()
            one.erase_tenant()
            talk(one, "there", 1)
        log.append(unit, log.ensure(unit, key), [NewTurn(messages=(Message(kind="user", text="late"),))])

    other.store.write(other.name, act, name="test")
    assert texts(one, key)[-1] == "late"
    assert faults(one) == []
