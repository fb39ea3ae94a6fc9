"""The last frame of a stream is held back, and nothing before it, wherever the bytes are cut."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.protocols import FORMATS
from everlog.surfaces.proxy.recording.terminal import Terminal
from everlog.testing.upstream.answers import Answer, body_of
from everlog.testing.upstream.streams import Manner, events_of

SIGNS = {
    "chat_completions": rb'"finish_reason":"',
    "responses": rb"(^|\n)event: response\.(completed|incomplete)",
    "anthropic": rb"(^|\n)event: message_stop",
}

TRICKY = (
    'He said "finish_reason":"stop" and {"type":"message_stop"}\n\nevent: message_stop\ndata: [DONE]\n\n'
    "event: response.completed"
)

answers = st.builds(
    Answer,
    text=st.text(max_size=60) | st.just(TRICKY),
    calls=st.lists(st.tuples(st.just("call_1"), st.just("look"), st.just({"at": TRICKY})), max_size=1).map(tuple),
    thinking=st.sampled_from(["", "hm"]),
)
manners = st.builds(Manner, piece=st.integers(1, 30), comments=st.sampled_from(["", "WAIT"]), usage=st.booleans())


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(ends)]


@pytest.mark.parametrize("protocol", FORMATS)
@given(answer=answers, manner=manners, places=st.lists(st.integers(0, 10_000), max_size=12))
def test_all_before_the_last_frame_goes_out_and_its_end_does_not(protocol, answer, manner, places):
    events = list(events_of(body_of(answer, protocol, "m"), protocol, manner))
    stream = b"".join(events)
    last = next(n for n, event in enumerate(events) if re.search(SIGNS[protocol], event))
    begin, end = len(b"".join(events[:last])), len(b"".join(events[: last + 1]))
    terminal = Terminal(protocol)
    out, is_held = 0, False
    for piece in cut(stream, places):
        free = terminal.feed(piece)
        if not is_held:
            out += free
            is_held = free < len(piece)
    assert begin <= out < end, "the frame itself may have begun to go out, but its end has not"
    assert terminal.is_reached
    assert terminal.is_whole


@pytest.mark.parametrize("protocol", FORMATS)
def test_a_stream_in_whole_frames_goes_out_up_to_the_last_one(protocol):
    events = list(events_of(body_of(Answer(text=TRICKY), protocol, "m"), protocol))
    terminal = Terminal(protocol)
    free = [terminal.feed(event) for event in events]
    held = next(n for n, event in enumerate(events) if free[n] < len(event))
    assert re.search(SIGNS[protocol], events[held])
    assert free[held] == 0


@pytest.mark.parametrize("protocol", FORMATS)
def test_a_stream_that_breaks_off_is_not_held(protocol):
    events = list(events_of(body_of(Answer(text=TRICKY), protocol, "m"), protocol))
    last = next(n for n, event in enumerate(events) if re.search(SIGNS[protocol], event))
    terminal = Terminal(protocol)
    assert all(terminal.feed(event) == len(event) for event in events[:last])
    assert not terminal.is_reached


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(
    ("protocol", "name", "sign"),
    [
        ("anthropic", b"ping", b'"type":"message_stop"'),
        ("responses", b"response.created", b'"type":"response.completed"'),
    ],
)
def test_a_sign_within_the_data_of_a_frame_that_has_another_name_is_none(protocol, name, sign, step):
    frame = b"event: " + name + b'\ndata: {"pad":"' + b"x" * 200 + b'","inner":{' + sign + b"}}\n\n"
    terminal = Terminal(protocol)
    assert all(terminal.feed(frame[a : a + step]) == len(frame[a : a + step]) for a in range(0, len(frame), step))
    assert not terminal.is_reached
    last = b"event: " + sign.split(b'"')[3] + b"\ndata: {" + sign + b"}\n\n"
    terminal.feed(last)
    assert terminal.is_reached


def test_an_empty_finish_reason_in_each_chunk_is_no_end():
    """Some compatible servers send one with each word, and the tokens so far."""
    terminal = Terminal("chat_completions")
    word = b'data: {"choices":[{"delta":{"content":"w"},"finish_reason":""}],"usage":{"total_tokens":1}}\n\n'
    assert [terminal.feed(word) for _ in range(3)] == [len(word)] * 3
    assert terminal.feed(word.replace(b'"finish_reason":""', b'"finish_reason":"stop"')) == 0
    assert (terminal.is_reached, terminal.is_whole) == (True, False)


def test_line_ends_may_be_of_any_kind():
    for end in (b"\n", b"\r\n", b"\r"):
        terminal = Terminal("anthropic")
        first = b"event: ping" + end + b"data: {}" + end + end
        last = b"event: message_stop" + end + b'data: {"type":"message_stop"}' + end + end
        assert terminal.feed(first + last) == len(first)
        assert terminal.is_whole


def test_a_frame_that_is_cut_behind_its_sign_is_known_by_its_end():
    terminal = Terminal("anthropic")
    begun = b"event: ping\ndata: {}\n\nevent: message_stop"
    assert terminal.feed(begun) == len(begun)
    rest = b'\ndata: {"type":"message_stop"}\n\n'
    assert terminal.feed(rest) == 0
    assert terminal.is_whole
