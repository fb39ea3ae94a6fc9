"""Facts about models and providers."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from everlog.errors import Mistake, UnknownModel
from everlog.protocols import FORMATS
from everlog.registry import Model, Price, Registry, builtin, load
from everlog.registry.trim import trimmed


@pytest.mark.parametrize(
    ("name", "provider", "found"),
    [
        ("anthropic/claude-sonnet-5-5", None, ("anthropic", "claude-sonnet-5-5")),
        ("gpt-5.6-luna", None, ("openai", "gpt-5.6-luna")),
        ("deepseek/deepseek-v4-pro", None, ("deepseek", "deepseek-v4-pro")),
        ("openrouter/openai/gpt-5.5", None, ("openrouter", "openai/gpt-5.5")),
        ("openai/gpt-5.5", "openrouter", ("openrouter", "openai/gpt-5.5")),
        ("ollama/qwen9:4b", None, ("ollama", "qwen9:4b")),
    ],
)
def test_a_name_finds_its_model(name, provider, found):
    model = builtin().find(name, provider=provider)
    assert (model.provider, model.id) == found


def test_an_unknown_model_names_those_that_are_like_it():
    """Fact 63, and D79."""
    with pytest.raises(UnknownModel, match=r"'gpt-5\.6-lunar'; did you mean gpt-5\.6-luna.*assume_model_exists"):
        builtin().find("gpt-5.6-lunar")
    with pytest.raises(UnknownModel, match=r"of anthropic is called 'gpt-5\.6-luna'"):
        builtin().find("gpt-5.6-luna", provider="anthropic")


@pytest.mark.covers("D3")
def test_a_model_that_is_assumed_to_exist_needs_a_provider_and_nothing_else():
    with pytest.raises(Mistake, match="needs a provider: one of openai, anthropic"):
        builtin().find("m-1", assume_exists=True)
    assert builtin().find("m-1", provider="openai", assume_exists=True) == Model(id="m-1", provider="openai")
    known = builtin().find("gpt-5.5", provider="openai", assume_exists=True)
    assert known.context_tokens == 1_050_000


def test_an_unknown_provider_names_the_known_ones():
    with pytest.raises(Mistake, match="no provider is called 'opeani'; known are openai, anthropic, deepseek"):
        builtin().find("gpt-5.5", provider="opeani")


@pytest.mark.parametrize(
    ("name", "asked", "protocol"),
    [
        ("gpt-5.5", None, "responses"),
        ("gpt-5.5", "chat_completions", "chat_completions"),
        ("gpt-realtime-2.1", None, "chat_completions"),
        ("claude-sonnet-5-5", None, "anthropic"),
        ("deepseek-v4-pro", None, "chat_completions"),
    ],
)
def test_the_provider_chooses_the_protocol_unless_one_is_asked_for(name, asked, protocol):
    """Facts 64 and 65."""
    registry = builtin()
    assert registry.protocol(registry.find(name), asked) == protocol


def test_a_protocol_that_the_provider_does_not_speak_names_those_it_does():
    with pytest.raises(Mistake, match="anthropic speaks anthropic, not responses"):
        builtin().protocol(builtin().find("claude-opus-5"), "responses")


def test_prices_follow_the_size_of_the_request():
    """Fact 110: the band is decided by all input, that of caches too."""
    haiku = builtin().find("claude-haiku-5-5")
    assert haiku.price(100_000) == Price(
        input=0.1, cache_write=0.125, cache_write_long=0.2, cache_read=0.01, output=0.5
    )
    above = haiku.price(100_001)
    assert above
    assert (above.input, above.output) == (0.5, 2.5)
    assert haiku.price(0) == haiku.prices[0]
    assert Model(id="m", provider="openai").price(5) is None


def test_a_newer_model_has_what_it_does_not_say_from_its_predecessor():
    newer, older = builtin().find("claude-sonnet-5-5"), builtin().find("claude-sonnet-5")
    assert newer.context_tokens == older.context_tokens == 1_000_000
    assert (newer.name, newer.cache_from_tokens) == ("Claude Sonnet 5.5", 512)
    assert newer.prices != older.prices


def test_the_data_is_whole():
    registry = builtin()
    assert len(registry.models) > 400
    for (provider, name), model in registry.models.items():
        assert (provider, name) == (model.provider, model.id)
        assert provider in registry.providers
        assert model.context_tokens
        assert [price.above_tokens for price in model.prices] == sorted({price.above_tokens for price in model.prices})
        assert not model.prices or model.prices[0].above_tokens == 0
        for price in model.prices:
            named = [getattr(price, one.name) for one in fields(Price)]
            assert all(value is None or value >= 0 for value in named), name
            if price.cache_read and price.input:
                assert price.cache_read <= price.input, name
    for provider_row in registry.providers.values():
        spoken = {*provider_row.protocols, *(protocol for _, protocol in provider_row.exceptions)}
        assert spoken <= set(FORMATS)
        assert provider_row.base_url.startswith(("https://", "http://127.0.0.1"))


def test_every_model_of_anthropics_that_reasons_says_how_it_is_told():
    models = [one for (provider, _), one in builtin().models.items() if provider == "anthropic" and one.reasons]
    assert {one.id for one in models if not one.reasons_by} == set()
    assert {one.id for one in models if "budget" in one.reasons_by} == {
        name for one in models for name in [one.id] if "-4-5" in name or name.endswith("-4-6")
    }
    assert all(set(one.reasons_by) <= {"effort", "budget"} for one in builtin().models.values())


def test_a_registry_of_ones_own_is_made_of_the_same_values():
    builtin_one = builtin()
    mine = Registry({("openai", "m"): Model(id="m", provider="openai")}, builtin_one.providers)
    assert mine.find("m").provider == "openai"


API = {
    "openai": {
        "models": {
            "gpt-7": {
                "id": "gpt-7",
                "name": "GPT-7",
                "reasoning": True,
                "reasoning_options": [
                    {"type": "toggle"},
                    {"type": "effort", "values": ["low"]},
                    {"type": "budget_tokens"},
                ],
                "tool_call": True,
                "temperature": False,
                "modalities": {"input": ["text", "image"], "output": ["text"]},
                "limit": {"context": 2_000_000, "input": 1_900_000, "output": 128_000},
                "cost": {"input": 1, "output": 2, "cache_read": 0.1, "context_over_200k": {"input": 2, "output": 3}},
            },
            "picture-1": {"id": "picture-1", "modalities": {"output": ["image"]}, "limit": {"context": 10}},
            "text-embedding-9": {
                "id": "text-embedding-9",
                "modalities": {"output": ["text"]},
                "limit": {"context": 10},
            },
        }
    }
}


def test_a_new_table_is_trimmed_from_the_public_one():
    registry = load(trimmed(API, ["openai"], "2026-12-01"))
    assert list(registry.models.values()) == [
        Model(
            id="gpt-7",
            provider="openai",
            name="GPT-7",
            context_tokens=2_000_000,
            input_tokens=1_900_000,
            output_tokens=128_000,
            takes=("image",),
            reasons=True,
            reasons_by=("effort", "budget"),
            tools=True,
            temperature=False,
            prices=(
                Price(input=1, output=2, cache_read=0.1),
                Price(above_tokens=200_000, input=2, output=3),
            ),
        )
    ]


def test_what_is_kept_by_hand_gives_way_to_a_newer_table():
    row = {"provider": "anthropic", "id": "claude-sonnet-5-5", "context_tokens": 5, "prices": [{"input": 1}]}
    for as_of, price in (("2026-10-01", 2), ("2027-01-01", 1)):
        model = load(json.dumps({"as_of": as_of, "models": [row]})).find("claude-sonnet-5-5")
        assert (model.context_tokens, model.prices[0].input, model.cache_from_tokens) == (5, price, 512)


def test_a_file_that_is_not_the_public_table_is_refused():
    with pytest.raises(Mistake, match=r"no models of anthropic; is it the api\.json"):
        trimmed(API, ["openai", "anthropic"], "2026-12-01")


def test_no_data_is_read_before_the_first_question():
    program = "import sys; from everlog import registry; print(registry.builtin.cache_info().currsize, 'everlog.protocols' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["0", "False"]
