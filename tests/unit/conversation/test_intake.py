"""Bringing in conversations: once each, grown, edited, branched, cut off, in any order."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from everlog import Conversation, Everlog, Media, Message, Mistake, Origin, PartTooLarge, Unknown, log
from everlog.conversation.alignment import intake
from everlog.conversation.alignment.placement import Coming, Plan
from everlog.store import Unit
from everlog.store.sqlite import SQLiteEngine
from everlog.testing.failpoints import raising


class CutOff(BaseException):
    """What a test raises in the middle of an import."""


def said(*texts: str) -> tuple[Message, ...]:
    """Return a conversation of questions and answers, long enough to tell what is an edit; `+` means the same person."""
    found = []
    for n, text in enumerate(texts):
        kind = "user" if n % 2 == 0 else "assistant"
        found.append(Message(kind=kind, text=f"{text} " * 9))  # type: ignore[arg-type]
    return tuple(found)


def chat(*texts: str, key: str = "k", **fields: object) -> Conversation:
    return Conversation(key=key, messages=said(*texts), **fields)  # type: ignore[arg-type]


def shown(memory: Everlog) -> dict[str, str]:
    """Return the first words of each entry of each thread, a bar before each turn."""
    found = {}
    for overview in memory.threads():
        turn, line = -1, ""
        for entry in memory.thread(overview.key).entries():
            line += " " if entry.turn == turn else " | " if line else ""
            line += entry.text.split(" ")[0] if not entry.erased else "-"
            turn = entry.turn
        found[overview.key] = line
    return found


def faultless(memory: Everlog) -> bool:
    return not [fault for part in memory.verify() for fault in part.faults]


def test_a_conversation_is_there_once_however_often_it_comes(memory: Everlog):
    first = memory.add(chat("a", "b", "c", title="talk"))
    assert (first.key, first.entries, first.known, first.forked_at) == ("k", 3, 0, None)
    for _ in range(3):
        again = memory.add(chat("a", "b", "c", title="talk"))
        assert (again.key, again.entries, again.known, again.forked_at) == ("k", 0, 3, None)
    assert shown(memory) == {"k": "a b | c"}
    assert next(memory.threads()).title == "talk"


def test_a_conversation_that_has_grown_adds_what_is_new_to_the_turn_it_left_open(memory: Everlog):
    memory.add(chat("a", "b", "c", title="old title"))
    added = memory.add(chat("a", "b", "c", "d", "e", title="new title"))
    assert (added.entries, added.known) == (2, 3)
    assert shown(memory) == {"k": "a b | c d | e"}
    assert next(memory.threads()).title == "new title"
    assert memory.add(chat("a", "b")).entries == 0
    assert faultless(memory)


def test_an_edited_conversation_becomes_a_fork_at_the_edit_and_is_known_from_then_on(memory: Everlog):
    memory.add(chat("a", "b", "c", "d"))
    edited = memory.add(chat("a", "b", "C", "D"))
    assert (edited.key, edited.entries, edited.known, edited.forked_at) == ("k~1", 2, 2, 2)
    again = memory.add(chat("a", "b", "c", "D2"))
    assert (again.key, again.forked_at) == ("k~2", 3)
    assert shown(memory) == {"k": "a b | c d", "k~1": "a b | C D", "k~2": "a b | c D2"}
    for known in (("a", "b", "c", "d"), ("a", "b", "C", "D"), ("a", "b", "c", "D2")):
        assert memory.add(chat(*known)).entries == 0
    grown = memory.add(chat("a", "b", "C", "D", "E"))
    assert (grown.key, grown.entries) == ("k~1", 1)
    assert faultless(memory)


def test_another_conversation_under_the_same_key_is_stored_beside_it_once(memory: Everlog):
    memory.add(chat("a", "b"))
    for entries in (2, 0, 0):
        added = memory.add(chat("x", "y"))
        assert (added.key, added.entries) == ("k~1", entries)
    assert shown(memory) == {"k": "a b", "k~1": "x y"}


def test_a_fork_that_shares_nothing_of_its_own_parent_is_edited_once(memory: Everlog):
    """The edit lies in what the thread itself shares with another, so its fork shares no row of the thread's own."""
    memory.add(chat("a", "b", "c", "d", "e", key="root"))
    memory.thread("root").fork(4, "k").append("user", "own " * 9)
    for entries in (2, 0, 0):
        added = memory.add(chat("a", "b", "C", "D"))
        assert (added.key, added.entries) == ("k~1", entries)
    assert shown(memory)["k~1"] == "a b | C D"


def test_what_an_explicit_fork_says_too_is_still_added_to_the_thread_itself(memory: Everlog):
    memory.add(chat("a", "b"))
    for text in ("c", "d"):
        memory.thread("k").fork(2, f"fork {text}").append("user", f"{text} " * 9)
    assert memory.add(chat("a", "b", "c")).key == "k"
    assert shown(memory)["k"] == "a b | c"


def test_a_key_with_no_room_left_is_cut_for_the_names_of_its_forks(memory: Everlog):
    key = "k" * 200
    memory.add(chat("a", "b", key=key))
    assert memory.add(chat("a", "B", key=key)).key == "k" * 198 + "~1"
    assert memory.add(chat("a", "B", key=key)).entries == 0


def test_a_branch_is_a_fork_of_its_parent_and_continues_the_turn_that_it_left(memory: Everlog):
    memory.add(chat("a", "b", "c", "d"))
    added = memory.add(chat("a", "b", "c", "D", "E", key="branch", parent="k", shared=3))
    assert (added.entries, added.known, added.forked_at) == (2, 3, 3)
    assert shown(memory) == {"k": "a b | c d", "branch": "a b | c D | E"}
    assert {one.key: one.forked_from for one in memory.threads()} == {"k": None, "branch": "k"}
    assert memory.add(chat("a", "b", "c", "D", "E", key="branch", parent="k", shared=3)).entries == 0
    assert faultless(memory)


def test_a_branch_whose_parent_comes_later_or_never_stands_alone(memory: Everlog):
    branch = chat("a", "b", "C", key="branch", parent="k", shared=2)
    assert memory.add(branch).entries == 3
    memory.add(chat("a", "b", "c"))
    assert memory.add(branch).entries == 0
    assert shown(memory) == {"branch": "a b | C", "k": "a b | c"}


@pytest.mark.parametrize("parent", [("a", "b"), ("a",), ("x", "y", "z"), ("a", "x", "c", "d")])
def test_a_branch_shares_only_what_its_parent_really_has(memory: Everlog, parent: Sequence[str]):
    """The parent was edited, cut short, or is another thread by now: no word of the branch is lost or changed."""
    memory.add(chat(*parent))
    branch = chat("a", "b", "c", "D", key="branch", parent="k", shared=3)
    memory.add(branch)
    assert shown(memory) == {"k": shown(memory)["k"], "branch": "a b | c D"}
    assert memory.add(branch).entries == 0
    assert faultless(memory)


def test_a_branch_is_found_with_another_way_that_its_parent_went(memory: Everlog):
    memory.add(chat("a", "b", "c"))
    memory.add(chat("a", "B", "C", "D"))
    added = memory.add(chat("a", "B", "C", "d", key="branch", parent="k", shared=3))
    assert (added.entries, added.known) == (1, 3)
    assert {one.key: one.forked_from for one in memory.threads()}["branch"] == "k~1"


def test_instructions_are_not_counted_with_what_a_branch_shares(memory: Everlog):
    told = (Message(kind="system", text="be brief"),)
    memory.add(Conversation(key="k", messages=told + said("a", "b")))
    branch = Conversation(key="branch", messages=told + said("a", "B"), parent="k", shared=2)
    added = memory.add(branch)
    assert (added.entries, added.instructions, added.forked_at) == (1, 1, 1)
    assert shown(memory) == {"k": "a b", "branch": "a B"}


def test_a_conversation_without_words_is_an_empty_thread(memory: Everlog):
    for messages in ((), (Message(kind="system", text="be brief"),)):
        assert memory.add(Conversation(key="k", messages=messages)).entries == 0
    assert shown(memory) == {"k": ""}
    assert memory.add(chat("a", "b")).key == "k"


def test_messages_that_repeat_are_all_kept(memory: Everlog):
    many = Conversation(key="k", messages=said("a", "b") + (Message(kind="user", text="ok"),) * 5 + said("a", "b"))
    assert memory.add(many).entries == 9
    assert memory.add(many).entries == 0
    ids = (Message(kind="user", text="x", id="same"), Message(kind="assistant", text="y", id="same"))
    assert memory.add(Conversation(key="ids", messages=ids)).entries == 2


def test_erased_words_do_not_come_back_with_the_next_import(memory: Everlog):
    origin = Origin(user="u")
    memory.add(chat("a", "b"))
    memory.add(chat("a", "b", "c", "d", origin=origin))
    memory.erase(user="u")
    assert shown(memory) == {"k": "a b | - -"}
    assert memory.add(chat("a", "b", "c", "d", origin=origin)).entries == 0
    added = memory.add(chat("a", "b", "c", "d", "e", origin=Origin(user="v")))
    assert (added.key, added.entries) == ("k", 1)
    assert shown(memory) == {"k": "a b | - - | e"}


def test_instructions_and_title_do_not_come_back_either(memory: Everlog):
    told = Message(kind="system", text="you talk with somebody")
    found = Conversation(key="k", messages=(told, *said("a", "b")), title="a", origin=Origin(user="u"))
    memory.add(found)
    assert memory.thread("k").instructions() == [told.text]
    memory.erase(user="u")
    assert memory.add(found).entries == 0
    assert memory.thread("k").instructions() == []
    assert next(memory.threads()).title is None


def test_what_goes_on_with_an_erased_turn_is_a_turn_of_its_own(memory: Everlog):
    memory.add(chat("a", "b", "c", origin=Origin(user="u")))
    memory.erase(user="u")
    assert memory.add(chat("a", "b", "c", "d")).entries == 1
    assert shown(memory) == {"k": "- - | - | d"}
    assert faultless(memory)


def test_a_branch_over_erased_words_shares_their_tombstones(memory: Everlog):
    memory.add(chat("a", "b", "c", "d", origin=Origin(user="u")))
    memory.erase(user="u")
    memory.add(chat("a", "b", "C", key="branch", parent="k", shared=2))
    assert shown(memory)["branch"] == "- - | C"


@pytest.mark.parametrize("point", ["import.begin.before_commit", "import.begin.after_commit"])
@pytest.mark.parametrize("kind", ["new", "edited", "sibling", "branch"])
def test_an_import_that_is_cut_off_at_its_beginning_is_resumed(memory: Everlog, point: str, kind: str):
    memory.add(chat("a", "b", "c", key="p"))
    coming = {
        "new": chat("a", "b"),
        "edited": chat("a", "B", key="p"),
        "sibling": chat("x", "y", key="p"),
        "branch": chat("a", "b", "C", key="branch", parent="p", shared=2),
    }[kind]
    with raising(point, CutOff()), pytest.raises(CutOff):
        memory.add(coming)
    for _ in range(2):
        memory.add(coming)
    found = shown(memory)
    assert sorted(found) == sorted({"p", {"edited": "p~1", "sibling": "p~1"}.get(kind, coming.key)})
    assert found["p"] == "a b | c"
    assert " ".join(message.text.split(" ")[0] for message in coming.messages) in {
        line.replace("| ", "") for line in found.values()
    }
    assert faultless(memory)


def test_an_import_that_is_cut_off_anywhere_goes_on_with_the_same_turns(
    memory: Everlog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(intake, "PAGE", 4)
    kinds = ["user", "tool_call", "tool_result", "assistant", "note"] * 4 + ["user"]
    messages = tuple(Message(kind=kind, text=f"{n}") for n, kind in enumerate(kinds))  # type: ignore[arg-type]
    memory.add(Conversation(key="whole", messages=messages))
    for hit in range(1, 5):
        coming = Conversation(key=f"cut {hit}", messages=messages)
        with raising("import.page.after_commit", CutOff(), hit=hit), pytest.raises(CutOff):
            memory.add(coming)
        there = memory.thread(coming.key).row().next
        assert 4 * hit <= there < len(messages)
        assert memory.add(coming).known == there
    assert len({*shown(memory).values()}) == 1
    assert faultless(memory)


def test_a_turn_of_thousands_of_entries_is_one_turn(memory: Everlog):
    messages = [Message(kind="user", text="begin")]
    messages += [Message(kind="tool_result", text=f"line {n}") for n in range(2_500)]
    memory.add(Conversation(key="k", messages=tuple(messages)))
    assert {entry.turn for entry in memory.thread("k").entries()} == {0}
    assert memory.thread("k").row().next == 2_501
    assert faultless(memory)


@pytest.mark.parametrize("key", ["", "\x00", "x" * 201])
def test_a_conversation_with_an_unlawful_key_is_refused_and_leaves_nothing(memory: Everlog, key: str):
    with pytest.raises(Mistake):
        memory.add(chat("a", key=key))
    assert shown(memory) == {}


def deep() -> list[object]:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    return value


UNFIT: dict[str, tuple[type[Mistake], Callable[[], tuple[Message, Origin]]]] = {
    "model": (Mistake, lambda: (Message(kind="assistant", model="\x00"), Origin())),
    "long model": (Mistake, lambda: (Message(kind="assistant", model="m" * 201), Origin())),
    "user": (Mistake, lambda: (Message(kind="user"), Origin(user="u" * 201))),
    "session": (Mistake, lambda: (Message(kind="user"), Origin(session="a\nb"))),
    "part": (
        PartTooLarge,
        lambda: (Message(kind="user", parts=(Media(media_type="x/y", content=bytes((64 << 20) + 1)),)), Origin()),
    ),
    "depth": (
        Mistake,
        lambda: (Message(kind="user", parts=(Unknown(source="x", value=deep()),)), Origin()),  # type: ignore[arg-type]
    ),
    "digits": (Mistake, lambda: (Message(kind="user", meta={"n": 10**5000}), Origin())),
}


@pytest.mark.parametrize("what", UNFIT)
@pytest.mark.parametrize("way", ["new", "grown", "edited", "branch"])
def test_what_cannot_be_stored_is_refused_before_anything_is_written(memory: Everlog, what: str, way: str):
    memory.add(chat("a", "b", "c", key="p"))
    before = shown(memory)
    error, make = UNFIT[what]
    bad, origin = make()
    told = (Message(kind="system", text="be brief"),)
    coming = {
        "new": Conversation(key="k", messages=(*told, *said("a", "b"), bad), title="t", origin=origin),
        "grown": Conversation(key="p", messages=(*told, *said("a", "b", "c"), bad), title="t", origin=origin),
        "edited": Conversation(key="p", messages=(*told, *said("a", "B", "c"), bad), title="t", origin=origin),
        "branch": Conversation(
            key="k", messages=(*said("a", "b", "C"), bad), title="t", origin=origin, parent="p", shared=2
        ),
    }[way]
    with pytest.raises(error):
        memory.add(coming)
    assert shown(memory) == before
    assert next(memory.threads()).title is None
    assert memory.store.read(memory.name, lambda unit: log.instructions(unit, log.find(unit, "p"))) == []


def test_what_has_changed_between_plan_and_act_is_planned_again(memory: Everlog, monkeypatch: pytest.MonkeyPatch):
    """Whatever somebody else does in between, each message is there once, and no thread is left empty."""
    plan = Coming.plan
    between: list[Callable[[], object]] = []

    def interrupted(self: Coming, unit: Unit) -> Plan:
        found = plan(self, unit)
        waiting.extend(between)
        between.clear()
        return found

    waiting: list[Callable[[], object]] = []
    read = memory.store.read

    def reading(tenant: str, act: Callable[[Unit], object]) -> object:
        found = read(tenant, act)
        while waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(Coming, "plan", interrupted)
    monkeypatch.setattr(memory.store, "read", reading)
    memory.add(chat("a", "b", key="p"))
    wanted = {
        "grown": (lambda: memory.add(chat("a", "b", "c", key="p")), chat("a", "b", "c", "d", key="p")),
        "taken": (lambda: memory.add(chat("a", "b", key="new")), chat("a", "b", "c", key="new")),
        "forked": (lambda: memory.add(chat("a", "B", key="p")), chat("a", "B", "C", key="p")),
        "parent": (
            lambda: memory.erase(thread="q"),
            chat("a", "b", "C", key="branch", parent="q", shared=2),
        ),
        "erased": (lambda: memory.erase(thread="r"), chat("a", "b", "c", key="r", title="t")),
    }
    memory.add(chat("a", "b", "c", key="q"))
    memory.add(chat("a", "b", key="r"))
    for act, coming in wanted.values():
        between.append(act)
        memory.add(coming)
        assert (between, waiting) == ([], [])
        assert memory.add(coming).entries == 0
    assert shown(memory) == {
        "p": "a b | c d",
        "p~1": "a B | C",
        "new": "a b | c",
        "branch": "a b | C",
        "r": "a b | c",
    }
    assert faultless(memory)


def test_an_import_tells_how_far_it_is(memory: Everlog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "PAGE", 2)
    told: list[tuple[int, int]] = []
    memory.add(chat("a", "b"))
    memory.add(chat(*"abcdef"), on_progress=lambda done, size: told.append((done, size)))
    assert told == [(4, 6), (6, 6)]


def test_what_is_known_is_imported_again_without_a_write(memory: Everlog):
    told = (Message(kind="system", text="be brief"),)
    coming = Conversation(key="k", messages=told + said("a", "b"), title="t")
    memory.add(coming)
    with raising("import.begin.before_commit", CutOff()):
        assert memory.add(coming).known == 2


def test_a_title_made_of_erased_words_does_not_come_back(memory: Everlog):
    coming = chat("a", "b", title="a a a", origin=Origin(user="u"))
    memory.add(coming)
    memory.erase(user="u")
    for again in (coming, replace(coming, messages=said("a", "b", "c", "d"))):
        memory.add(again)
        assert [overview.title for overview in memory.threads()] == [None]


def mask(message: Message) -> Message:
    """Take the word `secret` out of everything that is text."""
    author = None if message.author is None else message.author.replace("secret", "***")
    return replace(message, text=message.text.replace("secret", "***"), author=author)


WAYS: dict[str, Callable[[Everlog], object]] = {
    "append": lambda memory: memory.thread("t").append("user", "a secret", author="secret"),
    "turn": lambda memory: memory.thread("t").turn(
        [Message(kind="user", text="secret"), Message(kind="note", text="secret")]
    ),
    "import": lambda memory: memory.add(chat("secret", "b", "secret", key="t", title="a secret")),
    "instructions": lambda memory: memory.add(
        Conversation(key="t", messages=(Message(kind="system", text="secret"), *said("a")))
    ),
    "branch": lambda memory: (
        memory.add(chat("secret", "b", key="p")),
        memory.add(chat("secret", "b", "secret", key="t", parent="p", shared=2)),
    ),
    "title of a fork": lambda memory: (
        memory.thread("p").append("user", "x"),
        memory.thread("p").fork(1, "t", title="secret"),
    ),
    "another tenant": lambda memory: memory.tenant("other").thread("t").append("user", "secret"),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_stored_that_the_redactor_has_not_changed(memory: Everlog, way: str):
    redacted = Everlog(memory.store, redactor=mask)
    for _ in range(2):
        if way != "title of a fork" or not list(redacted.threads()):
            WAYS[way](redacted)
    assert isinstance(memory.store.engine, SQLiteEngine)
    script = memory.store.engine.maintain(lambda raw: "\n".join(raw.iterdump()))
    assert b"secret".hex().upper() not in script.upper()
    assert b"***".hex().upper() in script.upper()


def test_an_import_under_a_redactor_is_known_the_next_time(memory: Everlog):
    redacted = Everlog(memory.store, redactor=mask)
    assert redacted.add(chat("a secret", "b")).entries == 2
    assert redacted.add(chat("a secret", "b")).entries == 0


@pytest.mark.parametrize("way", [way for way in WAYS if way != "title of a fork"])
@pytest.mark.parametrize("answer", [LookupError("no"), None, "text"])
def test_a_redactor_that_fails_leaves_nothing_stored(memory: Everlog, way: str, answer: object):
    def fail(message: Message) -> Message:
        if "secret" not in message.text:
            return message
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    with pytest.raises(LookupError if isinstance(answer, Exception) else Mistake):
        WAYS[way](Everlog(memory.store, redactor=fail))
    assert [*shown(memory), *shown(memory.tenant("other"))] == []


@pytest.mark.long
def test_a_hundred_thousand_messages_of_one_word_go_in_and_are_known_again(memory: Everlog):
    at = datetime(2026, 1, 5, tzinfo=UTC)
    kinds = ["user", "assistant"]
    messages = tuple(
        Message(kind=kinds[n % 2], text=f"word{n % 97}", at=at)  # type: ignore[arg-type]
        for n in range(100_000)
    )
    many = Conversation(key="k", messages=messages)
    assert memory.add(many).entries == 100_000
    assert memory.add(many).entries == 0
    assert [entry.text for entry in memory.thread("k").entries()] == [message.text for message in messages]
    assert memory.store.read(memory.name, partial(log.find, key="k")).turns == 50_000
