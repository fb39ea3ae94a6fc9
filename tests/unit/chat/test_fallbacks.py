"""Other models in the place of one that fails (chat A.1 68 to 75)."""

from dataclasses import replace
from typing import Any

import pytest

from everlog import Chat, ChatConfig
from everlog.chat.effects import Timeouts
from everlog.chat.loop import Fallback
from everlog.chat.retries import TRANSIENT, Retry
from everlog.errors import (
    BadRequest,
    Cancelled,
    ConnectionFailed,
    ContextTooLong,
    Forbidden,
    Mistake,
    NeverSent,
    Overloaded,
    PaymentRequired,
    ProviderFailed,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    Unauthorized,
    UnknownModel,
)
from everlog.registry import builtin
from everlog.testing.upstream import Answer, Broken, Cut, Refused, Reset, Stalled, Upstream
from tests.unit.chat.talking import called, config

SECOND = "gpt-5.6-luna"
THIRD = "deepseek/deepseek-flash"


def models(talk: Any) -> list[str]:
    return [body["model"] for body in talk.bodies]


@pytest.mark.covers("chat A.1 68", "D93")
@pytest.mark.parametrize(
    "failure", [*[Refused(status=status) for status in (429, 500, 502, 503, 504, 529)], Reset()], ids=str
)
def test_what_passes_by_itself_has_the_next_model_tried(talk, failure):
    talk = talk(failure, Answer(text="Here."))
    talk.chat.with_fallbacks(SECOND)
    assert talk.ask().text == "Here."
    assert models(talk) == ["m-1", SECOND]


@pytest.mark.covers("chat A.1 68", "D93")
@pytest.mark.parametrize("streamed", [False, True])
def test_silence_and_a_server_that_is_gone_have_the_next_model_tried(talk, streamed):
    with Upstream() as gone:
        url = gone.url
    talk = talk(Stalled(answer=Answer(text="Hello."), events=0), Answer(text="Here."))
    quick = config(talk.upstream, timeouts=Timeouts(read_s=0.3))
    lost = "deepseek" if talk.provider == "openai" else "openai"
    talk.chat.with_config(replace(quick, base_urls={**quick.base_urls, lost: url}))
    talk.chat.with_fallbacks(f"{lost}/{'deepseek-flash' if lost == 'deepseek' else SECOND}", "ollama/any")
    told: list[Any] = []
    talk.chat.before_fallback(lambda one: told.append(type(one.error)))
    talk.stream() if streamed else talk.ask()
    assert talk.chat[-1].text == "Here."
    assert told == [ProviderTimeout, NeverSent]


@pytest.mark.covers("chat A.1 68")
def test_these_errors_pass_by_themselves():
    passing = {RateLimited, ProviderFailed, ProviderUnavailable, Overloaded, ProviderTimeout, ConnectionFailed}
    assert set(TRANSIENT) == passing
    assert issubclass(NeverSent, ConnectionFailed)
    assert not any(issubclass(one, TRANSIENT) for one in (BadRequest, Unauthorized, PaymentRequired, Forbidden))
    assert not issubclass(ContextTooLong, TRANSIENT)


@pytest.mark.covers("chat A.1 68", "chat A.1 69", "D93")
@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Refused(status=400), BadRequest),
        (Refused(status=401), Unauthorized),
        (Refused(status=402), PaymentRequired),
        (Refused(status=403), Forbidden),
        (Refused(status=400, message="prompt is too long: the context length is 8"), ContextTooLong),
    ],
    ids=["400", "401", "402", "403", "context"],
)
def test_what_does_not_pass_is_raised_at_once(talk, failure, error):
    talk = talk(failure, Answer(text="Never."))
    talk.chat.with_fallbacks(SECOND)
    with pytest.raises(error):
        talk.ask()
    assert models(talk) == ["m-1"]


@pytest.mark.covers("chat A.1 69")
def test_the_next_model_is_tried_after_all_retries_of_the_one_before(chatting):
    talk = chatting(*[Refused(status=500)] * 4, Answer(text="Here."))
    patience = Retry(retries=1, first_s=0.001)
    talk.chat.with_config(config(talk.upstream, retry=patience)).with_fallbacks(SECOND, THIRD)
    assert talk.ask().text == "Here."
    assert models(talk) == ["m-1", "m-1", SECOND, SECOND, "deepseek-flash"]


@pytest.mark.covers("chat A.1 70", "chat A.2 621", "D60")
@pytest.mark.parametrize("last", [Answer(text="Here."), Refused(status=500), Refused(status=400)], ids=str)
def test_afterwards_the_chat_is_at_its_first_model_again(talk, last):
    talk = talk(Refused(status=500), last, Answer(text="Back."))
    talk.chat.with_fallbacks(SECOND)
    before = talk.chat._state.route
    if isinstance(last, Answer):
        talk.ask()
    else:
        with pytest.raises((ProviderFailed, BadRequest)):
            talk.ask()
    assert talk.chat._state.route is before
    talk.ask("Again")
    assert models(talk)[2] == "m-1"


@pytest.mark.covers("chat A.1 70")
def test_each_step_begins_at_the_first_model(talk):
    def now() -> str:
        return "noon"

    talk = talk(Refused(status=500), called(("c1", "now", {})), Answer(text="Noon."))
    talk.chat.with_fallbacks(SECOND).with_tools(now)
    talk.ask()
    assert models(talk) == ["m-1", SECOND, "m-1"]


@pytest.mark.covers("chat A.1 72", "D32", "D35")
def test_fallbacks_are_told_of_after_the_switch_and_at_their_end(talk):
    talk = talk(Refused(status=500), Refused(status=503), Answer(text="Here."))
    talk.chat.with_fallbacks(SECOND, THIRD)
    told: list[tuple[Any, ...]] = []

    def note(moment: str) -> Any:
        def noted(one: Fallback) -> None:
            failure = type(one.failure).__name__
            told.append((moment, type(one.error).__name__, one.attempt, one.target, talk.chat.model.id, failure))

        return noted

    talk.chat.before_fallback(note("before")).after_fallback(note("after"))
    talk.chat.after_message(lambda message: told.append(("message",)))
    talk.ask()
    assert told == [
        ("before", "ProviderFailed", 1, "openai/gpt-5.6-luna", "gpt-5.6-luna", "NoneType"),
        ("after", "ProviderFailed", 1, "openai/gpt-5.6-luna", "gpt-5.6-luna", "ProviderUnavailable"),
        ("before", "ProviderUnavailable", 2, THIRD, "deepseek-flash", "NoneType"),
        ("message",),
        ("after", "ProviderUnavailable", 2, THIRD, "deepseek-flash", "NoneType"),
    ]


@pytest.mark.covers("chat A.1 72", "D32")
def test_the_end_of_a_fallback_is_told_for_errors_that_are_not_fallen_back_from(chatting):
    talk = chatting(Refused(status=500), Refused(status=401))
    told: list[Fallback] = []
    talk.chat.with_fallbacks(SECOND, THIRD).after_fallback(told.append)
    with pytest.raises(Unauthorized):
        talk.ask()
    assert [(one.origin, type(one.failure)) for one in told] == [("openai/m-1", Unauthorized)]
    assert [(one.is_streaming, one.has_yielded) for one in told] == [(False, False)]


@pytest.mark.covers("chat A.1 73")
@pytest.mark.parametrize("failure", [Cut, Broken])
def test_what_a_broken_stream_has_said_is_not_taken_back(talk, failure):
    talk = talk(failure(answer=Answer(text="I was abou" * 3), events=9), Answer(text="Here."))
    talk.chat.with_fallbacks(SECOND)
    told: list[Any] = []
    talk.chat.before_message(lambda: told.append("before message"))
    talk.chat.before_fallback(lambda one: told.append((one.is_streaming, one.has_yielded)))
    text = "".join(chunk.text for chunk in talk.stream())
    assert text.startswith("I was")
    assert text.endswith("Here.")
    assert told == ["before message", (True, True), "before message"]
    assert talk.said == [("user", "Hi"), ("assistant", "Here.")]


@pytest.mark.covers("chat A.1 74", "D18", "D75")
def test_fallbacks_are_names_or_models_and_none_removes_them(chatting):
    chat = chatting().chat.with_fallbacks(SECOND, builtin().find(THIRD), on=BadRequest)
    assert [model.id for model in chat.fallbacks] == [SECOND, "deepseek-flash"]
    assert chat.fallback_errors == (BadRequest,)
    chat.with_fallbacks(SECOND, on=[BadRequest, ConnectionFailed])
    assert chat.fallback_errors == (BadRequest, ConnectionFailed)
    assert chat.with_fallbacks(None, on=BadRequest) is chat
    assert (chat.fallbacks, chat.fallback_errors) == ((), TRANSIENT)


def test_a_fallback_that_nobody_knows_is_at_the_private_server_of_the_chat_and_asked_as_the_chat_is():
    with Upstream([Refused(status=500), Answer(text="Here.")]) as upstream:
        chat = Chat("m-1", base_url=upstream.url, api_key="k", config=ChatConfig(environ={}, retry=Retry(retries=0)))
        assert chat.with_fallbacks("m-2").ask("Hi").text == "Here."
        assert chat.wires == (("openai", "chat_completions"),) * 2
        assert [one.body["model"] for one in upstream.requests] == ["m-1", "m-2"]


def test_a_fallback_that_nobody_knows_is_refused_where_the_chat_is_at_no_private_server():
    chat = Chat(f"openai/{SECOND}", api_key="k", config=ChatConfig(environ={}))
    with pytest.raises(UnknownModel, match="m-2"):
        chat.with_fallbacks("m-2")


@pytest.mark.covers("chat A.1 74")
@pytest.mark.parametrize(
    ("models", "on", "complaint"),
    [
        ((5,), TRANSIENT, "a fallback is the name of a model or a Model, not int"),
        ((SECOND,), "RateLimited", "on= takes classes of errors"),
        ((SECOND,), [RateLimited, 5], "on= takes classes of errors"),
    ],
    ids=["number", "name", "list"],
)
def test_what_is_no_fallback_is_refused(chatting, models, on, complaint):
    with pytest.raises(Mistake, match=complaint):
        chatting().chat.with_fallbacks(*models, on=on)


@pytest.mark.covers("chat A.1 74", "D75")
def test_errors_may_be_chosen(chatting):
    talk = chatting(Refused(status=400), Answer(text="Here."))
    talk.chat.with_fallbacks(SECOND, on=BadRequest)
    assert talk.ask().text == "Here."


@pytest.mark.covers("chat A.1 75")
def test_the_attempts_that_failed_belong_to_the_answer(talk):
    talk = talk(Answer(text="First."), Refused(status=500), Answer(text="Here."))
    talk.chat.with_fallbacks(SECOND)
    first, second = talk.ask("1"), talk.ask("2")
    assert [one.status for one in first.attempts] == ["succeeded"]
    assert [(one.model.id, one.status) for one in second.attempts] == [("m-1", "failed"), (SECOND, "succeeded")]
    assert len(talk.chat.attempts) == 3


def test_a_conversation_survives_the_change_of_its_protocol(talk):
    talk = talk(Answer(thinking="Hm.", text="One."), Refused(status=500), Answer(text="Two."), Answer(text="Three."))
    talk.chat.with_fallbacks("anthropic/claude-sonnet-5-5" if talk.provider == "openai" else SECOND)
    assert [talk.ask(name).text for name in "123"] == ["One.", "Two.", "Three."]
    assert [one.protocol for one in talk.chat.attempts if one.status == "succeeded"][1] != talk.protocol
    assert all(word in str(talk.bodies[3]) for word in ("One.", "Two.", "3"))


def test_an_error_of_a_callback_is_nobody_elses(chatting):
    talk = chatting(Answer(text="One."), Answer(text="Two."))

    def fail(message: Any) -> None:
        raise ConnectionFailed("my own")

    talk.chat.with_fallbacks(SECOND).after_message(fail)
    with pytest.raises(ConnectionFailed, match="my own"):
        talk.ask()
    assert models(talk) == ["m-1"]


def test_a_cancel_is_never_fallen_back_from_whatever_errors_are_chosen(chatting):
    def script(received: Any) -> Answer:
        chat.cancel()
        return Answer(text="Too late.")

    talk = chatting(script)
    chat = talk.chat.with_fallbacks(SECOND, on=Exception)
    with pytest.raises(Cancelled):
        talk.ask()
    assert models(talk) == ["m-1"]


@pytest.mark.covers("chat A.1 66")
def test_another_config_leads_the_fallbacks_elsewhere_too(talk):
    first, second = talk(), talk(Refused(status=500), Answer(text="Here."))
    first.chat.with_fallbacks(SECOND).with_config(second.chat.config)
    assert first.ask().text == "Here."
    assert models(second) == ["m-1", SECOND]
