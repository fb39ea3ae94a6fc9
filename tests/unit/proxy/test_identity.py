"""Who asks is read from headers and body in a fixed order; ids that cannot be stored stand as their hashes."""

import pytest

from everlog.names import is_name
from everlog.surfaces.proxy.recording.identity import Identity, Source, identify, opaque
from everlog.surfaces.proxy.recording.profiles import profile_of, profiles
from everlog.surfaces.proxy.recording.profiles.rules import Facts

SESSION = "b7c1e0aa-0000-4000-8000-000000000001"
CODEX = f'{{"session_id":"{SESSION}","thread_id":"x","request_kind":"turn"}}'
CLAUDE = f'{{"device_id":"d","account_uuid":"","session_id":"{SESSION}"}}'


def who(headers=None, body=None, **wishes) -> Identity:
    pairs = tuple((name.encode(), value.encode()) for name, value in (headers or {}).items())
    body = body or {}
    profile = profile_of(Facts(pairs, body, ()))
    return identify(pairs, body, sources=profile.sources, **wishes)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"x-everlog-session-id": SESSION}, {}),
        ({"x-infinitum-session-id": SESSION}, {}),
        ({"x-context-session-id": SESSION}, {}),
        ({"user-agent": "claude-cli/2.1.197 (external, cli)", "x-claude-code-session-id": SESSION}, {}),
        ({"user-agent": "claude-cli/2.1.80 (external, cli)"}, {"metadata": {"user_id": CLAUDE}}),
        ({"user-agent": "claude-cli/2.0.1"}, {"metadata": {"user_id": f"user_a_account__session_{SESSION}"}}),
        ({"x-codex-turn-metadata": CODEX, "session-id": SESSION}, {}),
        ({"x-codex-turn-metadata": CODEX}, {}),
        ({"x-opencode-session": SESSION}, {}),
        ({"x-session-affinity": SESSION, "user-agent": "opencode/1.18.33"}, {}),
        ({"x-session-id": SESSION, "user-agent": "opencode/1.18.33"}, {}),
        ({"session_id": SESSION, "user-agent": "OpenAI/JS 6.26.0"}, {}),
        ({"x-openwebui-chat-id": SESSION, "x-openwebui-auth-type": "jwt"}, {}),
        ({}, {"conversation": SESSION}),
        ({}, {"conversation": {"id": SESSION}}),
    ],
)
def test_each_client_names_its_session_in_its_own_place(headers, body):
    assert who(headers, body).session == SESSION


def test_our_own_header_comes_first_and_the_older_names_after_it():
    headers = {
        "x-session-id": "4",
        "x-context-session-id": "3",
        "x-infinitum-session-id": "2",
        "x-everlog-session-id": "1",
    }
    for expected in ("1", "2", "3", "4"):
        assert who(headers).session == expected
        headers.popitem()
    assert who(headers).session is None


def test_a_name_that_the_operator_added_comes_before_what_a_client_sends():
    headers = {"x-our-thread": "ours", "x-session-id": "theirs"}
    assert who(headers, aliases={"session": ["X-Our-Thread"]}).session == "ours"


def test_a_hint_for_a_cache_is_no_session():
    assert who({}, {"prompt_cache_key": "shared"}).session is None


def test_an_end_user_is_named_in_headers_or_the_body():
    assert who({"x-everlog-user-id": "ann"}, {"user": "bob"}).user == "ann"
    assert who({"x-openwebui-user-id": "ann", "x-openwebui-auth-type": "jwt"}).user == "ann"
    assert who({}, {"user": "ann"}).user == "ann"
    assert who({}, {"safety_identifier": "ann", "user": "bob"}).user == "ann"
    assert who({}, {"metadata": {"user_id": "ann"}}).user == "ann"


def test_a_device_is_no_end_user():
    agent = {"user-agent": "claude-cli/2.1.197"}
    assert who(agent, {"metadata": {"user_id": CLAUDE}}).user is None
    assert who({}, {"metadata": {"user_id": CLAUDE}}).user is None


def test_a_working_directory_makes_a_project_unless_one_is_named():
    derived = who({"x-everlog-cwd": "C:\\Users\\ann\\.\\old\\..\\My Project"})
    assert derived.cwd == "C:/Users/ann/My Project"
    assert derived.project is not None
    assert derived.project.startswith("cwd:My-Project:")
    assert derived.is_project_derived
    named = who({"x-everlog-cwd": "/home/ann", "x-everlog-project-id": "p"})
    assert (named.project, named.cwd, named.is_project_derived) == ("p", "/home/ann", False)
    assert who({"x-everlog-cwd": "/"}).cwd == "/"


@pytest.mark.parametrize("cwd", ["", "x" * 3000, "a\0b"])
def test_what_is_no_directory_is_none(cwd):
    assert who({"x-everlog-cwd": cwd}) == Identity()


@pytest.mark.parametrize("value", ["x" * 500, "a\u0000b", "line\nbreak", " "])
def test_an_id_that_cannot_be_stored_stands_as_its_hash(value):
    assert is_name(opaque(value), 200)
    assert opaque(value) != opaque(value + "x")


def test_what_is_blank_counts_as_not_given():
    assert who({"x-everlog-session-id": "  ", "x-session-id": "s"}).session == "s"


@pytest.mark.parametrize(
    "body", [{"metadata": 7}, {"metadata": {"user_id": ["x"]}}, {"conversation": {"id": 7}}, {"user": {}}]
)
def test_a_body_of_another_shape_names_nobody(body):
    assert who({}, body) == Identity()


def test_a_source_is_read_as_its_file_says():
    assert Source.parse("body:metadata.user_id#session_id") == Source(
        place="body", path=("metadata", "user_id"), key="session_id"
    )
    assert Source.parse("body:metadata.user_id@_session_").behind == "_session_"
    assert Source.parse("body:metadata.user_id!").plain


def test_a_client_is_known_by_what_it_sends():
    for name, headers in {
        "claude-code": {"user-agent": "claude-cli/2.1.197 (external, cli)"},
        "codex": {"x-codex-window-id": "w:0"},
        "opencode": {"user-agent": "opencode/1.18.33 ai-sdk"},
        "qwen-code": {"user-agent": "QwenCode/0.15.10 (linux; x64)"},
        "open-webui": {"x-openwebui-user-id": "u"},
        "proxy": {"user-agent": "OpenAI/Python 3.57.0"},
    }.items():
        pairs = tuple((one.encode(), value.encode()) for one, value in headers.items())
        assert profile_of(Facts(pairs, {}, ())).name == name
    assert "any" not in profiles()
