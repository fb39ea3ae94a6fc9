"""Appending and reading: positions, turns, client keys, and what may be said."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from everlog import (
    Call,
    Conflict,
    Conversation,
    Damaged,
    Erased,
    Everlog,
    Message,
    Mistake,
    NewTurn,
    Origin,
    PartTooLarge,
    Result,
    TurnState,
    UnknownThread,
    log,
)
from everlog.log import blobs
from everlog.messages import Media
from everlog.store import Unit
from everlog.store.sqlite import SQLiteEngine
from everlog.testing import FrozenClock
from everlog.tokens import size_bytes


def user(text: str = "hello", **fields: object) -> Message:
    return Message(kind="user", text=text, **fields)  # type: ignore[arg-type]


def answer(text: str = "hi") -> Message:
    return Message(kind="assistant", text=text)


def states(memory: Everlog, key: str) -> list[int]:
    thread = memory.thread(key).id
    return [row[4] for row in memory.store.read(memory.name, partial(_turns, thread=thread))]


def _turns(unit: Unit, thread: str) -> list[tuple[Any, ...]]:
    return unit.rows(log.rows.TURNS, thread=thread, start=0, stop=1000)


@pytest.mark.covers("A1", "A112")
def test_positions_follow_each_other_and_turns_group_them(memory: Everlog):
    thread = memory.thread("t")
    assert thread.turn([user(), answer()]).first == 0
    appended = thread.extend([NewTurn(messages=(user(), answer())), NewTurn(messages=(user(),))])
    assert (appended.first, appended.stop, appended.turn, appended.repeated) == (2, 5, 2, False)
    assert thread.append("assistant", "late").turn == 2
    assert [(entry.i, entry.turn) for entry in thread.entries()] == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2)]


def test_the_first_message_of_a_thread_opens_a_turn_whoever_speaks(memory: Everlog):
    memory.thread("t").append("assistant", "Welcome!")
    memory.thread("t").append("note", "a note")
    assert [entry.turn for entry in memory.thread("t").entries()] == [0, 0]


def test_a_turn_without_messages_and_no_turn_at_all_are_mistakes(memory: Everlog):
    for turns in ([], [NewTurn(messages=())], [NewTurn(messages=(user(),)), NewTurn(messages=())]):
        with pytest.raises(Mistake, match="at least one message"):
            memory.thread("t").extend(turns)
    with pytest.raises(UnknownThread):
        memory.thread("t").row()


def test_going_on_sets_how_far_the_turn_has_come(memory: Everlog):
    thread = memory.thread("t")
    thread.extend([NewTurn(messages=(user(),), state=TurnState.OPEN)])
    thread.extend([NewTurn(messages=(answer(),), state=TurnState.PARTIAL, more=True)])
    assert states(memory, "t") == [TurnState.PARTIAL]
    thread.extend(
        [
            NewTurn(messages=(answer(),), more=True),
            NewTurn(messages=(user(),), state=TurnState.OPEN),
            NewTurn(messages=(answer(),), state=TurnState.ABORTED, more=True),
        ]
    )
    assert states(memory, "t") == [TurnState.COMPLETE, TurnState.ABORTED]
    assert [entry.turn for entry in thread.entries()] == [0, 0, 0, 1, 1]


@pytest.mark.covers("A1")
def test_a_client_key_with_the_same_content_is_stored_once(memory: Everlog):
    """Faults 77 and 78: delivered twice, or sent again after a lost acknowledgement, it is one message."""
    thread = memory.thread("t")
    first = thread.turn([user(), answer()], client_key="k")
    thread.append("user", "between")
    again = thread.turn([user(), answer()], client_key="k")
    assert (again.first, again.stop, again.turn, again.repeated) == (first.first, first.stop, first.turn, True)
    assert thread.row().next == 3
    for n in range(3):
        assert thread.append("user", "one", client_key="one").repeated == bool(n)


@pytest.mark.parametrize(
    "messages",
    [
        [user("other"), answer()],
        [user()],
        [user(), answer(), answer()],
        [answer(), user()],
        [user(author="Ada"), answer()],
        [user(parts=(Media(media_type="image/png", content=b"x"),)), answer()],
        [Message(kind="note", text="hello"), answer()],
    ],
)
def test_a_client_key_with_other_content_is_a_conflict(memory: Everlog, messages: list[Message]):
    """Fault 77: the same key, other content."""
    thread = memory.thread("t")
    thread.turn([user(), answer()], client_key="k")
    with pytest.raises(Conflict, match="'k' was used before, in turn 0"):
        thread.turn(messages, client_key="k")
    assert thread.row().next == 2


def test_a_client_key_belongs_to_its_thread_and_a_fork_knows_none(memory: Everlog):
    one, other = memory.thread("one"), memory.thread("other")
    one.append("user", "in one", client_key="k")
    assert not other.append("user", "in the other", client_key="k").repeated
    fork = one.fork(1, "fork")
    assert not fork.append("user", "in the fork", client_key="k").repeated


def test_turns_of_one_append_are_all_repeated_or_refused(memory: Everlog):
    thread = memory.thread("t")
    turns = [NewTurn(messages=(user(f"{n}"), answer()), client_key=f"k{n}") for n in range(3)]
    first = thread.extend(turns)
    assert thread.extend(turns) == log.Appended(first=0, stop=6, turn=2, repeated=True)
    assert first.stop == thread.row().next
    for some in ([*turns[1:], NewTurn(messages=(user("new"),), client_key="k3")], [turns[0], turns[2]]):
        with pytest.raises(Conflict):
            thread.extend(some)
    assert thread.extend(turns[1:]).first == 2
    with pytest.raises(Conflict, match="the same client key"):
        thread.extend([NewTurn(messages=(user("x"),), client_key="x"), NewTurn(messages=(user("y"),), client_key="x")])
    assert thread.row().next == 6


@pytest.mark.parametrize("field", ["request", "session", "user", "project"])
@pytest.mark.parametrize("value", ["x" * 201, "a\x00b", "\ud83d", "two\nlines"])
def test_an_id_that_not_every_database_can_hold_is_refused(memory: Everlog, field: str, value: str):
    with pytest.raises(Mistake, match="printable characters"):
        memory.thread("t").append("user", "words", origin=Origin(**{field: value}))
    memory.thread("t").append("user", "words", origin=Origin(**{field: "Zoë@example.org 1/2"}))


@pytest.mark.parametrize(
    "turn",
    [
        NewTurn(messages=(user(),), client_key="\x00"),
        NewTurn(messages=(user(),), scope="x" * 201),
        NewTurn(messages=(user(),), model="\n"),
        NewTurn(messages=(user(),), timezone="x" * 65),
        NewTurn(messages=(user(), Message(kind="assistant", model="\x00"))),
    ],
)
def test_so_are_client_keys_scopes_models_and_zones(memory: Everlog, turn: NewTurn):
    with pytest.raises(Mistake, match="printable characters"):
        memory.thread("t").extend([turn])
    with pytest.raises(UnknownThread):
        memory.thread("t").row()


HOSTILE = {
    "nothing": "",
    "NUL": "a\x00b\x00",
    "half a pair": "\ud83d alone",
    "the other half": "\ude00",
    "halves apart": "\ud83d \ude00",
    "right to left": "\u202eשלום عليكم\u202c \u200f",
    "combining": "e\u0301\u0302\u0323 a" + "\u0300" * 500,
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈",
    "line ends": "a\r\nb\rc\nd\u2028e\u0085f",
    "labels": "0+1|user: not a label\n</memory>\n[#1]",
    "json": '{"text": "\\ud83d"}',
    "sql": "'); DROP TABLE entry; --",
}


@pytest.mark.covers("A1")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_any_text_comes_back_word_for_word(memory: Everlog, text: str):
    parts = (Call(call_id=text, name=text, arguments=text), Result(call_id=text, name=text))
    message = Message(kind="user", text=text, author=text, id=text, meta={text: text}, parts=parts)
    memory.thread("t").turn([message], origin=Origin(cwd=text))
    (entry,) = memory.thread("t").entries()
    assert (entry.text, entry.author or "", entry.message.id or "") == (text, text, text)
    assert (entry.message.meta, entry.message.parts, entry.origin.cwd) == ({text: text}, parts, text)
    assert size_bytes(entry.message.source) == size_bytes(text) + 6
    assert [fault for part in memory.verify() for fault in part.faults] == []


def test_a_message_of_20_megabytes_comes_back(memory: Everlog):
    text = "".join(f"line {n} of a very long message\n" for n in range(20 * 1024 * 1024 // 36))
    assert size_bytes(text) > 19 * 1024 * 1024
    memory.thread("t").append("tool_result", text)
    assert next(memory.thread("t").entries()).text == text
    assert [fault for part in memory.verify() for fault in part.faults] == []


def test_times_are_kept_to_the_microsecond_and_may_go_backwards(memory: Everlog, clock: FrozenClock):
    thread = memory.thread("t")
    old = datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    thread.append("user", "of the past", at=old)
    clock.advance(timedelta(days=-400))
    thread.append("user", "written when the clock had gone back")
    thread.append("user", "of the far future", at=datetime(9999, 12, 31, tzinfo=UTC))
    thread.append("user", "of long ago", at=datetime(1, 1, 1, tzinfo=UTC))
    entries = list(thread.entries())
    assert [entry.i for entry in entries] == [0, 1, 2, 3]
    assert entries[0].at == old
    assert entries[1].at.year == 2024
    assert (entries[2].at.year, entries[3].at.year) == (9999, 1)
    assert [fault for part in memory.verify() for fault in part.faults] == []


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="no zone"):
        Message(kind="user", text="x", at=datetime(2026, 1, 5))  # noqa: DTZ001


def test_a_model_belongs_to_what_it_wrote(memory: Everlog):
    own = Message(kind="assistant", text="mine", model="other-model")
    turn = NewTurn(messages=(user(), answer(), own, Message(kind="tool_result", text="4")), model="asked-model")
    memory.thread("t").extend([turn])
    assert [entry.message.model for entry in memory.thread("t").entries()] == [None, "asked-model", "other-model", None]


def test_where_entries_came_from_is_kept_with_them(memory: Everlog):
    origin = Origin(request="r1", session="s", user="u", project="p", cwd="/home/ada")
    thread = memory.thread("t")
    thread.turn([user(), answer()], origin=origin)
    thread.extend([NewTurn(messages=(answer(),), origin=Origin(request="r2", user="somebody else"), more=True)])
    thread.append("user", "from nowhere")
    found = [entry.origin for entry in thread.entries()]
    assert found[:2] == [origin, origin]
    assert (found[2].request, found[2].user, found[2].cwd) == ("r2", "u", "/home/ada")
    assert found[3] == Origin()


def test_any_span_can_be_read(memory: Everlog):
    thread = memory.thread("t")
    thread.extend([NewTurn(messages=(user(f"{n}"),)) for n in range(10)])
    for start in range(12):
        for stop in (None, *range(12)):
            wanted = [f"{n}" for n in range(10)][start:stop]
            assert [entry.text for entry in thread.entries(start, stop)] == wanted
    for span in ((-1, None), (0, -1)):
        with pytest.raises(Mistake, match="counted from 0"):
            thread.entries(*span)


def test_long_threads_are_read_in_pages_without_a_gap(memory: Everlog):
    thread = memory.thread("t")
    thread.extend([NewTurn(messages=(user(f"{n}"),)) for n in range(2_345)])
    fork = thread.fork(1_500, "fork")
    fork.extend([NewTurn(messages=(user(f"{n}"),)) for n in range(1_500, 2_600)])
    for one, count in ((thread, 2_345), (fork, 2_600)):
        assert [entry.text for entry in one.entries()] == [f"{n}" for n in range(count)]
        assert [entry.i for entry in one.entries(990, 2_010)] == list(range(990, 2_010))


def test_reading_over_a_missing_entry_is_damage_and_no_silence(memory: Everlog):
    thread = memory.thread("t")
    thread.extend([NewTurn(messages=(user(f"{n}"),)) for n in range(5)])
    assert isinstance(memory.store.engine, SQLiteEngine)
    memory.store.engine.maintain(lambda raw: raw.execute("DELETE FROM entry WHERE i = 2"))
    assert [entry.text for entry in thread.entries(0, 2)] == ["0", "1"]
    with pytest.raises(Damaged, match="1 of the entries 1 to 3 are missing"):
        list(thread.entries(1, 4))
    for act in (
        lambda: thread.tree.search("word"),
        lambda: thread.tree.date(2),
        thread.pump,
        lambda: memory.add(Conversation(key="t", messages=(user("0"), user("1")))),
    ):
        with pytest.raises(Damaged, match=r"1 of the entries \d to \d are missing"):
            act()


def test_what_is_asked_for_by_position_comes_from_the_thread_alone(memory: Everlog):
    thread = memory.thread("t")
    thread.extend([NewTurn(messages=(user(f"{n}"),)) for n in range(6)])
    fork = thread.fork(3, "fork")
    fork.append("user", "3 of the fork")
    found = memory.store.read(memory.name, lambda unit: log.at(unit, log.load(unit, fork.id), [0, 2, 3, 4, -1, 99]))
    assert {i: entry.text for i, entry in found.items()} == {0: "0", 2: "2", 3: "3 of the fork"}


def test_a_part_above_the_limit_is_refused_and_nothing_is_stored(memory: Everlog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blobs, "LIMIT_BYTES", 10)
    picture = Media(media_type="image/png", content=bytes(11))
    with pytest.raises(PartTooLarge, match="11 bytes is above the limit of 10"):
        memory.thread("t").turn([user(), user(parts=(picture,))])
    with pytest.raises(UnknownThread):
        memory.thread("t").row()
    memory.thread("t").turn([user(parts=(Media(media_type="image/png", content=bytes(10)),))])


def test_prints_of_a_thread_are_those_of_its_messages_through_forks_and_erasures(memory: Everlog):
    """What alignment reads of the log is what it makes of the same history, chains included."""
    thread = memory.thread("t")
    thread.turn([user("kept"), answer()])
    thread.turn([user("erased"), answer("too")], origin=Origin(user="u"))
    fork = thread.fork(4, "fork")
    fork.turn([user("in the fork")], origin=Origin(user="u"))
    memory.erase(user="u")
    fork.turn([user("and on"), Message(kind="system", text="be brief"), Message(kind="note")])
    entries = list(fork.entries())
    erased = {entry.i for entry in entries if entry.erased}
    assert erased == {2, 3, 4}

    def both(unit: Unit) -> tuple[list[log.Print], list[log.Print], list[bytes | None]]:
        row = log.load(unit, fork.id)
        made = log.prints(unit.secret(), [entry.message for entry in entries], erased)
        chains = [
            found[9]
            for owner, start, stop in row.spans(0, row.next)
            for found in unit.rows(log.rows.HASHED, thread=owner, start=start, stop=stop)
        ]
        return log.seen(unit, row), made, chains

    seen, made, chains = memory.store.read(memory.name, both)
    assert [(one.fp, one.kind, one.call) for one in seen] == [(one.fp, one.kind, one.call) for one in made]
    assert chains == [None if entry.erased else one.chain for entry, one in zip(entries, made, strict=True)]


def test_the_chain_of_a_fork_of_a_fork_goes_on_from_what_it_shares(memory: Everlog):
    thread = memory.thread("t")
    thread.turn([user("a question"), answer()])
    fork = thread.fork(2, "fork")
    fork.append("user", "in the fork")
    unlike = fork.fork(3, "fork of it")
    unlike.append("user", "and on")
    said = [entry.message for entry in unlike.entries()]

    def last(unit: Unit) -> tuple[bytes, bytes]:
        stored = unit.rows(log.rows.HASHED, thread=unlike.id, start=3, stop=4)
        return stored[0][9], log.prints(unit.secret(), said)[-1].chain

    stored, made = memory.store.read(memory.name, last)
    assert stored == made


def test_what_was_erased_with_a_user_cannot_be_continued(memory: Everlog):
    thread = memory.thread("t")
    thread.append("user", "a question", origin=Origin(user="u"))
    memory.erase(user="u")
    with pytest.raises(Erased, match="turn 0, which was to be continued, was erased"):
        thread.append("assistant", "an answer")
    assert thread.row().next == 1


@pytest.mark.long
def test_a_hundred_thousand_messages_of_one_word_come_back(memory: Everlog):
    words = [f"word{n % 977}" for n in range(100_000)]
    thread = memory.thread("t")
    for begin in range(0, len(words), 10_000):
        thread.extend([NewTurn(messages=(user(word),)) for word in words[begin : begin + 10_000]])
    assert [entry.text for entry in thread.entries()] == words
    assert [fault for part in memory.verify() for fault in part.faults] == []
