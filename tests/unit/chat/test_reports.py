"""What users of such libraries reported, of the wire (chat A.2)."""

import asyncio
import json
from typing import Any

import pytest

from everlog.chat.drivers import AsyncDriver, SyncDriver
from everlog.chat.wire import AsyncWire, Wire
from everlog.protocols.exchange import CallDelta
from everlog.protocols.shapes import encoded
from everlog.testing.upstream import Answer, Manner, Upstream
from tests.unit.chat.calls import Calling, each_protocol, prepared, text_of
from tests.unit.chat.servers import RawServer

WHOLE: dict[str, Any] = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]
}


def calls_of(reply):
    return [(one.call.name, one.call.arguments) for one in reply.said.messages if one.call]


@pytest.mark.covers("chat A.2 98")
@each_protocol
def test_a_streamed_call_may_have_no_arguments(calling, protocol):
    with Upstream([Answer(calls=(("c1", "now", ""),))]) as upstream:
        _, reply = calling.listen(upstream.url, protocol)
    assert [(name, arguments or "{}") for name, arguments in calls_of(reply)] == [("now", "{}")]
    assert reply.finish == "tool_calls"


@pytest.mark.covers("chat A.2 228")
@each_protocol
def test_arguments_are_handed_out_as_they_come(calling, protocol):
    given: dict[str, Any] = {"where": "the islands", "when": ["morning", "noon"]}
    with Upstream([Answer(calls=(("c1", "ferry", given), ("c2", "tide", {"port": "Faial"})))]) as upstream:
        deltas, reply = calling.listen(upstream.url, protocol)
    pieces = [one for one in deltas if isinstance(one, CallDelta)]
    first = [one.arguments for one in pieces if one.index == 0]
    assert len(first) > 5
    assert json.loads("".join(first)) == given
    assert {one.index: one.name for one in pieces if one.name} == {0: "ferry", 1: "tide"}
    assert [json.loads(arguments) for _, arguments in calls_of(reply)] == [given, {"port": "Faial"}]


@pytest.mark.covers("chat A.2 567")
def test_what_a_providers_own_tool_is_given_is_no_argument_of_ours(calling):
    content: list[Any] = [
        {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "tides"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []},
        {"type": "tool_use", "id": "c1", "name": "zoom", "input": {"node": "n2"}},
    ]
    answer = Answer(fields={"content": content, "stop_reason": "tool_use"})
    with Upstream([answer]) as upstream:
        deltas, reply = calling.listen(upstream.url, "anthropic")
    assert calls_of(reply) == [("zoom", '{"node":"n2"}')]
    assert "".join(one.arguments for one in deltas if isinstance(one, CallDelta)) == '{"node":"n2"}'
    assert [(step.name, step.input) for step in reply.steps] == [("web_search", {"query": "tides"})]
    assert reply.body["content"] == content


@pytest.mark.covers("chat A.2 568")
@each_protocol
@pytest.mark.parametrize(("finish", "wanted"), [("length", "length"), ("stop", "stop")])
def test_a_stream_says_why_it_ended(calling, protocol, finish, wanted):
    with Upstream([Answer(text="Half a senten", finish=finish)]) as upstream:
        _, reply = calling.listen(upstream.url, protocol)
    assert reply.finish == wanted


@pytest.mark.covers("chat A.2 521")
@each_protocol
@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_alone_are_no_words(calling, protocol, stream):
    with Upstream([Answer(thinking="Let me think.")]) as upstream:
        if stream:
            deltas, reply = calling.listen(upstream.url, protocol)
            assert text_of(deltas) == ""
        else:
            reply = calling.ask(upstream.url, protocol)
    assert (reply.text, reply.thinking) == ("", "Let me think.")
    if protocol == "anthropic":
        assert reply.said.raw.items[0]["content"][0]["signature"].startswith("signed-")
    if protocol == "responses":
        assert reply.said.raw.items[0]["encrypted_content"].startswith("sealed-")


@pytest.mark.parametrize("is_async", [False, True])
def test_blank_lines_before_a_body_keep_a_connection_alive_and_no_more(is_async):
    def act(server, connection):
        body = b"\n   \n\n" + encoded(WHOLE) + b"\n"
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    wire = Wire()
    with RawServer(act) as server:
        program = Calling(is_async=is_async).exchange(prepared(server.url, "chat_completions"))
        if is_async:
            reply = asyncio.run(AsyncDriver(AsyncWire()).run(program))
        else:
            reply = SyncDriver(wire).run(program)
            wire.close_idle()
    assert reply.text == "Yes."


@each_protocol
def test_letters_of_many_bytes_survive_any_piece(calling, protocol):
    words = "Grüße aus 東京, 🦀 und ﷽!"
    with Upstream([Answer(text=words)], manner=Manner(piece=1)) as upstream:
        deltas, reply = calling.listen(upstream.url, protocol)
    assert text_of(deltas) == reply.text == words
