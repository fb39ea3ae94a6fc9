"""What a model behind another protocol is told of a client's wishes."""

import pytest

from everlog.protocols.exchange import Settings, Thinking, Tool
from everlog.registry import Model
from everlog.surfaces.proxy.translation.fitting import fitted

UNKNOWN = Model(id="up", provider="any")
PLAIN = Model(id="up", provider="any", reasons=False)
EFFORT = Model(id="up", provider="any", reasons=True, reasons_by=("effort",))
BUDGET = Model(id="up", provider="any", reasons=True, reasons_by=("budget",), output_tokens=64_000)


def told(thinking, client, upstream, model, **fields):
    return fitted(Settings(model="m", thinking=thinking, **fields), client, upstream, model)


@pytest.mark.parametrize(
    ("asked", "client", "upstream", "model", "wanted"),
    [
        (Thinking(budget_tokens=2000), "anthropic", "chat_completions", EFFORT, Thinking(effort="low")),
        (Thinking(budget_tokens=10_000), "anthropic", "responses", EFFORT, Thinking(effort="medium")),
        (Thinking(budget_tokens=31_999), "anthropic", "responses", EFFORT, Thinking(effort="high")),
        (Thinking(effort="max"), "anthropic", "responses", EFFORT, Thinking(effort="high")),
        (Thinking(enabled=False), "anthropic", "chat_completions", EFFORT, Thinking(effort="low")),
        (Thinking(budget_tokens=2000), "anthropic", "chat_completions", UNKNOWN, None),
        (Thinking(effort="high"), "responses", "chat_completions", UNKNOWN, Thinking(effort="high")),
        (Thinking(effort="high"), "responses", "chat_completions", PLAIN, None),
        (Thinking(effort="minimal"), "chat_completions", "anthropic", EFFORT, Thinking(effort="low")),
        (Thinking(effort="low"), "chat_completions", "anthropic", BUDGET, Thinking(budget_tokens=4096)),
        (Thinking(), "responses", "anthropic", BUDGET, Thinking(budget_tokens=16_384)),
        (Thinking(effort="high"), "responses", "anthropic", UNKNOWN, None),
    ],
)
def test_thinking_is_told_in_the_words_that_the_model_knows(asked, client, upstream, model, wanted):
    settings, lost = told(asked, client, upstream, model)
    assert settings.thinking == wanted
    words = {"anthropic": "thinking", "responses": "reasoning", "chat_completions": "reasoning_effort"}
    assert lost == ((words[client],) if wanted is None else ())


def test_a_budget_leaves_room_for_an_answer():
    settings, _ = told(Thinking(effort="high"), "responses", "anthropic", BUDGET, max_output_tokens=5000)
    assert settings.thinking == Thinking(budget_tokens=2500)
    settings, lost = told(Thinking(effort="high"), "responses", "anthropic", BUDGET, max_output_tokens=1000)
    assert (settings.thinking, lost) == (None, ("reasoning",))


def test_a_tool_that_must_be_called_goes_before_thinking_where_both_cannot_be():
    settings, lost = told(Thinking(effort="high"), "responses", "anthropic", EFFORT, choice="required")
    assert (settings.choice, settings.thinking, lost) == ("required", None, ("reasoning",))


def test_a_temperature_is_within_what_the_protocol_takes_and_stands_alone():
    settings, lost = told(None, "chat_completions", "anthropic", UNKNOWN, temperature=1.7, top_p=0.9)
    assert (settings.temperature, settings.top_p, lost) == (1.0, None, ("top_p",))
    settings, lost = told(Thinking(effort="low"), "chat_completions", "anthropic", EFFORT, temperature=0.0)
    assert (settings.temperature, lost) == (None, ("temperature",))
    settings, lost = told(None, "anthropic", "responses", EFFORT, temperature=0.2)
    assert (settings.temperature, lost) == (None, ("temperature",))
    settings, lost = told(None, "anthropic", "chat_completions", UNKNOWN, temperature=0.2, top_p=0.9)
    assert (settings.temperature, settings.top_p, lost) == (0.2, 0.9, ())


def test_an_answer_is_no_longer_than_the_model_gives():
    assert told(None, "anthropic", "chat_completions", BUDGET, max_output_tokens=99_000)[0].max_output_tokens == 64_000
    assert told(None, "chat_completions", "anthropic", BUDGET)[0].max_output_tokens == 64_000
    assert told(None, "anthropic", "chat_completions", UNKNOWN, max_output_tokens=99_000)[0].max_output_tokens == 99_000


def test_what_the_other_protocol_would_refuse_is_named_in_the_clients_words():
    settings, lost = told(None, "anthropic", "responses", UNKNOWN, stop=("x",), end_user="u" * 65)
    assert (settings.stop, settings.end_user) == ((), None)
    assert lost == ("stop_sequences", "metadata.user_id")
    settings, lost = told(None, "chat_completions", "anthropic", UNKNOWN, caching={"key": "k"}, end_user="u" * 65)
    assert (settings.caching, settings.end_user, lost) == (None, "u" * 65, ("prompt_cache_key",))


def test_a_tool_is_declared_as_anthropic_takes_it():
    """Not to be strict is not said, which older models refuse to hear; arguments are always an object."""
    tools = (Tool(name="a", strict=False, parameters={"properties": {}}), Tool(name="b", strict=True))
    settings, _ = told(None, "responses", "anthropic", UNKNOWN, tools=tools)
    assert [one.strict for one in settings.tools] == [None, True]
    assert [one.parameters for one in settings.tools] == [{"type": "object", "properties": {}}] * 2
    assert told(None, "responses", "chat_completions", UNKNOWN, tools=tools)[0].tools == tools
