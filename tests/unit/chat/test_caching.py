"""What the provider is told of caching (chat A.1 81 to 85)."""

import json
from typing import Any

import pytest

from everlog.chat.attachments import attachment
from everlog.errors import Mistake


@pytest.mark.covers("chat A.1 81", "D12", "D66")
def test_caching_is_unset_on_with_options_or_off(chatting):
    chat = chatting().chat
    assert chat.caching is None
    assert chat.with_caching(ttl="1h").caching == {"ttl": "1h"}
    assert chat.with_caching().caching == {}
    assert chat.with_caching({"key": "a"}).caching == {"key": "a"}
    assert chat.with_caching(False).caching is False


@pytest.mark.covers("chat A.1 82", "chat A.1 83", "chat A.2 706", "D66")
def test_caching_options_are_the_protocols_and_others_are_refused_at_the_render(talk):
    talk = talk()
    is_anthropic = talk.protocol == "anthropic"
    wanted: dict[str, Any] = {"prompt_cache_key": "a"}
    if is_anthropic:
        wanted = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    talk.chat.with_caching()
    assert ("cache_control" in talk.do("render")) is is_anthropic
    talk.chat.with_caching({"ttl": "1h"} if is_anthropic else {"key": "a"})
    assert wanted.items() <= talk.do("render").items()
    if not is_anthropic:
        talk.chat.with_caching(mode="explicit", ttl="12h")
        assert talk.do("render")["prompt_cache_options"] == {"mode": "explicit", "ttl": "12h"}
        assert "prompt_cache_key" not in talk.do("render")
    talk.chat.with_caching({"key": "a"} if is_anthropic else {"tll": "1h"})
    with pytest.raises(Mistake, match="caching takes ttl here, not key" if is_anthropic else "key, ttl, mode here"):
        talk.do("render")
    assert talk.upstream.requests == []


@pytest.mark.covers("chat A.1 84", "chat A.1 85", "D47", "D68", "D77")
def test_a_boundary_of_the_cache_is_marked_unless_caching_is_off(talk):
    talk = talk()
    with pytest.raises(Mistake, match="no message to cache"):
        talk.chat.cache_until_here()
    talk.chat.with_instructions("Rules.", cache_until_here=True).ask_later("Hi")
    assert talk.chat.cache_until_here().cache_until_here() is talk.chat
    mark = '"cache_control":{"type":"ephemeral"}' if talk.protocol == "anthropic" else '"prompt_cache_breakpoint"'
    assert talk.do("render_bytes").count(mark.encode()) == 2
    talk.chat.with_caching(False)
    assert mark.encode() not in talk.do("render_bytes")


@pytest.mark.covers("chat A.1 84")
def test_a_boundary_is_marked_on_the_last_block_of_what_may_carry_it(talk):
    talk = talk()
    talk.chat.ask_later("Look", files=[attachment(b"%PDF-1.7", name="a.pdf")]).cache_until_here()
    talk.chat.add_message({"role": "assistant", "content": "Yes."})
    talk.chat.cache_until_here()
    body = talk.do("render")
    asked, answered = body["input" if talk.protocol == "responses" else "messages"]
    name = "cache_control" if talk.protocol == "anthropic" else "prompt_cache_breakpoint"
    assert [name in part for part in asked["content"]] == [False, True]
    assert (name in json.dumps(answered)) is (talk.protocol == "anthropic")
    if talk.protocol != "anthropic":
        assert body["prompt_cache_options"] == {"mode": "explicit"}


@pytest.mark.covers("chat A.1 85", "chat A.2 706")
def test_boundaries_and_automatic_caching_go_together_with_four_marks_at_most(talk):
    talk = talk()
    talk.chat.with_caching().with_instructions("Rules.", cache_until_here=True)
    for number in range(5):
        talk.chat.add_message({"role": "user", "content": str(number)})
        talk.chat.cache_until_here()
    body = talk.do("render")
    if talk.protocol == "anthropic":
        assert body["cache_control"] == {"type": "ephemeral"}
        assert [json.dumps(one).count('"cache_control"') for one in body["messages"]] == [0, 0, 1, 1, 1]
        assert json.dumps(body).count('"cache_control"') == 4
    else:
        assert json.dumps(body).count('"prompt_cache_breakpoint"') == 6
