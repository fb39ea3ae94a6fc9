"""`everlog serve` in mode record: the same for the client, and afterwards each message is in the log once."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from everlog.testing.upstream import Answer, Cut, Refused
from tests.acceptance.cli import Everlog
from tests.acceptance.proxies import Proxy, Stage, serving
from tests.acceptance.talks import QUESTION, chat_talk, claude_talk, open_ai, question, responses_talk, talking, told
from tests.acceptance.test_relay_wire import ask
from tests.quick import Quick

TURNS = 4


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    with stage.upstream:
        yield stage


@pytest.fixture
def home(everlog: Everlog) -> Everlog:
    return everlog


@pytest.fixture
def proxy(stage: Stage, home: Everlog, quick: Quick) -> Iterator[Proxy]:
    with serving(stage.upstream.url, home.home, mode="record", program=[quick.program]) as proxy:
        yield proxy


def kept(home: Everlog) -> list[list[tuple[str, str]]]:
    threads = [one["key"] for one in home.good("threads", "--json").json]
    return [[(one["kind"], one["text"]) for one in home.good("show", key, "--json").json] for key in threads]


@pytest.mark.parametrize("talk", [chat_talk, responses_talk, claude_talk])
@pytest.mark.parametrize("stream", [False, True])
def test_each_message_of_a_conversation_is_in_the_log_once(
    stage: Stage, home: Everlog, proxy: Proxy, talk: Any, stream: bool
):
    stage.play(talking)
    talk(proxy.url, TURNS, stream=stream)
    assert proxy.stop().status == 0
    [thread] = kept(home)
    assert [kind for kind, _ in thread] == [kind for kind, _ in told(TURNS)]
    assert [text for kind, text in thread if kind == "user"] == [question(turn)["content"] for turn in range(TURNS)]
    assert home("verify").status == 0


def test_what_breaks_off_is_kept_as_far_as_it_came_and_a_refusal_leaves_nothing(
    stage: Stage, home: Everlog, proxy: Proxy
):
    stage.play([Refused(status=429), Cut(answer=Answer(text="one two three four"), events=3)])
    with pytest.raises(openai.RateLimitError):
        open_ai(proxy.url).chat.completions.create(model="m-1", messages=[QUESTION])
    with pytest.raises(openai.APIConnectionError):
        list(open_ai(proxy.url).chat.completions.create(model="m-1", messages=[QUESTION], stream=True))
    assert proxy.stop().status == 0
    [thread] = kept(home)
    assert [kind for kind, _ in thread] == ["user", "assistant"]
    assert thread[1][1].startswith("one")
    assert len(thread[1][1]) < len("one two three four")
    assert "(the answer broke off here)" in home.good("show", "proxy:").text


def test_a_client_gets_its_answer_while_nothing_can_be_kept_and_is_kept_again_later(
    stage: Stage, home: Everlog, proxy: Proxy
):
    """A table is taken away from below the recorder, and put back."""
    stage.play(lambda received: Answer(text="Milk."))
    with sqlite3.connect(home.home / "everlog.db") as database:
        database.execute("alter table thread rename to elsewhere")
    for stream in ("false", "true"):
        body = f'{{"model":"m-1","stream":{stream},"messages":[{{"role":"user","content":"Hello"}}]}}'
        status, _, answer = ask(proxy, "POST", "/v1/chat/completions", body.encode())
        assert (status, b"Milk" in answer) == (200, True)
    database.execute("alter table elsewhere rename to thread")
    database.close()
    open_ai(proxy.url).chat.completions.create(model="m-1", messages=[QUESTION])
    assert proxy.stop().status == 0
    assert kept(home) == [[("user", QUESTION["content"]), ("assistant", "Milk.")]]


def test_a_key_of_ours_opens_the_door_and_never_goes_up(stage: Stage, home: Everlog, quick: Quick):
    made = home.good("keys", "create", "--json").json
    settings = home.home / "everlog.yaml"
    settings.write_text("keys:\n  required: true\n")
    told = {"EVERLOG_CONFIG": str(settings)}
    with serving(stage.upstream.url, home.home, mode="record", program=[quick.program], **told) as proxy:
        upstream = stage.play(lambda received: Answer(text="Milk."))
        body = b'{"model":"m-1","messages":[{"role":"user","content":"Hello"}]}'
        status, _, answer = ask(proxy, "POST", "/v1/chat/completions", body, authorization="Bearer sk-1")
        assert (status, b"everlog_key_missing" in answer) == (401, True)
        status, _, answer = ask(proxy, "POST", "/v1/chat/completions", body, authorization=f"Bearer {made['token']}x")
        assert (status, b"everlog_key_unknown" in answer) == (401, True)
        assert ask(proxy, "HEAD", "/")[0] == 200
        assert upstream.requests == []
        for headers in (
            {"authorization": f"Bearer {made['token']}"},
            {"x_api_key": made["token"]},
            {"x_everlog_key": made["token"], "authorization": "Bearer sk-1"},
        ):
            assert ask(proxy, "POST", "/v1/chat/completions", body, **headers)[0] == 200
        sent = [one.headers.get("authorization") for one in upstream.requests]
        assert sent == [None, None, "Bearer sk-1"]
        assert made["token"] not in str(upstream.requests)


def test_another_address_than_the_loopback_needs_a_key_first(stage: Stage, home: Everlog):
    done = home("serve", "--upstream", stage.upstream.url, "--host", "0.0.0.0", "--port", 0)
    assert (done.status, done.out) == (2, b"")
    assert done.err == (
        "everlog: nobody could ask: 0.0.0.0 needs keys, and there is none that opens; make one by `everlog keys create`\n"
    )
