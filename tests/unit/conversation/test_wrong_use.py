"""What is said to a memory in a wrong way is refused before anything is recorded or asked, with what to do instead."""

from typing import Any

import pytest

from everlog import Mistake, tool
from everlog.testing.upstream import Answer
from tests.unit.conversation.test_turns import weather


@pytest.mark.parametrize("verb", ["turn", "stream"])
@pytest.mark.parametrize(
    ("text", "named", "said"),
    [
        ("", {}, "give words, or files"),
        (" \n", {"with_": []}, "give words, or files"),
        (None, {"with_": []}, "give words, or files"),
        ("Look", {"files": ["a.png"]}, r"no option 'files'.*given by with_="),
        (None, {"files": ["a.png"]}, r"given by with_="),
        ("Look", {"wiht_": ["a.png"]}, "did you mean with_"),
    ],
)
def test_a_turn_without_words_or_with_a_misspelt_option_is_refused(
    remembering, verb: str, text: str | None, named: dict[str, Any], said: str
):
    made = remembering(Answer(text="1"))
    made.turn("one")
    with pytest.raises(Mistake, match=said):
        getattr(made, verb)(text, **named)
    assert len(made.bodies) == 1
    assert len(made.logged) == 2


def test_a_decision_on_a_call_that_does_not_wait_names_those_that_do(remembering):
    made = remembering(Answer(calls=(("b1", "weather", {"city": "Roscoff"}),)), Answer(text="Sunny."))
    made.chat.with_tools(tool(requires_approval=True)(weather))
    made.turn("Weather?")
    for decide in (made.chat.approve, made.chat.deny):
        with pytest.raises(Mistake, match=r"no call 'b2' waits.* there is 'b1' \(weather\)"):
            decide("b2")
    assert made.chat.pending_approvals
    made.chat.approve("b1")
    assert made.do("resume").text == "Sunny."


@pytest.mark.parametrize("name", ["api_key", "base_url", "provider", "protocol", "assume_model_exists", "config"])
def test_how_a_model_is_reached_is_said_to_go_into_the_options_of_the_chat(remembering, name: str):
    made = remembering(Answer(text="1"))
    with pytest.raises(Mistake, match=rf"chat_options={{'{name}': …}}"):
        made.attach(made.chat, **{name: "x"})


def test_a_mask_without_a_search_is_refused_unless_search_is_off_on_purpose(remembering):
    made = remembering(Answer(text="1"))
    with pytest.raises(Mistake, match="search=True"):
        made.attach(made.chat, search_mask=str)
    made.attach(made.chat, search_mask=str, search=False)


def test_a_thread_is_named_after_the_first_words_of_its_first_turn(remembering):
    made = remembering(Answer(text="1"), Answer(text="2"), Answer(text="3"))
    made.turn("Which sea\nis warm " + "in June " * 20)
    made.turn("And in May?")
    made.do("fork", 2, key="mine", title="Mine")
    made.memory = made.attach(made.chat, key="mine")
    made.turn("Hello")
    titles = {one.key: one.title for one in made.home.threads()}
    assert titles["mine"] == "Mine"
    assert titles["k"] is not None
    assert titles["k"].startswith("Which sea is warm in June")
    assert len(titles["k"]) <= 61


def test_who_is_to_hear_the_answer_is_looked_at_before_anything_is_recorded(remembering):
    made = remembering(Answer(text="Yes."))
    with pytest.raises(Mistake, match="`on_chunk` is called with each piece of the answer, so it is no int"):
        made.turn("Hi", on_chunk=5)
    assert made.bodies == []
    assert made.turn("Hi").text == "Yes."
    assert [kind for kind, _ in made.logged] == ["user", "assistant"]
