"""Servers that do what no server should: each ends as an error of ours, or as the answer, in bounded time and memory."""

import traceback
from datetime import timedelta
from typing import Any

import pytest

from everlog.chat import reading
from everlog.chat.effects import Timeouts
from everlog.chat.reading import Quiet
from everlog.chat.retries import Retry
from everlog.errors import BadReply, NeverSent, ProviderTimeout, ProviderTrouble
from everlog.messages import JSON
from everlog.protocols.shapes import encoded
from everlog.protocols.sse import Event, Frames
from everlog.testing import FrozenClock
from tests.unit.chat.servers import BEGUN, RawServer, chunk

SAID: JSON = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}
EVENT = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\n'
PIECE = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes."}}]}\n\n'
ONCE = {"retry": Retry(retries=0), "timeouts": Timeouts(read_s=5)}
CHAT = "chat_completions"


def said(head, *pieces):
    """What a server does that sends a head and pieces of a body, and closes the connection."""

    def act(server, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n" + head + b"\r\n")
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(1)

    return act


def test_a_stream_without_end_is_left(calling, monkeypatch):
    monkeypatch.setattr(reading, "Frames", lambda: Frames(max_stream_bytes=10_000))

    def act(server, connection):
        connection.sendall(BEGUN)
        while not server.closing.is_set():
            connection.sendall(chunk(PIECE))

    emitted: list[Any] = []
    with RawServer(act) as server, pytest.raises(BadReply, match="a stream is larger than 10000 bytes"):
        calling.listen(server.url, CHAT, emitted, **ONCE)
    assert 0 < len(emitted) * len(PIECE) <= 10_000
    assert server.requests == 1


@pytest.mark.parametrize("piece", [b": still here\n\n", b"\n", b'event: ping\ndata: {"type":"ping"}\n\n'])
@pytest.mark.parametrize("before", [b"", PIECE])
def test_a_server_that_only_keeps_the_connection_open_is_a_timeout(calling, piece, before):
    def act(server, connection):
        connection.sendall(BEGUN + (chunk(before) if before else b""))
        while not server.closing.wait(0.002):
            connection.sendall(chunk(piece))
            calling.clock.advance(timedelta(seconds=1))

    with RawServer(act) as server, pytest.raises(ProviderTimeout, match="nothing of an answer came in 5 s"):
        calling.listen(server.url, CHAT, **ONCE)


def test_comments_between_pieces_are_no_timeout():
    """A model that thinks for long is waited for as long as each silence is short enough."""
    clock = FrozenClock()
    quiet = Quiet(5, clock)
    for _ in range(4):
        for _ in range(3):
            quiet.hears([])
            clock.advance(timedelta(seconds=2))
        quiet.hears([Event(data="", name="ping"), Event(data="{}")])
    quiet.hears([])
    clock.advance(timedelta(seconds=6))
    with pytest.raises(ProviderTimeout):
        quiet.hears([])


@pytest.mark.parametrize("kind", [b"", b"content-type: text/html\r\n", b"content-type: text/event-stream\r\n"])
@pytest.mark.parametrize("before", [b"", b"\n\n  ", b"\xef\xbb\xbf"])
def test_a_json_body_is_read_whatever_the_server_calls_it(calling, kind, before):
    with RawServer(said(kind, before, encoded(SAID))) as server:
        deltas, reply = calling.listen(server.url, CHAT, **ONCE)
    assert (reply.text, [one.text for one in deltas]) == ("Yes.", ["Yes."])


@pytest.mark.parametrize("kind", [b"", b"content-type: text/plain\r\n", b"content-type: text/html\r\n"])
def test_events_are_read_whatever_the_server_calls_them(calling, kind):
    with RawServer(said(kind, b"\n: here\n\n", EVENT)) as server:
        assert calling.listen(server.url, CHAT, **ONCE)[1].text == "Yes."


@pytest.mark.parametrize("kind", [b"", b"content-type: text/html\r\n"])
@pytest.mark.parametrize("page", [b"<html><body>my secret</body></html>", b"", b"{my secret", b"[1, 2]", b'"secret"'])
def test_what_is_neither_is_a_bad_reply_that_quotes_nothing(calling, kind, page):
    with RawServer(said(kind, page)) as server, pytest.raises(BadReply) as caught:
        calling.listen(server.url, CHAT, **ONCE)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "told", "tries"),
    [(500, b"false", 1), (429, b"FALSE", 1), (400, b"true", 4), (500, b"perhaps", 4), (400, b"", 1)],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_provider_that_says_whether_to_try_again_is_obeyed(calling, status, told, tries, stream):
    head = b"HTTP/1.1 %d No\r\ncontent-length: 2\r\nx-should-retry: %b\r\n\r\n{}"

    def act(server, connection):
        connection.sendall(head % (status, told))

    ask = calling.listen if stream else calling.ask
    with RawServer(act) as server, pytest.raises(ProviderTrouble):
        ask(server.url, CHAT)
    assert server.requests == tries == len(calling.pauses) + 1


def test_who_is_not_there_is_said_once_and_with_the_reason(calling):
    with RawServer(said(b"")) as server:
        url = server.url
    with pytest.raises(NeverSent, match=rf"no connection to {url[:-3]} could be made \(Connection refused\)") as caught:
        calling.ask(url, CHAT, **ONCE)
    assert "".join(traceback.format_exception(caught.value)).count("Traceback") == 1
