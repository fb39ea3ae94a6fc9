"""Which model, provider and protocol (chat A.1 62 to 67)."""

import copy
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from everlog.chat.async_chat import AsyncChat
from everlog.chat.chat import Chat
from everlog.chat.routes import ChatConfig
from everlog.errors import MissingCredentials, Mistake, UnknownModel
from everlog.testing import FrozenClock
from everlog.testing.upstream import Answer

KEYS = ChatConfig(environ={"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a"})
BOTH = pytest.mark.parametrize("kind", [Chat, AsyncChat])


@BOTH
@pytest.mark.covers("chat A.1 63", "D1", "D22")
@pytest.mark.parametrize(
    ("name", "model", "provider"),
    [
        ("anthropic/claude-sonnet-5-5", "claude-sonnet-5-5", "anthropic"),
        ("gpt-5.6-luna", "gpt-5.6-luna", "openai"),
        ("ollama/any", "any", "ollama"),
    ],
)
def test_a_name_finds_its_model(kind, name, model, provider):
    chat = kind(name, config=KEYS)
    assert (chat.model.id, chat.provider.name) == (model, provider)


@BOTH
@pytest.mark.covers("chat A.1 62", "D2", "D79")
def test_another_model_resets_the_protocol_and_keeps_all_else(kind):
    chat = kind("gpt-5.6-luna", protocol="chat_completions", config=KEYS)
    chat.with_temperature(0.5).with_caching().with_provider_options({"a": 1}).with_headers({"x-a": "1"})
    chat.with_tools(print_it)
    assert chat.with_model("gpt-5.6-terra") is chat
    assert (chat.model.id, chat._state.route.protocol) == ("gpt-5.6-terra", "responses")
    assert (chat.temperature, chat.caching, chat.provider_options) == (0.5, {}, {"a": 1})
    assert (chat.headers, list(chat.tools)) == ({"x-a": "1"}, ["print_it"])


def print_it(words: str) -> None:
    """Print."""


@BOTH
@pytest.mark.covers("chat A.1 62", "D2")
def test_no_name_is_the_configured_model(kind):
    chat = kind(config=ChatConfig(default_model="gpt-5.6-luna", environ=KEYS.environ))
    assert chat.model.id == "gpt-5.6-luna"
    assert chat.with_model("anthropic/claude-sonnet-5-5").with_model(None).model.id == "gpt-5.6-luna"
    with pytest.raises(Mistake, match="name a model"):
        kind(config=KEYS)


@BOTH
@pytest.mark.covers("chat A.1 63", "chat A.2 366", "D3", "D79")
def test_an_unknown_model_is_refused_unless_it_is_assumed_to_exist(kind):
    with pytest.raises(UnknownModel, match=r"did you mean gpt-5\.6-luna"):
        kind("gpt-5.6-lunar", config=KEYS)
    for call in (kind, kind("gpt-5.6-luna", config=KEYS).with_model):
        options = {"config": KEYS} if call is kind else {}
        with pytest.raises(Mistake, match="assume_model_exists needs provider="):
            call("gpt-9", assume_model_exists=True, **options)
    chat = kind("gpt-9", provider="openai", assume_model_exists=True, config=KEYS)
    assert (chat.model.id, chat.model.output_tokens) == ("gpt-9", None)
    known = kind("gpt-5.6-luna", provider="openai", assume_model_exists=True, config=KEYS)
    assert known.model.output_tokens is not None


@pytest.mark.covers("chat A.1 64", "D1")
def test_a_protocol_that_the_provider_does_not_speak_is_refused_at_the_request(chatting):
    talk = chatting(Answer(text="Hello."))
    talk.chat.with_model("m-1", provider="openai", protocol="anthropic", assume_model_exists=True)
    talk.chat.ask_later("Hi")
    for verb in ("render", "complete"):
        with pytest.raises(Mistake, match="openai speaks responses, chat_completions, not anthropic"):
            talk.do(verb)
    assert talk.upstream.requests == []


@BOTH
@pytest.mark.covers("chat A.1 64")
def test_a_misspelt_protocol_is_named_as_the_chat_is_made(kind):
    message = r"there is no protocol 'chat_completion'; there are .*; did you mean chat_completions"
    with pytest.raises(Mistake, match=message):
        kind("gpt-5.6-luna", protocol="chat_completion", config=KEYS)
    with pytest.raises(Mistake, match=message):
        kind("gpt-5.6-luna", config=KEYS).with_model("gpt-5.6-luna", protocol="chat_completion")
    with pytest.raises(Mistake, match=message):
        kind("gpt-5.6-luna", config=ChatConfig(environ=KEYS.environ, protocols={"openai": "chat_completion"}))


@BOTH
def test_a_misspelt_option_is_named_with_the_one_that_is_meant(kind):
    options: dict[str, Any] = {"protcol": "responses"}
    misspelt: dict[str, Any] = {"api_key": "x"}
    with pytest.raises(Mistake, match=rf"^{kind.__name__} has no option 'protcol'; .*; did you mean protocol\?"):
        kind("gpt-5.6-luna", config=KEYS, **options)
    with pytest.raises(Mistake, match=r"^ChatConfig has no option 'api_key'; .*; did you mean api_keys\?"):
        ChatConfig(**misspelt)
    with pytest.raises(Mistake, match=r"base_urls of the config has no provider 'opnai'; .*; did you mean openai\?"):
        kind("gpt-5.6-luna", config=ChatConfig(environ=KEYS.environ, base_urls={"opnai": "http://a"}))


def test_a_config_can_be_copied_changed_and_sent_to_another_process():
    config = ChatConfig(default_model="gpt-5.6-luna", environ={"OPENAI_API_KEY": "x"}, clock=FrozenClock())
    assert copy.copy(config) == config == replace(config)
    assert pickle.loads(pickle.dumps(ChatConfig(default_model="m"))).default_model == "m"


@BOTH
@pytest.mark.covers("chat A.1 64", "chat A.1 65", "chat A.2 213")
@pytest.mark.parametrize(
    ("model", "asked", "configured", "protocol"),
    [
        ("m", None, {}, "responses"),
        ("m", None, {"openai": "chat_completions"}, "chat_completions"),
        ("m", "responses", {"openai": "chat_completions"}, "responses"),
        ("gpt-audio-2", None, {}, "chat_completions"),
        ("gpt-realtime", None, {}, "chat_completions"),
        ("gpt-4o-search-preview", None, {}, "chat_completions"),
    ],
)
def test_who_asks_beats_who_configures_beats_the_provider(kind, model, asked, configured, protocol):
    some = ChatConfig(environ=KEYS.environ, protocols=configured)
    chat = kind(model, provider="openai", protocol=asked, assume_model_exists=True, config=some)
    assert chat._state.route.protocol == protocol


@pytest.mark.covers("chat A.1 66", "D16", "D73")
def test_another_config_keeps_model_provider_and_protocol(talk):
    first, second = talk(Answer(text="One.")), talk(Answer(text="Two."))
    assert first.chat.with_config(second.chat.config) is first.chat
    assert first.ask().text == "Two."
    assert (first.chat.model.id, first.chat._state.route.protocol) == ("m-1", first.protocol)
    assert first.upstream.requests == []


@BOTH
@pytest.mark.covers("chat A.1 66", "D73")
def test_no_config_is_the_default_one(kind, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-outside")
    chat = kind("gpt-5.6-luna", config=KEYS).with_config(None)
    assert chat.config.environ is None
    with pytest.raises(Mistake, match="a config is a ChatConfig or None"):
        chat.with_config({"default_model": "x"})


@BOTH
@pytest.mark.covers("chat A.1 67")
def test_a_missing_key_is_named_at_once(kind):
    with pytest.raises(MissingCredentials, match="openai needs a key: set OPENAI_API_KEY, or give api_key="):
        kind("gpt-5.6-luna", config=ChatConfig(environ={}))
    with pytest.raises(MissingCredentials, match="ANTHROPIC_API_KEY"):
        kind("gpt-5.6-luna", config=ChatConfig(environ={"OPENAI_API_KEY": "x"})).with_fallbacks("claude-sonnet-5-5")


def test_a_key_and_an_address_may_be_given_to_the_chat(talk):
    talk = talk(Answer(text="Hello."))
    options: dict[str, Any] = {"base_url": talk.upstream.url, "api_key": "sk-mine", "config": ChatConfig(environ={})}
    talk.chat = type(talk.chat)(
        "m-1", provider=talk.provider, protocol=talk.protocol, assume_model_exists=True, **options
    )
    talk.ask()
    headers = talk.upstream.requests[0].headers
    assert "sk-mine" in {headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")}
    assert "sk-mine" not in repr(talk.chat) + repr(talk.chat.config) + repr(talk.chat._state.route)


def test_an_address_alone_is_that_of_a_server_that_speaks_like_openais(chatting):
    talk = chatting(Answer(text="Hello."))
    talk.chat = type(talk.chat)("any-model", base_url=talk.upstream.url, config=ChatConfig(environ={}))
    assert talk.ask().text == "Hello."
    assert talk.upstream.requests[0].path == "/v1/chat/completions"
    assert talk.bodies[0]["model"] == "any-model"


@pytest.mark.covers("chat A.1 104", "D19", "D76")
def test_headers_are_sent_replaced_and_never_those_of_the_provider(talk):
    talk = talk(Answer(text="1"), Answer(text="2"))
    urls, keys = {talk.provider: talk.upstream.url}, {talk.provider: "sk-mine"}
    talk.chat.with_config(ChatConfig(environ={}, base_urls=urls, api_keys=keys))
    talk.chat.with_headers({"X-Old": "1"}).with_headers({"X-New": "2", "Authorization": "evil", "x-api-key": "evil"})
    talk.ask()
    headers = talk.upstream.requests[0].headers
    assert headers["x-new"] == "2"
    assert "x-old" not in headers
    assert headers["x-api-key" if talk.provider == "anthropic" else "authorization"].endswith("sk-mine")
    talk.chat.with_headers(None)
    talk.ask()
    assert "x-new" not in talk.upstream.requests[1].headers


@BOTH
@pytest.mark.parametrize(
    ("options", "provider", "protocol"),
    [
        ({"model": "vendor/model"}, "openai", "chat_completions"),
        ({"model": "vendor/model", "protocol": "responses"}, "openai", "responses"),
        ({"model": "gpt-5.6-luna"}, "openai", "responses"),
        ({"model": "anthropic/claude-sonnet-5-5"}, "anthropic", "anthropic"),
        ({"model": "claude-9", "provider": "anthropic", "assume_model_exists": True}, "anthropic", "anthropic"),
        ({"config": ChatConfig(default_model="deepseek/deepseek-flash", environ={})}, "deepseek", "chat_completions"),
    ],
    ids=["unknown", "unknown, by its protocol", "known", "named", "assumed", "configured"],
)
def test_an_address_goes_with_the_provider_of_the_model_if_there_is_one(kind, options, provider, protocol):
    chat = kind(**{"config": ChatConfig(environ={}), "base_url": "http://127.0.0.1:9/v1", **options})
    assert (chat.provider.name, chat._state.route.protocol) == (provider, protocol)
    assert chat.config.base_urls == {provider: "http://127.0.0.1:9/v1"}


@BOTH
@pytest.mark.parametrize("options", [{"base_url": "http://127.0.0.1:9/v1"}, {"api_key": "k"}, {}], ids=str)
def test_a_chat_needs_a_model(kind, options):
    with pytest.raises(Mistake, match="name a model, as in"):
        kind(config=ChatConfig(environ={}), **options)


def test_a_chat_that_asks_nobody_loads_no_http():
    program = """
import sys, everlog
chat = everlog.Chat("gpt-5.6-luna", api_key="k").with_instructions("x").ask_later("y")
chat.render()
print(sorted({"httpx2", "asyncio", "sqlalchemy"} & sys.modules.keys()))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() in {"[]", "['asyncio']"}


@pytest.mark.covers("chat A.1 63", "chat A.2 366")
def test_a_model_that_nobody_knows_is_asked_all_the_same(talk):
    talk = talk(Answer(text="Hello."), Answer(text="There."))
    talk.chat.with_model("new-9", provider=talk.provider, protocol=talk.protocol, assume_model_exists=True)
    talk.chat.with_tools(print_it).with_schema({"type": "object"}).with_thinking().with_temperature(0.5)
    assert [talk.ask().text, "".join(map(str, talk.stream()))] == ["Hello.", "There."]
    assert [body["model"] for body in talk.bodies] == ["new-9", "new-9"]
    assert [body["temperature"] for body in talk.bodies] == [0.5, 0.5]
    assert talk.chat.cost.total_usd is None
