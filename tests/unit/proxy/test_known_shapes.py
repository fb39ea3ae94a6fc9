"""Known faults and facts of proxies that no other file here has: shapes of prompts, layers on the way, who asks.

The numbers are those of the list of known faults (`tests/unit/test_known_relay_faults.py`).
"""

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.access import Mode
from everlog.messages import Message
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Settings, said
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.recording.identity import Identity, identify
from everlog.surfaces.proxy.recording.profiles import profile_of
from everlog.surfaces.proxy.recording.profiles.rules import Facts
from everlog.surfaces.proxy.translation.translating import estimated_tokens
from everlog.testing.upstream.answers import Answer, body_of
from tests.unit.proxy.test_front import Proxy
from tests.unit.proxy.test_translating import FIELDS, WAYS, asked, translation
from tests.unit.proxy.wire import JSON_HEAD, PLAIN, Client, Coming

THOUGHT = {"type": "thinking", "thinking": "Hm.  So.", "signature": "c2ln\\u002bbmF0=="}
REASONING: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x+/="},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{ }"},
    {"type": "function_call_output", "call_id": "c1", "output": "milk"},
]

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "32 a prompt with a mark of the cache": (
        "/v1/messages",
        {
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": "go"}],
        },
    ),
    "33 a system message that is not the first": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "go"}, {"role": "system", "content": "Mind."}]},
    ),
    "34 a prompt without a user": ("/v1/chat/completions", {"messages": [{"role": "system", "content": "Go."}]}),
    "35 thinking with its signature": (
        "/v1/messages",
        {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "Yes."}]},
                {"role": "user", "content": "on"},
            ]
        },
    ),
    "36 reasoning before its call": ("/v1/responses", {"input": [{"role": "user", "content": "go"}, *REASONING]}),
    "37 ids without a store": (
        "/v1/responses",
        {"store": False, "include": ["reasoning.encrypted_content"], "input": REASONING},
    ),
    "39 a system prompt": (
        "/v1/responses",
        {"instructions": "You are theirs.", "input": [{"role": "developer", "content": "Mind."}]},
    ),
}


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


def sent_by(proxy: Proxy, path: str, body: bytes, *headers: tuple[bytes, bytes]) -> tuple[Client, Any]:
    """Return what a client gets, and what went up."""
    proxy.app.duties.hold_s = 20  # so that no answer is late
    went: list[Any] = []
    answered = json.dumps(body_of(Answer(text="Milk."), FORMATS_OF[path], "m")).encode()

    def answer(outgoing: Any) -> Coming:
        went.append(outgoing)
        return Coming(headers=JSON_HEAD, pieces=[answered])

    proxy.answer = answer
    client = proxy.ask(path, "POST", *headers, body=body)
    [outgoing] = went
    return client, outgoing


FORMATS_OF = {f"/v1{one.path}": name for name, one in FORMATS.items()}


@pytest.mark.parametrize("mode", ["off", "record"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_prompt_of_any_shape_goes_up_as_the_very_object_that_came(name: str, mode: Mode):
    """Faults 32 to 39, as far as the proxy adds nothing to prompts."""
    path, fields = SHAPES[name]
    body = json.dumps({"model": "m", **fields}, separators=(", ", " :")).encode()
    proxy = Proxy(options=replace(PLAIN, mode=mode))
    client, outgoing = sent_by(proxy, path, body)
    assert outgoing.body is body
    assert client.header(b"x-everlog-degraded") == []
    proxy.close()


@pytest.mark.parametrize(("client", "upstream"), WAYS)
def test_fault_34_a_prompt_without_a_user_is_translated_to_words_of_the_system_alone(client: str, upstream: str):
    """There is nobody whose words could be made up; the upstream says what it thinks of it."""
    fields: dict[str, Any] = {FIELDS[client]: []}
    if client == "anthropic":
        fields["system"] = "Go."
    else:
        fields[FIELDS[client]] = [{"role": "system", "content": "Go."}]
    body = asked(client, upstream, **fields).body
    histories = [one for said in FORMATS[upstream].parse_history(body) for one in said.messages]
    assert [(one.kind, one.text) for one in histories] == [("system", "Go.")]


@pytest.mark.parametrize("upstream", ["chat_completions", "anthropic"])
def test_faults_36_and_37_of_sealed_reasoning_no_reference_is_left_behind_or_made_up(upstream: str):
    """It means something to who made it alone; the call that it led to is there, with its result."""
    body = asked("responses", upstream, input=[{"role": "user", "content": "go"}, *REASONING]).body
    text = json.dumps(body)
    assert "rs_1" not in text
    assert "x+/=" not in text
    kinds = [one.kind for said in FORMATS[upstream].parse_history(body) for one in said.messages]
    assert kinds == ["user", "tool_call", "tool_result"]


@pytest.mark.parametrize("client", ["chat_completions", "anthropic"])
def test_fault_37_no_id_of_an_item_is_made_up_for_an_upstream_of_responses(client: str):
    talk = said(
        [Message(kind="user", text="go"), Message(kind="assistant", text="Yes."), Message(kind="user", text="on")]
    )
    body = translation(client, "responses").request(FORMATS[client].render_request(talk, Settings(model="m"))).body
    assert "previous_response_id" not in body
    assert not [item for item in body["input"] if "id" in item or item.get("type") == "item_reference"]


LARGE = "A" * 400_000
MEDIA = {
    "image": ("anthropic", {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": LARGE}}),
    "document": (
        "anthropic",
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": LARGE}},
    ),
    "image_url": (
        "chat_completions",
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{LARGE}"}},
    ),
    "input_audio": ("chat_completions", {"type": "input_audio", "input_audio": {"data": LARGE, "format": "wav"}}),
    "file": (
        "chat_completions",
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{LARGE}"}},
    ),
    "input_image": ("responses", {"type": "input_image", "image_url": f"data:image/png;base64,{LARGE}"}),
    "input_file": (
        "responses",
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{LARGE}"},
    ),
    "video_url": ("chat_completions", {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{LARGE}"}}),
}


@pytest.mark.parametrize("name", MEDIA)
def test_fault_38_a_part_that_is_no_text_is_not_counted_by_its_letters(name: str):
    client, part = MEDIA[name]
    plain: dict[str, Any] = {
        "model": "m",
        FIELDS[client]: [{"role": "user", "content": [{"type": "text", "text": "go"}]}],
    }
    more = {"model": "m", FIELDS[client]: [{"role": "user", "content": [{"type": "text", "text": "go"}, part]}]}
    assert estimated_tokens(FORMATS[client], more) - estimated_tokens(FORMATS[client], plain) <= 2_000


@pytest.mark.parametrize(("client", "upstream"), WAYS)
def test_fault_39_the_callers_system_prompt_comes_through_word_for_word_and_alone(client: str, upstream: str):
    talk = said([Message(kind="system", text="You are <theirs> & nobody's."), Message(kind="user", text="go")])
    body = translation(client, upstream).request(FORMATS[client].render_request(talk, Settings(model="m"))).body
    told = [(one.kind, one.text) for said in FORMATS[upstream].parse_history(body) for one in said.messages]
    assert told == [("system", "You are <theirs> & nobody's."), ("user", "go")]


def test_fault_19_no_layer_of_a_framework_is_between_a_server_and_the_relay():
    """Such layers gather streams. The interface to the log has routes of a framework, behind the pages, and no layers."""
    found = []
    for file in Path(everlog.__file__).parent.joinpath("surfaces").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                found += [(file.parent.name, name) for name in names if name.split(".")[0] in {"starlette", "fastapi"}]
    assert {place for place, _ in found} == {"api"}
    assert not [name for _, name in found if "middleware" in name]


@pytest.mark.parametrize(
    ("written", "kept"),
    [(rb"\ud83d\ude00", "\U0001f600"), (rb"\ud83d alone", "\ud83d alone"), ("\U0001f600".encode(), "\U0001f600")],
)
def test_fault_21_an_escaped_pair_is_one_character_and_a_lone_half_is_kept(proxy: Proxy, written: bytes, kept: str):
    body = b'{"model":"m","messages":[{"role":"user","content":"' + written + b'"}]}'
    client, outgoing = sent_by(proxy, "/v1/chat/completions", body)
    assert (client.status, outgoing.body is body, client.header(b"x-everlog-degraded")) == (200, True, [])
    [thread] = proxy.home.threads()
    assert [one.message.text for one in proxy.home.thread(thread.key).entries()] == [kept, "Milk."]
    shown = json.loads(proxy.ask(f"/everlog/v1/threads/{thread.key}/entries").body)["entries"]
    assert [one["text"] for one in shown] == [kept, "Milk."]


def who(**headers: str) -> Identity:
    given: Headers = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return identify(given, {}, sources=profile_of(Facts(given, {}, ())).sources)


def test_fact_14_a_working_directory_is_put_in_order_and_makes_a_project_where_none_is_named():
    open_code = who(x_opencode_user="ada", x_opencode_project="boat", x_opencode_directory="/home/ada/old/../boat/.")
    assert open_code == Identity(user="ada", project="boat", cwd="/home/ada/boat", is_project_derived=False)
    headroom = who(x_headroom_user_id="ada", x_headroom_cwd="/home/ada/boat")
    assert (headroom.user, headroom.cwd, headroom.is_project_derived) == ("ada", "/home/ada/boat", True)
    assert headroom.project == who(x_everlog_cwd="/home/ada/old/../boat").project
    assert headroom.project is not None
    assert headroom.project.startswith("cwd:boat:")


@pytest.mark.parametrize(
    ("field", "end", "open_code"), [("user", "user-id", "user"), ("project", "project-id", "project")]
)
def test_fact_14_ours_counts_before_the_older_names_and_those_before_the_ones_of_tools(
    field: str, end: str, open_code: str
):
    names = [
        f"x-everlog-{end}",
        f"x-infinitum-{end}",
        f"x-context-{end}",
        f"x-opencode-{open_code}",
        f"x-headroom-{end}",
    ]
    for n in range(len(names)):
        given = {name.replace("-", "_"): name for name in reversed(names[n:])}
        assert getattr(who(**given), field) == names[n]


def test_fact_17_who_asks_is_told_and_kept_and_nothing_of_it_goes_up(proxy: Proxy):
    told = (
        (b"x-session-id", b"ses_1"),
        (b"x-opencode-user", b"ada"),
        (b"x-opencode-project", b"boat"),
        (b"x-opencode-directory", b"/home/ada/boat"),
    )
    for n, name in enumerate((b"x-infinitum-debug", b"x-context-debug")):
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"Hello {n}"}]}).encode()
        client, outgoing = sent_by(proxy, "/v1/chat/completions", body, *told, (name, b"true"))
        assert client.header(b"x-everlog-resolved-user-id") == [b"ada"]
        assert client.header(b"x-everlog-resolved-project-id") == [b"boat"]
        assert [one for one, _ in outgoing.headers] == [b"x-session-id"]
    events = json.loads(proxy.ask("/events").body)["events"]
    assert len(events) == 4
    assert {(one["session_id"], one["user_id"], one["project_id"]) for one in events} == {("ses_1", "ada", "boat")}
    for thread in proxy.home.threads():
        for one in proxy.home.thread(thread.key).entries():
            assert one.origin.cwd == "/home/ada/boat"
