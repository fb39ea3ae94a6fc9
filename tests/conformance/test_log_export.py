"""Law 10: import after export is identity, for every thread there can be; and importing again adds nothing."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog import Conflict, Conversation, Erased, Everlog, Message, NewTurn, Origin, log
from everlog.importers import read
from everlog.store import Store
from tests.conformance import log_strategies as some
from tests.conformance.conftest import Database
from tests.conformance.test_log_laws import effort

KEYS = ["a", "b", "naïve/…"]
keys = st.sampled_from(KEYS)
several = st.lists(some.messages, min_size=1, max_size=4).map(tuple)

turns = st.tuples(st.just("turn"), keys, several, some.origins)
forks = st.tuples(st.just("fork"), keys, keys, st.integers(0, 12), st.none() | some.texts)
others = st.one_of(
    turns,
    forks,
    st.tuples(st.just("more"), keys, several, some.origins),
    st.tuples(st.just("told"), keys, st.lists(some.texts, min_size=1, max_size=10)),
    st.tuples(st.just("erase"), keys),
    st.tuples(st.just("forget"), st.sampled_from(["u1", "u2"])),
)
acts = st.tuples(
    st.lists(turns, min_size=1, max_size=4), st.lists(forks, max_size=3), st.lists(others, max_size=6)
).map(lambda some_acts: [act for part in some_acts for act in part])


def perform(memory: Everlog, act: tuple[Any, ...]) -> None:
    """Do one thing, if it can be done."""
    there = {overview.key: overview for overview in memory.threads()}
    match act:
        case ("turn", key, messages, origin):
            memory.thread(key).extend([NewTurn(messages=messages, origin=origin)])
        case ("more", key, messages, origin) if key in there:
            turn = NewTurn(messages=messages, origin=Origin(request=origin.request), more=True)
            try:
                memory.thread(key).extend([turn])
            except Erased:
                return
        case ("fork", key, new, at, title) if key in there and new not in there:
            memory.thread(key).fork(min(at, there[key].entries), new, title=title)
        case ("told", key, texts) if key in there:
            told = [Message(kind="system", text=text).text for text in texts]
            memory.store.write(memory.name, lambda unit: log.instruct(unit, log.ensure(unit, key), told), name="test")
        case ("erase", key) if key in there:
            memory.erase(thread=key)
        case ("forget", user):
            memory.erase(user=user)
        case _:
            return


def exported(memory: Everlog) -> dict[str, bytes]:
    """Return every thread as a file, in the order they were made."""
    return {overview.key: b"".join(memory.thread(overview.key).export()) for overview in memory.threads()}


def bring(memory: Everlog, path: Path) -> int:
    """Import a file, and return how many entries that added."""
    added = 0
    with read(path) as reading:
        for found in reading:
            assert isinstance(found, Conversation), found
            added += memory.add(found).entries
    return added


def places(memory: Everlog) -> dict[str, tuple[str | None, list[int]]]:
    """Return, for every thread, the thread that it left, and up to where it shares whose rows."""
    rows = {row.id: row for row in (memory.thread(overview.key).row() for overview in memory.threads())}
    keys: dict[str | None, str | None] = {row.id: row.key for row in rows.values()}
    return {row.key or "": (keys.get(row.parent), [upto for _, upto in row.segments[:-1]]) for row in rows.values()}


def test_a_fork_of_a_fork_is_exported_with_the_place_where_it_left_its_own_parent(store: Store, tmp_path: Path):
    here, there = Everlog(store, tenant="here"), Everlog(store, tenant="there")
    for n in range(3):
        here.thread("parent").append("user", f"question {n}")
    here.thread("parent").fork(2, "child")
    for n in range(3):
        here.thread("child").append("user", f"aside {n}")
    here.thread("child").fork(4, "grandchild").append("user", "and on")
    lines = [json.loads(next(iter(here.thread(key).export()))) for key in ("child", "grandchild")]
    assert [line["fork"] for line in lines] == [{"of": "parent", "at": 2}, {"of": "child", "at": 4}]

    path = tmp_path / "all.jsonl"
    path.write_bytes(b"".join(exported(here).values()))
    bring(there, path)
    assert (
        places(there)
        == places(here)
        == {"parent": (None, []), "child": ("parent", [2]), "grandchild": ("child", [2, 4])}
    )


@pytest.mark.covers("A1", "C30")
def test_import_after_export_is_identity_and_again_adds_nothing(
    database: Database, store: Store, tenants: Iterator[str], tmp_path: Path
):
    numbers = count()

    @settings(effort(database), max_examples=effort(database).max_examples * 2)
    @given(acts=acts)
    def holds(acts: list[tuple[Any, ...]]) -> None:
        here, there = Everlog(store, tenant=next(tenants)), Everlog(store, tenant=next(tenants))
        for act in acts:
            perform(here, act)
        before = exported(here)
        if not before:
            return
        path = tmp_path / f"{next(numbers)}.jsonl"
        path.write_bytes(b"".join(before.values()))
        bring(there, path)
        assert exported(there) == before
        for memory in (there, here):
            assert bring(memory, path) == 0
            assert exported(memory) == before
        path.unlink()

    holds()


def test_an_export_of_a_fork_without_its_parent_becomes_a_thread_of_its_own(store: Store, tmp_path: Path):
    here, there = Everlog(store, tenant="here"), Everlog(store, tenant="there")
    here.thread("parent").turn([Message(kind="user", text="one"), Message(kind="assistant", text="two")])
    here.thread("parent").fork(1, "child").append("assistant", "another two")
    path = tmp_path / "child.jsonl"
    path.write_bytes(b"".join(here.thread("child").export()))

    assert bring(there, path) == 2
    assert [entry.text for entry in there.thread("child").entries()] == ["one", "another two"]
    path.write_bytes(b"".join(here.thread("parent").export()))
    assert bring(there, path) == 2
    path.write_bytes(b"".join(here.thread("child").export()))
    assert bring(there, path) == 0


def test_a_thread_held_open_while_another_takes_its_name_is_not_mixed_with_it(store: Store):
    memory = Everlog(store, tenant="one")
    memory.thread("a").append("user", "first life")
    memory.thread("a").fork(1, "b")
    with pytest.raises(Conflict):
        memory.thread("a").fork(1, "b")
    memory.erase(thread="a")
    memory.thread("a").append("user", "second life")
    assert [entry.text for entry in memory.thread("a").entries()] == ["second life"]
    assert [entry.text for entry in memory.thread("b").entries()] == ["first life"]


@pytest.mark.covers("A1", "C30")
def test_instructions_of_a_thread_and_of_its_fork_go_out_and_come_back(store: Store, tmp_path: Path):
    here, there = Everlog(store, tenant="here"), Everlog(store, tenant="there")
    told = (Message(kind="system", text="be brief"), Message(kind="system", text="\x00\ud83d né"))
    said = (Message(kind="user", text="one"), Message(kind="assistant", text="two"))
    here.add(Conversation(key="a", messages=(*told, *said)))
    here.add(Conversation(key="b", messages=(told[1], said[0]), parent="a", shared=2))
    here.add(Conversation(key="c", messages=told[:1], title="nothing said"))
    before = exported(here)
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"".join(before.values()))

    assert bring(there, path) == 2
    assert exported(there) == before
    assert [there.thread(key).instructions() for key in "abc"] == [
        [text.text for text in told],
        [told[1].text],
        ["be brief"],
    ]
    assert [(one.key, one.title, one.forked_from) for one in there.threads()] == [
        ("a", None, None),
        ("b", None, "a"),
        ("c", "nothing said", None),
    ]
    assert bring(there, path) == 0
    assert exported(there) == before


@pytest.mark.covers("A1")
def test_instructions_go_with_the_thread_and_with_the_last_words_of_a_user(store: Store):
    memory = Everlog(store, tenant="one")
    told, origin = (Message(kind="system", text="u1 likes the sea"),), Origin(user="u1")
    for key in ("thread", "user"):
        memory.add(Conversation(key=key, messages=(*told, Message(kind="user", text="hello")), origin=origin))
    memory.add(Conversation(key="shared", messages=(*told, Message(kind="user", text="hello")), origin=origin))
    memory.thread("shared").append("user", "mine", origin=Origin(user="u2"))
    memory.erase(thread="thread")
    memory.erase(user="u1")
    assert memory.thread("user").instructions() == []
    assert memory.thread("shared").instructions() == ["u1 likes the sea"]
    memory.thread("thread").append("user", "a new life")
    assert memory.thread("thread").instructions() == []


@pytest.mark.covers("A1", "C30")
def test_a_fork_of_a_fork_goes_out_from_where_it_left_the_nearest(store: Store, tmp_path: Path):
    here, there = Everlog(store, tenant="here"), Everlog(store, tenant="there")
    here.thread("a").turn([Message(kind="user", text="one"), Message(kind="assistant", text="two")])
    here.thread("a").fork(1, "b").append("assistant", "another two")
    here.thread("b").fork(2, "c").append("user", "three")
    before = exported(here)
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"".join(before.values()))
    assert b'"fork":{"of":"b","at":2}' in before["c"]
    assert bring(there, path) == 4
    assert exported(there) == before
