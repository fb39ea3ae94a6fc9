"""What refusals mean (chat A.1 112)."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.chat.refusals import refusal
from everlog.clock import EPOCH
from everlog.errors import (
    BadRequest,
    ContextTooLong,
    Forbidden,
    Overloaded,
    ProviderFailed,
    ProviderTimeout,
    ProviderTrouble,
    ProviderUnavailable,
    RateLimited,
    Unauthorized,
)
from everlog.protocols.exchange import Fault


def refused(status, kind="error", message="", **headers):
    fault = None if kind is None else Fault(type=kind, message=message)
    return refusal(status, fault, headers=headers, now=EPOCH, provider="openai", model="m-1")


@pytest.mark.covers("chat A.1 112")
@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Your input exceeds the context window of this model.",
        "input is too long for requested model",
        "Please reduce the length of the messages.",
        "the request exceeds the available context size",
    ],
)
def test_context_lengths_are_told_by_wording(words):
    assert type(refused(400, message=words)) is ContextTooLong
    assert type(refused(429, message=words)) is ContextTooLong
    assert type(refused(None, "invalid_request_error", words)) is ContextTooLong
    assert type(refused(401, message=words)) is Unauthorized


def test_the_word_of_the_provider_tells_it_too():
    assert type(refused(400, "context_length_exceeded")) is ContextTooLong


@pytest.mark.covers("chat A.1 112")
@pytest.mark.parametrize(
    "words",
    [
        "Rate limit reached for gpt-5.6 on tokens per min (TPM): Limit 30000. Reduce the length of your messages.",
        "Request too large: maximum context length and too many requests per minute",
    ],
)
def test_at_429_words_of_rates_go_before_words_of_length(words):
    assert type(refused(429, message=words)) is RateLimited


@pytest.mark.covers("chat A.1 112")
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", Overloaded),
        ("rate_limit_exceeded", RateLimited),
        ("rate_limit_error", RateLimited),
        ("api_error", ProviderFailed),
        ("server_error", ProviderFailed),
        ("timeout_error", ProviderTimeout),
        ("service_unavailable", ProviderUnavailable),
        ("authentication_error", Unauthorized),
        ("permission_error", Forbidden),
        ("invalid_request_error", BadRequest),
        ("not_found_error", BadRequest),
        ("529", Overloaded),
        ("503", ProviderUnavailable),
        ("a word of tomorrow", ProviderFailed),
    ],
)
def test_in_mid_stream_the_word_decides(kind, error):
    assert type(refused(None, kind)) is error


@pytest.mark.parametrize(("status", "error"), [(520, ProviderFailed), (409, ProviderUnavailable), (302, BadRequest)])
def test_a_status_nobody_named_has_a_class(status, error):
    assert type(refused(status, None)) is error


def test_waits_are_read_only_where_waiting_helps():
    assert refused(429, **{"retry-after": "3"}).retry_after_s == 3
    assert refused(400, **{"retry-after": "3"}).retry_after_s is None


@given(st.one_of(st.none(), st.integers(300, 599)), st.text(), st.text(min_size=1))
def test_every_refusal_is_an_error_that_does_not_quote_and_can_be_sent_to_another_process(status, kind, words):
    quoted = f"<{words}>"
    error = refused(status, kind, quoted)
    assert isinstance(error, ProviderTrouble)
    assert quoted not in str(error)
    assert quoted not in str(error.facts())
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_a_message_says_what_to_do():
    assert str(refused(401, "invalid_api_key", "Incorrect key")) == (
        "openai refused a request to m-1 with status 401 (invalid_api_key); check the key; "
        "`detail` of this error has its words"
    )
