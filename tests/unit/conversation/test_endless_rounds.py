"""A model that calls memory's tools for ever is told to answer, and ends its turn if it does not."""

from typing import Any

import pytest

from everlog import BadReply, TurnState
from everlog.conversation.turn.patience import DEAF_ROUNDS, IDLE_ROUNDS
from everlog.memory.tree.tools import ZOOM_CAP
from everlog.testing.upstream import Answer
from tests.unit.conversation.remembering import PROTOCOLS

NONE: dict[str, Any] = {"chat_completions": "none", "responses": "none", "anthropic": {"type": "none"}}


def calling(received, *calls):
    made: Any = tuple((f"c{n}", *call) for n, call in enumerate(calls))
    return Answer(calls=made)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_after_a_few_rounds_that_show_nothing_new_no_tool_may_be_called(remembering, protocol):
    def script(received):
        if received.body.get("tool_choice") == NONE[protocol]:
            return Answer(text="The lighthouse.")
        return calling(received, ("zoom", {"id": 0}))

    made = remembering(script, protocol=protocol)
    assert made.turn("What was it?").text == "The lighthouse."
    assert len(made.bodies) == 1 + 1 + IDLE_ROUNDS
    assert [body.get("tool_choice") for body in made.bodies[:-1]] == [None] * (1 + IDLE_ROUNDS)
    assert made.states == [TurnState.COMPLETE]
    assert made.chat._state.tool_options.choice is None
    made.upstream.requests.clear()
    made.turn("And then?")
    assert made.bodies[0].get("tool_choice") is None


@pytest.mark.parametrize("call", [("zoom", {"id": 99}), ("date", {"id": 0}), ("search", {"words": "x"}), ("read", {})])
def test_a_provider_that_lets_it_call_all_the_same_ends_the_turn_in_bounded_requests(remembering, call):
    made = remembering(lambda received: calling(received, call), search=True)
    with pytest.raises(BadReply, match=f"calls {call[0]} again and again"):
        made.turn("What was it?")
    assert len(made.bodies) <= 3 + IDLE_ROUNDS + DEAF_ROUNDS
    assert made.states == [TurnState.ABORTED]
    assert made.logged == [("user", "What was it?")]


def test_rounds_that_show_something_new_are_not_counted(remembering):
    opened = iter(range(ZOOM_CAP))

    def script(received):
        at = next(opened, None)
        return Answer(text="Done.") if at is None else calling(received, ("zoom", {"id": at}))

    made = remembering(script)
    for n in range(ZOOM_CAP):
        made.memory.thread.append("user", f"number {n}")
    assert made.turn("All of it?").text == "Done."
    assert len(made.bodies) == ZOOM_CAP + 1


def test_rounds_with_calls_of_the_users_own_tools_are_the_users_matter(remembering):
    def again(n: int) -> str:
        """Go on."""
        return "go on"

    def script(received):
        calls = (("again", {"n": 1}), ("zoom", {"id": 0}))
        return Answer(text="Done.") if len(made.bodies) > 20 else calling(received, *calls)

    made = remembering(script)
    made.chat.with_tools(again)
    assert made.turn("Go on.").text == "Done."
