"""Erasure, step by step: what forks inherit, what a killed or waiting erasure leaves, what keys can still open."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column

from everlog import (
    Erased,
    Everlog,
    MasterKeys,
    Media,
    Message,
    Mistake,
    NewTurn,
    Origin,
    Receipt,
    TurnState,
    UnknownThread,
    log,
)
from everlog.errors import EverlogError
from everlog.log import rows
from everlog.memory.tree.rows import node
from everlog.pump import rows as pump_rows
from everlog.store import Store, Unit, scoped
from everlog.store.rotation import rotate
from everlog.testing.failpoints import heard, raising
from tests.conformance.conftest import KEYS, Database
from tests.conformance.log_model import World, dump, keys_of

NEW_KEYS = MasterKeys(keys=[bytes(range(1, 33))])


class Interrupted(BaseException):
    """What a test raises in the middle of an erasure."""


def family(world: World) -> None:
    """A parent, forks of it at several places, one inside a turn, and a fork of a fork; two people and pictures."""
    for n in range(4):
        world.append("parent", [world.turn(["user", "assistant"], f"u{n % 2 + 1}", size=600)])
    world.fork("parent", 5, "inside", titled=True)
    world.append("inside", [NewTurn(messages=world.turn(["assistant"], None).messages, more=True)])
    world.fork("parent", 8, "end", titled=False)
    world.append("end", [world.turn(["user", "assistant"], "u1")])
    world.fork("inside", 6, "grandchild", titled=False)
    world.append("grandchild", [world.turn(["user"], "u2"), world.turn(["user", "note"], "u1")])
    world.fork("parent", 0, "apart", titled=False)
    world.append("apart", [world.turn(["user"], "u2")])
    for key in world.threads:
        world.pump(key)


def couple(world: World) -> None:
    """A parent, and a fork of it inside its last turn; one picture and lines of both."""
    world.append("parent", [world.turn(["user"], "u1"), world.turn(["user", "note", "assistant"], "u2", size=600)])
    world.append("parent", [world.turn(["user", "assistant"], "u1")])
    world.fork("parent", 5, "inside", titled=True)
    world.append("inside", [NewTurn(messages=world.turn(["assistant"], None).messages, more=True)])
    world.pump("parent")
    world.pump("inside")


def settled(world: World, database: Database) -> None:
    """Check all there is to check."""
    world.check_all()
    world.check_rows()
    if database.engine == "sqlite":
        world.check_files(database.folder)


@pytest.mark.covers("C30")
@pytest.mark.parametrize("order", [["parent", "end", "inside"], ["inside", "parent", "grandchild"], ["end", "parent"]])
def test_forks_keep_what_they_share_with_threads_that_are_erased_one_after_the_other(
    database: Database, store: Store, order: list[str]
):
    world = World(Everlog(store, tenant="t"))
    family(world)
    for key in order:
        world.erase_thread(key)
        settled(world, database)
    for key in world.threads:
        world.append(key, [world.turn(["user", "assistant"], "u1")])
        world.pump(key)
    world.erase_user("u1")
    settled(world, database)


def test_the_nearest_fork_inherits_lines_so_that_none_is_made_again(store: Store):
    world = World(Everlog(store, tenant="t"))
    family(world)
    before = {(row["nid"], row["size"]) for row in dump(store, "t")["node"]}
    receipt = world.erase_thread("parent")
    assert receipt.handed_over == 8
    assert world.memory.thread("end").pump().steps == 0
    assert {(row["nid"], row["size"]) for row in dump(store, "t")["node"]} == before


def test_a_fork_inherits_hundreds_of_pictures_each_once(store: Store):
    memory = Everlog(store, tenant="t")
    pictures = [Media(media_type="image/png", content=b"picture %d " % n * 4) for n in range(40)]
    shown = [
        NewTurn(messages=(Message(kind="user", text=f"{n}", parts=tuple(pictures[n % 40 : n % 40 + 7])),))
        for n in range(120)
    ]
    memory.thread("parent").extend(shown)
    fork = memory.thread("parent").fork(100, "fork")
    before = [entry.message for entry in fork.entries()]
    memory.erase(thread="parent")

    assert [entry.message for entry in fork.entries()] == before
    found = dump(store, "t")
    assert {row["thread"] for row in (*found["blob"], *found["blob_use"])} == {fork.id}
    assert len(found["blob"]) == 40
    assert [fault for part in fork.verify() for fault in part.faults] == []


def test_a_picture_goes_with_the_last_message_that_shows_it(store: Store):
    memory = Everlog(store, tenant="t")
    picture = Media(media_type="image/png", content=b"the same picture, shown by two people" * 3)
    for user in ("u1", "u2"):
        said = Message(kind="user", text=f"look, {user}", parts=(picture,))
        memory.thread("t").turn([said], origin=Origin(user=user))
    memory.erase(user="u1")
    assert len(dump(store, "t")["blob"]) == 1
    assert next(iter(memory.thread("t").entries(1))).message.parts == (picture,)
    memory.erase(user="u2")
    assert dump(store, "t")["blob"] == dump(store, "t")["blob_use"] == []


def test_entries_and_turns_of_other_people_stay_word_for_word(store: Store):
    memory = Everlog(store, tenant="t")
    for user in ("u1", "u2", None):
        origin = Origin(user=user, session="s", project="p", cwd="/home/somebody", request="r")
        memory.thread("t").turn(
            [Message(kind="user", text=f"I am {user}"), Message(kind="assistant", text="hi")],
            origin=origin,
            client_key=f"key of {user}",
        )
    before = list(memory.thread("t").entries())
    receipt = memory.erase(user="u1")
    after = list(memory.thread("t").entries())

    assert after[2:] == before[2:]
    assert [(e.i, e.kind, e.at, e.erased, e.text, e.author, e.origin) for e in after[:2]] == [
        (e.i, e.kind, e.at, True, "", None, Origin()) for e in before[:2]
    ]
    assert (receipt.entries, receipt.threads) == (2, (memory.thread("t").id,))
    turn = dump(store, "t")["turn"][0]
    kept = {"tenant", "thread", "n", "first", "state", "learn", "at", "model"}
    assert {name for name, value in turn.items() if value is not None} <= kept
    assert turn["state"] == TurnState.ERASED


def test_what_continues_an_erased_turn_is_refused(store: Store):
    memory = Everlog(store, tenant="t")
    thread = memory.thread("t")
    thread.append("user", "a question that will be erased", origin=Origin(user="u1"))
    fork = thread.fork(1, "fork")
    memory.erase(user="u1")
    for one in (thread, fork):
        with pytest.raises(Erased):
            one.append("assistant", "an answer that quotes the question")
        one.append("user", "another question")
        one.append("assistant", "and its answer")
        assert [entry.turn for entry in one.entries()] == [0, 1, 1]


def test_a_title_goes_with_the_first_words_and_with_the_last(store: Store):
    memory = Everlog(store, tenant="t")
    memory.thread("base").append("user", "words", origin=Origin(user="u1"))
    for key, users in {"alone": ("u1",), "first": ("u1", "u2"), "second": ("u2", "u1")}.items():
        thread = memory.thread("base").fork(0, key, title=f"what {users} said")
        for user in users:
            thread.append("user", "words", origin=Origin(user=user))
    memory.thread("first").fork(2, "of first", title="what was said first").append(
        "user", "words", origin=Origin(user="u2")
    )
    memory.thread("second").fork(2, "of second", title="what was said second")
    memory.erase(user="u1")
    assert {one.key: one.title for one in memory.threads()} == {
        "base": None,
        "alone": None,
        "first": None,
        "second": "what ('u2', 'u1') said",
        "of first": None,
        "of second": "what was said second",
    }


def test_threads_whose_lines_went_are_marked_as_due_and_their_lines_are_made_again(store: Store):
    world = World(Everlog(store, tenant="t"))
    family(world)
    store.write("t", lambda unit: unit.run(_SETTLE), name="settle")
    world.erase_user("u2")
    due = {row["subject"]: row["upto"] for row in dump(store, "t")["due"] if row["due_at"] is not None}
    assert due == {world.memory.thread(key).id: len(world.threads[key].said) for key in world.threads}
    for key in world.threads:
        world.pump(key)
    world.check_rows()


_SETTLE = scoped(pump_rows.due).update().values(due_at=None)


def test_a_thread_is_erased_once_and_its_name_lives_on_with_another(store: Store):
    memory = Everlog(store, tenant="t")
    memory.thread("t").append("user", "first life", client_key="k")
    held = memory.thread("t")
    assert held.id
    memory.erase(thread="t")
    with pytest.raises(UnknownThread):
        memory.erase(thread="t")
    with pytest.raises(Erased):
        log.erase_thread(store, "t", held.id)
    assert not memory.thread("t").append("user", "second life", client_key="k").repeated
    with pytest.raises(Erased):
        held.append("user", "to the first")
    assert [entry.text for entry in memory.thread("t").entries()] == ["second life"]


def test_a_tenant_begins_anew_after_its_erasure(store: Store):
    world = World(Everlog(store, tenant="t"))
    family(world)
    receipt = world.erase_tenant()
    assert receipt.entries == 8 + 1 + 2 + 3 + 1
    assert all(found == [] for found in dump(store, "t").values())
    assert [one.id for one in world.memory.receipts()] == [receipt.id]
    family(world)
    world.check_all()


ACTS: dict[str, Callable[[World], Receipt]] = {
    "thread": lambda world: world.memory.erase(thread="parent"),
    "user": lambda world: world.memory.erase(user="u1"),
    "tenant": lambda world: world.memory.erase_tenant(),
}


@pytest.mark.parametrize("target", ACTS)
def test_an_erasure_that_is_cut_off_at_any_commit_is_finished_by_resuming(
    database: Database, store: Store, tenants: Iterator[str], target: str
):
    act = ACTS[target]
    world = World(Everlog(store, tenant=next(tenants)))
    couple(world)
    with heard() as names:
        act(world)
    points = sorted(set(names))
    assert {f"erase.{name}.{side}_commit" for name in ("begin", "receipt") for side in ("before", "after")} <= {*points}
    for point in points:
        world = World(Everlog(store, tenant=next(tenants)))
        couple(world)
        with raising(point, Interrupted()), pytest.raises(Interrupted):
            act(world)
        resumed = world.memory.resume()
        if point == "erase.begin.before_commit":
            assert resumed == []
            world.check_all()
            continue
        (receipt,) = resumed or world.memory.receipts()
        assert receipt.state == ("done" if database.engine == "sqlite" else "pending")
        assert receipt.entries == {"thread": 6, "user": 4, "tenant": 7}[target]
        forget(world, target)
        world.check_all()
        world.check_rows()


def forget(world: World, target: str) -> None:
    """Tell the model what was erased behind its back."""
    if target == "tenant":
        world.threads.clear()
        return
    if target == "thread":
        (thread,) = (id_ for id_, key in world.ids.items() if key == "parent")
        del world.threads["parent"], world.ids[thread]
        world.gone.append(thread)
        return
    for part in world.parts:
        if part.user == "u1":
            part.erased, part.user, part.cwd = True, None, None


def test_an_erasure_waits_for_a_reader_of_the_file_and_says_so(database: Database, store: Store):
    if database.engine != "sqlite":
        return
    world = World(Everlog(store, tenant="t"))
    family(world)
    with closing(sqlite3.connect(database.address, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entry").fetchone()
        receipt = world.erase_thread("parent")
        assert (receipt.state, len(receipt.holds)) == ("pending", 1)
        assert world.memory.resume()[0].state == "pending"
        world.check_all()
        world.check_rows()
    (finished,) = world.memory.resume()
    assert (finished.id, finished.state, finished.holds) == (receipt.id, "done", ())
    assert world.memory.resume() == []
    settled(world, database)


@pytest.mark.parametrize("target", ["thread", "user"])
def test_no_key_that_is_left_opens_what_was_erased(database: Database, store: Store, target: str):
    if not database.encrypted:
        return
    world = World(Everlog(store, tenant="t"))
    family(world)
    thread = world.memory.thread("parent").id
    sealed = [row for row in dump(store, "t")["entry"] if row["thread"] == thread]
    lines = [row for row in dump(store, "t")["node"] if world.ids[str(row["thread"])] != "apart"]
    keys = keys_of(store, "t", thread)
    assert len(keys) == 1
    assert all(opened(store, rows.entry.c.body, row) for row in sealed)
    world.erase_thread("parent") if target == "thread" else world.erase_user("u1")
    assert not {*keys} & {*keys_of(store, "t", thread)}
    assert len(keys_of(store, "t", thread)) == (0 if target == "thread" else 1)
    assert not any(opened(store, rows.entry.c.body, row) for row in sealed)
    if target == "user":
        assert not any(opened(store, node.c.body, row, key="nid") for row in lines)
    world.check_all()


def opened(store: Store, column: "Column[Any]", row: dict[str, object], key: str = "i") -> bool:
    """Return whether a sealed value of before can be opened."""

    def act(unit: Unit) -> bytes:
        body = row["body"]
        assert isinstance(body, bytes)
        return unit.open(column, (row["thread"], row[key]), body)

    with suppress(EverlogError):
        return bool(store.read("t", act))
    return False


def test_on_a_server_a_receipt_is_final_when_the_master_key_is_retired(database: Database, store: Store):
    if database.engine != "postgresql":
        return
    world = World(Everlog(store, tenant="t"))
    family(world)
    receipt = world.erase_thread("parent")
    assert receipt.state == "pending"
    assert receipt.wrapper == (KEYS.name if database.encrypted else "")
    assert len(receipt.holds) == 1
    if not database.encrypted:
        assert "encrypt" in receipt.holds[0]
        return
    both = database.open(keys=MasterKeys(keys=[*NEW_KEYS.keys, *KEYS.keys]))
    assert Everlog(both, tenant="t").resume()[0].state == "pending"
    list(rotate(both))
    (final,) = Everlog(database.open(keys=NEW_KEYS), tenant="t").resume()
    assert (final.id, final.state, final.holds) == (receipt.id, "done", ())


def test_receipts_hold_no_names_and_no_words(store: Store, database: Database):
    world = World(Everlog(store, tenant="t"))
    family(world)
    world.erase_user("u1")
    world.erase_thread("parent")
    world.erase_tenant()
    shown = repr(world.memory.receipts())
    assert [receipt.target for receipt in world.memory.receipts()] == ["user", "thread", "tenant"]
    assert not [name for name in ("u1", "parent", "inside", *(said.text for said in world.everything)) if name in shown]


def test_erasing_nobody_leaves_everything_as_it_is(store: Store, tmp_path: Path):
    world = World(Everlog(store, tenant="t"))
    family(world)
    before = dump(store, "t")
    with pytest.raises(Mistake, match="nothing was erased"):
        world.erase_user("nobody")
    assert dump(store, "t") == before
    assert world.memory.receipts() == []


def test_two_processes_that_resume_the_same_erasure_do_it_once(database: Database, store: Store):
    world = World(Everlog(store, tenant="t"))
    family(world)
    with raising("erase.copy.after_commit", Interrupted()), pytest.raises(Interrupted):
        world.memory.erase(thread="parent")
    other = database.open()
    (waiting,) = log.receipts(other, "t")
    with raising("erase.hand_over.after_commit", Interrupted()), pytest.raises(Interrupted):
        log.resume(store, "t")
    for one in (other, store):
        log.resume(one, "t")
    assert [receipt.id for receipt in world.memory.receipts()] == [waiting.id]
    forget(world, "thread")
    settled(world, database)


def test_a_user_is_erased_also_where_a_fork_is_just_inheriting(database: Database, store: Store):
    world = World(Everlog(store, tenant="t"))
    family(world)
    with heard() as names:
        act = partial(world.memory.erase, thread="apart")
        act()
    del names
    forget_apart(world)
    for hit in range(1, 7):
        with raising("erase.copy.after_commit", Interrupted(), hit=hit), suppress(Interrupted, UnknownThread):
            world.memory.erase(thread="parent")
        with raising("erase.copy.before_commit", Interrupted(), hit=hit), suppress(Interrupted):
            log.resume(store, "t")
    forget(world, "thread")
    world.erase_user("u1")
    world.memory.resume()
    settled(world, database)


def forget_apart(world: World) -> None:
    (thread,) = (id_ for id_, key in world.ids.items() if key == "apart")
    del world.threads["apart"], world.ids[thread]
    world.gone.append(thread)
