"""Where requests go, and what proves who sends them (chat A.1 67, 104)."""

import pytest

from everlog.chat.providers import endpoint
from everlog.errors import MissingCredentials, Mistake
from everlog.registry import builtin


def place(name, environ=None, **options):
    return endpoint(builtin().provider(name), environ=environ or {}, **options)


def test_key_and_address_come_from_what_is_given_then_from_the_environment_then_from_the_registry():
    environ = {"OPENAI_API_KEY": "from-environment", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1/"}
    assert place("openai", {"OPENAI_API_KEY": " k \n"}).base_url == "https://api.openai.com/v1"
    assert place("openai", {"OPENAI_API_KEY": " k \n"}).headers["authorization"] == "Bearer k"
    found = place("openai", environ)
    assert (found.url("/responses"), found.headers["authorization"]) == (
        "http://127.0.0.1:1/v1/responses",
        "Bearer from-environment",
    )
    given = place("openai", environ, api_key="given", base_url="https://gateway.example/v1")
    assert (given.base_url, given.headers["authorization"]) == ("https://gateway.example/v1", "Bearer given")


def test_anthropic_has_a_header_of_its_own_for_the_key():
    found = place("anthropic", {"ANTHROPIC_API_KEY": "k"})
    assert found.headers == {"anthropic-version": "2023-06-01", "x-api-key": "k"}


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ],
)
def test_a_missing_key_is_named(name, variable):
    with pytest.raises(MissingCredentials, match=f"{name} needs a key: set {variable}, or give api_key="):
        place(name, {variable: ""})


def test_a_local_server_and_one_at_another_address_need_no_key():
    assert place("ollama").headers == {}
    assert place("openai", base_url="http://127.0.0.1:8000/v1").headers == {}
    assert place("openai", api_key="").headers == {}


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel", "a b", "nul\0"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key):
    with pytest.raises(MissingCredentials, match="copy it again") as caught:
        place("openai", api_key=key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["api.openai.com/v1", "ftp://x/v1", "https://", "/v1", "https://a b/v1"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(Mistake, match="http:// or https://"):
        place("openai", api_key="k", base_url=url)


def test_an_address_with_a_password_is_refused_without_being_shown():
    with pytest.raises(Mistake, match="names a user") as caught:
        place("openai", api_key="k", base_url="https://ada:secret@gateway.example/v1")
    assert "secret" not in str(caught.value)


def test_headers_of_an_endpoint_win_and_lists_of_features_are_joined():
    found = place("anthropic", api_key="k", headers={"Anthropic-Beta": "one,two", "X-Team": "a"})
    sent = found.with_headers({"anthropic-beta": "two,three", "X-API-Key": "stolen", "x-team": "b", "X-Mine": "1"})
    assert sent["anthropic-beta"] == "one,two,three"
    assert (sent["x-api-key"], sent["x-team"], sent["x-mine"]) == ("k", "a", "1")
    assert sent["content-type"] == "application/json"


def test_an_endpoint_does_not_show_its_key():
    assert "secret" not in repr(place("openai", api_key="secret"))


@pytest.mark.parametrize("url", ["https://gateway.example/v1?version=1", "https://gateway.example/v1#here"])
def test_an_address_ends_with_its_path(url):
    with pytest.raises(Mistake, match="ends with a path"):
        place("openai", base_url=url)


@pytest.mark.parametrize("name", ["base_url", "api_key"])
def test_key_and_address_are_texts(name):
    with pytest.raises(Mistake, match=f"{name} is a str or None, not int"):
        place("openai", **{name: 5})


@pytest.mark.parametrize(
    ("name", "given", "base_url"),
    [
        ("openai", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("openai", "http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1"),
        ("openai", "http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("openai", "https://gateway.example/openai", "https://gateway.example/openai"),
        ("ollama", "http://127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        ("openrouter", "https://gateway.example", "https://gateway.example/api/v1"),
        ("deepseek", "https://gateway.example/", "https://gateway.example"),
        ("anthropic", "https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("anthropic", "https://gateway.example/anthropic/", "https://gateway.example/anthropic/v1"),
        ("anthropic", "https://gateway.example/anthropic/v1", "https://gateway.example/anthropic/v1"),
    ],
)
def test_an_address_without_a_path_gets_that_of_the_provider(name, given, base_url):
    assert place(name, base_url=given).base_url == base_url
    assert place(name, {f"{name.upper()}_BASE_URL": f" {given}\n", "ANTHROPIC_API_KEY": "k"}).base_url == base_url


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_address_is_no_address(empty):
    """It would send words to the provider's own server that were meant for another one."""
    with pytest.raises(Mistake, match="the base_url given for openai is empty"):
        endpoint(builtin().provider("openai"), base_url=empty, api_key="k", environ={})
