"""Stopping a chat (chat A.1 76 to 80)."""

import threading
from typing import Any

import pytest

from everlog.errors import Cancelled
from everlog.testing.upstream import Answer, Refused, Stalled
from tests.unit.chat.talking import called


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Sun in {city}."


@pytest.mark.covers("chat A.1 76", "D48", "D49")
def test_a_cancel_stops_the_next_move_once(talk):
    talk = talk(Answer(text="Hello."))
    assert talk.chat.cancel() is talk.chat
    assert talk.chat.is_cancelled
    with pytest.raises(Cancelled):
        talk.ask()
    assert not talk.chat.is_cancelled
    assert talk.upstream.requests == []
    assert talk.do("complete").text == "Hello."


@pytest.mark.covers("chat A.1 77", "chat A.1 9")
@pytest.mark.parametrize("verb", ["generate", "step", "complete", "run_tools"])
def test_each_move_begins_with_a_check(chatting, verb):
    talk = chatting(Answer(text="Hello."))
    told: list[Any] = []
    talk.chat.before_request(told.append).ask_later("Hi").cancel()
    with pytest.raises(Cancelled):
        talk.do(verb)
    assert told == []


@pytest.mark.covers("chat A.1 77")
@pytest.mark.parametrize("moment", ["before_request", "chunk", "before_message"])
def test_a_stream_stops_at_each_of_its_steps(talk, moment):
    talk = talk(Answer(text="Hello there, how do you do?"))
    pieces: list[Any] = []

    def stop(*args: Any) -> None:
        talk.chat.cancel()

    def hear(chunk: Any) -> None:
        pieces.append(chunk)
        if moment == "chunk":
            stop()

    if moment != "chunk":
        getattr(talk.chat, moment)(stop)
    with pytest.raises(Cancelled):
        talk.ask(on_chunk=hear)
    assert len(pieces) == (moment == "chunk")
    assert len(talk.upstream.requests) == (moment == "chunk")
    assert talk.said == [("user", "Hi")]


@pytest.mark.covers("chat A.1 77", "chat A.1 78")
def test_an_answer_that_comes_after_the_cancel_is_not_added_but_counted(talk):
    def script(received: Any) -> Answer:
        chat.cancel()
        return Answer(text="Too late.")

    talk = talk(script)
    chat = talk.chat
    with pytest.raises(Cancelled):
        talk.ask()
    assert talk.said == [("user", "Hi")]
    assert [one.status for one in chat.attempts] == ["succeeded"]
    assert (chat.tokens.input, chat.tokens.output) == (100, 20)


@pytest.mark.covers("chat A.1 77", "D10")
def test_somebody_else_is_asked_at_each_step(chatting):
    talk = chatting(called(("c1", "weather", {"city": "Rome"})), Answer(text="Never."))
    talk.chat.with_tools(weather)
    talk.chat.cancellation_checker = lambda: len(talk.chat) > 1
    assert talk.chat.cancellation_checker() is False
    with pytest.raises(Cancelled):
        talk.ask()
    assert [role for role, _ in talk.said] == ["user", "assistant"]


@pytest.mark.covers("chat A.1 77")
def test_denials_are_not_written_after_a_cancel(chatting):
    class Gated:
        requires_approval = True

        def execute(self) -> None:
            """Do nothing."""

    talk = chatting(called(("c1", "gated", {}), ("c2", "gated", {})))
    talk.chat.with_tools(Gated).deny("c1").deny("c2")
    talk.chat.after_message(lambda message: message.role == "tool" and talk.chat.cancel())
    with pytest.raises(Cancelled):
        talk.ask()
    assert [role for role, _ in talk.said] == ["user", "assistant", "tool"]


@pytest.mark.covers("chat A.1 80", "chat A.2 607", "D50")
@pytest.mark.parametrize("streamed", [False, True])
def test_a_hard_cancel_ends_a_wait_for_a_server_that_says_nothing(talk, streamed):
    def script(received: Any) -> Stalled:
        threading.Timer(0.2, chat.cancel, kwargs={"hard": True}).start()
        return Stalled(answer=Answer(text="Hello there, how do you do?"), events=4)

    talk = talk(script)
    chat = talk.chat
    with pytest.raises(Cancelled):
        talk.stream() if streamed else talk.ask()
    assert talk.upstream.wait_until_gone()
    assert talk.said == [("user", "Hi")]
    assert [one.status for one in talk.chat.attempts] == ["cancelled"]


def test_a_cancel_is_not_fallen_back_from(chatting):
    talk = chatting(Refused(status=500), Answer(text="Never."))
    talk.chat.with_fallbacks("gpt-5.6-luna").before_fallback(lambda one: talk.chat.cancel())
    with pytest.raises(Cancelled):
        talk.ask()
    assert len(talk.upstream.requests) == 1


def test_a_stream_that_nobody_reads_on_lets_its_connection_go(talk):
    talk = talk(Stalled(answer=Answer(text="Hello there, how do you do?"), events=9), Answer(text="Here."))
    pieces = talk.chat.stream("Hi")
    if hasattr(pieces, "__anext__"):
        talk._runner.run(first(pieces))
    else:
        next(pieces)
        pieces.close()
    assert talk.upstream.wait_until_gone()
    assert talk.said == [("user", "Hi")]
    assert talk.do("complete").text == "Here."


async def first(pieces: Any) -> None:
    await anext(pieces)
    await pieces.aclose()
