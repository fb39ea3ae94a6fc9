"""Verification: a log that is whole has no faults, and each kind of damage is found where it is."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import bindparam

from everlog import Conversation, Damaged, Everlog, MasterKeys, Media, Message, NewTurn, Origin, log
from everlog.log import Fault, rows
from everlog.memory.tree import rows as tree_rows
from everlog.store import open_store, sealed
from everlog.store.sqlite import SQLiteEngine
from everlog.store.statements import scoped
from everlog.testing import FrozenClock

PNG = Media(media_type="image/png", content=b"the bytes of a picture" * 20)


@pytest.fixture(params=["plain", "encrypted"])
def memory(request: pytest.FixtureRequest) -> Iterator[Everlog]:
    """A log with a thread of ten entries, a fork of it inside a turn, and an erased turn."""
    keys = MasterKeys(keys=[bytes(32)]) if request.param == "encrypted" else None
    clock = FrozenClock(step=timedelta(milliseconds=1))
    with Everlog(open_store(":memory:", keys=keys, clock=clock)) as memory:
        thread = memory.thread("t")
        for n in range(4):
            parts = (PNG,) if n == 1 else ()
            asked = Message(kind="user", text=f"question {n}", parts=parts)
            said = [asked, Message(kind="assistant", text=f"answer {n}", model="m")]
            thread.turn(said, origin=Origin(request="r", user=f"u{n}"))
        thread.extend([NewTurn(messages=(Message(kind="note", text="noted"),) * 2)])
        fork = thread.fork(5, "f")
        fork.append("assistant", "another answer")
        fork.append("user", "and on")
        memory.erase(user="u3")
        yield memory


def execute(memory: Everlog, *statements: str) -> None:
    """Damage the database; `:t` and `:f` stand for the ids of the thread and the fork."""
    ids = {"t": memory.thread("t").id, "f": memory.thread("f").id}
    engine = memory.store.engine
    assert isinstance(engine, SQLiteEngine)
    for statement in statements:
        assert engine.maintain(lambda raw, sql=statement: raw.execute(sql, ids).rowcount)  # type: ignore[misc]


def faults(memory: Everlog, key: str) -> list[Fault]:
    return [fault for part in memory.verify(key) for fault in part.faults]


def test_a_log_that_is_whole_has_no_faults(memory: Everlog):
    parts = list(memory.verify())
    assert [part.faults for part in parts if part.faults] == []
    assert {(part.thread, part.of) for part in parts} == {
        (memory.thread(key).id, n) for key, n in (("t", 10), ("f", 7))
    }
    assert {part.stop for part in parts if part.thread == memory.thread("f").id} == {0, 5, 7}


HEAD = "its name, how many entries and turns it has, or whose it shares, is not what was stored"
HERE = "tenant = 'default' AND thread = :t"
DAMAGES: dict[str, tuple[str, int, str]] = {
    "another body": (
        f"UPDATE entry SET body = (SELECT body FROM entry WHERE {HERE} AND i = 3) WHERE {HERE} AND i = 1",
        1,
        "not what was stored|changed or moved",
    ),
    "a flipped bit": (
        f"UPDATE entry SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB) WHERE {HERE} AND i = 1",
        1,
        "not what was stored|changed or moved",
    ),
    "no mark": (
        f"UPDATE entry SET body = CAST(x'07' || substr(body, 2) AS BLOB) WHERE {HERE} AND i = 1",
        1,
        "neither plain nor sealed",
    ),
    "a deleted row": (f"DELETE FROM entry WHERE {HERE} AND i = 4", 4, "the entry is missing"),
    "another kind": (f"UPDATE entry SET kind = 5 WHERE {HERE} AND i = 2", 2, "not what was stored"),
    "another time": (f"UPDATE entry SET at = at + 1 WHERE {HERE} AND i = 2", 2, "not what was stored"),
    "another turn": (f"UPDATE entry SET turn = 0 WHERE {HERE} AND i = 2", 2, "not what was stored"),
    "another request": (f"UPDATE entry SET request = 'x' WHERE {HERE} AND i = 2", 2, "not what was stored"),
    "no request": (f"UPDATE entry SET request = NULL WHERE {HERE} AND i = 2", 2, "not what was stored"),
    "another model": (f"UPDATE entry SET model = 'x' WHERE {HERE} AND i = 1", 1, "not what was stored"),
    "another print": (f"UPDATE entry SET fp = zeroblob(16) WHERE {HERE} AND i = 1", 1, "not what was stored"),
    "another chain": (f"UPDATE entry SET chain = zeroblob(16) WHERE {HERE} AND i = 1", 1, "not what was stored"),
    "a call": (f"UPDATE entry SET call = zeroblob(16) WHERE {HERE} AND i = 1", 1, "not what was stored"),
    "another hash": (f"UPDATE entry SET hash = zeroblob(16) WHERE {HERE} AND i = 1", 1, "not what was stored"),
    "no hash": (f"UPDATE entry SET hash = NULL WHERE {HERE} AND i = 1", 1, "not what was stored"),
    "another size": (f"UPDATE entry SET size = size + 1 WHERE {HERE} AND i = 1", 1, "its size is"),
    "a missing turn": (f"DELETE FROM turn WHERE {HERE} AND n = 1", 2, "its turn 1 is missing"),
    "a turn that begins later": (f"UPDATE turn SET first = 3 WHERE {HERE} AND n = 1", 2, "said to begin at 3"),
    "a turn that begins before": (f"UPDATE turn SET first = 0 WHERE {HERE} AND n = 1", 2, "said to begin at 0"),
    "a missing picture": (f"DELETE FROM blob WHERE {HERE}", 2, "1 of its images, sounds or files"),
    "another picture": (
        f"UPDATE blob SET body = substr(body, 1, 40) WHERE {HERE}",
        2,
        "1 of its images, sounds or files",
    ),
    "half a tombstone": (f"UPDATE entry SET body = NULL WHERE {HERE} AND i = 1", 1, "something of its content is left"),
    "a tombstone's size": (f"UPDATE entry SET size = 99 WHERE {HERE} AND i = 6", 6, "something of its content is left"),
    "a tombstone's print": (f"UPDATE entry SET fp = zeroblob(16) WHERE {HERE} AND i = 6", 6, "of its content is left"),
    "a tombstone's model": (f"UPDATE entry SET model = 'm' WHERE {HERE} AND i = 7", 7, "of its content is left"),
    "an end too low": (f"UPDATE thread SET next = 9 WHERE {HERE}", 9, "above the thread's end, 9"),
    "a kind that is none": (f"UPDATE entry SET kind = 6 WHERE {HERE} AND i = 2", 2, "'kind' holds a number"),
    "a time that is none": (f"UPDATE entry SET at = 1 << 60 WHERE {HERE} AND i = 2", 2, "'at' holds a number"),
    "a position that is none": (
        f"UPDATE entry SET i = 2.5 WHERE {HERE} AND i = 2",
        2,
        "the entry is missing|'i' holds",
    ),
    "a print that is a number": (f"UPDATE entry SET fp = 7 WHERE {HERE} AND i = 2", 2, "'fp' holds a value of another"),
    "a model that is no text": (
        f"UPDATE entry SET model = CAST(x'FF' AS TEXT) WHERE {HERE} AND i = 3",
        3,
        "holds a text that is no text",
    ),
    "a turn of an unknown state": (f"UPDATE turn SET state = 9 WHERE {HERE} AND n = 1", 2, "'state' holds a number"),
    "an end far too high": (f"UPDATE thread SET next = 1 << 40 WHERE {HERE}", 10, "all entries up to 1099511627775"),
    "an end too high": (f"UPDATE thread SET next = 11 WHERE {HERE}", 10, "the entry is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_kind_of_damage_is_found_where_it_is(memory: Everlog, damage: str):
    statement, i, what = DAMAGES[damage]
    execute(memory, statement)
    found = faults(memory, "t")
    at = [fault for fault in found if fault.i == i]
    assert at, found
    assert any(_matches(what, fault.what) for fault in at), found
    assert {fault.thread for fault in found} == {memory.thread("t").id}
    assert not [fault for fault in found if "question" in fault.what or "answer" in fault.what]


def _matches(what: str, found: str) -> bool:
    return any(one in found for one in what.split("|"))


def test_damage_in_one_row_hides_none_in_another(memory: Everlog):
    execute(memory, f"UPDATE entry SET kind = 77 WHERE {HERE} AND i = 2")
    execute(memory, f"UPDATE entry SET size = size + 1 WHERE {HERE} AND i IN (1, 4)")
    assert [fault.i for fault in faults(memory, "t")] == [1, 2, 4]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (f"UPDATE thread SET next = -1 WHERE {HERE}", "'next' holds a number that is out of its range"),
        (f"UPDATE thread SET created_at = 'once' WHERE {HERE}", "'created_at' holds a value of another type"),
        (f"UPDATE thread SET title = x'07' WHERE {HERE}", "neither plain nor sealed"),
        ("UPDATE tenant SET secret = x'0041'", "its secret is not whole|stands unsealed"),
        ("DELETE FROM tenant", "the row of the tenant is missing"),
        ("UPDATE due SET live = 'x' WHERE thread = :t", "the table 'due' is damaged: 'live'"),
    ],
)
def test_what_is_damaged_beside_the_entries_is_said_and_other_threads_are_verified(
    memory: Everlog, statement: str, what: str
):
    thread = memory.thread("t").id
    memory.thread("another").append("user", "hello")
    execute(memory, statement)
    found = [part for part in memory.verify() if part.faults]
    assert any(_matches(what, fault.what) for part in found for fault in part.faults if fault.thread == thread), found
    assert {part.thread for part in memory.verify()} >= {*memory.keys()}


def test_instructions_and_receipts_that_cannot_be_read_are_found(memory: Everlog):
    said = tuple(Message(kind=kind, text="words") for kind in ("system", "user"))
    memory.add(Conversation(key="told", messages=said))
    engine = memory.store.engine
    assert isinstance(engine, SQLiteEngine)
    engine.maintain(lambda raw: raw.execute("UPDATE instruction SET body = x'07'"))
    engine.maintain(lambda raw: raw.execute("UPDATE receipt SET report = '{}'"))
    found = [fault.what for part in memory.verify() for fault in part.faults]
    assert len([what for what in found if "its instructions cannot be read" in what]) == 1
    assert len([what for what in found if "its report is none" in what]) == 1


def test_entries_of_a_thread_whose_own_row_is_gone_are_found(memory: Everlog):
    thread = memory.thread("t").id
    execute(memory, f"DELETE FROM thread WHERE {HERE}")
    found = [fault for part in memory.verify() for fault in part.faults]
    assert [fault.what for fault in found if fault.thread == thread] == [
        "there are entries of a thread whose own row is missing"
    ]


def test_lines_of_a_tree_that_cannot_be_shown_are_found_and_made_again(memory: Everlog):
    thread = memory.thread("t")
    thread.pump()
    execute(memory, f"UPDATE node SET body = x'07' WHERE {HERE} AND nid = 1")
    execute(memory, f"UPDATE node SET size = size + 1 WHERE {HERE} AND nid = 4")
    execute(memory, f"DELETE FROM node WHERE {HERE} AND nid = 2")
    found = faults(memory, "t")
    assert [(fault.i, fault.what.partition(" of its tree ")[2].partition(";")[0]) for fault in found] == [
        (1, "cannot be opened"),
        (4, "is not as long as it says"),
        (2, "stands on lines that are missing"),
    ]
    assert all("`everlog rebuild` makes" in fault.what for fault in found)
    with pytest.raises(Damaged, match="`everlog rebuild` makes"):
        thread.tree.view(10_000)
    thread.tree.rebuild()
    thread.pump()
    assert faults(memory, "t") == []


def test_two_rows_that_changed_places_are_found(memory: Everlog):
    swap = [f"UPDATE entry SET i = {to} WHERE {HERE} AND i = {i}" for i, to in ((1, 99), (3, 1), (99, 3))]
    execute(memory, *swap)
    assert {fault.i for fault in faults(memory, "t")} >= {1, 3}


def test_a_fork_sees_damage_in_what_it_shares_and_the_parent_none_in_the_forks_own(memory: Everlog):
    execute(memory, f"UPDATE entry SET at = 0 WHERE {HERE} AND i = 1")
    assert [fault.i for fault in faults(memory, "f")] == [1]
    execute(memory, "UPDATE entry SET at = 0 WHERE tenant = 'default' AND thread = :f AND i = 6")
    assert [fault.i for fault in faults(memory, "f")] == [1, 6]
    assert [fault.i for fault in faults(memory, "t")] == [1]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE segment SET upto = 0",
        "UPDATE segment SET upto = 8",
        "INSERT INTO segment SELECT tenant, thread, n + 1, owner, upto FROM segment",
        "INSERT INTO segment SELECT tenant, thread, n + 1, owner, upto - 1 FROM segment",
    ],
)
def test_stretches_that_do_not_fit_together_are_found(memory: Everlog, statement: str):
    execute(memory, statement)
    assert any("do not fit together" in fault.what for fault in faults(memory, "f"))


def test_a_wrong_count_of_turns_is_found(memory: Everlog):
    execute(memory, f"UPDATE thread SET turns = turns + 1 WHERE {HERE}")
    assert [fault.what for fault in faults(memory, "t")] == [HEAD, "its last turn is 4, but it counts 6"]


def cut(n: int, turns: int, who: str = "t") -> tuple[str, ...]:
    """Return what takes away a thread's entries from `n` on so that all of it fits together."""
    here = HERE.replace(":t", f":{who}")
    return (
        f"DELETE FROM entry WHERE {here} AND i >= {n}",
        f"DELETE FROM turn WHERE {here} AND n >= {turns}",
        f"UPDATE thread SET next = {n}, turns = {turns} WHERE {here}",
    )


@pytest.mark.parametrize("head", ["", ", head = NULL", ", head = zeroblob(16)", ", head = (SELECT head FROM thread)"])
def test_an_end_that_was_cut_off_with_all_that_belongs_to_it_is_found(memory: Everlog, head: str):
    entries, turns, thread = cut(4, 2)
    execute(memory, entries, turns, thread.replace(" WHERE", f"{head} WHERE"))
    assert [(fault.i, fault.what) for fault in faults(memory, "t")] == [(None, HEAD)]


def test_the_end_of_a_fork_that_was_cut_off_down_to_what_it_shares_is_found(memory: Everlog):
    execute(memory, *cut(5, 3, "f"))
    assert [(fault.i, fault.what) for fault in faults(memory, "f")] == [(None, HEAD)]


def test_a_fork_that_has_nothing_of_its_own_and_a_thread_without_entries_have_their_heads(memory: Everlog):
    memory.thread("t").fork(2, "bare")
    memory.add(Conversation(key="empty", messages=(), title="nothing yet"))
    memory.store.write("default", partial(log.ensure, key="made"), name="test")
    for key in ("bare", "empty", "made"):
        assert faults(memory, key) == []


def test_a_thread_that_shows_another_one_from_the_first_entry_to_the_last_is_found(memory: Everlog):
    for key in ("a", "b"):
        for n in range(3):
            memory.thread(key).append("user", f"{key} says {n}")
    memory.thread("b").fork(3, "bare")
    ids = {key: memory.thread(key).id for key in ("b", "bare")}
    a = memory.thread("a").id
    execute(
        memory,
        f"INSERT INTO segment (tenant, thread, n, owner, upto) VALUES ('default', '{ids['b']}', 0, '{a}', 3)",
        f"UPDATE segment SET owner = '{a}' WHERE thread = '{ids['bare']}'",
    )
    for key in ids:
        assert [(fault.i, fault.what) for fault in faults(memory, key)] == [(None, HEAD)]


def test_an_index_that_contradicts_itself_does_not_keep_verification_for_ever(
    memory: Everlog, monkeypatch: pytest.MonkeyPatch
):
    nowhere = scoped(rows.entry).select(rows.entry.c.i).where(rows.entry.c.thread == bindparam("thread"))
    monkeypatch.setattr(rows, "LAST_WITHIN", nowhere.where(rows.entry.c.i < 0))
    assert [part.stop for part in memory.verify("t") if part.faults == ()] == [0, 10]


def test_lines_that_do_not_stand_in_order_do_not_keep_verification_for_ever(
    memory: Everlog, monkeypatch: pytest.MonkeyPatch
):
    memory.thread("t").pump()
    always = scoped(tree_rows.node).select(tree_rows.node.c.nid).where(tree_rows.node.c.thread == bindparam("thread"))
    monkeypatch.setattr(tree_rows, "NIDS", always.order_by(tree_rows.node.c.nid))
    assert [fault.what for fault in faults(memory, "t") if "in their order" in fault.what]


@pytest.mark.parametrize(("last", "after"), [(3, 3), (2, 3), ("a", "a"), ("a", "b")])
def test_a_page_that_does_not_go_on_is_damage(last: object, after: object):
    with pytest.raises(Damaged, match="in their order"):
        sealed.onward(last, after)


def test_threads_that_do_not_stand_in_order_are_not_listed_for_ever(memory: Everlog, monkeypatch: pytest.MonkeyPatch):
    first = memory.store.read("default", log.listed)
    monkeypatch.setattr(rows, "THREADS", scoped(rows.thread).select(*rows.THREADS.selected_columns))
    assert [row.key for row in first] == ["t", "f"]
    with pytest.raises(Damaged, match="in their order"):
        list(memory.threads())


def test_a_page_that_goes_on_ends_at_its_last_key():
    assert [sealed.onward(0, None), sealed.onward(4, 3), sealed.onward("b", "a")] == [0, 4, "b"]


def test_forks_that_inherit_are_whole(memory: Everlog):
    memory.thread("f").fork(6, "g")
    memory.thread("t").fork(4, "h")
    for key in ("t", "f", "h"):
        memory.erase(thread=key)
        assert [part.faults for part in memory.verify() if part.faults] == []


@pytest.mark.parametrize("with_heads", [False, True])
def test_two_threads_that_changed_names_are_found(memory: Everlog, with_heads: bool):
    ids = {"t": memory.thread("t").id, "f": memory.thread("f").id}
    engine = memory.store.engine
    assert isinstance(engine, SQLiteEngine)
    heads = dict(engine.maintain(lambda raw: raw.execute("SELECT thread, head FROM thread").fetchall()))
    for key in "tf":
        engine.maintain(lambda raw, key=key: raw.execute("UPDATE thread SET key = ? WHERE key = ?", (key * 2, key)))  # type: ignore[misc]
    for key, other in (("t", "f"), ("f", "t")):
        new = (key, heads[ids[key]] if with_heads else heads[ids[other]], ids[other])
        engine.maintain(lambda raw, new=new: raw.execute("UPDATE thread SET key = ?, head = ? WHERE thread = ?", new))  # type: ignore[misc]
    for key in ("t", "f"):
        assert [(fault.i, fault.what) for fault in faults(memory, key)] == [(None, HEAD)]


def test_words_that_stand_unsealed_in_an_encrypted_database_are_found(memory: Everlog):
    if memory.store.vault.provider is None:
        return
    execute(memory, f"UPDATE entry SET body = x'005B2278225D' WHERE {HERE} AND i = 1")
    assert [fault.i for fault in faults(memory, "t")] == [1]


def test_a_key_that_is_gone_is_found(memory: Everlog):
    if memory.store.vault.provider is None:
        return
    execute(memory, "DELETE FROM wrapped_key WHERE tenant = 'default' AND owner = :t")
    assert [fault.i for fault in faults(memory, "t")] == [0, 1, 2, 3, 4, 5, 8, 9]


def test_long_threads_are_verified_page_by_page(memory: Everlog):
    memory.thread("long").extend([NewTurn(messages=(Message(kind="user", text=f"{n}"),)) for n in range(2_345)])
    assert [(part.stop, part.of) for part in memory.verify("long")] == [
        (stop, 2_345) for stop in (0, 1_000, 2_000, 2_345)
    ]


def test_rows_of_two_threads_that_changed_places_are_found(memory: Everlog):
    """Without encryption each is whole by itself, and opens in the other's place."""
    for n in range(2):
        memory.thread("other").append("user", f"another question {n}")
    ids = {"t": memory.thread("t").id, "o": memory.thread("other").id}
    engine = memory.store.engine
    assert isinstance(engine, SQLiteEngine)
    for step in ("'away' WHERE thread = :t", ":t WHERE thread = :o", ":o WHERE thread = 'away'"):
        move = f"UPDATE entry SET thread = {step} AND i = 1"
        assert engine.maintain(lambda raw, sql=move: raw.execute(sql, ids).rowcount)  # type: ignore[misc]
    for key in ("t", "other"):
        assert 1 in {fault.i for fault in faults(memory, key)}


def test_words_of_another_thread_that_are_made_to_look_shared_are_found(memory: Everlog):
    memory.thread("mine").append("user", "my own question")
    memory.thread("mine").append("assistant", "my own answer")
    ids = {"mine": memory.thread("mine").id, "t": memory.thread("t").id}
    engine = memory.store.engine
    assert isinstance(engine, SQLiteEngine)
    forged = "INSERT INTO segment (tenant, thread, n, owner, upto) VALUES ('default', :mine, 0, :t, 1)"
    assert engine.maintain(lambda raw: raw.execute(forged, ids).rowcount)
    assert [fault.what for fault in faults(memory, "mine")] == [HEAD, "it does not follow on what stands before it"]
