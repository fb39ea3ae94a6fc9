"""Servers that do what no server should: each ends as an error of ours, or as the answer, in bounded time and memory."""

import logging
import time
import traceback
import zlib
from datetime import timedelta
from typing import Any

import pytest

from everlog.chat import reading
from everlog.chat.chat import Chat
from everlog.chat.cost import cost_of
from everlog.chat.effects import Timeouts
from everlog.chat.reading import Quiet
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.chat.tools import ToolCall
from everlog.errors import (
    BadReply,
    BadRequest,
    MissingCredentials,
    Mistake,
    NeverSent,
    ProviderTimeout,
    ProviderTrouble,
)
from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.shapes import encoded
from everlog.protocols.sse import Event, Frames, render_event
from everlog.registry import builtin
from everlog.testing import FrozenClock
from everlog.testing.upstream import Answer
from tests.unit.chat.calls import each_protocol
from tests.unit.chat.servers import BEGUN, RawServer, chunk
from tests.unit.chat.talking import called

SAID: JSON = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}
EVENT = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\n'
PIECE = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes."}}]}\n\n'
ONCE = {"retry": Retry(retries=0), "timeouts": Timeouts(read_s=5)}
CHAT = "chat_completions"
_PACKER = zlib.compressobj(9, zlib.DEFLATED, 31)
GZIP = _PACKER.compress(b"") + _PACKER.flush(zlib.Z_SYNC_FLUSH)
NOTHING = b"\x00\x00\x00\xff\xff" * 100
"""Blocks of a compressed stream that hold nothing."""


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


ENDLESS = {
    "interim answers": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"),
    "a status that never ends": (b"HTTP/1.1 200 ", b"O"),
    "a compressed nothing": (BEGUN.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n"), chunk(NOTHING)),
}


@pytest.mark.parametrize("what", list(ENDLESS))
@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_is_busy_without_an_answer_is_a_timeout(calling, what, stream):
    head, piece = ENDLESS[what]

    def act(server, connection):
        connection.sendall(head + (chunk(GZIP) if "gzip" in head.decode() else b""))
        while not server.closing.wait(0.01):
            connection.sendall(piece)

    ask = calling.listen if stream else calling.ask
    with RawServer(act) as server, pytest.raises(ProviderTimeout, match="in time"):
        ask(server.url, CHAT, retry=Retry(retries=0), timeouts=Timeouts(read_s=0.1))
    assert calling.statuses == ["failed"]


BODIES: dict[str, bytes] = {
    "nested": b'{"choices":%b}' % (b"[" * 10_000 + b"]" * 10_000),
    "a number too long": b'{"usage":{"completion_tokens":%b}}' % (b"9" * 5000),
    "nothing": b"",
    "other types": b'{"choices":{"a":[]},"content":5,"output":"x","usage":[1],"error":null}',
    "others still": b'{"choices":[5,null],"content":[5,null,{"type":5}],"output":[5,{"type":"message","content":[5]}]}',
    "an odd error": b'{"error":{"type":["x"],"code":{"my secret":1},"message":["my secret"]}}',
}
HEADS: dict[str, bytes] = {
    "too little": b"content-length: 100000\r\n",
    "no number": b"content-length: -5\r\n",
    "two lengths": b"content-length: 1\r\ncontent-length: 2\r\n",
    "garbage in chunks": b"transfer-encoding: chunked\r\n",
    "garbage in gzip": b"content-encoding: gzip\r\n",
    "a head too long": b"x: %b\r\n" % (b"x" * 200_000),
    "control characters": b"x-request-id: \x1b[31m\xff\r\n",
}


@each_protocol
@pytest.mark.parametrize("what", [*BODIES, *HEADS])
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_read_is_an_error_of_ours_that_quotes_nothing(calling, protocol, what, stream, caplog):
    caplog.set_level(logging.DEBUG, logger="everlog")
    act = said(HEADS.get(what, b""), BODIES.get(what, b'{"my secret":"my secret"}'))
    ask = calling.listen if stream else calling.ask
    with RawServer(act) as server:
        try:
            reply = ask(server.url, protocol, **ONCE)
        except ProviderTrouble as error:
            shown = str(error) + repr(error.facts())
        else:  # blocks that nobody knows are kept, and say nothing
            shown = (reply[1] if stream else reply).text
    noted = repr([one.__dict__ for one in caplog.records]) + repr(calling.ledger.attempts)
    assert "secret" not in shown + noted
    assert "\x1b" not in shown + noted
    assert calling.ledger.cost() is not None


def piece_of(protocol: str, number: int) -> bytes:
    """An event that begins one more call."""
    call: JSON = {"id": f"c{number}", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    shapes: dict[str, JSON] = {
        "chat_completions": {
            "choices": [{"index": 0, "delta": {"tool_calls": [{"index": number, "id": f"c{number}"}]}}]
        },
        "anthropic": {"type": "content_block_start", "index": number, "content_block": {"type": "tool_use", "id": "a"}},
        "responses": {"type": "response.output_item.added", "output_index": number, "item": call},
    }
    return render_event(encoded(shapes[protocol]).decode())


@each_protocol
def test_a_stream_of_calls_without_end_is_left(calling, protocol):
    with (
        RawServer(said(b"", *(piece_of(protocol, number) for number in range(2000)))) as server,
        pytest.raises(BadReply, match="a stream has more than 1024 calls, blocks or parts"),
    ):
        calling.listen(server.url, protocol, **ONCE)


def test_a_long_event_costs_no_more_than_its_length(calling):
    """Ten million bytes in small pieces, each of which would copy all those before it."""
    frames, began = Frames(), time.process_time()
    for _ in range(20_000):
        assert frames.feed(b"x" * 500) == []
    assert [len(one.data) for one in frames.feed(b"\n\ndata: 1\n\n")] == [1]
    assert time.process_time() - began < 5


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("stream", [False, True])
def test_a_redirect_is_not_followed_with_the_key(calling, status, stream):
    with RawServer(said(b"")) as other:
        head = f"HTTP/1.1 {status} Go\r\nlocation: {other.url}/chat\r\ncontent-length: 0\r\n\r\n".encode()
        ask = calling.listen if stream else calling.ask
        with RawServer(lambda _, connection: connection.sendall(head)) as server, pytest.raises(BadRequest):
            ask(server.url, CHAT, **ONCE)
        assert (server.requests, other.connections) == (1, 0)


@pytest.mark.parametrize(
    "url",
    [
        "http://a\0b",
        "http://[bad",
        "http://a:x",
        "http://a:99999",
        "http://a..b",
        "http://a\x7f",
        "http://a/\x01",
        "http://:1",
    ],
)
def test_an_address_that_no_host_can_have_is_refused_at_once(url):
    with pytest.raises(Mistake, match="the base_url of openai begins with http"):
        Chat("m", base_url=url, config=ChatConfig(environ={}))


@pytest.mark.parametrize("key", ["a\r\nx-evil: 1", "a\0b", "ä", "a b"])
def test_a_key_cannot_smuggle_in_a_header(key):
    with pytest.raises(MissingCredentials) as caught:
        Chat("gpt-5.6-luna", api_key=key, config=ChatConfig(environ={}))
    assert key not in str(caught.value)


def test_odd_calls_are_answered_and_the_chat_goes_on(talk):
    """Ids that repeat or hold control characters, names with halves of characters, arguments nested without end."""
    deep = "[" * 10_000 + "]" * 10_000
    ran = []

    def zoom(node: str = "") -> str:
        ran.append(node)
        return "seen"

    calls = called(("a", "zoom", {"node": "1"}), ("a", "zoom", {"node": "2"}), ("\x00\x1b", "f\ud800", {"\ud800": 1}))
    talk = talk(calls, Answer(text="Done."))
    talk.chat.with_tools(zoom)
    assert talk.ask().text == "Done."
    assert ran == ["1", "2"]
    assert ToolCall(id="a", name="zoom", text='{"node":' + deep + "}").arguments == {}


@pytest.mark.parametrize("count", [-5, 10**400, "5", 1.5, None])
def test_counts_that_nobody_could_have_counted_are_none(count):
    model = builtin().find("gpt-5.6-luna")
    used: dict[str, Any] = {
        "chat_completions": {"prompt_tokens": count, "completion_tokens": count},
        "responses": {"input_tokens": count, "output_tokens": count},
        "anthropic": {"input_tokens": count, "output_tokens": count},
    }
    for protocol, usage in used.items():
        found = FORMATS[protocol].parse_reply({"usage": usage}).usage
        assert found is not None
        assert (found.input, found.output, cost_of(found, model).total_usd) == (None, None, None)
