"""The proxy's own pages: what they say, to whom, and that no request leaves a word of itself in numbers or lines."""

import ast
import asyncio
import errno
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog import access
from everlog.access import LOOPBACK, Limits
from everlog.clock import Clock
from everlog.conversation.alignment.values import Caller
from everlog.errors import ConnectionFailed, NeverSent, ProviderTimeout
from everlog.memory.tree import Extractive
from everlog.surfaces.proxy import lines
from everlog.surfaces.proxy.admission import Door
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.front import Front, label
from everlog.surfaces.proxy.metrics import Metrics
from everlog.surfaces.proxy.pages import ROLES, Site
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.relay.upstream import Outgoing
from everlog.surfaces.proxy.remembering.building import Builder
from everlog.surfaces.proxy.remembering.remembering import Remembering
from everlog.surfaces.proxy.running import Keeping
from everlog.surfaces.proxy.settings.options import Options
from everlog.testing.upstream.answers import Answer, body_of
from tests.unit.proxy.wire import JSON_HEAD, PLAIN, Client, Coming, Upstream, within

SECRET = "xylophone"
RECORDING = replace(PLAIN, mode="record")
ASKED = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"Where is my {SECRET}?"}]}).encode()
ANSWERED = json.dumps(body_of(Answer(text=f"The {SECRET} is at home."), "chat_completions", "m")).encode()


class Proxy:
    """A proxy on a database in memory, before an upstream that a test plays."""

    def __init__(
        self, *, needs_keys: bool = False, options: Options = RECORDING, clock: Clock | None = None, builds: bool = True
    ) -> None:
        self.home = everlog.open(":memory:", clock=clock)
        self.answer: Any = lambda _: Coming(headers=JSON_HEAD, pieces=[ANSWERED])
        self.recorder = Recorder(
            self.home.store, tenant="default", caller=Caller(is_one_person=True), redact=self.home.redact
        )
        door = Door(self.home.store, local=None if needs_keys else LOOPBACK)
        self.builder = Builder(self.home.store, Extractive() if builds else None, self.recorder.watch.totals)
        keeping = Keeping(self.recorder, options, Remembering(self.recorder, self.builder, options))
        app = App(
            options,
            upstream=Upstream(self._answered),
            ears=keeping,
            memory=keeping,
            door=door,
        )
        site = Site(app=app, metrics=Metrics(), store=self.home.store, recorder=self.recorder)
        self.recorder.noted = site.noted
        self.app = app
        self.front = Front(app, door=door, site=site)

    def _answered(self, outgoing: Outgoing) -> Any:
        return self.answer(outgoing)

    def ask(self, path: str, method: str = "GET", *headers: tuple[bytes, bytes], body: bytes = b"") -> Client:
        async def asking() -> Client:
            await self.app.start()
            client = Client(method=method, headers=headers, pieces=(body,))
            client.path, _, query = path.partition("?")
            client.query = query.encode()
            await client.ask(self.front)
            await self.app.duties.finish(10)
            return client

        found: Client = asyncio.run(within(asking()))
        return found

    def chat(self, *headers: tuple[bytes, bytes]) -> Client:
        return self.ask("/v1/chat/completions", "POST", *headers, body=ASKED)

    def key(self, **wishes: Any) -> tuple[bytes, bytes]:
        made = self.home.store.write("default", partial(access.create, **wishes), name="test")
        return b"x-everlog-key", made.token.encode()

    def close(self) -> None:
        self.recorder.close()
        self.builder.close()
        self.home.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


@pytest.fixture
def locked() -> Iterator[Proxy]:
    proxy = Proxy(needs_keys=True)
    yield proxy
    proxy.close()


def test_it_says_that_it_lives_is_ready_and_what_it_has(proxy: Proxy):
    assert proxy.ask("/livez").body == b"alive\n"
    assert json.loads(proxy.ask("/readyz").body) == {"ready": True, "missing": []}
    health = json.loads(proxy.ask("/health").body)
    assert (health["status"], health["version"], health["memory"]) == ("ok", everlog.__version__, True)
    assert {"learning", "embeddings", "mode"} < set(health)
    assert health["fts"] is True
    proxy.home.thread("x").append("user", "The herring came early.")
    proxy.home.thread("x").pump()
    assert json.loads(proxy.ask("/everlog/v1/threads/x/search?q=herring").body)["hits"]


def test_it_says_what_it_is_not_ready_for(proxy: Proxy):
    proxy.home.close()
    found = proxy.ask("/readyz")
    assert (found.status, json.loads(found.body)["missing"]) == (503, ["database"])
    assert proxy.ask("/livez").status == 200


def test_looking_does_not_count_against_the_limits_of_a_key(locked: Proxy):
    key = locked.key(limits=Limits(requests_per_minute=1))
    for _ in range(3):
        assert locked.ask("/everlog/v1/threads", "GET", key).status == 200
        assert locked.ask("/health", "GET", key).status == 200
    assert locked.chat(key).status == 200
    refused = locked.chat(key)
    assert refused.status == 429
    assert locked.ask("/everlog/v1/threads", "GET", key).status == 200


def test_each_page_is_got_headed_and_asked_for_by_web_pages(proxy: Proxy):
    for path in (*ROLES, "/events", "/everlog/v1/threads", "/everlog/v1"):
        got, headed = proxy.ask(path), proxy.ask(path, "HEAD")
        assert got.status == headed.status == 200, path
        assert headed.body == b""
        origin = (b"origin", b"http://localhost:3000")
        preflight = proxy.ask(path, "OPTIONS", origin, (b"access-control-request-headers", b"x-stainless-os"))
        assert preflight.status == 200
        assert preflight.header(b"access-control-allow-headers") == [b"x-stainless-os"]
        assert proxy.ask(path, "GET", origin).header(b"access-control-allow-origin") == [origin[1]]
        assert proxy.ask(path, "GET", (b"origin", b"https://evil.example")).status == 403


def test_pages_cannot_be_written(proxy: Proxy):
    for path in ROLES:
        refused = proxy.ask(path, "POST")
        assert (refused.status, refused.header(b"allow")) == (405, [b"GET, HEAD"])


def test_without_a_key_only_life_and_readiness_are_told(locked: Proxy):
    for path in (*ROLES, "/events", "/everlog/v1", "/everlog/v1/threads", "/everlog/v1/openapi.json"):
        assert locked.ask(path).status == (200 if path in {"/livez", "/readyz"} else 401), path
    assert locked.chat().status == 401


def test_a_page_is_for_those_whose_key_is_for_it(locked: Proxy):
    chat, read = locked.key(role="chat"), locked.key(role="read")
    for path in ("/metrics", "/events", "/everlog/v1/stats"):
        assert locked.ask(path, "GET", chat).status == 403, path
        assert locked.ask(path, "GET", read).status == 200, path
    for path in ("/health", "/request-context", "/everlog/v1/threads", "/everlog/v1/requests"):
        assert locked.ask(path, "GET", chat).status == 200, path


def test_what_went_through_is_in_the_log_its_requests_and_its_events(proxy: Proxy):
    told = proxy.chat((b"x-session-id", b"s1"), (b"x-infinitum-user-id", b"ann"))
    (id_,) = told.header(b"x-everlog-request-id")
    request = json.loads(proxy.ask(f"/everlog/v1/requests/{id_.decode()}").body)
    assert (request["decision"], request["status"], request["session_id"], request["user_id"]) == (
        "new",
        200,
        "s1",
        "ann",
    )
    assert json.loads(proxy.ask("/everlog/v1/threads").body)["threads"][0]["key"] == request["thread"]
    events = json.loads(proxy.ask("/events?session_id=s1&limit=5").body)["events"]
    assert [one["role"] for one in events] == ["assistant", "user"]
    assert json.loads(proxy.ask("/events?session_id=s2").body)["events"] == []


def test_who_asks_is_told_as_it_is_taken_and_no_working_directory(proxy: Proxy):
    found = proxy.ask(
        "/request-context",
        "GET",
        *(
            (b"x-opencode-directory", b"/home/ann/./code/../boat"),
            (b"x-context-user-id", b"ann"),
            (b"x-session-id", b"s1"),
        ),
    )
    said = json.loads(found.body)
    assert (said["session_id"], said["user_id"], said["has_cwd"]) == ("s1", "ann", True)
    assert said["project_id"].startswith("cwd:boat:"), said
    assert said["project_derived_from_cwd"]
    assert b"/home" not in found.body
    assert said["headers"]["user"][:3] == ["x-everlog-user-id", "x-infinitum-user-id", "x-context-user-id"]


def test_the_user_of_a_key_wins_over_the_one_that_a_request_names(locked: Proxy):
    key = locked.key(user="ann")
    said = json.loads(locked.ask("/request-context", "GET", key, (b"x-everlog-user-id", b"bob")).body)
    assert (said["user_id"], said["role"]) == ("ann", "chat")


def test_a_key_says_whose_requests_are_and_about_what_whatever_they_say(locked: Proxy):
    said = ((b"x-everlog-user-id", b"eve"), (b"x-everlog-project-id", b"hers"))
    locked.chat(locked.key(user="ann", project="boat"), *said)
    locked.chat(locked.key(), *said)
    page = json.loads(locked.ask("/everlog/v1/requests", "GET", locked.key(role="read")).body)
    assert [(one["user_id"], one["project_id"]) for one in page["requests"]] == [("eve", "hers"), ("ann", "boat")]


def test_a_thread_that_was_a_question_beside_a_talk_is_shown_as_such_afterwards(proxy: Proxy):
    session = (b"x-everlog-session-id", b"s")
    question, answer = (
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": f"The {SECRET} is at home."},
    )
    histories = (
        [question],
        [{"role": "user", "content": "Name it"}],
        [question, answer, {"role": "user", "content": "So?"}],
    )
    for history in histories:
        proxy.ask(
            "/v1/chat/completions", "POST", session, body=json.dumps({"model": "m", "messages": history}).encode()
        )
    threads = json.loads(proxy.ask("/everlog/v1/threads").body)["threads"]
    assert [(one["entries"], one["is_beside"]) for one in threads] == [(4, False), (2, True)]
    shown = [json.loads(proxy.ask(f"/everlog/v1/threads/{one['key']}").body) for one in threads]
    assert shown == threads


def test_whose_threads_are_shown_is_named_as_whose_they_are_and_nobody_named_sees_none_of_them(locked: Proxy):
    mine, other, bound = locked.key(), locked.key(), locked.key(user="bea")
    said = json.dumps(json.loads(ASKED) | {"user": "ann"}).encode()
    locked.ask("/v1/chat/completions", "POST", mine, body=said)

    def seen(path: str, *headers: tuple[bytes, bytes]) -> list[Any]:
        found = locked.ask(f"/everlog/v1/{path}", "GET", *headers)
        assert found.status == 200, found.body
        return list(json.loads(found.body)[path.partition("?")[0]])

    ann = (b"x-everlog-user-id", b"ann")
    for what in ("threads", "requests"):
        assert len(seen(what, mine, ann)) == len(seen(f"{what}?user_id=ann", mine)) == 1
        assert not seen(what, mine)
        assert not seen(f"{what}?user_id=bob", mine)
        assert not seen(f"{what}?user_id=ann", mine, (b"x-everlog-user-id", b"bob")), "a header counts first"
        assert not seen(f"{what}?user_id=ann", other)
        assert not seen(f"{what}?user_id=ann", bound), "whose a key is, it is"
        assert len(seen(what, locked.key(role="read"))) == 1
    (thread,) = seen("threads", mine, ann)
    entries = f"/everlog/v1/threads/{thread['key']}/entries"
    assert [locked.ask(f"{entries}{end}", "GET", mine).status for end in ("", "?user_id=ann")] == [404, 200]


def test_requests_are_counted_by_route_protocol_and_status_and_failures_by_kind(proxy: Proxy):
    proxy.chat()
    for error in (ProviderTimeout("late"), NeverSent("away")):
        proxy.answer = lambda _, error=error: error
        proxy.chat()
    page = proxy.ask("/metrics").body.decode()
    for line in (
        'everlog_requests_total{route="/v1/chat/completions",protocol="chat_completions",status="2xx"} 1',
        'everlog_requests_total{route="/v1/chat/completions",protocol="chat_completions",status="5xx"} 2',
        'everlog_upstream_failures_total{kind="timeout"} 1',
        'everlog_upstream_failures_total{kind="unreachable"} 1',
        'everlog_exchanges_total{decision="new"} 1',
        f'everlog_received_bytes_total{{route="/v1/chat/completions"}} {3 * len(ASKED)}',
        'everlog_request_seconds_count{route="/v1/chat/completions"} 3',
        "everlog_requests_in_flight 1",
        "everlog_recording 0",
        "everlog_unpriced_total 1",
    ):
        assert f"{line}\n" in page, page
    tokens = json.loads(ANSWERED)["usage"]["completion_tokens"]
    assert f'everlog_tokens_total{{kind="output"}} {tokens}\n' in page


def refused() -> NeverSent:
    error = NeverSent("no connection could be made")
    error.__context__ = ConnectionRefusedError(errno.ECONNREFUSED, f"{SECRET} refused")
    return error


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (refused(), "upstream_unreachable", "Connection refused"),
        (ConnectionFailed("the connection broke"), "upstream_failed", "ConnectionFailed"),
        (ProviderTimeout("nothing came in time"), "upstream_timeout", "ProviderTimeout"),
    ],
)
def test_an_upstream_that_fails_is_warned_of_in_the_word_that_the_client_gets_with_reason_and_request(
    proxy: Proxy, caplog: pytest.LogCaptureFixture, error: Exception, code: str, reason: str
):
    proxy.answer = lambda _: error
    with caplog.at_level(logging.INFO, "everlog"):
        told = proxy.ask("/v1/messages", "POST", body=ASKED)
    (line,) = [one for one in caplog.records if one.getMessage() == "no whole answer"]
    said = json.loads(told.body)
    (request,) = told.header(b"x-everlog-request-id")
    assert line.levelname == "WARNING"
    facts = vars(line)
    assert (facts["event"], facts["reason"]) == (code, reason)
    assert (said["error"]["code"], said["request_id"], facts["request_id"]) == (
        code,
        request.decode(),
        request.decode(),
    )


def test_a_database_that_is_away_is_counted_and_the_answer_comes(proxy: Proxy):
    proxy.home.close()
    assert proxy.chat().body == ANSWERED
    assert b'everlog_degraded_total{place="record"} 1\n' in proxy.ask("/metrics").body


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/messages", ("/v1/messages", "anthropic")),
        ("GET", "/v1/models/gpt-4o", ("/v1/models/{id}", "")),
        ("GET", f"/v1/files/{SECRET}", ("/v1", "")),
        ("GET", f"/everlog/v1/threads/{SECRET}", ("/everlog/v1", "")),
        ("GET", f"/{SECRET}", ("other", "")),
    ],
)
def test_no_path_is_a_label(method: str, path: str, expected: tuple[str, str]):
    assert label(method, path) == expected


def test_in_a_server_of_somebody_else_lines_begin_unless_its_program_says_where_they_go(
    monkeypatch: pytest.MonkeyPatch,
):
    ours, everything = logging.getLogger("everlog"), logging.getLogger()
    for logger in (ours, everything):
        monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(ours, "level", logging.NOTSET)
    lines.begin_in_a_server("warning", "json")
    assert [type(one.formatter) for one in ours.handlers] == [lines.Lines]
    assert ours.level == logging.WARNING
    ours.handlers[:], everything.handlers[:] = [], [logging.NullHandler()]
    lines.begin_in_a_server("debug", "json")
    assert (ours.handlers, ours.level) == ([], logging.WARNING)


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_have_no_word_of_a_body_even_where_all_goes_wrong(
    proxy: Proxy, form: Any, monkeypatch: pytest.MonkeyPatch
):
    written = io.StringIO()
    for name in ("everlog", "uvicorn.error"):
        logger = logging.getLogger(name)
        for field, value in (("handlers", []), ("level", logging.NOTSET), ("propagate", True)):
            monkeypatch.setattr(logger, field, value)
    lines.begin("debug", form, written)
    lines.adopt("uvicorn.error")
    try:
        int(SECRET)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    proxy.chat()
    proxy.ask(f"/v1/{SECRET}?q={SECRET}", SECRET.upper(), (b"x-everlog-user-id", SECRET.encode()))
    proxy.ask(f"/everlog/v1/threads/{SECRET}")
    for answer in (
        Coming(headers=JSON_HEAD, pieces=[ANSWERED[:50]], error=ConnectionFailed(SECRET)),
        ConnectionFailed(SECRET),
        ProviderTimeout(SECRET),
        Coming(status=400, headers=JSON_HEAD, pieces=[SECRET.encode()]),
    ):
        proxy.answer = lambda _, answer=answer: answer
        proxy.chat()
    proxy.home.close()
    proxy.chat()
    said = written.getvalue()
    assert said.count("request") >= 8
    assert SECRET not in said.lower()
    assert SECRET not in proxy.ask("/metrics").body.decode().lower()
    if form == "json":
        for line in said.splitlines():
            assert set(json.loads(line)) <= {"time", "level", "logger", "message", *lines.FIELDS}


def test_each_field_of_a_line_is_one_of_the_list():
    names = set()
    for file in Path(lines.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "extra":
                names |= {key.value for one in ast.walk(node) if isinstance(one, ast.Dict) for key in one.keys}  # type: ignore[union-attr]
    assert names <= set(lines.FIELDS)
    assert names
