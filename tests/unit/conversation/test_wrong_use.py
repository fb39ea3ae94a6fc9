"""What is said to a memory in a wrong way is refused before anything is recorded or asked, with what to do instead."""

from typing import Any

import pytest

import everlog
from everlog import Chat, ChatConfig, KeyTrouble, MasterKeys, MissingCredentials, Mistake, ProtocolError, tool
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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("instructions", r"attach\(everlog\.Chat\(…\)\.with_instructions\(…\), key=…\)"),
        ("system", r"\.with_instructions\(…\)"),
        ("tools", r"\.with_tools\(…\)"),
        ("keys", r"everlog\.open\(…, keys=…\)\.attach\(…\)"),
        ("tenant", r"everlog\.open\(…, tenant=…\)\.attach\(…\)"),
    ],
)
def test_what_is_said_to_a_chat_or_a_database_is_told_apart_from_what_is_said_to_a_memory(
    remembering, name: str, said: str
):
    made = remembering(Answer(text="1"))
    with pytest.raises(Mistake, match=said):
        made.attach(made.chat, **{name: "x"})


BARE = {"config": ChatConfig(environ={})}


def test_a_missing_key_is_told_whose_it_is_and_where_attach_takes_it(memory):
    chat = Chat("openai/gpt-5.6-luna", api_key="k")
    with pytest.raises(MissingCredentials, match=r'^openai needs .*chat_options={"api_key": …}$'):
        memory.attach("openai/gpt-5.6-luna", key="k", chat_options=BARE)
    with pytest.raises(MissingCredentials, match=r'^the compactor .*luna .*compactor_options={"api_key": …}$'):
        memory.attach(chat, key="k", compactor="openai/gpt-5.6-luna", compactor_options=BARE)


def test_another_protocol_is_told_whose_it_is_and_where_attach_takes_one(memory):
    options: dict[str, Any] = {"config": ChatConfig(environ={}, api_keys={"openai": "k"}), "protocol": "responses"}
    wishes: dict[str, Any] = {"required_protocol": "chat_completions", "key": "k"}
    name = "openai/gpt-5.6-luna"
    with pytest.raises(ProtocolError, match=r'build its chat with .*chat_options={"protocol": …}$'):
        memory.attach(name, chat_options=options, **wishes)
    lawful = {**options, "protocol": "chat_completions"}
    with pytest.raises(ProtocolError, match=r'^the compactor .*compactor_options={"protocol": …}$'):
        memory.attach(name, chat_options=lawful, compactor=name, compactor_options=options, **wishes)
    with pytest.raises(ProtocolError, match=rf"^the compactor {name} cannot be used: .*build its chat with"):
        memory.attach(name, chat_options=lawful, compactor=Chat(name, **options), **wishes)


def test_an_encrypted_database_is_told_how_a_memory_is_attached_to_it(tmp_path):
    keys = MasterKeys(keys=[bytes(32)])
    everlog.open(tmp_path / "sealed.db", keys=keys).close()
    with pytest.raises(KeyTrouble, match=r"everlog\.open\(…, keys=…\)\.attach\(…\)"):
        everlog.attach("openai/gpt-5.6-luna", key="k", database=tmp_path / "sealed.db", chat_options={"api_key": "k"})


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
