"""Server-sent events, cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.protocols.sse import Event, EventTooLarge, Frames, render_event

lines = st.text(alphabet="ab :é\U0001f980", max_size=6)
events = st.builds(
    lambda data, name: Event(data="\n".join(data), name=name),
    st.lists(lines, min_size=1, max_size=3),
    st.sampled_from(["", "ping", "response.completed"]),
)


def fed(chunks):
    frames = Frames()
    return [event for chunk in chunks for event in frames.feed(chunk)]


@given(st.lists(events, max_size=4), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_events_come_back_whatever_ends_their_lines_and_wherever_they_are_cut(wanted, ending, data):
    stream = b"".join(render_event(event.data, event.name) for event in wanted)
    stream = stream.replace(b"\n", ending.encode()) + b": the end\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    bounds = [0, *cuts, len(stream)]
    assert fed(stream[a:b] for a, b in pairwise(bounds)) == wanted
    assert fed(bytes([byte]) for byte in stream) == wanted


def test_comments_and_fields_nobody_knows_are_no_events():
    frames = Frames()
    stream = b": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\nunknown\ndata: x\n\nevent: ping\n\ndata: y\n\n"
    assert frames.feed(stream) == [Event(data="x"), Event(data="y")]
    assert frames.comments == 1


def test_a_byte_order_mark_is_not_part_of_the_first_line():
    for cut in range(5):
        stream = b"\xef\xbb\xbfdata: x\n\n"
        assert fed([stream[:cut], stream[cut:]]) == [Event(data="x")]


def test_what_a_connection_is_cut_off_in_is_no_event():
    assert fed([b"data: one\n\ndata: two\n"]) == [Event(data="one")]


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 100, b"data: xxxxxxxxx\n" * 8])
def test_an_event_above_the_limit_is_refused_before_it_is_whole(stream):
    frames = Frames(max_event_bytes=64)
    with pytest.raises(EventTooLarge, match="64 bytes"):
        frames.feed(stream)


@pytest.mark.parametrize(
    "chunk",
    [
        b"data: x\n\n",
        b"event: ping\ndata: x\n\n",
        b"data: x\ndata: y\n\n",
        b"event: ping\nid: 7\ndata: x\n\n",
        b"data: x\n\ndata: y\n\n",
        b"data:x\n\n",
        b"event: \ndata: x\n\n",
        b"event: a\n\ndata: x\n\n",
        b"data: \n\n",
        b"data: x\r\n\r\n",
        b"event: data: \n\n",
    ],
)
def test_an_event_that_comes_in_one_piece_is_the_same_as_byte_by_byte(chunk):
    bytewise = fed(bytes([byte]) for byte in b"data: before\n\n" + chunk)
    assert fed([b"data: before\n\n", chunk]) == bytewise
