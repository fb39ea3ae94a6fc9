"""What went wrong in long conversations elsewhere, and does not here: what is pinned, what is bounded, what is no entry."""

import logging
from collections.abc import Iterator

import pytest

from everlog import ContextTooLong, Message, NewTurn, TurnState
from everlog.context import reading
from everlog.conversation import pumping
from everlog.memory.interface import Failure, Request
from everlog.testing.upstream import Answer, Refused
from tests.unit.conversation.remembering import numbered
from tests.unit.conversation.test_turns import prompts

PLACEHOLDER = "|(not summarized yet"
"""As a line has it; the instructions name it without a label."""


@pytest.mark.covers("report 1")
def test_instructions_are_sent_word_for_word_however_many_epochs_have_passed(remembering):
    made = remembering(numbered, budget=900)
    for n in range(14):
        made.turn(f"number {n}")
    assert made.do("status").epoch >= 3
    assert {prompt[0]["content"] for prompt in prompts(made)} == {"You are terse."}
    assert {prompt[0]["role"] for prompt in prompts(made)} == {"system"}


@pytest.mark.covers("report 3", "report 4")
def test_large_instructions_and_a_small_budget_do_not_open_an_epoch_in_every_turn(remembering):
    made = remembering(lambda received: Answer(text="Yes."), budget=600)
    made.chat.with_instructions("Be kind. " * 800)
    epochs = []
    for n in range(30):
        made.turn(f"number {n}")
        epochs.append(made.do("status").epoch)
    assert len(set(epochs)) >= 3
    assert len(set(epochs)) <= len(epochs) // 3
    assert len(made.bodies) == len(epochs)


@pytest.mark.covers("report 40")
def test_what_a_turn_reads_of_the_log_does_not_grow_with_it(remembering, monkeypatch):
    read: list[int] = []
    entries = reading.Reading.entries

    def counted(self, start):
        found = entries(self, start)
        read[-1] += len(found)
        return found

    monkeypatch.setattr(reading.Reading, "entries", counted)
    made = remembering(lambda received: Answer(text="Yes, that is so."), budget=900)
    for n in range(60):
        read.append(0)
        made.turn(f"number {n} " + "word " * 10)
    assert max(read[40:]) <= max(read[10:30])


@pytest.mark.covers("report 5", "report 16")
def test_a_prompt_that_stays_too_long_is_an_error_once_and_the_next_turn_goes_on(remembering):
    too_long = Refused(status=400, message="maximum context length exceeded: prompt is too long")
    made = remembering(Answer(text="Hello."), too_long, too_long, Answer(text="Welcome back."))
    made.turn("one")
    with pytest.raises(ContextTooLong):
        made.turn("two")
    assert len(made.bodies) == 3
    assert made.turn("three").text == "Welcome back."
    assert [text for kind, text in made.logged if kind == "user"] == ["one", "two", "three"]
    assert made.states == [TurnState.COMPLETE, TurnState.ABORTED, TurnState.COMPLETE]


class Away:
    """A compactor whose provider is down."""

    model = "away"

    def __init__(self):
        self.asked = 0

    def __call__(self, request: Request) -> Failure:
        self.asked += 1
        return Failure(kind="unavailable")


@pytest.mark.covers("tree fault 38", "tree fault 39", "report 7", "report 17")
def test_while_the_compactor_is_down_turns_go_on_with_placeholders_and_say_so(remembering):
    away = Away()
    made = remembering(numbered, budget=900, compactor=away)
    for n in range(8):
        assert made.turn(f"number {n} " + "and so on, and so forth " * 25).text
    status = made.do("status")
    assert status.placeholders
    assert status.unbuilt
    assert status.trouble["derive"] >= 1
    assert not status.is_well
    assert PLACEHOLDER in str(prompts(made)[-1])
    assert away.asked < 8 * 6, "it is left alone for a while, and nobody waits"
    made.again(compactor="extractive")
    assert made.turn("And now?").text
    assert len([kind for kind, _ in made.logged if kind == "user"]) == 9


@pytest.mark.covers("tree fault 48", "report 35")
def test_reasoning_and_what_memory_tells_the_model_are_no_words_of_the_conversation(remembering, caplog):
    caplog.set_level(logging.DEBUG, logger="everlog")
    made = remembering(
        Answer(text="Hello.", thinking="They greet me."),
        Answer(calls=(("z", "zoom", {"id": 0, "n": 1}),), thinking="I shall look."),
        Answer(text="It was hi."),
    )
    made.turn("Hi")
    made.turn("What did I say?")
    kept = "".join(text for _, text in made.logged) + b"".join(made.memory.thread.export()).decode()
    assert [kind for kind, _ in made.logged] == ["user", "assistant"] * 2
    for words in ("They greet me", "I shall look", "zoom", "<chat>", "You are terse"):
        assert words not in kept
    assert "greet" not in caplog.text


def brought_in(made, count: int = 120) -> None:
    """Have the thread hold a past of which no line is built."""
    turns = [NewTurn(messages=tuple(pair)) for pair in pairs(count)]
    made.home.thread("k").extend(turns)


def pairs(count: int) -> Iterator[tuple[Message, Message]]:
    for n in range(count):
        words = f"day {n} at the harbour, " * 30
        yield Message(kind="user", text=f"What of {words}?"), Message(kind="assistant", text=f"Of {words}: boats.")


@pytest.mark.parametrize("pump", ["thread", "inline"])
def test_the_first_answer_over_an_imported_past_sees_lines_and_no_placeholders(remembering, pump: str):
    made = remembering(numbered, budget=3_000, pump=pump)
    brought_in(made)
    assert made.turn("What was on day 7?").text
    assert PLACEHOLDER not in str(prompts(made)[-1])
    assert "harbour" in str(prompts(made)[-1])


def test_the_first_turn_waits_for_lines_only_for_a_while_and_no_later_turn_does(
    remembering, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pumping, "WARM_S", 0.0)
    made = remembering(numbered, budget=3_000, pump="thread")
    brought_in(made, 600)
    made.memory._pump.kick = lambda: None
    assert made.turn("What was on day 7?").text
    left = made.do("status").unbuilt
    assert left > 0
    monkeypatch.setattr(pumping, "WARM_S", 60.0)
    assert made.turn("And on day 8?").text
    assert made.do("status").unbuilt == left
    assert PLACEHOLDER in str(prompts(made)[-1])


def test_nobody_waits_for_the_lines_of_a_model_or_of_a_worker(remembering):
    away = Away()
    made = remembering(numbered, budget=3_000, compactor=away, pump="thread")
    brought_in(made)
    made.memory._pump.kick = lambda: None
    assert made.turn("What was on day 7?").text
    assert away.asked == 0
    made.again(compactor="extractive", pump="worker")
    assert made.turn("And on day 8?").text
    assert PLACEHOLDER in str(prompts(made)[-1])
