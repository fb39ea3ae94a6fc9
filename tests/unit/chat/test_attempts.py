"""Calls of a model over real HTTP: what comes back, what is tried again, what the ledger says (chat A.1 105-112)."""

import logging
from typing import Any

import pytest

from everlog.chat.attempts import fetch
from everlog.chat.effects import Timeouts
from everlog.chat.prepared import Prepared
from everlog.chat.retries import Retry
from everlog.errors import (
    BadReply,
    BadRequest,
    Cancelled,
    ConnectionFailed,
    ContextTooLong,
    Forbidden,
    NeverSent,
    Overloaded,
    PaymentRequired,
    ProviderFailed,
    ProviderTimeout,
    ProviderTrouble,
    ProviderUnavailable,
    RateLimited,
    Unauthorized,
)
from everlog.messages import Call
from everlog.protocols.exchange import Usage
from everlog.protocols.shapes import encoded
from everlog.testing.upstream import Answer, Broken, Cut, Malformed, Manner, Refused, Reset, Stalled, Upstream
from tests.unit.chat.calls import KEY, each_protocol, prepared, text_of

HELLO = Answer(text="Good morning to you.", thinking="Polite.", calls=(("c1", "zoom", {"node": "n2"}),))
QUICK = {"timeouts": Timeouts(read_s=0.3)}
ONCE = {"retry": Retry(retries=0)}


@each_protocol
def test_an_answer_is_the_same_whole_and_streamed(calling, protocol):
    with Upstream([HELLO, HELLO]) as upstream:
        whole = calling.ask(upstream.url, protocol)
        deltas, streamed = calling.listen(upstream.url, protocol)
    assert text_of(deltas) == HELLO.text == whole.text == streamed.text
    assert whole.said.messages == streamed.said.messages
    assert (whole.thinking, whole.finish, whole.usage) == (streamed.thinking, streamed.finish, streamed.usage)
    assert [one.call for one in whole.said.messages if one.call] == [
        Call(call_id="c1", name="zoom", arguments='{"node":"n2"}')
    ]


@each_protocol
@pytest.mark.parametrize(
    "manner",
    [
        Manner(comments="OPENROUTER PROCESSING"),
        Manner(empty_choices=True),
        Manner(usage=False),
        Manner(whole_calls=True),
        Manner(repeats_ids=True),
        Manner(empty_output=True),
        Manner(unnumbered=True),
        Manner(unnumbered=True, empty_output=True),
        Manner(piece=1000),
    ],
    ids=[
        "comments",
        "empty_choices",
        "no_usage",
        "whole_calls",
        "repeats_ids",
        "empty_output",
        "unnumbered",
        "neither",
        "one_piece",
    ],
)
def test_streams_of_odd_servers_are_read(calling, protocol, manner):
    with Upstream([HELLO], manner=manner) as upstream:
        deltas, reply = calling.listen(upstream.url, protocol)
    assert (text_of(deltas), reply.text, reply.finish) == (HELLO.text, HELLO.text, "tool_calls")
    assert reply.thinking == HELLO.thinking
    assert [one.call.arguments for one in reply.said.messages if one.call] == ['{"node":"n2"}']
    has_usage = manner.usage or protocol != "chat_completions"
    assert (calling.ledger.attempts[0].usage is not None) == has_usage


@each_protocol
def test_the_bytes_that_go_out_are_those_of_render_bytes_each_time(calling, protocol):
    request = prepared("http://unused", protocol)
    with Upstream([Refused(status=500), Answer(text="Yes.")]) as upstream:
        calling.ask(upstream.url, protocol)
    assert [one.raw for one in upstream.requests] == [request.render_bytes()] * 2
    assert request.render_bytes() == encoded(dict(request.body))


@pytest.mark.covers("chat A.1 104")
@each_protocol
def test_the_headers_of_the_provider_win(calling, protocol):
    """Chat A.1 104: the key cannot be overridden; lists of beta features are joined."""
    given = {"Authorization": "Bearer stolen", "X-Api-Key": "stolen", "X-Mine": "1", "Anthropic-Version": "1999-01-01"}
    with Upstream([Answer(text="Yes.")]) as upstream:
        calling.ask(upstream.url, protocol, headers=given)
    sent = upstream.requests[0].headers
    assert sent["x-mine"] == "1"
    if protocol == "anthropic":
        assert (sent["x-api-key"], sent["anthropic-version"]) == (KEY, "2023-06-01")
    else:
        assert sent["authorization"] == f"Bearer {KEY}"


@pytest.mark.covers("chat A.1 112")
@each_protocol
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, BadRequest),
        (401, Unauthorized),
        (402, PaymentRequired),
        (403, Forbidden),
        (404, BadRequest),
        (422, BadRequest),
        (429, RateLimited),
        (500, ProviderFailed),
        (502, ProviderUnavailable),
        (503, ProviderUnavailable),
        (504, ProviderUnavailable),
        (529, Overloaded),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_each_status_is_an_error_of_its_own(calling, protocol, status, error, stream):
    """Chat A.1 112; what the provider says is beside the message, not in it."""
    ask = calling.listen if stream else calling.ask
    with Upstream([Refused(status=status, message="You said: my secret.")]) as upstream, pytest.raises(error) as caught:
        ask(upstream.url, protocol, **ONCE)
    found = caught.value
    assert type(found) is error
    assert (found.status, found.provider, found.model) == (status, prepared("http://x", protocol).model.provider, "m-1")
    assert found.detail == "You said: my secret."
    assert "secret" not in str(found) + repr(found.facts())
    assert str(status) in str(found)


@pytest.mark.covers("chat A.1 112")
@each_protocol
def test_a_conversation_that_is_too_long_is_told_from_other_bad_requests(calling, protocol):
    told = Refused(status=400, message="This model's maximum context length is 8192 tokens.")
    with Upstream([told]) as upstream, pytest.raises(ContextTooLong, match="shorten the conversation"):
        calling.ask(upstream.url, protocol)
    assert len(upstream.requests) == 1


@pytest.mark.covers("chat A.1 108", "chat A.1 111")
@each_protocol
@pytest.mark.parametrize("stream", [False, True])
def test_what_may_pass_is_tried_again_and_each_try_is_in_the_ledger(calling, protocol, stream):
    ask = calling.listen if stream else calling.ask
    script: list[Any] = [Refused(status=500), Refused(status=429, retry_after="2"), Reset(), Answer(text="At last.")]
    with Upstream(script) as upstream:
        ask(upstream.url, protocol)
    rows = calling.ledger.attempts
    assert [one.status for one in rows] == ["failed", "failed", "failed", "succeeded"]
    assert [one.error for one in rows] == ["ProviderFailed", "RateLimited", "ConnectionFailed", None]
    assert [one.http_status for one in rows] == [500, 429, None, 200]
    assert [one.number for one in rows] == [1, 2, 3, 4]
    nothing = Usage(input=0, cache_read=0, cache_write=0, output=0)
    assert [one.usage for one in rows[:3]] == [None, nothing, None]
    assert rows[3].usage is not None
    assert (rows[3].usage.input, rows[3].usage.output) == (100, 20)
    assert 0.1 <= calling.pauses[0] <= 0.15
    assert calling.pauses[1] == 2
    assert 0.4 <= calling.pauses[2] <= 0.6


@pytest.mark.covers("chat A.1 111")
@each_protocol
def test_it_gives_up_after_three_more_tries(calling, protocol):
    with Upstream([Refused(status=529)] * 9) as upstream, pytest.raises(Overloaded):
        calling.ask(upstream.url, protocol)
    assert len(upstream.requests) == 4
    assert calling.statuses == ["failed"] * 4


@pytest.mark.covers("chat A.1 111")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
def test_what_cannot_pass_is_not_tried_again(calling, status):
    with Upstream([Refused(status=status)] * 2) as upstream, pytest.raises(ProviderTrouble):
        calling.ask(upstream.url, "chat_completions")
    assert len(upstream.requests) == 1


@pytest.mark.covers("chat A.1 111")
def test_a_wait_that_is_too_long_is_an_error_at_once(calling):
    with Upstream([Refused(status=429, retry_after="31")] * 2) as upstream, pytest.raises(RateLimited) as caught:
        calling.ask(upstream.url, "anthropic")
    assert (caught.value.retry_after_s, len(upstream.requests), calling.pauses) == (31, 1, [])


@pytest.mark.covers("chat A.1 111")
@each_protocol
def test_a_stream_is_begun_again_only_if_nothing_was_handed_out(calling, protocol):
    with Upstream([Cut(answer=HELLO, events=1), HELLO]) as upstream:
        deltas, _ = calling.listen(upstream.url, protocol)
    assert (text_of(deltas), calling.statuses) == (HELLO.text, ["failed", "succeeded"])
    emitted: list[Any] = []
    with Upstream([Cut(answer=Answer(text="Good morning." * 3), events=7), HELLO]) as upstream:
        with pytest.raises(ConnectionFailed):
            calling.listen(upstream.url, protocol, emitted)
        assert len(upstream.requests) == 1
    assert text_of(emitted)
    assert ("Good morning." * 3).startswith(text_of(emitted))


@pytest.mark.covers("chat A.1 112")
@each_protocol
def test_an_error_in_mid_stream_is_the_error_that_its_status_would_be(calling, protocol):
    broken = Broken(answer=Answer(text="Good morning." * 3), events=7)
    emitted: list[Any] = []
    with Upstream([broken]) as upstream, pytest.raises(ProviderTrouble) as caught:
        calling.listen(upstream.url, protocol, emitted)
    assert type(caught.value) is (Overloaded if protocol == "anthropic" else ProviderFailed)
    assert (caught.value.detail, caught.value.status) == ("Overloaded", None)
    assert "in the middle of its answer" in str(caught.value)
    assert text_of(emitted)
    usage = calling.ledger.attempts[0].usage
    assert usage is None or usage.output is None


@each_protocol
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_answer_is_said_to_be_none(calling, protocol, stream):
    ask = calling.listen if stream else calling.ask
    with Upstream([Malformed()]) as upstream, pytest.raises(BadReply):
        ask(upstream.url, protocol)
    assert calling.statuses == ["failed"]
    assert calling.ledger.cost().total_usd is None


@pytest.mark.covers("chat A.1 112")
@each_protocol
def test_an_answer_without_a_message_is_an_error_with_its_reason(calling, protocol):
    """Chat A.1 112, A.2 568: a model may say nothing at all only where its protocol has a form for that."""
    empties: dict[str, dict[str, Any]] = {
        "chat_completions": {"choices": [{"index": 0, "finish_reason": "content_filter"}]},
        "responses": {"output": [], "status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
        "anthropic": {"content": None, "stop_reason": "refusal"},
    }
    with Upstream([Answer(fields=empties[protocol])]) as upstream, pytest.raises(BadReply) as caught:
        calling.ask(upstream.url, protocol)
    assert caught.value.finish in {"content_filter", "refusal"}
    assert calling.ledger.tokens().output == 20


def test_anthropic_may_end_a_turn_without_a_word(calling):
    with Upstream([Answer(fields={"content": [], "stop_reason": "end_turn"})]) as upstream:
        reply = calling.ask(upstream.url, "anthropic")
    assert (reply.text, reply.finish) == ("", "stop")


def test_an_error_with_a_good_status_is_an_error(calling):
    fault: dict[str, Any] = {"error": {"code": 429, "message": "Slow down."}, "choices": []}
    with Upstream([Answer(fields=fault), Answer(text="Yes.")]) as upstream:
        assert calling.ask(upstream.url, "chat_completions").text == "Yes."
    assert [one.error for one in calling.ledger.attempts] == ["RateLimited", None]


@each_protocol
@pytest.mark.parametrize("stream", [False, True])
def test_silence_is_a_timeout(calling, protocol, stream):
    ask = calling.listen if stream else calling.ask
    told = Stalled(answer=HELLO, events=1)
    with Upstream([told]) as upstream, pytest.raises(ProviderTimeout, match="in time"):
        ask(upstream.url, protocol, **QUICK, **ONCE)
    usage = calling.ledger.attempts[0].usage
    assert usage is None or usage.output is None
    assert calling.statuses == ["failed"]


@pytest.mark.covers("chat A.1 108")
def test_a_server_that_is_not_there_costs_nothing(calling):
    """Chat A.1 108: what was never sent took no tokens."""
    with Upstream() as upstream:
        url = upstream.url
    with pytest.raises(NeverSent, match=r"no connection to http://127\.0\.0\.1:"):
        calling.ask(url, "responses")
    assert calling.statuses == ["failed"] * 4
    assert calling.ledger.tokens() == Usage(input=0, cache_read=0, cache_write=0, output=0)
    assert calling.ledger.cost().total_usd == 0


@each_protocol
def test_a_body_cut_off_half_way_is_tried_again(calling, protocol):
    with Upstream([Cut(answer=HELLO), HELLO]) as upstream:
        assert calling.ask(upstream.url, protocol).text == HELLO.text
    assert [one.error for one in calling.ledger.attempts] == ["ConnectionFailed", None]


class Streaming(Prepared):
    """A request for a stream, to which the fake answers whole."""

    is_stream = True


def test_a_server_that_does_not_stream_is_heard_all_the_same(calling):
    with Upstream([HELLO]) as upstream:
        plain = prepared(upstream.url, "chat_completions")
        asked = Streaming(**{name: getattr(plain, name) for name in plain.__slots__})
        deltas, reply = calling.stream(calling.exchange(asked))
    assert (text_of(deltas), reply.text) == (HELLO.text, HELLO.text)


def test_a_count_of_tokens_costs_nothing(calling):
    with Upstream() as upstream:
        request = prepared(upstream.url, "anthropic", path="/messages/count_tokens", purpose="count_tokens")
        program = fetch(request, ledger=calling.ledger, cancel=calling.cancel, clock=calling.clock)
        body = calling.run(program)
    assert body["input_tokens"] > 0
    assert upstream.requests[0].path == "/v1/messages/count_tokens"
    assert (calling.ledger.attempts[0].purpose, calling.ledger.cost().total_usd) == ("count_tokens", 0)


@pytest.mark.covers("chat A.1 108", "D11")
def test_the_recorder_sees_each_attempt_begin_and_end(calling):
    told = []
    calling.ledger.recorder = lambda attempt: told.append((attempt.number, attempt.status))
    with Upstream([Refused(), Answer(text="Yes.")]) as upstream:
        calling.ask(upstream.url, "responses")
    assert told == [(1, "pending"), (1, "failed"), (2, "pending"), (2, "succeeded")]


def test_logs_hold_counts_and_no_words(calling, caplog):
    caplog.set_level(logging.DEBUG, "everlog")
    with Upstream([Refused(message="Hello?"), HELLO]) as upstream:
        calling.ask(upstream.url, "anthropic")
    lines = [vars(one) for one in caplog.records if one.name.startswith("everlog")]
    assert [(one["levelname"], one["status"], one.get("output_tokens")) for one in lines] == [
        ("INFO", "failed", None),
        ("DEBUG", "succeeded", 20),
    ]
    assert not any(word in str(lines) for word in ("Hello", "morning", KEY))


@pytest.mark.covers("chat A.1 77")
def test_a_call_that_was_cancelled_before_sends_nothing(calling):
    calling.cancel.pull()
    with Upstream() as upstream, pytest.raises(Cancelled):
        calling.ask(upstream.url, "responses")
    assert (upstream.requests, len(calling.ledger.attempts), calling.cancel.is_pulled) == ([], 0, False)


def test_a_request_shows_neither_key_nor_words():
    request = prepared("http://127.0.0.1:9", "anthropic", headers={"x-mine": "private"})
    assert not any(word in repr((request, request.request())) for word in (KEY, "Hello", "private"))
