"""What a chat tells of itself, and when (chat A.1 57 to 60)."""

from typing import Any

import pytest

from everlog.chat.retries import Retry
from everlog.chat.state import MOMENTS
from everlog.chat.tools import tool
from everlog.errors import Mistake
from everlog.testing.upstream import Answer, Refused
from tests.unit.chat.talking import called, config


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


ROME = ("c1", "weather", {"city": "Rome"})


class Told:
    """All that a chat told, in order."""

    def __init__(self, talk: Any) -> None:
        self.all: list[str] = []
        chat = talk.chat
        chat.before_request(lambda body: self.all.append("request"))
        chat.before_message(lambda: self.all.append(f"before message {len(chat)}"))
        chat.after_message(lambda message: self.all.append(f"after message {len(chat)} {message.role}"))
        chat.before_tool_call(lambda call: self.all.append(f"before call {call.id}"))
        chat.after_tool_result(lambda result: self.all.append(f"after result {result}"))


@pytest.mark.covers("chat A.1 57", "D36")
def test_callbacks_add_up_in_order_and_none_is_no_callback(chatting):
    talk = chatting(Answer(text="Hello."))
    told: list[str] = []
    assert talk.chat.after_message(lambda message: told.append("1")) is talk.chat
    talk.chat.after_message(lambda message: told.append("2")).after_message(None)
    talk.ask()
    assert told == ["1", "2"]
    with pytest.raises(Mistake, match="after_message takes a function, not str"):
        talk.chat.after_message("words")


@pytest.mark.covers("chat A.1 57")
@pytest.mark.parametrize("moment", MOMENTS)
def test_each_moment_takes_functions_or_none(chatting, moment):
    chat = chatting().chat
    register = getattr(chat, moment)
    assert register(None) is chat
    assert register(print) is chat
    assert chat._state.hooks[moment] == [print]
    with pytest.raises(Mistake, match=f"{moment} takes a function, not int"):
        register(5)


@pytest.mark.covers("chat A.1 58", "D33", "D36")
def test_a_reply_is_told_of_after_its_request(talk):
    talk = talk(Answer(text="Hello."))
    told = Told(talk)
    sent: list[int] = []
    talk.chat.before_message(lambda: sent.append(len(talk.upstream.requests)))
    talk.ask()
    assert sent == [1]
    assert told.all == ["request", "before message 1", "after message 2 assistant"]


@pytest.mark.covers("chat A.1 58")
def test_a_streamed_reply_is_told_of_before_its_request(talk):
    talk = talk(Answer(text="Hello."))
    told = Told(talk)
    sent: list[int] = []
    talk.chat.before_message(lambda: sent.append(len(talk.upstream.requests)))
    talk.ask(on_chunk=lambda chunk: told.all.append("chunk"))
    assert sent == [0]
    assert told.all == ["request", "before message 1", "chunk", "chunk", "after message 2 assistant"]


@pytest.mark.covers("chat A.1 59", "D33", "D34", "D38")
def test_a_tool_is_told_of_in_the_order_of_its_life(talk):
    talk = talk(called(ROME), Answer(text="Sun."))
    talk.chat.with_tools(weather)
    told = Told(talk)
    talk.ask()
    assert told.all[3:-3] == [
        "before message 2",
        "before call c1",
        "after result Sun in Rome.",
        "after message 3 tool",
    ]


@pytest.mark.covers("chat A.1 59")
def test_a_denial_is_told_of_as_a_message_only(talk):
    talk = talk(called(ROME), Answer(text="Ok."))
    talk.chat.with_tools(tool(requires_approval=True)(weather)).deny("c1")
    told = Told(talk)
    talk.ask()
    assert told.all[3:-3] == ["before message 2", "after message 3 tool"]


@pytest.mark.covers("chat A.1 60", "D37")
def test_before_request_may_change_the_body_and_its_result_is_ignored(talk):
    talk = talk(Answer(text="Hello."))
    talk.chat.with_provider_options({"seed": 7})
    seen: list[Any] = []

    def change(body: dict[str, Any]) -> str:
        seen.append(dict(body))
        body["metadata"] = {"a": "b"}
        return "ignored"

    talk.chat.before_request(change)
    assert talk.do("render")["metadata"] == {"a": "b"}
    talk.ask()
    assert (seen[1]["seed"], len(seen)) == (7, 2)
    assert talk.bodies[0]["metadata"] == {"a": "b"}


@pytest.mark.covers("chat A.1 60")
def test_before_request_may_replace_the_whole_body(talk):
    talk = talk(Answer(text="Hello."))

    def replace(body: dict[str, Any]) -> None:
        model = body["model"]
        body.clear()
        body.update(model=model, only="this")

    talk.chat.before_request(replace)
    talk.ask()
    assert talk.bodies == [{"model": "m-1", "only": "this"}]


@pytest.mark.covers("chat A.1 60")
@pytest.mark.parametrize("streamed", [False, True])
def test_before_request_sees_a_body_once_however_often_it_is_sent(talk, streamed):
    talk = talk(Refused(status=500), Answer(text="One."), Refused(status=500), Refused(status=500), Answer(text="Two."))
    seen: list[Any] = []
    patient = config(talk.upstream, retry=Retry(retries=1, first_s=0.001))
    talk.chat.with_config(patient).with_fallbacks("deepseek/deepseek-flash").before_request(seen.append)
    for _ in range(2):
        talk.stream() if streamed else talk.ask()
    assert [body["model"] for body in seen] == ["m-1", "m-1", "deepseek-flash"]
    assert [body["model"] for body in talk.bodies] == ["m-1"] * 4 + ["deepseek-flash"]


@pytest.mark.covers("chat A.1 60", "D37")
def test_before_request_sees_all_that_is_sent(talk):
    talk = talk(Answer(text="Hello."))
    raw = {"type": "web_search_20260318", "name": "web_search"}
    seen: list[Any] = []
    talk.chat.with_provider_tools(raw).with_provider_options({"seed": 7}).with_caching().with_end_user("u")
    talk.chat.before_request(seen.append)
    talk.ask()
    assert seen == talk.bodies
    assert seen[0]["tools"] == [raw]


@pytest.mark.covers("chat A.1 60")
def test_what_before_request_changes_does_not_reach_the_conversation(talk):
    talk = talk(Answer(text="Hello."), Answer(text="Bye."))
    spoiling = False

    def spoil(body: dict[str, Any]) -> None:
        for one in body["input" if talk.protocol == "responses" else "messages"] if spoiling else ():
            one["content"] = "spoiled"

    talk.ask("One")
    talk.chat.before_request(spoil)
    before = talk.do("render")
    spoiling = True
    talk.ask("Two")
    spoiling = False
    after = talk.do("render")
    name = "input" if talk.protocol == "responses" else "messages"
    assert after[name][: len(before[name])] == before[name]


def test_callbacks_may_be_async_in_both_kinds_of_chat(chatting):
    talk = chatting(called(ROME), Answer(text="Sun."))
    told: list[str] = []

    def hear(moment: str) -> Any:
        async def heard(*args: Any) -> None:
            told.append(moment)

        return heard

    moments = ("before_request", "before_message", "after_message", "before_tool_call", "after_tool_result")
    talk.chat.with_tools(weather)
    for moment in moments:
        getattr(talk.chat, moment)(hear(moment))
    talk.ask(on_chunk=hear("chunk"))
    assert {moment: told.count(moment) for moment in moments} == dict(zip(moments, (2, 3, 3, 1, 1), strict=True))
    assert "chunk" in told
