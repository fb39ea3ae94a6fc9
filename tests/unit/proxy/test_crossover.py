"""A client of one wire format on an upstream of another, through the whole relay."""

import json
from typing import Any

import pytest

from everlog.errors import ConnectionFailed
from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.sse import Frames
from everlog.surfaces.proxy.options import Options, Target
from everlog.testing.upstream import Answer
from everlog.testing.upstream.answers import body_of
from everlog.testing.upstream.streams import events_of
from tests.unit.proxy.ears import Ear, Ears
from tests.unit.proxy.wire import BASE, JSON_HEAD, STREAM_HEAD, Client, Coming, asked

PAIRS = [(one, other) for one in FORMATS for other in FORMATS if one != other]
ASKED: dict[str, dict[str, JSON]] = {
    "chat_completions": {"messages": [{"role": "user", "content": "What is in my notes?"}]},
    "responses": {"input": [{"role": "user", "content": "What is in my notes?"}], "store": False},
    "anthropic": {"messages": [{"role": "user", "content": "What is in my notes?"}], "max_tokens": 100},
}
SAID = Answer(text="Let me look.", calls=(("call_1", "read", {"path": "ä.txt"}),))


def through(client: str, upstream: str, answer: Coming, *, stream: bool, ear: Ear | None = None, **held: Any) -> Any:
    options = Options(targets=(Target(base_url=BASE, protocols=(upstream,), **held),))
    body = json.dumps({"model": "m-1", "stream": stream, **ASKED[client]}).encode()
    headers = ((b"authorization", b"Bearer sk-1"), (b"accept-encoding", b"gzip"), (b"anthropic-beta", b"x"))
    asking = Client(path=f"/v1{FORMATS[client].path}", headers=headers, pieces=[body])
    found = asked(asking, lambda outgoing: answer, options=options, ears=Ears(ear) if ear else None)
    return asking, found


def reply_of(client: str, body: bytes, *, stream: bool) -> Any:
    if not stream:
        return FORMATS[client].parse_reply(json.loads(body))
    heard = FORMATS[client].stream()
    for event in Frames().feed(body):
        heard.feed(event)
    return heard.reply()


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_answer_of_an_upstream_of_another_format_is_the_clients(client: str, upstream: str, stream: bool):
    body, ear = body_of(SAID, upstream, "m-1"), Ear()
    pieces = [*events_of(body, upstream)] if stream else [json.dumps(body).encode()]
    answer = Coming(headers=STREAM_HEAD if stream else JSON_HEAD, pieces=pieces)
    asking, found = through(client, upstream, answer, stream=stream, ear=ear)
    reply = reply_of(client, asking.body, stream=stream)
    assert asking.status == 200
    assert [one.text for one in reply.said.messages if one.kind == "assistant"] == ["Let me look."]
    assert [json.loads(one.call.arguments) for one in reply.said.messages if one.call] == [{"path": "ä.txt"}]
    assert (ear.heard, ear.told[-1]) == (asking.body, "commit")
    sent = found.sent[0]
    assert sent.url == f"{BASE}{FORMATS[upstream].path}"
    assert [one.text for one in FORMATS[upstream].parse_history(json.loads(sent.body))[0].messages] == [
        "What is in my notes?"
    ]
    names = {b"x-api-key": b"sk-1", b"anthropic-version": b"2023-06-01"}
    key = names if upstream == "anthropic" else {b"authorization": b"Bearer sk-1"}
    assert dict(sent.headers) == {**key, b"accept-encoding": b"identity"}


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_refusal_and_a_break_are_told_in_the_words_of_the_client(client: str, upstream: str):
    fault = {"error": {"type": "rate_limit_error", "message": "Slow."}, "type": "error"}
    refused = Coming(status=429, headers=(*JSON_HEAD, (b"retry-after", b"7")), pieces=[json.dumps(fault).encode()])
    asking, _ = through(client, upstream, refused, stream=True)
    assert (asking.status, asking.header(b"retry-after")) == (429, [b"7"])
    found = FORMATS[client].parse_fault(json.loads(asking.body))
    assert found is not None
    assert found.message == "Slow."
    events = [*events_of(body_of(SAID, upstream, "m-1"), upstream)]
    broken = Coming(headers=STREAM_HEAD, pieces=events[:4], error=ConnectionFailed("broke"))
    asking, _ = through(client, upstream, broken, stream=True)
    assert (asking.is_whole, b"broke off" in asking.body, broken.is_closed) == (True, True, True)


def test_what_has_no_counterpart_is_named_and_what_cannot_be_translated_is_refused():
    options = Options(targets=(Target(base_url=BASE, protocols=("anthropic",)),))
    body = json.dumps({"model": "m-1", "logit_bias": {"1": 2}, **ASKED["chat_completions"]}).encode()
    asking = Client(pieces=[body])
    answer = Coming(pieces=[json.dumps(body_of(SAID, "anthropic", "m-1")).encode()])
    asked(asking, lambda outgoing: answer, options=options)
    assert asking.header(b"x-everlog-dropped") == [b"logit_bias"]
    held = Client(path="/v1/responses", pieces=[b'{"model":"m-1","input":"x","previous_response_id":"resp_1"}'])
    upstream = asked(held, lambda outgoing: Coming(), options=options)
    assert (held.status, json.loads(held.body)["error"]["code"], upstream.sent) == (400, "cannot_be_translated", [])
