"""Tokens and cost of a chat and of its messages (chat A.1 75, 108 to 110)."""

from typing import Any

import pytest

from everlog.errors import ProviderFailed
from everlog.testing.upstream import Answer, Refused
from tests.unit.chat.talking import called

LUNA = "gpt-5.6-luna"


def now() -> str:
    """Tell the time."""
    return "noon"


@pytest.mark.covers("chat A.1 108", "chat A.1 109", "D28", "D58")
def test_tokens_are_those_of_all_requests_and_a_message_has_those_of_its_own(talk):
    first = Answer(calls=(("c1", "now", {}),), input_tokens=100, cached_tokens=40, output_tokens=7)
    talk = talk(first, Answer(text="Noon.", input_tokens=200, output_tokens=5))
    talk.chat.with_tools(now)
    message = talk.ask()
    assert (talk.chat[1].tokens.input, talk.chat[1].tokens.cache_read, talk.chat[1].tokens.output) == (60, 40, 7)
    assert message.tokens == message.reply.usage
    assert (talk.chat.tokens.input, talk.chat.tokens.cache_read, talk.chat.tokens.output) == (260, 40, 12)


@pytest.mark.covers("chat A.1 109")
def test_what_nobody_counted_is_none_and_not_zero(chatting):
    talk = chatting()
    assert (talk.chat.tokens.input, talk.chat.cost.total_usd) == (None, None)
    talk.chat.add_message({"role": "assistant", "content": "By hand."})
    assert (talk.chat[0].tokens.input, talk.chat[0].cost.total_usd) == (None, None)


@pytest.mark.covers("chat A.1 110", "D57")
def test_the_cost_is_that_of_the_registrys_prices(chatting):
    talk = chatting(Answer(text="Hello.", input_tokens=100, cached_tokens=40, output_tokens=20))
    talk.chat.with_model(LUNA, protocol="chat_completions")
    message = talk.ask()
    expected = (60 * 0.2 + 40 * 0.02 + 20 * 1.2) / 1e6
    assert message.cost.total_usd == talk.chat.cost.total_usd == pytest.approx(expected)


@pytest.mark.covers("chat A.1 108", "chat A.1 110", "D57")
def test_a_failure_that_may_be_billed_leaves_the_cost_unknown(talk):
    talk = talk(Refused(status=500), Answer(text="Hello."))
    talk.chat.with_model(LUNA if talk.provider == "openai" else "claude-sonnet-5-5")
    with pytest.raises(ProviderFailed):
        talk.ask()
    message = talk.do("complete")
    assert message.cost.total_usd is not None
    assert talk.chat.cost.total_usd is None


@pytest.mark.parametrize("model", [LUNA, "claude-sonnet-5-5"])
def test_counting_tokens_costs_nothing(chatting, model):
    talk = chatting(Answer(text="Hello."))
    talk.chat.with_model(model)
    talk.ask()
    cost = talk.chat.cost
    talk.do("count_tokens", "And?")
    assert talk.chat.cost == cost


@pytest.mark.covers("D11", "D28")
def test_a_recorder_hears_of_each_request_as_it_begins_and_ends(talk):
    talk = talk(called(("c1", "now", {})), Answer(text="Noon."))
    told: list[Any] = []
    talk.chat.with_tools(now).usage_recorder = told.append
    talk.ask()
    assert [one.status for one in told] == ["pending", "succeeded"] * 2
    assert talk.chat.usage_recorder == told.append
    assert [one.status for one in talk.chat.attempts] == ["succeeded"] * 2
