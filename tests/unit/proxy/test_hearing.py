"""What an ear is told of an exchange, and how long the end of an answer waits for it."""

import asyncio
from typing import Any

import pytest

from everlog.errors import ConnectionFailed, NeverSent
from everlog.surfaces.proxy.application import App
from everlog.surfaces.proxy.relay.hearing import HOLD_S
from tests.unit.proxy.ears import Ear, Ears
from tests.unit.proxy.wire import PLAIN, STREAM_HEAD, Client, Coming, Upstream, asked, within

FIRST, LAST, REST = b"data: 1\n\n", b"data: 2\n\n", b"data: [DONE]\n\n"
STREAM = Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST, REST])


def proxy(ear: Ear, answer: Any, hold_s: float = 10) -> App:
    return App(PLAIN, upstream=Upstream(lambda outgoing: answer), ears=Ears(ear), hold_s=hold_s)


async def until(client: Client, *pieces: bytes) -> None:
    """Wait until these pieces of a body have come, and no others."""
    while client.came != list(pieces):
        client.heard.clear()
        await client.heard.wait()


def test_the_hold_is_a_quarter_of_a_second():
    assert App(PLAIN).duties.hold_s == HOLD_S == 0.25


@pytest.mark.parametrize("free", [len(FIRST), len(FIRST) + 3])
def test_the_terminal_frame_and_what_follows_wait_for_the_commit(free: int):
    async def play() -> None:
        ear, client = Ear(free=free, whole_at=len(FIRST + LAST + REST), trouble="slow"), Client()
        asking = asyncio.create_task(client.ask(proxy(ear, Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST, REST]))))
        went = [FIRST, LAST[: free - len(FIRST)]] if free > len(FIRST) else [FIRST]
        await until(client, *went)
        assert ear.told == ["head 200"]
        ear.go_on.set()
        await asking
        assert client.body == FIRST + LAST + REST
        assert ear.told == ["head 200", "commit"]

    asyncio.run(within(play()))


def test_a_commit_that_takes_too_long_is_not_waited_for_and_not_stopped():
    async def play() -> None:
        ear, client = Ear(free=len(FIRST), whole_at=len(FIRST + LAST), trouble="slow"), Client()
        app = proxy(ear, Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST, REST]), hold_s=0.01)
        await client.ask(app)
        assert (client.body, client.is_whole, ear.told) == (FIRST + LAST + REST, True, ["head 200"])
        ear.go_on.set()
        await app.stop()
        assert ear.told == ["head 200", "commit"]
        assert ear.heard == FIRST + LAST + REST

    asyncio.run(within(play()))


def test_an_upstream_that_goes_on_after_the_terminal_frame_does_not_keep_it_from_the_client():
    async def play() -> None:
        later, ear, client = asyncio.Event(), Ear(free=len(FIRST), whole_at=len(FIRST + LAST)), Client()
        answer = Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST, later, REST])
        asking = asyncio.create_task(client.ask(proxy(ear, answer)))
        await until(client, FIRST, LAST)
        assert ear.told == ["head 200", "commit"]
        later.set()
        await asking
        assert client.body == FIRST + LAST + REST

    asyncio.run(within(play()))


def test_what_is_held_goes_out_in_time_when_the_end_does_not_come():
    async def play() -> None:
        never, ear, client = asyncio.Event(), Ear(free=len(FIRST)), Client()
        answer = Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST, never, REST])
        asking = asyncio.create_task(client.ask(proxy(ear, answer, hold_s=0.01)))
        await until(client, FIRST, LAST)
        assert ear.told == ["head 200"]
        never.set()
        await asking
        assert (client.body, ear.told) == (FIRST + LAST + REST, ["head 200", "commit"])

    asyncio.run(within(play()))


def test_a_body_that_is_no_stream_waits_as_a_whole():
    async def play() -> None:
        ear, client = Ear(free=0, trouble="slow"), Client()
        asking = asyncio.create_task(client.ask(proxy(ear, Coming(pieces=[b"{", b"}"]))))
        await ear.begun.wait()
        assert ear.heard == b"{}"
        assert client.messages == []
        ear.go_on.set()
        await asking
        assert (client.came, client.is_whole) == ([b"{}"], True)
        assert client.header(b"x-everlog-degraded") == []

    asyncio.run(within(play()))


@pytest.mark.parametrize("trouble", ["listen", "head", "said", "piece", "commit"])
def test_an_answer_in_one_piece_says_that_nobody_keeps_it_whenever_that_is_known(trouble: str):
    client = Client()
    asked(client, lambda outgoing: Coming(pieces=[b"{}"]), ears=Ears(Ear(free=0, trouble=trouble)))
    assert (client.body, client.header(b"x-everlog-degraded")) == (b"{}", [b"record"])


@pytest.mark.parametrize("trouble", ["listen", "head", "said"])
def test_a_stream_says_that_nobody_keeps_it_if_that_is_known_when_it_begins(trouble: str):
    client = Client()
    stream = Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST])
    asked(client, lambda outgoing: stream, ears=Ears(Ear(free=0, trouble=trouble)))
    assert (client.body, client.header(b"x-everlog-degraded")) == (FIRST + LAST, [b"record"])


def test_an_answer_that_went_out_before_it_was_kept_says_so():
    async def play() -> None:
        ear, client = Ear(free=0, trouble="slow"), Client()
        app = proxy(ear, Coming(pieces=[b"{}"]), hold_s=0.01)
        await client.ask(app)
        assert (client.body, client.header(b"x-everlog-degraded")) == (b"{}", [b"late"])
        ear.go_on.set()
        await app.stop()
        assert ear.told == ["head 200", "commit"]

    asyncio.run(within(play()))


def test_an_answer_that_takes_long_itself_is_not_called_late():
    async def play() -> None:
        later, ear, client = asyncio.Event(), Ear(free=0), Client()
        asking = asyncio.create_task(client.ask(proxy(ear, Coming(pieces=[b'{"a":', later, b"1}"]), hold_s=0.01)))
        await until(client, b'{"a"')
        later.set()
        await asking
        assert (client.body, client.header(b"x-everlog-degraded")) == (b'{"a":1}', [])

    asyncio.run(within(play()))


@pytest.mark.parametrize("body", [Coming(status=500, pieces=[b"{}"]), Coming(status=200, pieces=[])])
def test_an_answer_that_is_not_held_has_its_head_at_once(body: Coming):
    client = Client()
    asked(client, lambda outgoing: body, ears=Ears(Ear(trouble="slow")))
    assert (client.status, client.is_whole, client.header(b"x-everlog-degraded")) == (body.status, True, [])


def test_an_answer_in_one_piece_that_breaks_off_begins_all_the_same():
    client = Client()
    broken = Coming(pieces=[b"{"], error=ConnectionFailed("broke"))
    asked(client, lambda outgoing: broken, ears=Ears(Ear(free=0)))
    assert (client.status, client.body, client.is_whole) == (200, b"{", False)


@pytest.mark.parametrize("trouble", ["listen", "head", "said", "piece", "commit", "leave"])
def test_each_failure_of_an_ear_is_counted_and_logged_without_its_words(trouble: str, caplog: pytest.LogCaptureFixture):
    async def play() -> int:
        broken = ConnectionFailed("it broke") if trouble == "leave" else None
        app = proxy(Ear(free=0, trouble=trouble), Coming(pieces=[b'{"secret": 1}'], error=broken))
        await Client().ask(app)
        await app.stop()
        return app.duties.counts["ear_failed"]

    assert asyncio.run(within(play())) == 1
    assert [one.__dict__["error"] for one in caplog.records if one.getMessage() == "an ear failed"] == ["Broke"]
    assert "secret" not in caplog.text


def test_an_ear_hears_the_head_and_adds_to_it():
    client, ear = Client(), Ear()
    asked(client, lambda outgoing: Coming(status=201, pieces=[b"{}"]), ears=Ears(ear))
    assert (client.status, client.header(b"x-everlog-request-id")) == (201, [b"r-1"])
    assert ear.told == ["head 201", "commit"]


def test_who_listens_is_told_what_is_a_conversation():
    ears = Ears(Ear())
    for path in (
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/v1/messages/count_tokens",
    ):
        asked(Client(path=path), lambda outgoing: Coming(), ears=ears)
    assert [protocol for _, protocol in ears.asked] == ["chat_completions", "responses", "anthropic", None, None]


def test_an_ear_is_told_who_went():
    async def play(answer: Any, goes: bool) -> list[str]:
        ear, client = Ear(), Client()
        app = proxy(ear, answer)
        asking = asyncio.create_task(client.ask(app))
        if goes:
            await until(client, FIRST)
            client.gone.set()
        await asking
        await app.stop()
        return ear.told

    def told(answer: Any, *, goes: bool = False) -> list[str]:
        return asyncio.run(within(play(answer, goes)))

    endless: list[bytes | asyncio.Event] = [FIRST, asyncio.Event()]
    assert told(NeverSent("no way")) == ["leave upstream"]
    assert told(Coming(pieces=[FIRST], error=ConnectionFailed("broke"))) == ["head 200", "leave upstream"]
    assert told(Coming(headers=STREAM_HEAD, pieces=endless), goes=True) == ["head 200", "leave client"]


def test_a_client_that_goes_while_the_end_is_held_stops_no_commit():
    async def play() -> list[str]:
        ear, client = Ear(free=len(FIRST), whole_at=len(FIRST + LAST), trouble="slow"), Client()
        app = proxy(ear, Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST]))
        asking = asyncio.create_task(client.ask(app))
        await until(client, FIRST)
        client.gone.set()
        await asking
        ear.go_on.set()
        await app.stop()
        return ear.told

    assert asyncio.run(within(play())) == ["head 200", "commit"]


def test_what_came_before_a_break_goes_out_even_if_it_was_held():
    client = Client()
    broken = Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST], error=ConnectionFailed("broke"))
    asked(client, lambda outgoing: broken, ears=Ears(Ear(free=len(FIRST))))
    assert (client.body, client.is_whole) == (FIRST + LAST, False)


def test_a_slow_body_goes_on_as_it_comes_but_its_last_byte_waits_for_the_commit():
    """Without it no client takes the answer for whole, however long the body takes."""

    async def play() -> None:
        later, ear, client = asyncio.Event(), Ear(free=0, trouble="slow"), Client()
        asking = asyncio.create_task(client.ask(proxy(ear, Coming(pieces=[b'{"a":', later, b"1}"]), hold_s=0.05)))
        await until(client, b'{"a"')
        later.set()
        await ear.begun.wait()
        assert b"".join(client.came) in {b'{"a"', b'{"a":1'}
        assert not client.is_whole
        ear.go_on.set()
        await asking
        assert (client.body, client.is_whole, ear.told) == (b'{"a":1}', True, ["head 200", "commit"])

    asyncio.run(within(play()))


def test_a_stream_whose_end_comes_late_waits_for_the_commit_at_its_end():
    async def play() -> None:
        later, client = asyncio.Event(), Client()
        ear = Ear(free=len(FIRST), whole_at=len(FIRST + LAST + REST), trouble="slow")
        answer = Coming(headers=STREAM_HEAD, pieces=[FIRST, LAST, later, REST])
        asking = asyncio.create_task(client.ask(proxy(ear, answer, hold_s=0.2)))
        await until(client, FIRST, LAST)
        later.set()
        await ear.begun.wait()
        assert client.body == FIRST + LAST
        ear.go_on.set()
        await asking
        assert client.body == FIRST + LAST + REST

    asyncio.run(within(play()))


def test_a_stream_that_ends_without_a_last_frame_waits_for_the_commit_too():
    async def play() -> None:
        ear, client = Ear(trouble="slow"), Client()
        asking = asyncio.create_task(client.ask(proxy(ear, Coming(headers=STREAM_HEAD, pieces=[FIRST]))))
        await ear.begun.wait()
        assert not client.is_whole
        ear.go_on.set()
        await asking
        assert client.is_whole

    asyncio.run(within(play()))
