"""Calls that wait until somebody decides (chat A.1 25 to 35)."""

import json
from typing import Any

import pytest

from everlog.chat.tools import ToolCall, tool
from everlog.errors import Mistake
from everlog.testing.upstream import Answer
from tests.unit.chat.talking import called


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


@tool(requires_approval=True)
def delete(name: str) -> str:
    """Delete a file."""
    return f"{name} is gone."


ROME = ("c1", "weather", {"city": "Rome"})
LOG = ("c2", "delete", {"name": "log"})
DENIED = json.dumps({"error": "The user denied the tool call: delete."}, separators=(",", ":"))


@pytest.mark.covers("chat A.1 25", "D41", "D90")
def test_a_call_that_requires_approval_is_not_run_and_the_loop_parks(talk):
    talk = talk(called(LOG))
    talk.chat.with_tools(delete)
    assert [call.name for call in talk.ask().calls] == ["delete"]
    assert talk.chat.is_awaiting_approval
    assert not talk.chat.is_complete
    assert [role for role, _ in talk.said] == ["user", "assistant"]
    assert talk.do("step") is None


@pytest.mark.covers("chat A.1 26", "D39", "D41", "D62")
def test_free_calls_run_first_and_an_approved_one_when_it_goes_on(talk):
    talk = talk(called(LOG, ROME), Answer(text="Done."))
    talk.chat.with_tools(weather, delete)
    talk.ask()
    assert talk.said[2:] == [("tool", "Sun in Rome.")]
    assert talk.chat.is_awaiting_approval
    assert talk.do("complete") is talk.chat[-1]
    talk.chat.approve("c2")
    assert not talk.chat.is_awaiting_approval
    assert talk.do("complete").text == "Done."
    assert talk.said[2:] == [("tool", "Sun in Rome."), ("tool", "log is gone."), ("assistant", "Done.")]


@pytest.mark.covers("chat A.1 27", "D41")
def test_it_waits_only_if_every_open_call_is_undecided(chatting):
    talk = chatting(called(LOG, ("c3", "delete", {"name": "tmp"})))
    talk.chat.with_tools(delete)
    assert not talk.chat.is_awaiting_approval
    talk.ask()
    assert talk.chat.is_awaiting_approval
    talk.chat.approve("c3")
    assert not talk.chat.is_awaiting_approval
    assert [call.id for call in talk.chat.pending_approvals] == ["c2"]


@pytest.mark.covers("chat A.1 28", "D39", "D40")
def test_decisions_take_a_call_or_its_id_and_return_the_chat(chatting):
    talk = chatting(called(LOG, ("c3", "delete", {"name": "tmp"})), Answer(text="Done."))
    talk.chat.with_tools(delete)
    assert talk.chat.approve("nobody") is talk.chat
    talk.ask()
    assert talk.chat.approve(talk.chat.pending_approvals[0]).deny("c3") is talk.chat
    assert len(talk.upstream.requests) == 1
    talk.do("complete")
    assert sorted(text for role, text in talk.said if role == "tool") == sorted([DENIED, "log is gone."])
    with pytest.raises(Mistake, match="a ToolCall or its id, not int"):
        talk.chat.approve(3)


@pytest.mark.covers("chat A.1 29", "D40", "D62")
def test_a_denial_is_one_structured_result_before_those_that_run(talk):
    talk = talk(called(LOG, ROME), Answer(text="As you wish."))
    talk.chat.with_tools(weather, delete).deny("c2")
    assert talk.ask().text == "As you wish."
    assert talk.said[2:] == [("tool", DENIED), ("tool", "Sun in Rome."), ("assistant", "As you wish.")]
    assert talk.chat[2].tool_call_id == "c2"


@pytest.mark.covers("chat A.1 31", "D42", "D90")
@pytest.mark.parametrize(("said", "result"), [(True, "log is gone."), (False, DENIED), (None, None)])
def test_a_resolver_decides_and_is_asked_late_and_often(chatting, said, result):
    asked: list[ToolCall] = []

    def resolver(call: ToolCall) -> Any:
        asked.append(call)
        return said

    talk = chatting(called(LOG), Answer(text="Done."))
    talk.chat.with_tools(tool(requires_approval=resolver)(delete.function))
    assert asked == []
    talk.ask()
    assert [text for role, text in talk.said if role == "tool"] == ([] if result is None else [result])
    assert asked[0].arguments == {"name": "log"}
    if said is None:
        for look in (
            lambda: "awaiting approval of delete" in repr(talk.chat),
            lambda: talk.chat.is_awaiting_approval,
            lambda: [call.id for call in talk.chat.pending_approvals] == ["c2"],
            lambda: talk.do("run_tools") is talk.chat,
        ):
            before = len(asked)
            assert look()
            assert len(asked) > before


@pytest.mark.covers("chat A.1 31")
def test_a_resolver_is_a_plain_function():
    async def resolver(call: ToolCall) -> Any:
        return True

    with pytest.raises(Mistake, match="must be a plain function"):
        tool(requires_approval=resolver)(delete.function)  # type: ignore[arg-type]


@pytest.mark.covers("chat A.1 32", "D9")
def test_a_resolver_beats_a_decision_and_a_decision_beats_the_checker(chatting):
    def never(call: ToolCall) -> bool:
        return False

    talk = chatting(
        called(LOG, ("c3", "remove", {"name": "tmp"}), ("c4", "remove", {"name": "etc"})), Answer(text="Ok.")
    )
    talk.chat.with_tools(
        tool(requires_approval=never)(delete.function), tool(name="remove", requires_approval=True)(delete.function)
    )
    talk.chat.approve("c2").approve("c3")
    talk.chat.approval_checker = lambda call: False
    talk.ask()
    results = {one.tool_call_id: one.text for one in talk.chat if one.role == "tool"}
    assert results["c2"] == DENIED
    assert results["c3"] == "tmp is gone."
    assert "denied the tool call: remove" in results["c4"]


@pytest.mark.covers("chat A.1 33", "D43", "D7")
def test_pending_approvals_are_the_undecided_calls_of_the_latest_response(chatting):
    talk = chatting(called(LOG, ROME, ("c3", "delete", {"name": "tmp"})))
    talk.chat.with_tools(delete, weather)
    assert talk.chat.pending_approvals == []
    talk.ask()
    talk.chat.deny("c3")
    assert talk.chat.pending_approvals == [ToolCall(id="c2", name="delete", text='{"name":"log"}')]
    assert "awaiting approval of delete" in repr(talk.chat)
    talk.chat.add_message({"role": "assistant", "content": "Never mind."})
    assert talk.chat.pending_approvals == []
    assert "awaiting" not in repr(talk.chat)


@pytest.mark.covers("D7")
def test_a_chat_shows_what_it_is_and_none_of_its_words(chatting):
    chat = chatting().chat.with_instructions("My secret.").ask_later("My other secret.")
    assert repr(chat) == f"<{type(chat).__name__} openai/m-1, 2 messages>"


@pytest.mark.covers("chat A.1 35")
def test_a_decision_outlives_a_tool_that_raises(chatting):
    trouble = [OSError("disk")]

    def wipe() -> str:
        if trouble:
            raise trouble.pop()
        return "wiped"

    talk = chatting(called(("c1", "wipe", {})), Answer(text="Done."))
    talk.chat.with_tools(tool(requires_approval=True)(wipe)).approve("c1")
    with pytest.raises(OSError, match="disk"):
        talk.ask()
    assert talk.do("complete").text == "Done."


@pytest.mark.covers("chat A.1 35")
def test_a_decision_holds_for_one_call_where_a_server_uses_an_id_again(chatting):
    talk = chatting(called(("call_0", "delete", {"name": "log"})), called(("call_0", "delete", {"name": "all"})))
    talk.chat.with_tools(delete).approve("call_0")
    talk.ask()
    assert [text for role, text in talk.said if role == "tool"] == ["log is gone."]
    assert [call.arguments for call in talk.chat.pending_approvals] == [{"name": "all"}]


@pytest.mark.covers("chat A.2 503")
def test_a_chat_that_was_saved_while_it_waited_goes_on_elsewhere(talk):
    first: Any = talk(called(LOG, ROME))
    first.chat.with_tools(weather, delete)
    first.ask()
    second = talk(Answer(text="Done."))
    second.chat.with_tools(weather, delete).messages = first.chat.messages
    assert second.chat.is_awaiting_approval
    second.chat.approve("c2")
    assert second.do("complete").text == "Done."
    assert second.said[:3] == first.said
