"""Exchanges of clients in every store: the same decisions, whole or not at all, and nobody meets anybody else."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog import log
from everlog.clock import new_id
from everlog.conversation.alignment import answers, restoring
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.presence import Presence, principal_of
from everlog.conversation.alignment.values import Answer, Caller, Request
from everlog.errors import Erased
from everlog.log import TurnState, rows
from everlog.log.sessions import CANDIDATES
from everlog.messages import Call, Message, Origin, Result
from everlog.store import open_store
from everlog.testing import failpoints
from tests.unit.proxy.stories import CORPUS, Story

SOME = (
    "claude-code-talk-with-tools",
    "codex-compaction",
    "open-webui-regenerate",
    "openai-python-responses-by-id",
    "ai-sdk-item-references",
    "langchain-trimmed-one-person",
)

SUMMARY = "A summary of what was said about the harbour, its pilots, and the tides. " * 4


def say(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(kind="user" if n % 2 == 0 else "assistant", text=text) for n, text in enumerate(texts))


def asked(*texts: str, key="k", user="", request="r", **fields) -> Request:
    origin = Origin(request=request, user=user or None)
    caller = Caller(key=key, user=user)
    return Request(messages=say(*texts), name=f"proxy:{request}", caller=caller, model="m", origin=origin, **fields)


def told(text: str) -> Answer:
    return Answer(messages=(Message(kind="assistant", text=text, model="m"),))


def keep(store, request, answer):
    return record(store, "t", request, answer, redact=lambda message: message)


def faults(store) -> list[object]:
    return [fault for id_ in store.read("t", log.ids) for one in log.verify(store, "t", id_) for fault in one.faults]


def entries(store) -> list[list[str]]:
    return [
        [one.text for one in store.read("t", lambda unit, thread=thread: log.read(unit, thread))]
        for thread in store.read("t", log.listed)
    ]


def test_a_thread_is_named_after_what_it_begins_with_and_keeps_the_name(store):
    keep(store, asked("When does the ferry leave?"), told("At nine."))
    keep(store, asked("When does the ferry leave?", "At nine.", "And back?", request="s"), told("At five."))
    keep(store, asked(request="t"), told("Hello."))
    titles = [one.title for one in store.read("t", log.listed)]
    assert titles == ["When does the ferry leave?", None]


@pytest.mark.parametrize("name", SOME)
def test_stories_of_clients_go_the_same_way_in_every_store(store, name):
    path = next(path for path in CORPUS if path.stem == name)
    Story(Path(path), store).play()
    assert faults(store) == []


@pytest.mark.parametrize("point", ["record.before_commit", "record.after_commit"])
def test_an_exchange_that_was_cut_off_is_kept_once_when_it_is_heard_again(store, point):
    for request, answer in ((asked("Hello", session="s"), "Hi"), (asked("Hello", "Hi", "And?", session="s"), "So")):
        with failpoints._listening(lambda name: dies(name, point)), pytest.raises(KeyError):
            keep(store, request, told(answer))
        keep(store, request, told(answer))
        keep(store, request, told(answer))
    assert entries(store) == [["Hello", "Hi", "And?", "So"]]


def dies(name: str, point: str) -> None:
    if name == point:
        raise KeyError(name)


def test_what_was_overtaken_is_placed_anew(store):
    keep(store, asked("Hello", session="s"), told("Hi"))
    late = asked("Hello", "Hi", "Why?", session="s", request="late")
    presence = Presence(late, lambda message: message)
    store.read("t", presence.place)
    keep(store, asked("Hello", "Hi", "And?", session="s", request="quick"), told("So"))
    record(store, "t", late, told("Because"), redact=lambda message: message, presence=presence)
    assert entries(store) == [["Hello", "Hi", "And?", "So"], ["Hello", "Hi", "Why?", "Because"]]


def named(text: str, id_: str) -> Answer:
    message = Message(kind="assistant", text=text, model="m", id=f"msg_{id_}")
    return Answer(messages=(message,), id=id_, ids=((id_, 0), (f"msg_{id_}", 0)))


def look(store, act, id_: str, request: Request, **more):
    def within(unit):
        return act(unit, id_, principal=principal_of(unit, request), **more)

    return store.read("t", within)


def test_an_answer_is_found_by_its_id_with_what_was_new_in_its_request(store):
    keep(store, asked("Hello", request="r1"), named("Hi", "one"))
    mine = asked("And?", request="r2", after="one")
    keep(store, mine, named("So", "two"))
    found = look(store, answers.given, "two", mine, key="k")
    assert ([one.text for one in found.messages], found.is_whole, found.was) == (["So"], True, None)
    assert [one.text for one in look(store, answers.question, "two", mine)] == ["And?"]
    assert [one.text for one in look(store, answers.question, "one", mine)] == ["Hello"]
    assert look(store, answers.given, "three", mine, key="k") is None
    for other in (asked(key="other"), asked(user="ann")):
        assert look(store, answers.given, "two", other, key="k") is None
        assert look(store, answers.question, "two", other) is None


def test_an_answer_that_broke_off_says_so_and_one_of_an_erased_thread_is_no_more(store):
    mine = asked("Hello", request="r1")
    keep(store, mine, replace(named("Hi", "one"), state=TurnState.PARTIAL))
    assert not look(store, answers.given, "one", mine, key="k").is_whole
    (thread,) = store.read("t", log.listed)
    log.erase_thread(store, "t", thread.id)
    assert look(store, answers.given, "one", mine, key="k") is None


@pytest.mark.parametrize("point", ["record.forget.before_commit", "record.forget.after_commit"])
def test_an_answer_is_forgotten_with_its_items_or_not_at_all_and_its_words_stay(store, point):
    mine = asked("Hello", request="r1")
    keep(store, mine, named("Hi", "one"))
    keep(store, asked("Why?", request="r2", after="one"), named("So", "two"))

    def forget(unit):
        return answers.forgotten(unit, "one", principal=principal_of(unit, mine))

    with failpoints._listening(lambda name: dies(name, point)), pytest.raises(KeyError):
        store.write("t", forget, name="record.forget")
    is_there = look(store, answers.given, "one", mine, key="k") is not None
    assert is_there == point.endswith("before_commit")
    assert store.write("t", forget, name="record.forget") == is_there
    known = store.read(
        "t", lambda unit: log.answers(unit, ["one", "msg_one", "two"], principal=principal_of(unit, mine))
    )
    assert list(known) == ["two"]
    assert entries(store) == [["Hello", "Hi", "Why?", "So"]]


def test_the_same_answer_again_is_found_by_its_new_id_too(store):
    mine = asked("Hello", "Hi", "And?", request="r2")
    keep(store, asked("Hello", request="r1"), named("Hi", "one"))
    keep(store, mine, named("So", "two"))
    keep(store, replace(mine, origin=Origin(request="r3")), named("So", "three"))
    assert entries(store) == [["Hello", "Hi", "And?", "So"]]
    for id_ in ("two", "three"):
        assert [one.text for one in look(store, answers.given, id_, mine, key="k").messages] == ["So"]


def test_a_thread_that_goes_on_from_elsewhere_says_so_and_is_restored_for_nobody(store):
    keep(store, asked("And?", request="r1", after="far"), named("So", "two"))
    keep(store, asked("Hello", request="r2"), named("Hi", "one"))
    is_whole = [store.read("t", partial(restoring.is_whole, thread=one)) for one in store.read("t", log.listed)]
    assert is_whole == [False, True]
    for after, found in (("two", None), ("one", ["Hello", "Hi", "Why?"])):
        request = asked("Why?", after=after)
        whole = store.read("t", partial(restoring.restored, request=request, messages=say("Why?")))
        assert (whole and [one.text for one in whole]) == found


WORDS = st.sampled_from(["Hello", "And?", "Why?", "Go on"])
HISTORIES = st.lists(WORDS, min_size=1, max_size=5).map(lambda words: words if len(words) % 2 else words[:-1])
STEPS = st.lists(
    st.tuples(st.sampled_from(["ann", "bob"]), HISTORIES, st.sampled_from(["", "s"]), st.sampled_from(["Yes", "No"]))
    | st.tuples(st.sampled_from(["ann", "bob"]), st.integers(0, 9), st.sampled_from(["", "s"]), st.just("Yes")),
    max_size=8,
)


@settings(max_examples=40)
@given(steps=STEPS, one_key=st.booleans())
def test_two_people_share_no_thread_whatever_they_send_of_each_others(steps, one_key):
    numbers = count()
    with open_store(":memory:") as store:
        seen: list[list[str]] = [["Hello"]]
        for who, history, session, answer in steps:
            texts = [*seen[history % len(seen)], "More"] if isinstance(history, int) else history
            key, user = ("k", who) if one_key else (who, "")
            request = asked(*texts, key=key, user=user, request=f"{who}-{next(numbers)}", session=session)
            keep(store, request, told(answer))
            seen.append([*texts, answer])
        for thread in store.read("t", log.listed):
            there = store.read("t", partial(log.read, thread=thread))
            assert len({(one.origin.request or "").partition("-")[0] for one in there}) == 1
        assert faults(store) == []


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), WORDS, st.sampled_from(["Yes", "No", "Hm"])), max_size=10)
)
def test_whoever_names_a_session_finds_each_of_its_histories_whole_in_a_thread(steps):
    with open_store(":memory:") as store:
        talks: list[list[str]] = [[]]
        for n, (which, back, word, answer) in enumerate(steps):
            talk = talks[which % len(talks)]
            texts = [*talk[: max(0, len(talk) - 2 * back)], word]
            keep(store, asked(*texts, session="s", request=f"r{n}"), told(answer))
            talks.append([*texts, answer])
            assert any(thread[: len(talks[-1])] == talks[-1] for thread in entries(store))


def placed(store, request: Request) -> Presence:
    presence = Presence(request, lambda message: message)
    store.read("t", presence.place)
    return presence


@pytest.mark.parametrize("is_quicker", [True, False])
@pytest.mark.parametrize("before", [(), ("Morning", "Hello there")])
def test_an_answer_that_was_kept_since_the_next_request_was_placed_is_kept_once(store, before, is_quicker):
    """A client whose answer was not held long enough asks on before it is kept."""
    if before:
        keep(store, asked("Morning", request=new_id(store.clock)), told("Hello there"))
        keep(store, asked(*before, "Why?", request=new_id(store.clock)), replace(told("Be"), state=TurnState.PARTIAL))
    quick = asked(*before, "Why?", request=new_id(store.clock))
    later = asked(*before, "Why?", "Because", "And?", request=new_id(store.clock))
    early, late = placed(store, quick), placed(store, later)
    both = ((quick, "Because", early), (later, "So", late))
    for request, answer, presence in both if is_quicker else reversed(both):
        record(store, "t", request, told(answer), redact=lambda message: message, presence=presence)
    assert entries(store)[-1] == [*before, "Why?", "Because", "And?", "So"]
    assert len(entries(store)) == (2 if before else 1)


def test_an_answer_that_was_kept_since_is_not_appended_to_a_thread_that_shows_less(store):
    """Where a person left before a first answer, a thread shows the question alone."""

    def alone(*texts: str) -> Request:
        return replace(asked(*texts, request=new_id(store.clock)), caller=Caller(is_one_person=True))

    keep(store, alone("Why?"), Answer(state=TurnState.ABORTED))
    quick, later = alone("Why?"), alone("Why?", "Because", "And?")
    early, late = placed(store, quick), placed(store, later)
    record(store, "t", quick, told("Because"), redact=lambda message: message, presence=early)
    record(store, "t", later, told("So"), redact=lambda message: message, presence=late)
    assert entries(store) == [["Why?"], ["Why?", "Because", "And?", "So"]]


def test_what_goes_on_from_a_response_that_was_kept_since_it_was_placed_is_in_its_thread(store):
    first = asked("Hello", request=new_id(store.clock))
    second = asked("And?", request=new_id(store.clock), after="resp_1")
    presence = placed(store, second)
    keep(store, first, replace(told("Hi"), ids=(("resp_1", 0),)))
    record(store, "t", second, told("So"), redact=lambda message: message, presence=presence)
    assert entries(store) == [["Hello", "Hi", "And?", "So"]]


@pytest.mark.parametrize(
    ("texts", "answer", "decision", "expected"),
    [
        (["Hello"], "Hi", "nothing", [["Hello", "Hi"]]),
        (["Hello"], "Ho", "regenerated", [["Hello", "Hi"], ["Hello", "Ho"]]),
        (["Hello", "Hi", "And?"], "So", "append", [["Hello", "Hi", "And?", "So"]]),
        (["Look around"], "Done", "new", [["Hello", "Hi"], ["Look around", "Done"]]),
    ],
)
def test_requests_that_begin_a_session_at_once_are_one_thread_unless_they_say_something_else(
    store, texts, answer, decision, expected
):
    late = asked(*texts, session="s", request="late")
    presence = Presence(late, lambda message: message)
    store.read("t", presence.place)
    keep(store, asked("Hello", session="s", request="quick"), told("Hi"))
    done = record(store, "t", late, told(answer), redact=lambda message: message, presence=presence)
    assert (done.decision, entries(store)) == (decision, expected)


def test_many_that_begin_a_session_at_once_are_one_thread(database):
    stores, gate = [database.open(), database.open()], Barrier(4)

    def begin(n: int) -> None:
        request = replace(asked("Hello", session="s", request=f"r{n}"), name="proxy:s")
        presence = Presence(request, lambda message: message)
        stores[n % 2].read("t", presence.place)
        gate.wait(10)
        record(stores[n % 2], "t", request, told("Hi"), redact=lambda message: message, presence=presence)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(begin, range(4)))
    assert entries(stores[0]) == [["Hello", "Hi"]]


def test_a_request_that_was_placed_before_the_exchange_it_goes_on_from_was_kept_goes_on_there(store):
    for word in ("Hello", "Good day"):
        second = asked(word, "Hi", "And?", request=f"{word} 2")
        presence = Presence(second, lambda message: message)
        assert store.read("t", presence.place).decision == "new"
        keep(store, asked(word, request=f"{word} 1"), told("Hi"))
        done = record(store, "t", second, told("So"), redact=lambda message: message, presence=presence)
        assert done.decision == "append"
    assert entries(store) == [["Hello", "Hi", "And?", "So"], ["Good day", "Hi", "And?", "So"]]


def test_what_goes_on_from_an_answer_that_nobody_knows_is_a_thread_whatever_else_it_says(store):
    keep(store, asked("Hello", request="r1"), told("Hi"))
    strange = asked("Hello", "Hi", "And?", after="resp_unknown", request="r2")
    assert keep(store, strange, told("So")).decision == "new"


def test_questions_beside_a_talk_that_nobody_knows_for_such_do_not_hide_it(store):
    talk = ["Where is the harbour?", "It is in the north of the town.", "And the pilots?", "They are in the old tower."]
    keep(store, asked(*talk[:1], session="s", request="talk"), told(talk[1]))
    keep(store, asked(*talk[:3], session="s", request="talk"), told(talk[3]))
    for n in range(CANDIDATES + 2):
        aside = keep(store, asked(f"Name talk {n}", session="s", request=f"t{n}"), told(f"Harbour {n}"))
        assert aside.decision == "new", "nobody knows yet that its answer never comes back"
    trimmed = asked(*talk[2:], "Thank you", session="s", request="later")
    assert keep(store, trimmed, told("You are welcome")).decision == "append"
    assert entries(store)[0] == [*talk, "Thank you", "You are welcome"]


def test_what_was_asked_beside_a_talk_is_known_for_it_once_the_talk_goes_on(store):
    def beside() -> list[list[str]]:
        ids = store.read("t", log.ids)
        found = store.read("t", partial(log.beside, threads=ids))
        return [thread for id_, thread in zip(ids, entries(store), strict=True) if id_ in found]

    keep(store, asked("Where is the harbour?", session="s", request="r1"), told("In the north."))
    keep(store, asked("Name this talk", session="s", request="r2"), told("Harbour"))
    keep(store, asked("Look at the map", session="s", request="r3"), told("I look."))
    keep(store, asked("Hello", session="another", request="r4"), told("Hi"))
    keep(store, asked("Hello", session="s", user="ann", request="r5"), told("Hi"))
    assert beside() == [], "nothing went on since"
    keep(store, asked("Look at the map", "I look.", "And?", session="s", request="r6"), told("It is in the north."))
    going_on = asked("Where is the harbour?", "In the north.", "Thank you", session="s", request="r7")
    keep(store, going_on, told("You are welcome"))
    assert beside() == [["Name this talk", "Harbour"]]


def test_two_windows_that_begin_alike_are_two_threads(store):
    for _ in range(2):
        assert keep(store, asked("Hello", request=new_id(store.clock)), told("Hi")).decision == "new"
    assert entries(store) == [["Hello", "Hi"], ["Hello", "Hi"]]


def test_nothing_of_a_person_who_was_erased_is_left_beside_a_thread(store):
    keep(store, asked("Tell me of the harbour", user="ann", session="s"), told("It has two pilots."))
    aside = asked("Tell me of the harbour", "It has two pilots.", "Sum it up", user="ann", session="s", is_side=True)
    assert keep(store, aside, told(SUMMARY)).decision == "side"
    (thread,) = store.read("t", log.listed)
    assert store.read("t", lambda unit: log.asides(unit, thread)) == [SUMMARY]
    log.erase_user(store, "t", "ann")
    assert store.read("t", lambda unit: log.asides(unit, thread)) == []


@pytest.mark.parametrize("what", ["thread", "user"])
def test_what_is_erased_while_an_answer_is_under_way_does_not_come_back_with_it(store, what):
    keep(store, asked("Hello", user="ann"), told("Good day."))
    request = asked("Hello", "Good day.", "And now?", user="ann", request="s")
    presence = Presence(request, lambda message: message)
    thread = store.read("t", presence.place).thread
    if what == "thread":
        log.erase_thread(store, "t", thread.id)
    else:
        log.erase_user(store, "t", "ann")
    with pytest.raises(Erased):
        record(store, "t", request, told("No."), redact=lambda message: message, presence=presence)
    assert "Hello" not in [text for texts in entries(store) for text in texts]


def test_a_thread_that_was_erased_is_not_found_again(store):
    keep(store, asked("Hello", session="s"), told("Hi, how are you?"))
    (thread,) = store.read("t", log.listed)
    log.erase_thread(store, "t", thread.id)
    done = keep(store, asked("Hello", "Hi, how are you?", "Well", session="s"), told("Good"))
    assert done.decision == "new"


CALL = Message(kind="tool_call", text="look {}", parts=(Call(call_id="c", name="look", arguments="{}"),))


def states(store) -> list[list[TurnState]]:
    return [
        [
            TurnState(row[4])
            for row in store.read("t", lambda unit, id_=id_: unit.rows(rows.TURNS, thread=id_, start=0, stop=9))
        ]
        for id_ in store.read("t", log.ids)
    ]


def test_a_turn_is_open_while_tools_work_and_closed_by_the_next_one(store):
    keep(store, asked("Look", session="s"), Answer(messages=(CALL,)))
    assert states(store) == [[TurnState.OPEN]]
    again = Request(
        messages=(*say("Look"), CALL, Message(kind="user", text="Never mind")), name="x", caller=Caller(key="k"),
        session="s", model="m",
    )  # fmt: skip
    keep(store, again, told("Fine"))
    assert states(store) == [[TurnState.PARTIAL, TurnState.COMPLETE]]


def test_results_that_are_sent_by_the_id_of_the_answer_that_calls_go_on_with_its_turn(store):
    keep(store, asked("Look"), Answer(messages=(CALL,), ids=(("resp_1", 0),)))
    result = Message(kind="tool_result", text="A pilot", parts=(Result(call_id="c"),))
    sent = Request(messages=(result,), name="x", caller=Caller(key="k"), after="resp_1", model="m")
    keep(store, sent, replace(told("One pilot"), state=TurnState.PARTIAL))
    assert states(store) == [[TurnState.PARTIAL]]
    keep(store, sent, told("It has one pilot"))
    assert entries(store)[1] == ["Look", "look {}", "A pilot", "It has one pilot"]
    assert states(store) == [[TurnState.PARTIAL], [TurnState.COMPLETE]]


def test_turns_that_broke_off_are_known_by_their_last_entry_also_in_a_fork(store):
    keep(store, asked("When?"), replace(told("At ni"), state=TurnState.PARTIAL))
    keep(store, asked("When?", "At ni", "And back?", request="s"), Answer(state=TurnState.ABORTED))
    keep(store, asked("When?", "At ni", "How far?", request="u"), told("Nine miles."))
    first, fork = store.read("t", log.listed)
    found = [store.read("t", partial(log.broken_off, thread=one.id, start=0, stop=99)) for one in (first, fork)]
    assert found == [{1: TurnState.PARTIAL, 2: TurnState.ABORTED}, {1: TurnState.PARTIAL}]
    assert store.read("t", partial(log.broken_off, thread=first.id, start=2, stop=3)) == {2: TurnState.ABORTED}
