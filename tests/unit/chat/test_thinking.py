"""How a model is told of its thinking, by what is known of it (chat A.1 93)."""

import pytest

from everlog.errors import Mistake
from everlog.testing.upstream import Answer, Upstream
from tests.unit.chat.talking import DRIVERS, Talk

ASKS = Answer(text="Yes.")


@pytest.mark.covers("chat A.1 93")
@pytest.mark.parametrize(
    ("model", "options", "refused"),
    [
        ("claude-sonnet-5-5", {"budget": 2000}, "is told how much to think by an effort, as in .* not by a budget"),
        ("claude-haiku-5-5", {"budget": 2000}, "by an effort, as in with_thinking"),
        ("claude-opus-4-7", {"budget": 2000}, "by an effort"),
        ("claude-opus-4-6", {"budget": 2000}, None),
        ("claude-opus-4-6", {"effort": "low"}, None),
        ("claude-haiku-4-5", {"budget": 2000}, None),
        ("claude-haiku-4-5-20251001", {"effort": "low"}, "by a budget, as in .* not by an effort, or nothing"),
        ("claude-opus-4-5", {}, "by a budget, as in"),
        ("claude-opus-4-5", {"effort": "none"}, None),
        ("claude-opus-5-20990101", {"budget": 2000}, None),
        ("claude-opus-5-20990101", {"effort": "low"}, None),
    ],
)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_model_is_told_of_thinking_only_as_it_can_be_told(driver, model, options, refused):
    """A model that nobody knows is told anything."""
    with Upstream([ASKS, ASKS]) as upstream:
        talk = Talk(driver, "anthropic", upstream)
        talk.chat.with_model(model, provider="anthropic", assume_model_exists=True).with_thinking(**options)
        if refused is None:
            assert talk.ask().text == "Yes."
        else:
            with pytest.raises(Mistake, match=rf"^{model} .*{refused}"):
                talk.ask()
        assert len(upstream.requests) == (refused is None)
        talk.close()


@pytest.mark.covers("chat A.1 93")
@pytest.mark.parametrize(
    ("budget", "most", "more", "is_refused"),
    [
        (2000, 2000, {}, True),
        (2000, 2001, {}, False),
        (4096, None, {}, True),
        (2000, 1000, {"options": {"max_tokens": 3000}}, False),
        (2000, 3000, {"options": {"max_tokens": 2000}}, True),
        (2000, 1000, {"headers": {"Anthropic-Beta": "a, interleaved-thinking-2025-05-14"}}, False),
    ],
)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_budget_leaves_room_for_an_answer(driver, budget, most, more, is_refused):
    with Upstream([ASKS]) as upstream:
        talk = Talk(driver, "anthropic", upstream)
        talk.chat.with_thinking(budget=budget).with_max_output_tokens(most).with_headers(more.get("headers"))
        talk.chat.with_provider_options(more.get("options"))
        if is_refused:
            with pytest.raises(Mistake, match=f"a budget of {budget} tokens of thinking leaves no room for an answer"):
                talk.ask()
        else:
            assert talk.ask().text == "Yes."
        assert len(upstream.requests) == (not is_refused)
        talk.close()
