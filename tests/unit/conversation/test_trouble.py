"""Law 7: memory trouble never breaks a chat, and nothing is lost by it; identity trouble does break it."""

import logging

import pytest

from everlog import Erased, StoreUnavailable, TurnState
from everlog.conversation.recording import spool
from everlog.testing import Bad, EchoModel, ScriptedModel, failpoints
from everlog.testing.upstream import Answer
from tests.unit.conversation.remembering import numbered
from tests.unit.conversation.test_turns import prompts, weather

DOWN = StoreUnavailable("the disk is gone")


def down(*points):
    """The database is away at these points, as often as they are hit."""

    def listen(name):
        if name.removesuffix(".before_commit") in points or not points:
            raise DOWN

    return failpoints._listening(listen)


def test_a_turn_goes_on_where_its_prompt_cannot_be_prepared(remembering, caplog):
    made = remembering(numbered)
    made.turn("one")
    with down("context.prepare"):
        assert made.turn("two").text
    assert made.do("status").trouble == {"prepare": 1, "record": 0, "derive": 0}
    assert made.do("status").last_error == "StoreUnavailable"
    assert not made.do("status").is_well
    made.turn("three")
    said = [[one["content"] for one in prompt[2:]] for prompt in prompts(made)]
    assert said[1][:1] == ["one"]
    assert said[1][2:] == ["two"]
    assert said[2][: len(said[1])] == said[1]
    assert "a conversation goes on without its memory: prepare (StoreUnavailable)" in caplog.text


def test_what_cannot_be_recorded_waits_and_goes_in_in_order(remembering):
    made = remembering(
        Answer(text="1"), Answer(calls=(("c", "weather", {"city": "Roscoff"}),)), Answer(text="2"), *texts("3", "4")
    )
    made.chat.with_tools(weather)
    made.turn("one")
    with down("turn.record", "turn.spool"):
        made.turn("two")
        assert made.do("status").waiting == 3
        assert made.turn("three").text == "3"
    assert [text for _, text in made.logged] == ["one", "1", "two"]
    shown = [one["content"] for one in prompts(made)[3]]
    assert shown[-3:] == ["two", None, "Sun in Roscoff."] or "three" in shown
    made.turn("four")
    assert made.do("status").waiting == 0
    assert [text for _, text in made.logged] == [
        *("one", "1", "two", 'weather {"city":"Roscoff"}', "Sun in Roscoff.", "2", "three", "3", "four", "4")
    ]
    assert made.states == [TurnState.COMPLETE] * 4


def texts(*words):
    return [Answer(text=word) for word in words]


def test_a_chat_goes_on_for_turns_while_the_database_is_away_from_the_beginning(remembering):
    made = remembering(*texts("1", "2", "3"))
    with down():
        made.turn("one")
        assert made.turn("two").text == "2"
        assert [one["content"] for one in prompts(made)[1][2:]] == ["one", "1", "two"]
        assert made.do("status").waiting == 4
        assert made.do("status").trouble["record"] >= 4
    made.turn("three")
    assert [text for _, text in made.logged] == ["one", "1", "two", "2", "three", "3"]
    assert made.states == [TurnState.COMPLETE] * 3


def test_a_database_that_comes_back_in_the_middle_of_a_turn_gets_all_of_it(remembering):
    made = remembering(
        Answer(calls=(("c", "weather", {"city": "Roscoff"}),)), Answer(text="Sunny."), Answer(text="Yes.")
    )
    made.chat.with_tools(weather)
    with failpoints.raising("turn.begin.before_commit", DOWN):
        made.turn("Weather?")
    assert [kind for kind, _ in made.logged] == ["user", "tool_call", "tool_result", "assistant"]
    assert made.states == [TurnState.COMPLETE]
    made.turn("Sure?")
    assert [one["role"] for one in prompts(made)[-1]].count("user") == 2


def test_a_try_whose_commit_nobody_heard_of_is_not_stored_twice(remembering):
    made = remembering(*texts("1", "2", "3"))
    for point in ("turn.begin.after_commit", "turn.record.after_commit"):
        with failpoints.raising(point, DOWN):
            made.turn(point)
    made.turn("more")
    assert [text for _, text in made.logged] == [
        *("turn.begin.after_commit", "1", "turn.record.after_commit", "2", "more", "3")
    ]
    assert made.states == [TurnState.COMPLETE] * 3


def test_where_too_much_waits_no_further_turn_is_asked(remembering, monkeypatch):
    monkeypatch.setattr(spool.Spool, "is_full", property(lambda self: self.messages >= 4))
    made = remembering(*texts("1", "2", "3"))
    with down():
        made.turn("one")
        made.turn("two")
        with pytest.raises(StoreUnavailable, match="4 messages wait"):
            made.turn("three")
    assert len(made.bodies) == 2
    made.turn("four")
    assert [text for _, text in made.logged] == ["one", "1", "two", "2", "four", "3"]


def test_a_tool_of_memory_in_trouble_says_so_to_the_model(remembering):
    made = remembering(Answer(calls=(("z", "zoom", {"id": 0, "n": 1}),)), Answer(text="I cannot look."))
    read = made.home.store.read

    def away(tenant, act):
        if getattr(act, "func", None) is not None and act.func.__qualname__.startswith("Tools."):
            raise DOWN
        return read(tenant, act)

    made.home.store.read = away
    try:
        made.turn("one")
    finally:
        made.home.store.read = read
    assert "cannot be read" in str(prompts(made)[1])
    assert made.do("status").trouble["prepare"] == 1


def test_a_thread_that_was_erased_is_no_trouble_to_be_passed_over(remembering):
    def script(received):
        made.home.erase(thread="k")
        return Answer(text="of nothing")

    made = remembering(script)
    with pytest.raises(Erased):
        made.turn("one")
    assert made.do("status").waiting == 0


def test_nothing_that_was_said_is_in_the_log_of_the_program(remembering, caplog):
    caplog.set_level(logging.DEBUG, logger="everlog")
    made = remembering(*texts("the answer", "another"))
    with down():
        made.turn("a secret of mine")
    made.turn("more")
    assert "secret" not in caplog.text
    assert "answer" not in "".join(str(record.__dict__) for record in caplog.records if "everlog" in record.name)


@pytest.mark.covers("tree fault 38", "report 17")
def test_a_compactor_that_is_down_leaves_placeholders_and_the_turns_go_on(remembering):
    compactor = ScriptedModel(otherwise=EchoModel("m@1"), model="m@1", when=lambda request: Bad.UNAVAILABLE)
    made = remembering(lambda received: Answer(text="the sea is warm " * 40), budget=2_000, compactor=compactor)
    for n in range(6):
        assert made.turn(f"number {n}").text
    status = made.do("status")
    assert status.trouble["derive"] >= 1
    assert status.last_error == "unavailable"
    assert status.placeholders
    assert "|(not summarized yet" in str(prompts(made)[-1])
    assert [text for kind, text in made.logged if kind == "user"] == [f"number {n}" for n in range(6)]


def test_a_long_turn_before_the_database_went_away_is_left_out_where_it_does_not_fit(remembering):
    made = remembering(*texts("1", "2", "3"), budget=2_000)
    made.turn("A" * 20_000)
    with down():
        made.turn("short")
        made.turn("shorter")
    assert [len(str(prompt)) < 6_000 for prompt in prompts(made)] == [False, True, True]
    assert [one["content"] for one in prompts(made)[-1][2:]] == ["short", "2", "shorter"]
