"""Answers as a server gives them: lawful for the official SDKs, and the same streamed or not."""

import json
from datetime import UTC, datetime
from typing import Any

import openai
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from hypothesis import given
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from everlog.protocols import FORMATS
from everlog.protocols.answering import TOO_LONG, Stamp, write
from everlog.protocols.exchange import CallDelta, Fault, TextDelta, Usage
from everlog.protocols.sse import Frames
from everlog.testing.upstream.answers import Answer, body_of
from tests.unit.protocols.answers import CASES, bodies
from tests.unit.protocols.sdk_types import adapter_of
from tests.unit.protocols.test_streams import TEXTS, answers

each_protocol = pytest.mark.parametrize("name", sorted(FORMATS))
STAMP = Stamp(id="7", at=datetime(2026, 1, 5, 8, tzinfo=UTC))

THINKING: dict[str, dict[str, Any]] = {
    "chat_completions": {},
    "responses": {"reasoning": {"summary": "auto"}},
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
}
"""What clients say who want to see the reasoning."""


def asked(name, **fields):
    return FORMATS[name].parse_settings({"model": "m-1", **THINKING[name], **fields})


def answered(name, reply, **fields):
    """Return the stream of an answer, and the body that it is."""
    answer = FORMATS[name].answer(asked(name, **fields), STAMP)
    stream = write(answer, reply, reply.model or "")
    return stream, answer.body()


def events(stream):
    return [json.loads(event.data) for event in Frames().feed(stream) if event.data != "[DONE]"]


def heard(name, stream):
    """Return what our own reader makes of a stream."""
    reader, frames = FORMATS[name].stream(), Frames()
    for event in frames.feed(stream):
        reader.feed(event)
    assert reader.done
    return reader


def essence(reply):
    """Return what of a reply goes through any protocol."""
    calls = [(one.call.name, json.loads(one.call.arguments or "{}")) for one in reply.said.messages if one.call]
    usage = reply.usage or Usage()
    return reply.text, calls, usage.whole_input, usage.cache_read or 0, usage.output, reply.finish


TYPES: dict[str, Any] = {"chat_completions": ChatCompletion, "responses": Response, "anthropic": AnthropicMessage}


def put_together(name: str, stream: bytes) -> Any:
    """Return the answer that the official SDK makes of a stream, whose events it finds lawful."""
    match name:
        case "chat_completions":
            state: Any = ChatCompletionStreamState()
            for event in events(stream):
                state.handle_chunk(ChatCompletionChunk.model_validate(event, strict=True))
            return state.current_completion_snapshot.model_dump(exclude_unset=True)
        case "responses":
            responses: Any = ResponseStreamState(text_format=openai.omit, input_tools=openai.omit)
            for event in events(stream):
                responses.handle_event(adapter_of(ResponseStreamEvent).validate_python(event))
            snapshot = vars(responses)["_ResponseStreamState__current_snapshot"]
            return {**events(stream)[-1]["response"], "output": [one.to_dict() for one in snapshot.output]}
        case _:
            message: Any = None
            buffers: dict[int, bytes] = {}
            for event in events(stream):
                parsed = adapter_of(RawMessageStreamEvent).validate_python(event)
                message = accumulate_event(event=parsed, current_snapshot=message, json_bufs=buffers)
            return message.model_dump(exclude_unset=True)


def in_order(name: str, stream: bytes) -> None:
    """Make sure that a whole stream has each of its events where the protocol wants it."""
    told = events(stream)
    match name:
        case "chat_completions":
            choices = [choice for event in told for choice in event["choices"]]
            assert ["role" in one["delta"] for one in choices] == [True, *[False] * (len(choices) - 1)]
            assert [one["finish_reason"] is None for one in choices] == [*[True] * (len(choices) - 1), False]
            assert stream.endswith(b"data: [DONE]\n\n")
        case "responses":
            kinds = [event["type"].removeprefix("response.") for event in told]
            assert [event["sequence_number"] for event in told] == list(range(len(told)))
            assert kinds[:2] == ["created", "in_progress"]
            assert kinds[-1] in {"completed", "incomplete"}
            assert not {"created", "in_progress", kinds[-1]} & set(kinds[2:-1])
            places = [event["output_index"] for event in told[2:-1]]
            assert places == sorted(places)
            for begun in ("output_item", "content_part", "reasoning_summary_part"):
                ends = [kind for kind in kinds if kind.startswith(begun)]
                assert ends == [f"{begun}.added", f"{begun}.done"] * (len(ends) // 2)
            done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
            assert done == told[-1]["response"]["output"]
        case _:
            kinds = [event["type"].removeprefix("content_block_") for event in told]
            assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
            blocks = [kind for kind in kinds[1:-2] if kind != "delta"]
            assert blocks == ["start", "stop"] * (len(blocks) // 2)
            assert [event["index"] for event in told[1:-2] if event["type"] == "content_block_start"] == list(
                range(len(blocks) // 2)
            )


@each_protocol
@pytest.mark.parametrize("source", sorted(TEXTS))
def test_texts_between_other_things_are_lines_of_their_own(name, source):
    field = "output" if source == "responses" else "content"
    body = {**body_of(Answer(), source, "m"), field: TEXTS[source]}
    reply = FORMATS[source].parse_reply(body)
    stream, told = answered(name, reply)
    in_order(name, stream)
    again = FORMATS[name].parse_reply(told)
    assert again.text == heard(name, stream).reply().text == "one\ntwo\nthree"
    assert again.said.messages == heard(name, stream).reply().said.messages
    if name == "anthropic" == source:
        assert [one.get("text") for one in told["content"]] == [None, "one\ntwo", None, "three"]


@each_protocol
@pytest.mark.parametrize(("source", "case"), CASES)
def test_an_answer_is_lawful_for_the_sdk_and_says_the_same_streamed_or_not(name, source, case):
    reply = FORMATS[source].parse_reply(bodies(source)[case])
    stream, body = answered(name, reply)
    TYPES[name].model_validate(body, strict=True)
    assert essence(FORMATS[name].parse_reply(body)) == essence(reply)
    assert heard(name, stream).reply().said.messages == FORMATS[name].parse_reply(body).said.messages
    in_order(name, stream)
    assert essence(FORMATS[name].parse_reply(put_together(name, stream)))[:2] == essence(reply)[:2]


@each_protocol
@pytest.mark.parametrize("source", sorted(FORMATS))
@given(answer=answers)
def test_any_answer_says_the_same_in_each_protocol(name, source, answer):
    reply = FORMATS[source].parse_reply(body_of(answer, source, "m"))
    stream, body = answered(name, reply, **({"stream_options": {"include_usage": True}} if "chat" in name else {}))
    again = FORMATS[name].parse_reply(body)
    assert essence(again) == essence(reply)
    assert again.thinking == reply.thinking
    assert essence(heard(name, stream).reply()) == essence(reply)


@each_protocol
def test_a_refusal_is_told_as_each_protocol_has_it(name):
    body = body_of(Answer(), "chat_completions", "m")
    body["choices"][0]["message"] |= {"content": None, "refusal": "I will not."}
    stream, told = answered(name, FORMATS["chat_completions"].parse_reply(body))
    TYPES[name].model_validate(told, strict=True)
    put_together(name, stream)
    again = FORMATS[name].parse_reply(told)
    assert again.text == heard(name, stream).reply().text == "I will not."
    assert again.refusal == ("" if name == "anthropic" else "I will not.")
    assert again.finish == ("filtered" if name == "anthropic" else "stop")
    assert again.stop == {"chat_completions": "stop", "responses": "completed", "anthropic": "refusal"}[name]


@pytest.mark.parametrize("name", ["anthropic", "responses"])
def test_reasoning_is_told_only_to_who_asked_for_it(name):
    """A client that takes the first block for the words would show it."""
    reply = FORMATS["chat_completions"].parse_reply(
        body_of(Answer(thinking="Hm.", text="Yes."), "chat_completions", "m")
    )
    for fields, shown in (({}, "Hm."), (dict.fromkeys(THINKING[name]), "")):
        stream, body = answered(name, reply, **fields)
        assert FORMATS[name].parse_reply(body).thinking == heard(name, stream).reply().thinking == shown


@pytest.mark.covers("fault 8", "fault 9")
def test_the_tokens_of_a_chat_are_a_chunk_of_their_own_only_if_they_were_asked_for():
    """Faults 8 and 9: a chunk without choices goes to nobody who did not ask for it."""
    reply = FORMATS["anthropic"].parse_reply(body_of(Answer(text="Yes."), "anthropic", "m"))
    for options, wanted in ((None, 0), ({"include_usage": False}, 0), ({"include_usage": True}, 1)):
        stream, body = answered("chat_completions", reply, stream_options=options)
        assert [len(event["choices"]) for event in events(stream)].count(0) == wanted
        assert body["usage"]["total_tokens"] == 120


@pytest.mark.covers("fault 2")
@each_protocol
def test_a_call_that_comes_whole_keeps_its_id_its_name_and_its_arguments(name):
    """Fault 2, and ids for servers that give none."""
    whole = CallDelta(index=0, call_id="call_a", name="read", arguments='{"path":"a"}')
    nameless = CallDelta(index=1, name="list", arguments="{}")
    reply = FORMATS["chat_completions"].parse_reply(body_of(Answer(), "chat_completions", "m"))
    answer = FORMATS[name].answer(asked(name), STAMP)
    stream = answer.begin("m") + answer.add(whole) + answer.add(nameless) + answer.end(reply)
    calls = [one.call for one in heard(name, stream).reply().said.messages if one.call]
    assert [(one.call_id, one.name, one.arguments) for one in calls] == [
        ("call_a", "read", '{"path":"a"}'),
        ("call_7_1", "list", "{}"),
    ]
    stop = {"chat_completions": "tool_calls", "responses": "completed", "anthropic": "tool_use"}[name]
    assert heard(name, stream).reply().stop == stop


@each_protocol
def test_pieces_of_calls_that_come_in_turns_are_put_together(name):
    """No server should, but an answer is none the worse for it."""
    answer = FORMATS[name].answer(asked(name), STAMP)
    stream = answer.begin("m")
    for index, call_id, words in ((0, "a", '{"x":'), (1, "b", '{"y":'), (0, "", "1}"), (1, "", "2}")):
        stream += answer.add(CallDelta(index=index, call_id=call_id, name="f" if call_id else "", arguments=words))
    stream += answer.end(FORMATS["chat_completions"].parse_reply(body_of(Answer(), "chat_completions", "m")))
    for reply in (heard(name, stream).reply(), FORMATS[name].parse_reply(answer.body())):
        assert [one.call.arguments for one in reply.said.messages if one.call] == ['{"x":1}', '{"y":2}']


@each_protocol
def test_an_answer_that_breaks_off_says_so_in_an_event_that_the_sdk_raises_or_knows(name):
    answer = FORMATS[name].answer(asked(name), STAMP)
    stream = answer.begin("m") + answer.add(TextDelta(text="one"))
    last = answer.fail(Fault(type="overloaded_error", message="busy"), 529)
    reader, frames = FORMATS[name].stream(), Frames()
    for event in frames.feed(stream + last):
        reader.feed(event)
    assert reader.fault
    assert reader.fault.message == "busy"
    assert reader.reply().text == "one"
    if name == "responses":
        put_together(name, stream + last)
    else:
        assert events(last)[0]["error"]["type"] == "overloaded_error"
    assert last.startswith(
        {"chat_completions": b'data: {"error"', "anthropic": b"event: error\n"}.get(name, b"event: ")
    )


@pytest.mark.parametrize(
    ("status", "openai_type", "anthropic_type"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (404, "not_found_error", "not_found_error"),
        (413, "invalid_request_error", "request_too_large"),
        (429, "rate_limit_error", "rate_limit_error"),
        (500, "server_error", "api_error"),
        (529, "overloaded_error", "overloaded_error"),
    ],
)
def test_an_error_has_the_word_of_its_protocol(status, openai_type, anthropic_type):
    fault = Fault(type="anything", message="No.")
    for name, form in FORMATS.items():
        body = form.render_fault(fault, status)
        assert body["error"]["type"] == (anthropic_type if name == "anthropic" else openai_type)
        found = form.parse_fault(body)
        assert found
        assert found.message == "No."


def test_a_conversation_that_is_too_long_is_called_so_in_the_way_that_clients_know():
    fault = Fault(type=TOO_LONG, message="212000 tokens")
    assert FORMATS["chat_completions"].render_fault(fault, 400)["error"]["code"] == "context_length_exceeded"
    assert FORMATS["anthropic"].render_fault(fault, 400)["error"]["message"] == "prompt is too long: 212000 tokens"
