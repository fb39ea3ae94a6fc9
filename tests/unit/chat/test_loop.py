"""Staging, the moves of the loop, and the calls between them (chat A.1 1 to 24)."""

from typing import Any

import pytest

from everlog.errors import BadReply, PendingCalls, Trouble
from everlog.testing.upstream import Answer, Manner
from tests.unit.chat.talking import called


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


@pytest.mark.covers("chat A.1 1", "D55", "D56")
def test_a_fresh_chat_is_complete_and_asks_nobody(chatting):
    talk = chatting()
    assert talk.chat.is_complete
    assert talk.do("complete") is None
    assert talk.upstream.requests == []


@pytest.mark.covers("chat A.1 2")
def test_instructions_alone_are_complete_and_returned(chatting):
    talk = chatting()
    talk.chat.with_instructions("Be brief.")
    assert talk.chat.is_complete
    assert talk.do("complete").text == "Be brief."
    assert talk.upstream.requests == []


@pytest.mark.covers("chat A.1 3", "D44")
def test_ask_later_stages_a_message_and_returns_the_chat(chatting):
    talk = chatting()
    assert talk.chat.ask_later("x") is talk.chat
    assert talk.said == [("user", "x")]
    assert not talk.chat.is_complete
    assert talk.upstream.requests == []


@pytest.mark.covers("chat A.1 4", "D5")
def test_ask_stages_and_completes(talk):
    talk = talk(Answer(text="Hello."))
    assert talk.ask("Hi").text == "Hello."
    assert talk.said == [("user", "Hi"), ("assistant", "Hello.")]
    assert talk.chat.is_complete


@pytest.mark.covers("chat A.1 4", "D5")
def test_say_is_ask(chatting):
    talk = chatting(Answer(text="Hello."))
    assert talk.do("say", "Hi").text == "Hello."


@pytest.mark.covers("chat A.1 4", "D5")
def test_pieces_come_from_the_stream_and_to_a_function(talk):
    talk = talk(Answer(text="Hello there."), Answer(text="Good bye."))
    assert "".join(chunk.text for chunk in talk.stream("Hi")) == "Hello there."
    pieces: list[Any] = []
    assert talk.ask("Bye", on_chunk=pieces.append).text == "Good bye."
    assert "".join(map(str, pieces)) == "Good bye."
    assert [body["stream"] for body in talk.bodies] == [True, True]
    assert talk.said[-1] == ("assistant", "Good bye.")


@pytest.mark.covers("chat A.1 4")
def test_a_stream_without_words_completes_what_was_staged(chatting):
    talk = chatting(Answer(text="Hello."))
    talk.chat.ask_later("Hi")
    assert "".join(chunk.text for chunk in talk.stream(None)) == "Hello."
    assert talk.said == [("user", "Hi"), ("assistant", "Hello.")]


@pytest.mark.covers("chat A.2 228")
def test_a_stream_tells_of_reasoning_and_calls_apart_from_the_words(talk):
    talk = talk(Answer(thinking="Hm.", text="Yes.", calls=(("c1", "weather", {"city": "Rome"}),)), Answer(text="Sun."))
    talk.chat.with_tools(weather)
    chunks = talk.stream()
    assert "".join(chunk.text for chunk in chunks) == "Yes.Sun."
    assert "".join(chunk.thinking for chunk in chunks) == "Hm."
    assert "".join(chunk.call.arguments for chunk in chunks if chunk.call) == '{"city":"Rome"}'
    assert talk.chat[1].thinking == "Hm."


@pytest.mark.covers("chat A.2 568")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("finish", ["stop", "length", "tool_calls"])
def test_an_answer_says_why_it_ended_and_a_stream_does_as_well(talk, streamed, finish):
    calls: Any = (("c1", "weather", {"city": "Rome"}),) if finish == "tool_calls" else ()
    talk = talk(Answer(text="Well", finish="length" if finish == "length" else "", calls=calls))
    talk.chat.ask_later("Hi")
    pieces: list[Any] = []
    message = talk.do("generate", on_chunk=pieces.append if streamed else None)
    assert message.finish == finish
    assert bool(pieces) is streamed


@pytest.mark.covers("chat A.2 521")
@pytest.mark.parametrize("streamed", [False, True])
def test_reasoning_alone_is_no_answer_in_words(talk, streamed):
    talk = talk(Answer(thinking="Hm.", calls=(("c1", "weather", {"city": "Rome"}),)), Answer(text="Sun."))
    talk.chat.with_tools(weather).ask_later("Hi")
    message = talk.do("generate", on_chunk=print if streamed else None)
    assert (message.text, message.thinking, str(message)) == ("", "Hm.", "")
    assert talk.do("complete").text == "Sun."


@pytest.mark.covers("chat A.1 6", "D56")
@pytest.mark.parametrize(
    ("messages", "complete"),
    [
        ([], True),
        ([{"role": "user", "content": "x"}], False),
        ([{"role": "tool", "content": "x", "tool_call_id": "c"}], False),
        ([{"role": "assistant", "content": "x"}], True),
        ([{"role": "assistant", "content": "x"}, {"role": "system", "content": "y"}], True),
        ([{"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "arguments": {}}]}], False),
    ],
)
def test_whether_it_is_complete_follows_from_the_last_message_that_is_no_instruction(chatting, messages, complete):
    talk = chatting()
    talk.chat.messages = messages
    assert talk.chat.is_complete is complete


@pytest.mark.covers("chat A.1 7")
def test_complete_on_an_answered_chat_asks_nobody(talk):
    talk = talk(Answer(text="Hello."))
    talk.ask("Hi")
    talk.chat.with_instructions("Be brief.")
    assert talk.do("complete").text == "Hello."
    assert len(talk.upstream.requests) == 1


@pytest.mark.covers("chat A.1 8", "D60")
def test_generate_asks_once_and_runs_no_tools(talk):
    talk = talk(called(("c1", "weather", {"city": "Rome"})))
    talk.chat.with_tools(weather).ask_later("Hi")
    message = talk.do("generate")
    assert [(call.id, call.name, call.arguments) for call in message.calls] == [("c1", "weather", {"city": "Rome"})]
    assert talk.chat.messages[-1] is message
    assert len(talk.upstream.requests) == 1


@pytest.mark.covers("chat A.1 9", "D62")
def test_run_tools_with_nothing_pending_does_nothing(chatting):
    talk = chatting()
    assert talk.do("run_tools") is talk.chat
    assert talk.said == []


@pytest.mark.covers("chat A.1 10", "chat A.1 13", "D62")
def test_only_calls_without_a_result_run(talk):
    talk = talk(Answer(text="Done."))
    talk.chat.with_tools(weather)
    calls = [{"id": name, "name": "weather", "arguments": {"city": name}} for name in ("Rome", "Oslo")]
    talk.chat.messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": "Rain.", "tool_call_id": "Oslo"},
    ]
    assert talk.do("complete").text == "Done."
    assert talk.said[2:] == [("tool", "Rain."), ("tool", "Sun in Rome."), ("assistant", "Done.")]


@pytest.mark.covers("chat A.1 11", "D63")
def test_a_step_is_one_move(talk):
    talk = talk(called(("c1", "weather", {"city": "Rome"})), Answer(text="Sun."))
    talk.chat.with_tools(weather)
    assert talk.do("step") is None
    talk.chat.ask_later("Hi")
    steps = [talk.do("step") for _ in range(4)]
    assert [one and one.role for one in steps] == ["assistant", "tool", "assistant", None]


@pytest.mark.covers("chat A.1 13")
def test_a_server_that_numbers_its_calls_anew_in_each_reply_has_all_of_them_run(talk):
    first, second = called(("call_0", "weather", {"city": "Rome"})), called(("call_0", "weather", {"city": "Oslo"}))
    talk = talk(first, second, Answer(text="Done."))
    talk.chat.with_tools(weather)
    talk.ask()
    assert [text for role, text in talk.said if role == "tool"] == ["Sun in Rome.", "Sun in Oslo."]


@pytest.mark.covers("chat A.1 13")
def test_two_calls_of_one_id_in_one_reply_both_run(talk):
    talk = talk(called(("0", "weather", {"city": "Rome"}), ("0", "weather", {"city": "Oslo"})), Answer(text="Done."))
    talk.chat.with_tools(weather)
    talk.ask()
    assert [text for role, text in talk.said if role == "tool"] == ["Sun in Rome.", "Sun in Oslo."]


@pytest.mark.covers("chat A.1 13")
def test_one_result_answers_one_of_two_calls_of_its_id(chatting):
    talk = chatting(Answer(text="Done."))
    calls = [{"id": "0", "name": "weather", "arguments": {"city": city}} for city in ("Rome", "Oslo")]
    talk.chat.with_tools(weather).messages = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": "Rain.", "tool_call_id": "0"},
    ]
    talk.do("complete")
    assert [text for role, text in talk.said if role == "tool"] == ["Rain.", "Sun in Oslo."]


@pytest.mark.covers("chat A.1 13")
def test_instructions_do_not_hide_open_calls(talk):
    talk = talk(called(("c1", "weather", {"city": "Rome"})), Answer(text="Done."))
    talk.chat.with_tools(weather).ask_later("Hi")
    talk.do("generate")
    talk.chat.with_instructions("Be brief.")
    with pytest.raises(PendingCalls):
        talk.chat.ask_later("And?")
    assert talk.do("complete").text == "Done."
    assert talk.said[3] == ("tool", "Sun in Rome.")


@pytest.mark.covers("chat A.1 14")
def test_the_loop_has_no_limit_of_its_own(chatting):
    talk = chatting(*[called((f"c{i}", "weather", {"city": "Rome"})) for i in range(40)], Answer(text="Done."))
    talk.chat.with_tools(weather)
    assert talk.ask().text == "Done."
    assert len(talk.upstream.requests) == 41


@pytest.mark.covers("chat A.1 15", "D55")
def test_complete_returns_the_message_with_calls_while_it_is_parked(talk):
    talk = talk(called(("c1", "gated", {})))
    talk.chat.with_tools(Gated)
    message = talk.ask()
    assert list(message.tool_calls) == ["c1"]
    assert talk.do("complete") is message is talk.chat[-1]
    talk.chat.with_instructions("Be brief.")
    assert talk.do("complete") is message
    assert len(talk.upstream.requests) == 1


class Gated:
    """Do something that somebody must allow."""

    requires_approval = True

    def execute(self) -> str:
        return "done"


@pytest.mark.covers("chat A.1 16", "chat A.2 269")
def test_what_a_tool_raises_leaves_the_call_open_and_the_chat_can_go_on(talk):
    trouble = [Trouble("no net")]

    def fetch() -> str:
        if trouble:
            raise trouble.pop()
        return "fetched"

    talk = talk(called(("c1", "fetch", {})), Answer(text="Done."))
    talk.chat.with_tools(fetch)
    with pytest.raises(Trouble, match="no net"):
        talk.ask()
    assert [role for role, _ in talk.said] == ["user", "assistant"]
    assert talk.do("complete").text == "Done."
    assert talk.said[2] == ("tool", "fetched")


@pytest.mark.covers("chat A.1 17")
def test_an_error_that_a_tool_returns_is_a_result(talk):
    def fetch() -> dict[str, str]:
        return {"error": "no net"}

    talk = talk(called(("c1", "fetch", {})), Answer(text="Done."))
    talk.chat.with_tools(fetch)
    assert talk.ask().text == "Done."
    assert talk.said[2] == ("tool", '{"error":"no net"}')


@pytest.mark.covers("chat A.1 18")
def test_a_call_of_an_unknown_tool_is_answered_with_the_names_of_those_there_are(talk):
    talk = talk(called(("c1", "wether", {"city": "Rome"})), Answer(text="Sorry."))
    talk.chat.with_tools(weather)
    assert talk.ask().text == "Sorry."
    assert talk.said[2] == ("tool", '{"error":"Unknown tool: wether. Available tools: weather."}')
    assert (b'"is_error":true' in talk.upstream.requests[1].raw) is (talk.protocol == "anthropic")


@pytest.mark.covers("chat A.1 19")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "missing keyword: city"),
        ({"city": "Rome", "unit": "C"}, "unknown keyword: unit"),
        ({"city": 5}, "city must be string"),
        ([1], "missing keyword: city"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_without_a_run(talk, arguments, complaint):
    ran = []

    def weather(city: str) -> None:
        ran.append(city)

    talk = talk(called(("c1", "weather", arguments)), Answer(text="Sorry."))
    talk.chat.with_tools(weather)
    assert talk.ask().text == "Sorry."
    assert talk.said[2] == ("tool", '{"error":"Invalid tool arguments: ' + complaint + '"}')
    assert ran == []


@pytest.mark.covers("chat A.1 20")
@pytest.mark.parametrize("streamed", [False, True])
def test_arguments_that_are_no_json_are_an_error_with_the_reason_why_it_ended(talk, streamed):
    talk = talk(called(("c1", "weather", '{"city": "Ro')))
    talk.chat.with_tools(weather)
    with pytest.raises(BadReply, match="arguments of a call of weather are no JSON") as caught:
        talk.stream() if streamed else talk.ask()
    assert caught.value.finish in {"tool_calls", "completed", "tool_use"}
    assert [role for role, _ in talk.said] == ["user"]


@pytest.mark.covers("chat A.1 20", "chat A.2 98")
@pytest.mark.parametrize("streamed", [False, True])
def test_empty_arguments_are_none(talk, streamed):
    def now() -> str:
        return "noon"

    for manner in (Manner(), Manner(whole_calls=True)):
        one = talk(called(("c1", "now", "")), Answer(text="Noon."), manner=manner)
        one.chat.with_tools(now)
        assert one.stream() if streamed else one.ask()
        assert one.said[2:] == [("tool", "noon"), ("assistant", "Noon.")]
        assert one.chat[1].calls[0].arguments == {}


@pytest.mark.covers("chat A.1 23", "D45")
def test_nothing_can_be_said_while_calls_are_open(talk):
    talk = talk(called(("c1", "gated", {}), ("c2", "gated", {}), ("c3", "weather", {"city": "Rome"})))
    talk.chat.with_tools(weather, Gated).ask_later("Hi")
    talk.do("generate")
    for verb in ("ask", "ask_later"):
        with pytest.raises(PendingCalls, match=r"\(gated, weather\)"):
            talk.do(verb, "And?")
    assert len(talk.chat) == 2
