"""A relay to an upstream that does not speak the client's protocol."""

import gzip
import json

import pytest

from everlog.protocols import FORMATS
from everlog.protocols.shapes import encoded
from everlog.surfaces.proxy.settings.options import Options, Target
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.failures import error_body
from everlog.testing.upstream.streams import events_of
from tests.unit.protocols.test_answers import heard
from tests.unit.proxy.wire import BASE, JSON_HEAD, STREAM_HEAD, Client, Coming, asked, body_in

ANSWER = Answer(text="I look.", calls=(("call_a", "read", {"path": "a"}),))
GO = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]}
PATHS = {"anthropic": "/v1/messages", "chat_completions": "/v1/chat/completions"}


def options(*protocols: str) -> Options:
    return Options(targets=(Target(base_url=BASE, protocols=protocols),))


def client(protocol: str = "anthropic", **fields: object) -> Client:
    headers = {
        "anthropic": ((b"x-api-key", b"sk-1"), (b"anthropic-version", b"2023-06-01"), (b"anthropic-beta", b"x")),
        "chat_completions": ((b"authorization", b"Bearer sk-1"), (b"openai-organization", b"o")),
    }[protocol]
    body = json.dumps({**GO, **fields}).encode()
    return Client(path=PATHS[protocol], headers=(*headers, (b"accept-encoding", b"gzip, br")), pieces=(body,))


def test_a_stream_is_translated_and_goes_out_piece_by_piece():
    one = client(stream=True, top_k=3)
    events = list(events_of(body_of(ANSWER, "chat_completions", "m"), "chat_completions"))
    upstream = asked(one, lambda _: Coming(headers=STREAM_HEAD, pieces=events), options=options("chat_completions"))
    (sent,) = upstream.sent
    assert sent.url == f"{BASE}/chat/completions"
    assert body_in(sent)["messages"] == [{"role": "user", "content": "go"}]
    assert dict(sent.headers) == {b"authorization": b"Bearer sk-1", b"accept-encoding": b"identity"}
    assert one.status == 200
    assert one.header(b"content-type") == [b"text/event-stream; charset=utf-8"]
    assert one.header(b"x-everlog-dropped") == [b"top_k"]
    reply = heard("anthropic", one.body).reply()
    assert (reply.text, reply.finish) == ("I look.", "tool_calls")
    assert len(one.came) > 4


@pytest.mark.parametrize("encoding", [b"", b"gzip"])
def test_a_whole_answer_is_translated_whatever_it_is_packed_in(encoding):
    one = client("chat_completions")
    data = encoded(body_of(ANSWER, "anthropic", "m"))
    head = (*JSON_HEAD, (b"content-length", b"%d" % len(data)), (b"request-id", b"r"))
    packed = Coming(
        headers=(*head, (b"Content-Encoding", encoding)) if encoding else head,
        pieces=[gzip.compress(data) if encoding else data],
    )
    upstream = asked(one, lambda _: packed, options=options("anthropic"))
    assert dict(upstream.sent[0].headers) == {
        b"x-api-key": b"sk-1",
        b"anthropic-version": b"2023-06-01",
        b"accept-encoding": b"identity",
    }
    assert FORMATS["chat_completions"].parse_reply(json.loads(one.body)).text == "I look."
    assert one.header(b"content-encoding") == []
    assert one.header(b"content-length") in ([], [b"%d" % len(one.body)])
    assert one.header(b"request-id") == [b"r"]


def test_a_refusal_keeps_its_status_and_when_to_come_back():
    one = client(stream=True)
    body = encoded(error_body(429, "Slower.", "chat_completions"))
    refused = Coming(status=429, headers=(*JSON_HEAD, (b"retry-after", b"7")), pieces=[body])
    asked(one, lambda _: refused, options=options("chat_completions"))
    assert (one.status, one.header(b"retry-after")) == (429, [b"7"])
    assert json.loads(one.body)["error"] == {"type": "rate_limit_error", "message": "Slower."}


def test_what_cannot_be_carried_is_refused_and_nothing_is_sent():
    held = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    for one in (
        client(messages=[{"role": "user", "content": [held]}]),
        Client(path=PATHS["anthropic"], pieces=(b"{",)),
    ):
        upstream = asked(one, lambda _: Coming(), options=options("chat_completions"))
        assert (one.status, upstream.sent) == (400, [])
        assert json.loads(one.body)["error"]["code"] == "not_translatable"


def test_tokens_are_estimated_for_an_upstream_that_cannot_count_and_the_answer_says_so():
    one = Client(path="/v1/messages/count_tokens", pieces=(json.dumps(GO).encode(),))
    upstream = asked(one, lambda _: Coming(), options=options("chat_completions"))
    assert (one.status, upstream.sent) == (200, [])
    assert 1 <= json.loads(one.body)["input_tokens"] < 20
    assert one.header(b"x-everlog-estimated") == [b"input_tokens"]


def test_an_upstream_that_speaks_the_clients_protocol_gets_the_same_bytes():
    one = client()
    upstream = asked(one, lambda _: Coming(), options=options("chat_completions", "anthropic"))
    assert upstream.sent[0].body is one.pieces[0]
