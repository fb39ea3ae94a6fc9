"""On which terms a request is compiled, by what is known of the model and what is set on the chat."""

import pytest

from everlog import Chat
from everlog.chat.routes import ChatConfig
from everlog.conversation.options import options_of
from everlog.conversation.partners import beside, state_of
from everlog.conversation.turn.asking import cached, takes_tools, terms_of

CONFIG = ChatConfig(api_keys={"openai": "k", "anthropic": "k", "deepseek": "k"}, environ={})


def terms(name, act=lambda chat: chat, **wishes):
    chat = act(Chat(name, config=CONFIG))
    return terms_of(beside(state_of(chat), {}), options_of(wishes, required=None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "act", "marking", "idle_s"),
    [
        ("anthropic/claude-haiku-5-5", lambda chat: chat, "blocks", 300),
        ("anthropic/claude-haiku-5-5", lambda chat: chat.with_caching(ttl="1h"), "none", 3_600),
        ("anthropic/claude-haiku-5-5", lambda chat: chat.with_caching(False), "none", 300),
        ("openai/gpt-5.6-luna", lambda chat: chat, "breakpoints", None),
        ("openai/gpt-5.4", lambda chat: chat, "none", 3_600),
        ("openai/gpt-5.4", lambda chat: chat.with_provider_options({"prompt_cache_retention": "24h"}), "none", None),
        ("deepseek/deepseek-chat", lambda chat: chat, "none", None),
        ("ollama/llama", lambda chat: chat, "none", None),
    ],
)
def test_what_a_provider_caches_decides_about_marks_and_silence(name, act, marking, idle_s):
    found = terms(name, act)
    assert (found.marking, found.idle_s) == (marking, idle_s)


def test_breakpoints_leave_the_provider_its_own_and_blocks_are_all_the_marks_there_are():
    chat = Chat("openai/gpt-5.6-luna", config=CONFIG).with_caching(key="k")
    assert cached(beside(state_of(chat), {}), "breakpoints").caching == {"mode": "implicit", "key": "k"}
    assert chat.caching == {"key": "k"}
    chat = Chat("anthropic/claude-haiku-5-5", config=CONFIG).with_caching()
    assert cached(beside(state_of(chat), {}), "blocks").caching is None
    assert chat.caching == {}


def test_the_window_is_what_the_model_takes_beside_its_answer():
    model = Chat("anthropic/claude-haiku-5-5", config=CONFIG).model
    assert model.context_tokens is not None
    assert model.output_tokens is not None
    assert terms("anthropic/claude-haiku-5-5").window_tokens == model.context_tokens - model.output_tokens
    limited = terms("anthropic/claude-haiku-5-5", lambda chat: chat.with_max_output_tokens(1_000))
    assert limited.window_tokens == model.context_tokens - 1_000
    assert terms("ollama/llama").window_tokens is None
    assert terms("openai/gpt-4").window_tokens == 8_192 // 2


def test_a_model_that_takes_no_tools_gets_the_lines_without_them():
    found = terms("openai/gpt-4-turbo")
    assert found.tools
    chat = Chat("openai/gpt-3.5-turbo", config=CONFIG)
    assert chat.model.tools is False
    assert not takes_tools(state_of(chat), "tree")
    found = terms("openai/gpt-3.5-turbo")
    assert not found.tools
    assert "zoom(id" not in found.head.instructions[-1].messages[0].text


@pytest.mark.parametrize("past", ["rolling", "none"])
def test_without_lines_the_model_is_told_nothing_of_them(past):
    found = terms("ollama/llama", past=past)
    assert found.head.instructions == ()
    assert not found.tools


def test_two_protocols_two_models_and_two_budgets_are_different_consumers():
    named = {"openai/gpt-5.6-luna", "openai/gpt-5.4"}
    found = [terms(name, budget=budget).consumer.key for name in named for budget in (4_000, 5_000)]
    config = ChatConfig(api_keys={"openai": "k"}, environ={}, protocols={"openai": "chat_completions"})
    other = terms_of(state_of(Chat("openai/gpt-5.4", config=config)), options_of({"budget": 4_000}, required=None))
    assert len({*found, other.consumer.key}) == 5
    assert all(len(terms(name).consumer.renderer) <= 64 for name in named)
