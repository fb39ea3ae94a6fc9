"""A stream is the body in pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.protocols import FORMATS
from everlog.protocols.exchange import CallDelta, Fault, Raw, Reply, TextDelta, ThinkingDelta
from everlog.protocols.shapes import encoded
from everlog.protocols.sse import Event, Frames
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.streams import Manner, events_of
from tests.unit.protocols.answers import CASES, bodies

each_protocol = pytest.mark.parametrize("protocol", sorted(FORMATS))


def streamed(protocol, chunks):
    """Return the stream after all chunks, and the deltas."""
    frames, stream = Frames(), FORMATS[protocol].stream()
    return stream, [delta for chunk in chunks for event in frames.feed(chunk) for delta in stream.feed(event)]


def arguments(stream):
    return [one.call.arguments for one in stream.reply().said.messages if one.call]


def split(data, piece):
    return [data[start : start + piece] for start in range(0, len(data), piece)]


@pytest.mark.parametrize(("protocol", "name"), CASES)
def test_a_streamed_answer_is_the_whole_one(protocol, name):
    body = bodies(protocol)[name]
    form = FORMATS[protocol]
    stream, deltas = streamed(protocol, events_of(body, protocol))
    assert stream.done
    assert stream.body() == body
    assert stream.reply() == form.parse_reply(body)
    assert "".join(one.text for one in deltas if isinstance(one, ThinkingDelta)) == stream.reply().thinking
    assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == stream.reply().text
    calls = [one.call for one in stream.reply().said.messages if one.call]
    told = {one.index: (one.call_id, one.name) for one in deltas if isinstance(one, CallDelta) and one.call_id}
    assert [told[index] for index in range(len(calls))] == [(call.call_id, call.name) for call in calls]
    for index, call in enumerate(calls):
        arguments = "".join(one.arguments for one in deltas if isinstance(one, CallDelta) and one.index == index)
        assert json.loads(arguments or "{}") == json.loads(call.arguments)


@pytest.mark.parametrize(("protocol", "name"), CASES)
def test_a_stream_may_be_cut_at_every_byte(protocol, name):
    body = bodies(protocol)[name]
    data = b"".join(events_of(body, protocol, Manner(piece=3)))
    whole = streamed(protocol, [data])
    assert streamed(protocol, split(data, 1))[1] == whole[1]
    for cut in range(0, len(data), 1 if len(data) < 4000 else 37):
        assert streamed(protocol, [data[:cut], data[cut:]])[0].body() == body


words = st.text(max_size=12)
values = st.dictionaries(
    st.text(max_size=3),
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    max_size=3,
)
answers = st.builds(
    Answer,
    text=words,
    thinking=words,
    calls=st.lists(values, max_size=3).map(
        lambda some: tuple((f"call_{n}", "read", one) for n, one in enumerate(some))
    ),
)
manners = st.builds(
    Manner,
    piece=st.integers(1, 20),
    repeats_ids=st.booleans(),
    comments=st.sampled_from(["", "OPENROUTER PROCESSING"]),
    empty_choices=st.booleans(),
    empty_output=st.booleans(),
    unnumbered=st.booleans(),
)


@each_protocol
@given(answer=answers, manner=manners, piece=st.integers(1, 300))
def test_any_answer_is_the_same_streamed_in_any_manner(protocol, answer, manner, piece):
    body = body_of(answer, protocol, "m")
    stream, deltas = streamed(protocol, split(b"".join(events_of(body, protocol, manner)), piece))
    assert stream.body() == body
    assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == answer.text


def test_calls_that_come_whole_and_all_with_number_0_are_told_apart_by_their_ids():
    answer = Answer(calls=(("call_a", "read", {"path": "a"}), ("call_b", "read", {"path": "b"})))
    body = body_of(answer, "chat_completions", "m")
    stream, _ = streamed("chat_completions", events_of(body, "chat_completions", Manner(whole_calls=True)))
    assert stream.body() == body


def test_calls_without_a_number_or_an_id_are_told_apart_by_their_names():
    stream = FORMATS["chat_completions"].stream()
    for path in ("a", "b"):
        call = {"function": {"name": "read", "arguments": json.dumps({"path": path})}}
        stream.feed(Event(data=json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]})))
    assert arguments(stream) == ['{"path": "a"}', '{"path": "b"}']


TEXTS = {
    "anthropic": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "one"},
        {"type": "thinking", "thinking": "So.", "signature": "s"},
        {"type": "text", "text": "two"},
        {"type": "tool_use", "id": "t", "name": "read", "input": {}},
        {"type": "text", "text": "three"},
    ],
    "responses": [
        {"id": "r1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        *[
            {
                "id": f"m{number}",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": kind, ("refusal" if kind == "refusal" else "text"): text} for kind, text in parts],
            }
            for number, parts in enumerate(
                [[("output_text", "one"), ("output_text", "two")], [("refusal", "three")]], start=1
            )
        ],
        {"id": "r2", "type": "reasoning", "summary": [{"type": "summary_text", "text": "So."}]},
    ],
}
"""Answers with several texts, and reasoning in two places."""


@pytest.mark.covers("fault 60")
@pytest.mark.parametrize("protocol", sorted(TEXTS))
def test_texts_of_an_answer_are_lines_of_their_own_in_its_pieces_too(protocol):
    field = "output" if protocol == "responses" else "content"
    body = {**body_of(Answer(), protocol, "m"), field: TEXTS[protocol]}
    stream, deltas = streamed(protocol, events_of(body, protocol, Manner(piece=2)))
    assert stream.reply().text == "one\ntwo\nthree"
    assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == "one\ntwo\nthree"
    assert (
        "".join(one.text for one in deltas if isinstance(one, ThinkingDelta)) == stream.reply().thinking == "Hm.\nSo."
    )


def test_only_the_first_choice_is_told_but_all_are_kept():
    stream = FORMATS["chat_completions"].stream()
    for index, text in ((0, "a"), (1, "x"), (0, "b")):
        deltas = stream.feed(Event(data=json.dumps({"choices": [{"index": index, "delta": {"content": text}}]})))
        assert bool(deltas) == (index == 0)
    assert [choice["message"]["content"] for choice in stream.body()["choices"]] == ["ab", "x"]


@each_protocol
def test_an_answer_that_breaks_off_is_what_came_of_it(protocol):
    answer = Answer(text="one two three four", calls=(("call_0", "read", {"path": "a"}),))
    events = list(events_of(body_of(answer, protocol, "m"), protocol))
    told = 0
    for end in range(len(events) - 1):
        stream, deltas = streamed(protocol, events[:end])
        text = "".join(one.text for one in deltas if isinstance(one, TextDelta))
        assert answer.text.startswith(text)
        assert stream.reply().text == text
        told = max(told, len(text))
    assert told == len(answer.text)


@pytest.mark.covers("chat A.1 20")
@each_protocol
def test_arguments_that_are_no_json_stay_as_they_are(protocol):
    """Fact 20: it is for the chat to refuse the call."""
    answer = Answer(calls=(("call_0", "read", '{"path": "a'),))
    stream, _ = streamed(protocol, events_of(body_of(answer, protocol, "m"), protocol))
    assert arguments(stream) == ['{"path": "a']


FAULTS = {
    "chat_completions": ('{"error":{"message":"busy","code":529}}', Fault(type="529", message="busy")),
    "responses": (
        '{"type":"error","code":"server_error","message":"busy"}',
        Fault(type="server_error", message="busy"),
    ),
    "anthropic": (
        '{"type":"error","error":{"type":"overloaded_error","message":"busy"}}',
        Fault(type="overloaded_error", message="busy"),
    ),
}


@each_protocol
def test_an_error_in_mid_stream_is_kept_with_what_came_before_it(protocol):
    data, fault = FAULTS[protocol]
    events = list(events_of(body_of(Answer(text="one two three"), protocol, "m"), protocol))[:-3]
    stream, _ = streamed(protocol, events)
    assert not stream.fault
    stream.feed(Event(data=data))
    assert stream.fault == fault
    assert stream.reply().text


@each_protocol
@given(
    data=st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "delta",
                        "index",
                        "choices",
                        "item",
                        "output_index",
                        "response",
                        "content_block",
                        "message",
                        "tool_calls",
                        "usage",
                        "error",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=15,
    )
)
def test_no_event_makes_a_stream_fail(protocol, data):
    stream = FORMATS[protocol].stream()
    for event in (data, [data], {"choices": [data]}, {"type": "content_block_delta", "index": 0, "delta": data}):
        stream.feed(Event(data=json.dumps(event)))
        stream.feed(Event(data="{" + json.dumps(event)))
    assert isinstance(stream.reply().said.messages, tuple)


@each_protocol
@pytest.mark.parametrize("depth", [150, 450, 900, 100_000])
def test_what_is_nested_without_end_does_no_harm(protocol, depth):
    deep = "[" * depth + "]" * depth
    stream = FORMATS[protocol].stream()
    events = (
        '{"type":"content_block_start","index":0,"content_block":{"type":"x","x":DEEP}}',
        '{"type":"response.output_item.done","output_index":0,"item":{"type":"x","x":DEEP}}',
        '{"choices":[{"index":0,"delta":{"x":DEEP}}]}',
    )
    for event in events:
        stream.feed(Event(data=event.replace("DEEP", deep)))
    kept = encoded(stream.body()).count(b"[" * 100)
    assert bool(kept) == (depth == 150)
    assert isinstance(stream.reply(), Reply)


@pytest.mark.covers("chat A.2 763")
def test_unknown_deltas_and_fields_survive():
    stream = FORMATS["anthropic"].stream()
    for event in (
        {"type": "message_start", "message": {"id": "m", "x_new": 1, "usage": {"input_tokens": 3, "x": {"y": 1}}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "x_new", "payload": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "x_delta", "payload": "b", "more": [1]}},
        {"type": "x_event", "value": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}, "x_more": 4},
    ):
        stream.feed(Event(data=json.dumps(event)))
    assert stream.body() == {
        "id": "m",
        "x_new": 1,
        "usage": {"input_tokens": 3, "x": {"y": 1}, "output_tokens": 2},
        "stop_reason": "end_turn",
        "x_more": 4,
        "content": [{"type": "x_new", "payload": "ab", "more": [1]}],
    }
    raw = Raw(protocol="anthropic", items=({"role": "assistant", "content": stream.body()["content"]},))
    assert stream.reply().said.raw == raw


def test_a_part_that_is_no_object_is_begun_anew():
    stream = FORMATS["responses"].stream()
    item = {"type": "message", "id": "m", "role": "assistant", "content": [None]}
    stream.feed(Event(data=json.dumps({"type": "response.output_item.added", "output_index": 0, "item": item})))
    stream.feed(
        Event(
            data=json.dumps(
                {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Yes."}
            )
        )
    )
    assert stream.reply().text == "Yes."
