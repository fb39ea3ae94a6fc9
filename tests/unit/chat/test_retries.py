"""When a failed request is sent again, and when not (chat A.1 111)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.chat.retries import Retry, pause_s, retry_after_s
from everlog.errors import (
    BadReply,
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    NeverSent,
    Overloaded,
    ProviderFailed,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    Unauthorized,
)

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PASSING = [RateLimited, ProviderFailed, ProviderUnavailable, Overloaded, ProviderTimeout, ConnectionFailed, NeverSent]


@pytest.mark.covers("chat A.1 111")
@pytest.mark.parametrize("error", PASSING)
def test_what_may_pass_is_waited_for_ever_longer(error):
    pauses = [pause_s(Retry(), error("x"), tried, chance=0) for tried in (1, 2, 3, 4)]
    assert pauses == [0.1, 0.2, 0.4, None]


@pytest.mark.covers("chat A.1 111")
@pytest.mark.parametrize("error", [BadRequest, ContextTooLong, Unauthorized, BadReply])
def test_what_does_not_pass_is_not_waited_for(error):
    assert pause_s(Retry(), error("x"), 1, chance=0) is None


@pytest.mark.covers("chat A.1 111")
@given(st.integers(1, 40), st.floats(0, 1, exclude_max=True), st.floats(0, 60))
def test_a_pause_is_never_longer_than_its_cap_nor_shorter_than_the_provider_wants(tried, chance, wanted):
    error = RateLimited("x", retry_after_s=wanted)
    pause = pause_s(Retry(retries=50), error, tried, chance)
    assert (pause is None) == (wanted > 30)
    assert pause is None or wanted <= pause <= 30


@pytest.mark.covers("chat A.1 111")
def test_chance_makes_a_pause_up_to_half_longer():
    assert pause_s(Retry(), ProviderFailed("x"), 1, chance=0.5) == pytest.approx(0.125)


def test_a_quota_that_is_used_up_does_not_pass():
    assert pause_s(Retry(), RateLimited("x", kind="insufficient_quota"), 1, chance=0) is None


@pytest.mark.covers("chat A.1 111")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 GMT"}, 9),
        ({"retry-after": "Mon, 30 Nov 2026 11:59:09 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "0"}, 1),
        ({"x-ratelimit-reset-tokens": "6m0.5s", "x-ratelimit-remaining-tokens": "0"}, 360.5),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset-requests": "5s", "x-ratelimit-remaining-requests": "12"}, None),
        (
            {
                "anthropic-ratelimit-requests-reset": "2026-11-30T12:00:04Z",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-30T12:00:40Z",
                "anthropic-ratelimit-tokens-remaining": "500",
            },
            4,
        ),
        ({"x-ratelimit-reset-tokens": "tomorrow"}, None),
    ],
)
def test_what_a_provider_says_about_waiting_is_read(headers, seconds):
    assert retry_after_s(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens"]), st.text()))
def test_no_header_breaks_it(headers):
    found = retry_after_s(headers, NOW)
    assert found is None or found >= 0


def test_a_date_in_another_zone_is_the_same_moment():
    later = (NOW + timedelta(seconds=30)).astimezone().isoformat()
    assert retry_after_s({"x-ratelimit-reset-tokens": later}, NOW) == 30
