"""Settings of the proxy: who wins, what is unknown, what is secret, and that a file of seed 003 is taken as it stands."""

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from everlog.access import Mode
from everlog.errors import Mistake
from everlog.protocols import FORMATS
from everlog.surfaces import config_file
from everlog.surfaces.proxy.settings.configured import Configured, configured
from everlog.surfaces.proxy.settings.schema import Format, Proxy

SEED = """
server:
  host: 0.0.0.0
upstream:
  base_url: http://localhost:4000/v1
  api_key: ${UPSTREAM_KEY:-}
  passthrough_authorization: true
  timeout_seconds: 300
memory:
  database_path: ./infinitum.db
  reinforce_similarity: 0.86
learning:
  enabled: true
  model: memory-extractor
  extra_body:
    tool_choice: none
    chat_template_kwargs:
      enable_thinking: false
embeddings:
  enabled: false
  api_key: ${EMBEDDING_API_KEY:-}
request_context:
  user_headers: [x-infinitum-user-id, x-litellm-user-id]
  forward_to_headroom: false
"""


def of(text: str, tmp_path: Path, name: str = "everlog.yaml", **environment: str) -> dict[str, Any]:
    path = tmp_path / name
    path.write_text(text)
    return config_file.read(path, environment)


def test_a_file_of_seed_003_is_taken_as_it_stands(tmp_path: Path):
    found = configured(file=of(SEED, tmp_path, UPSTREAM_KEY="sk-up"), environment={})
    assert found.proxy.upstream.api_key == "sk-up"
    assert found.proxy.server.host == "0.0.0.0"
    assert not found.is_local
    assert found.proxy.learning.extra_body["chat_template_kwargs"] == {"enable_thinking": False}
    assert found.aliases["user"] == ("x-infinitum-user-id", "x-litellm-user-id")
    assert {key.partition(".")[0] for key in found.waiting} == {"memory", "learning", "embeddings"}
    assert "memory.reinforce_similarity" in found.waiting
    assert "memory.database_path" not in found.waiting
    (target,) = found.options().targets
    assert (target.base_url, target.key, target.silence_s) == ("http://localhost:4000/v1", "sk-up", 300)


def test_an_option_wins_over_the_environment_and_that_over_the_file(tmp_path: Path):
    file = of("server: {port: 1}\nupstream: {base_url: http://file}\n", tmp_path)
    environment = {"EVERLOG_PORT": "2", "EVERLOG_UPSTREAM": "http://env"}
    found = configured(
        file=file, path="everlog.yaml", environment=environment, given={"server.port": 3, "server.host": None}
    )
    assert (found.proxy.server.port, found.proxy.upstream.base_url) == (3, "http://env")
    said = {one.key: (one.value, one.named_by) for one in found.values()}
    assert said["server.port"] == (3, "--port")
    assert said["upstream.base_url"] == ("http://env", "EVERLOG_UPSTREAM")
    assert said["server.host"] == ("127.0.0.1", "the default")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("upstream: {base_ur: x}", "everlog.yaml: upstream has no 'base_ur'; did you mean base_url?"),
        ("upstreem: {}", "everlog.yaml: it has no 'upstreem'; did you mean upstream"),
        (
            "upstreams: [{name: a, models: [b], timeout: 3}]",
            "upstreams has no 'timeout'; did you mean timeout_seconds?",
        ),
        ("server: {port: abc}", "everlog.yaml: server.port: expected a whole number, got a text"),
        ("server: 3", "server: expected a section, got a whole number"),
        ("memory: {mode: tee}", "memory.mode: 'tee' is none of off, record, rolling, tree"),
        ("memory: {budget_tokens: 999}", "everlog.yaml: memory.budget_tokens: expected a whole number >= 1000"),
        ("memory: {usage: all}", "memory.usage: 'all' is none of last, sum"),
        ("memory: {tools: few}", "memory.tools: expected true or false, got a text"),
        ("upstream: {tools: few}", "upstream.tools: expected true or false, got a text"),
        ("upstream: {system: first}", "upstream.system: 'first' is none of own, merged, none"),
        (
            "upstreams: [{name: a, models: [b], system: first}]",
            "upstreams[0].system: 'first' is none of own, merged, none",
        ),
        (
            "upstream: {protocols: [chat]}",
            "upstream.protocols[0]: 'chat' is none of chat_completions, responses, anthropic",
        ),
        (
            "upstreams: [{name: a, models: [b], protocols: [x]}]",
            "'x' is none of chat_completions, responses, anthropic",
        ),
        ("upstreams: [{models: [b]}]", "it needs name"),
        ("learning: {extra_body: 3}", "learning.extra_body: expected a section"),
    ],
)
def test_a_key_or_a_value_that_is_wrong_is_named_with_what_is_meant(text: str, said: str, tmp_path: Path):
    with pytest.raises(Mistake, match=re.escape(said)):
        configured(file=of(text, tmp_path), path="everlog.yaml", environment={})


def test_what_is_wrong_with_a_secret_does_not_show_it(tmp_path: Path):
    with pytest.raises(Mistake) as raised:
        configured(file=of("upstream: {api_key: [sk-secret]}", tmp_path), environment={})
    assert "sk-secret" not in str(raised.value)


def test_secrets_are_shown_by_their_beginning_alone(tmp_path: Path):
    text = "upstream: {api_key: sk-abcdef}\nupstreams: [{name: a, models: [b], base_url: 'http://x', api_key: sk-ghijkl}]\n"
    shown = repr(list(configured(file=of(text, tmp_path), environment={}).values()))
    assert "sk-…" in shown
    assert "abcdef" not in shown
    assert "ghijkl" not in shown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "1"),
        ("${B:-two}", "two"),
        ("${B}", ""),
        ("x${A}y${B:-}z", "x1yz"),
        ("${E:-d}", "d"),
        ("$A ${A", "$A ${A"),
    ],
)
def test_variables_are_put_into_texts(text: str, value: str, tmp_path: Path):
    found = of(f'upstream:\n  base_url: "{text}"\n', tmp_path, A="1", E="")
    assert found["upstream"]["base_url"] == value


def test_toml_says_the_same_as_yaml(tmp_path: Path):
    toml = of(
        '[server]\nport = 9\n[[upstreams]]\nname = "a"\nmodels = ["b*"]\nbase_url = "http://x"\n', tmp_path, "e.toml"
    )
    yaml = of("server: {port: 9}\nupstreams: [{name: a, models: ['b*'], base_url: http://x}]\n", tmp_path, "e.yaml")
    assert configured(file=toml, environment={}).proxy == configured(file=yaml, environment={}).proxy


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("e.yaml", "a: [", "are no YAML (line 1)"),
        ("e.yaml", "- 1", "are no sections with names"),
        ("e.yaml", "!!python/object:os.system {}", "are no YAML (line 1)"),
        ("e.toml", "a = ", "are no TOML"),
    ],
)
def test_a_file_that_is_none_says_where(name: str, text: str, said: str, tmp_path: Path):
    with pytest.raises(Mistake, match=re.escape(said)):
        of(text, tmp_path, name)


def test_a_key_that_says_nothing_is_left_out(tmp_path: Path):
    assert configured(file=of("server:\nupstream:\n  base_url:\n", tmp_path), environment={}).proxy == Proxy()


def test_the_file_is_named_by_ours_then_by_the_older_names_and_else_beside_the_database(tmp_path: Path):
    assert config_file.find(tmp_path, {}) is None
    (tmp_path / "everlog.toml").touch()
    assert config_file.find(tmp_path, {}) == tmp_path / "everlog.toml"
    assert config_file.find(None, {}) is None
    names = {"CONTEXT_RUNTIME_CONFIG": "c.yaml", "INFINITUM_CONFIG": "i.yaml", "EVERLOG_CONFIG": "e.yaml"}
    for n, expected in enumerate(("e.yaml", "i.yaml", "c.yaml")):
        assert config_file.find(tmp_path, dict([*names.items()][: 3 - n])) == Path(expected)
    (tmp_path / "everlog.yaml").touch()
    with pytest.raises(Mistake, match=r"everlog\.yaml and everlog\.toml both hold settings"):
        config_file.find(tmp_path, {})


def test_without_an_upstream_it_says_how_to_name_one():
    with pytest.raises(Mistake, match="--upstream URL, EVERLOG_UPSTREAM, or base_url"):
        configured(environment={}).options()


def test_memory_that_is_off_is_mode_off(tmp_path: Path):
    assert configured(file=of("memory: {enabled: false}", tmp_path), environment={}).mode == "off"
    assert configured(file=of("memory: {mode: off}", tmp_path), environment={}).mode == "off"
    assert configured(environment={}).mode == "tree"


@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_mode_is_set_by_option_environment_and_file(mode: Mode, tmp_path: Path):
    file = of(f"memory: {{mode: {mode}}}", tmp_path)
    assert configured(file=file, environment={}).mode == mode
    assert configured(file=file, environment={"EVERLOG_MODE": "record"}).mode == "record"
    assert configured(environment={"EVERLOG_MODE": "record"}, given={"memory.mode": mode}).mode == mode
    assert configured(environment={}, given={"memory.mode": mode}).needs_database == (mode != "off")


def test_what_a_file_says_of_memory_and_of_upstreams_is_what_the_proxy_is_told(tmp_path: Path):
    text = """
memory: {mode: rolling, budget_tokens: 9000, tools: false, usage: sum}
upstream: {base_url: "http://a", system: merged, tools: false}
upstreams: [{name: b, models: ["c*"], base_url: "http://b", system: none}]
"""
    told = configured(file=of(text, tmp_path), environment={}).options()
    assert (told.mode, told.budget_tokens, told.memory_tools, told.usage) == ("rolling", 9000, False, "sum")
    assert [(one.system, one.tools) for one in told.targets] == [("merged", False), ("none", None)]
    usual = configured(environment={"EVERLOG_UPSTREAM": "http://a"}).options()
    assert (usual.mode, usual.budget_tokens, usual.memory_tools, usual.usage) == ("tree", 20_000, True, "last")
    assert [(one.system, one.tools) for one in usual.targets] == [(None, None)]


def test_the_numbers_of_the_seed_are_its_defaults():
    weights = msgspec.to_builtins(Proxy().retrieval_weights)
    assert [*weights.values()] == [0.45, 0.18, 0.14, 0.10, 0.05, 0.08]
    assert Proxy().memory.minimum_retrieval_score == 0.18
    assert Proxy().learning.topic_summary_debounce_seconds == 30


def test_headers_that_say_who_asks_do_not_go_up_but_those_of_sessions_do():
    said = Configured(
        proxy=msgspec.convert(
            {
                "upstream": {"base_url": "http://x"},
                "request_context": {"user_headers": ["X-Me"], "session_headers": ["X-S"]},
            },
            Proxy,
        )
    )
    assert "x-me" in said.options().identity_headers
    assert "x-s" not in said.options().identity_headers


def test_the_sections_that_other_commands_leave_alone_are_those_of_the_proxy():
    assert set(config_file.PROXY) == {one.name for one in msgspec.structs.fields(Proxy)}


def test_the_protocols_that_a_file_may_name_are_those_that_there_are():
    assert set(get_args(Format)) == set(FORMATS)


def test_an_option_is_called_by_its_name():
    with pytest.raises(
        Mistake, match=re.escape("--mode: memory.mode: 'remember' is none of off, record, rolling, tree")
    ):
        configured(environment={}, given={"memory.mode": "remember"})
