"""What may be given as a compactor, what a model is asked then, and what its answers and failures come to."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from everlog import AsyncChat, Chat, ChatConfig, Mistake, ProtocolError, UnknownModel
from everlog.chat.retries import TRANSIENT, Retry, pause_s
from everlog.errors import NeverSent, Unauthorized
from everlog.memory.interface import Answer, Failure, Request
from everlog.memory.tree import Extractive
from everlog.messages import Message
from everlog.pump import chats, compactor_of
from everlog.pump.priming import Priming
from everlog.registry import Model
from everlog.testing import EchoModel, FrozenClock
from everlog.testing.upstream import Answer as Says
from everlog.testing.upstream import Cut, Malformed, Refused, Upstream

PROVIDERS = {"chat_completions": "openai", "responses": "openai", "anthropic": "anthropic"}
WAIT_S = 30


def wire(url: str, protocol: str = "chat_completions", **config: Any) -> dict[str, Any]:
    urls = dict.fromkeys(("openai", "anthropic", "openrouter"), url)
    return {
        "provider": PROVIDERS[protocol],
        "protocol": protocol,
        "assume_model_exists": True,
        "config": ChatConfig(base_urls=urls, environ={}, **config),
    }


def request(task: str = "Shorten this.", **more: Any) -> Request:
    messages = (
        Message(kind="system", text="You are brief."),
        Message(kind="user", text="<chat>\n</chat>"),
        Message(kind="user", text=task),
    )
    return Request(source=messages[2:], messages=messages, shared=2, limit_bytes=512, **more)


@pytest.fixture
def unused_url() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/v1"


NOWHERE = "http://127.0.0.1:9/v1"


@pytest.mark.covers("A32", "A37")
def test_a_compactor_is_named_or_given_as_a_chat_a_function_or_as_what_it_is():
    options = wire(NOWHERE)
    chat = Chat("m-1", **options)
    echo = EchoModel()
    assert isinstance(compactor_of("extractive"), Extractive)
    assert compactor_of(echo) is echo
    assert [compactor_of(one).model for one in (chat, lambda: chat)] == ["openai/m-1"] * 2
    assert compactor_of("m-1", options=options).model == "openai/m-1"
    known = compactor_of("anthropic/claude-haiku-4-5", config=ChatConfig(api_keys={"anthropic": "k"}, environ={}))
    assert known.model == "anthropic/claude-haiku-4-5"


@pytest.mark.covers("A33", "A34", "A35")
@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ("m-1", {"protcol": "chat_completions"}, "did you mean protocol"),
        ("m-1", {"temperature": 1}, "has no option 'temperature'"),
        ("extractive", {"provider": "openai"}, "takes no options"),
        (Chat("m-1", **wire(NOWHERE)), {"provider": "openai"}, "takes no options"),
        (AsyncChat("m-1", **wire(NOWHERE)), None, "AsyncChat cannot"),
        (lambda: AsyncChat("m-1", **wire(NOWHERE)), None, "makes a Chat, not AsyncChat"),
        (lambda chat: chat, None, "takes no arguments"),
        (17, None, "not int"),
    ],
)
def test_what_is_no_compactor_or_no_option_is_said_at_once(given: Any, options: Any, said: str):
    with pytest.raises(Mistake, match=said):
        compactor_of(given, options=options)


def test_a_model_that_nobody_knows_is_named_before_anything_is_asked():
    with pytest.raises(UnknownModel, match="no-such-model"):
        compactor_of("no-such-model")


@pytest.mark.parametrize("protocol", PROVIDERS)
def test_each_request_is_a_conversation_of_its_own_with_the_settings_of_the_chat(protocol: str):
    with Upstream([Says(text="user: one"), Says(text="user: two", input_tokens=90, cached_tokens=60)]) as upstream:
        chat = Chat("m-1", **wire(upstream.url, protocol)).with_instructions("Talk like a pirate.")
        chat.with_temperature(0.2).with_headers({"x-team": "memory"}).with_tools(len_of)
        chat.add_message({"role": "user", "content": "What somebody said to the chat itself."})
        compactor = compactor_of(chat)
        first, second = compactor(request("Shorten A.")), compactor(request("Shorten B."))
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert (first.text, second.text, second.finish, second.model) == ("user: one", "user: two", "stop", compactor.model)
    assert second.usage["input"] + second.usage["cache_read"] == 90
    assert [bill.model for bill in second.bills] == [compactor.model]
    said = [one.raw.decode() for one in upstream.requests]
    assert [("Shorten A." in one, "Shorten B." in one) for one in said] == [(True, False), (False, True)]
    assert not any("pirate" in one or "somebody said" in one or "len_of" in one for one in said)
    assert all(one.body["temperature"] == 0.2 and one.headers["x-team"] == "memory" for one in upstream.requests)
    assert len(chat.messages) == 2, "the chat itself was never touched"


def len_of(text: str) -> int:
    """Return how long a text is."""
    return len(text)


@pytest.mark.covers("A97")
def test_requests_share_their_bytes_up_to_the_mark_and_the_mark_is_where_they_part():
    with Upstream(lambda received: Says(text="user: x")) as upstream:
        compactor = compactor_of("m-1", options=wire(upstream.url, "anthropic"))
        for task in ("Shorten A.", "Shorten B."):
            compactor(request(task))
    bodies = [one.raw for one in upstream.requests]
    (end,) = {one.index(b'"cache_control"') for one in bodies}
    assert bodies[0][:end] == bodies[1][:end]
    assert b"<chat>" in bodies[0][:end]
    assert b"Shorten" not in bodies[0][:end]
    assert [one.count(b"cache_control") for one in bodies] == [1, 1]


@pytest.mark.parametrize(
    ("model", "provider", "protocol", "marked"),
    [
        ("gpt-5.6-luna", "openai", "responses", True),
        ("gpt-5.4", "openai", "responses", False),
        ("gpt-6", "openai", "chat_completions", True),
        ("glm-5p3-flash", "openai", "chat_completions", False),
        ("any", "anthropic", "anthropic", True),
    ],
)
def test_only_caches_that_read_nothing_unmarked_are_marked(model: str, provider: str, protocol: str, marked: bool):
    options = wire(NOWHERE, protocol) | {"provider": provider}
    assert chats.takes_marks(Chat(model, **options)) is marked


def test_a_schema_is_passed_on_and_its_answer_is_read():
    schema = {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}
    with Upstream([Says(text='{"line": "user: x"}'), Says(text="no JSON")]) as upstream:
        compactor = compactor_of("m-1", options=wire(upstream.url))
        good, bad = compactor(request(schema=schema)), compactor(request(schema=schema))
    assert isinstance(good, Answer)
    assert isinstance(bad, Answer)
    assert (good.arguments, bad.arguments, bad.text) == ({"line": "user: x"}, None, "no JSON")
    assert upstream.requests[0].body["response_format"]["json_schema"]["schema"]["required"] == ["line"]


def test_what_an_answer_may_have_leaves_room_for_a_try_that_is_too_long_and_keeps_to_the_models_limit():
    chat = Chat("m-1", **wire(NOWHERE))

    def limit(**facts: Any) -> int | None:
        chat._state.route = replace(chat._state.route, model=Model(id="m-1", provider="openai", **facts))
        return chats.output_tokens(chat, 512)

    assert limit(reasons=False) == 1024
    assert limit(reasons=True) == 17_024
    assert limit() == 2048
    assert limit(reasons=True, output_tokens=8000) == 8000
    assert chats.output_tokens(chat, None) is None


CLOCK = FrozenClock()


@pytest.mark.parametrize(
    ("told", "failure"),
    [
        (
            Refused(status=429, retry_after="7"),
            Failure(kind="unavailable", retry_at=CLOCK.now() + timedelta(seconds=7)),
        ),
        (Refused(status=500), Failure(kind="unavailable")),
        (Refused(status=529), Failure(kind="unavailable")),
        (Refused(status=402), Failure(kind="unavailable")),
        (Refused(status=400, message="maximum context length is 4096 tokens"), Failure(kind="refused")),
        (Malformed(), Failure(kind="unusable")),
    ],
)
def test_trouble_of_a_provider_is_a_failure_of_its_kind_and_is_sent_once(told: Any, failure: Failure):
    """Faults 39, 40: the pump alone decides when to ask again."""
    with Upstream([told]) as upstream:
        reply = compactor_of("m-1", options=wire(upstream.url, clock=CLOCK))(request())
    assert isinstance(reply, Failure)
    assert (reply.kind, reply.retry_at) == (failure.kind, failure.retry_at)
    assert len(upstream.requests) == 1
    assert [bill.cost_usd for bill in reply.bills] == ([None] if isinstance(told, Malformed) else [])


@pytest.mark.parametrize("status", [401, 404, 400, 403])
def test_a_provider_that_turns_every_request_down_is_a_mistake_that_says_so(status: int):
    with Upstream([Refused(status=status, message="secret words")]) as upstream:
        with pytest.raises(Mistake, match=f"status {status}") as caught:
            compactor_of("m-1", options=wire(upstream.url))(request())
        assert len(upstream.requests) == 1
    assert "secret words" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 403])
def test_once_it_has_answered_a_refusal_is_that_of_one_message(status: int):
    with Upstream([Says(text="user: x"), Refused(status=status)]) as upstream:
        compactor = compactor_of("m-1", options=wire(upstream.url))
        assert isinstance(compactor(request()), Answer)
        assert compactor(request()) == Failure(kind="refused")


def test_an_answer_that_was_cut_on_the_way_is_not_kept_and_may_have_been_paid():
    """Fault 29."""
    with Upstream([Cut(answer=Says(text="user: half of it"))]) as upstream:
        reply = compactor_of("m-1", options=wire(upstream.url))(request())
    assert isinstance(reply, Failure)
    assert reply.kind == "unavailable"
    assert [(bill.model, bill.usage, bill.cost_usd) for bill in reply.bills] == [("openai/m-1", None, None)]
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("finish", ["length", "tool_calls"])
def test_why_an_answer_ended_is_told(finish: str):
    calls: Any = (("c", "zoom", {}),) if finish == "tool_calls" else ()
    with Upstream([Says(text="user: x", finish=finish, calls=calls)]) as upstream:
        reply = compactor_of("m-1", options=wire(upstream.url))(request())
    assert isinstance(reply, Answer)
    assert reply.finish == finish


def test_what_never_left_is_sent_twice_more_and_then_the_provider_is_down(
    unused_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Fault 40: after about 1 s and 2 s, and nothing else is sent again."""
    never = NeverSent("no connection")
    assert [pause_s(chats.RETRY, never, tried, 0.9) for tried in (1, 2, 3)] == [1.0, 2.0, None]
    others = [kind("trouble") for kind in (*TRANSIENT, Unauthorized) if kind is not NeverSent]
    assert {pause_s(chats.RETRY, error, 1, 0.0) for error in others} == {None}
    monkeypatch.setattr(chats, "RETRY", Retry(retries=2, first_s=0.01, on=(NeverSent,)))
    tried: list[str | None] = []
    chat = Chat("m-1", **wire(unused_url))
    chat.usage_recorder = lambda attempt: tried.append(attempt.error)
    assert compactor_of(chat)(request()) == Failure(kind="unavailable")
    assert [error for error in tried if error] == ["NeverSent"] * 3


@pytest.mark.covers("A91", "A92", "A93")
@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("m-1", wire(NOWHERE, "responses")),
        ("m-1", wire(NOWHERE) | {"protocol": None}),
        (Chat("m-1", **wire(NOWHERE, "anthropic")), None),
        (lambda: Chat("m-1", **wire(NOWHERE, "responses")), None),
        (EchoModel(), None),
    ],
)
def test_whoever_speaks_another_protocol_than_the_required_one_or_says_none_is_refused(given: Any, options: Any):
    with pytest.raises(ProtocolError, match="chat_completions is required"):
        compactor_of(given, options=options, required_protocol="chat_completions")


def test_code_that_asks_nobody_passes_and_so_does_what_says_that_it_speaks_the_protocol():
    class Own(EchoModel):
        protocol = "chat_completions"

    own = Own()
    assert compactor_of(own, required_protocol="chat_completions") is own
    assert compactor_of("extractive", required_protocol="chat_completions").model == Extractive.model


@pytest.mark.covers("A94")
def test_a_fallback_passes_only_at_the_same_provider_in_the_same_protocol():
    options = wire(NOWHERE)
    fits = Model(id="m-2", provider="openai")
    alike = options | {"config": replace(options["config"], protocols={"openai": "chat_completions"})}
    chat = Chat("m-1", **alike).with_fallbacks(fits)
    assert compactor_of(chat, required_protocol="chat_completions").model == "openai/m-1"
    for config, fallback in ((options, fits), (alike, Model(id="m-2", provider="openrouter"))):
        chat = Chat("m-1", **config).with_fallbacks(fallback)
        with pytest.raises(ProtocolError, match="fallback"):
            compactor_of(chat, required_protocol="chat_completions")


def test_a_function_that_changes_its_mind_is_refused_before_its_request():
    made = iter(["chat_completions", "responses"])
    with Upstream([Says(text="user: x")]) as upstream:
        compactor = compactor_of(
            lambda: Chat("m-1", **wire(upstream.url, next(made))), required_protocol="chat_completions"
        )
        with pytest.raises(ProtocolError):
            compactor(request())
        assert upstream.requests == []


@pytest.mark.covers("A97")
def test_the_first_with_a_prefix_goes_alone_and_the_others_go_together_once_it_is_answered():
    together = threading.Barrier(3)
    order: list[str] = []

    def begin(body: Any) -> None:
        order.append("begun")
        if len(order) > 1:
            together.wait(WAIT_S)

    with Upstream(lambda received: Says(text="user: x")) as upstream:
        chat = Chat("m-1", **wire(upstream.url)).before_request(begin)
        compactor = compactor_of(chat.after_message(lambda message: order.append("done")))
        threads = [threading.Thread(target=compactor, args=(request(str(n)),)) for n in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(WAIT_S)
    assert order == ["begun", "done", *["begun"] * 3, *["done"] * 3]


def test_where_the_first_fails_the_next_is_the_first_and_nobody_waits_for_ever():
    priming = Priming(wait_s=0.01)
    with pytest.raises(KeyError), priming.of(("a",)):
        raise KeyError
    began: list[str] = []
    with priming.of(("a",)):
        for _ in two_at_once(priming, began):
            pass
    assert began == ["gone all the same", "another prefix"]


def two_at_once(priming: Priming, began: list[str]) -> Iterator[None]:
    for prefix, name in (("a", "gone all the same"), ("b", "another prefix")):
        thread = threading.Thread(target=_within, args=(priming, prefix, began, name))
        thread.start()
        thread.join(WAIT_S)
        yield


def _within(priming: Priming, prefix: str, began: list[str], name: str) -> None:
    with priming.of((prefix,)):
        began.append(name)
