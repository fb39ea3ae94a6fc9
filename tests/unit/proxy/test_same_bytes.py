"""Untouched means the same bytes object, up and down, whatever the bytes are and wherever they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.proxy.ears import Ear, Ears
from tests.unit.proxy.odd_json import answers, borders, requests, streams
from tests.unit.proxy.wire import JSON_HEAD, STREAM_HEAD, Client, Coming, asked, cut


@given(asking=requests(), data=st.data())
def test_a_request_goes_up_as_the_very_object_that_came(asking: tuple[str, bytes], data: st.DataObject):
    path, body = asking
    upstream = asked(Client(path=path, pieces=[body]), lambda outgoing: Coming())
    assert [one.body is body for one in upstream.sent] == [True]
    assert upstream.sent[0].url == "http://upstream.test" + path
    pieces = cut(body, data.draw(borders()))
    assert asked(Client(path=path, pieces=pieces), lambda outgoing: Coming()).sent[0].body == body


@given(asking=requests(), data=st.data())
def test_each_piece_of_an_answer_comes_down_as_the_very_object_that_came(
    asking: tuple[str, bytes], data: st.DataObject
):
    path, _ = asking
    is_stream = data.draw(st.booleans())
    body = data.draw(streams(path) if is_stream else answers())
    pieces = [piece for piece in cut(body, data.draw(borders())) if piece]
    client = Client(path=path)
    asked(client, lambda outgoing: Coming(headers=STREAM_HEAD if is_stream else JSON_HEAD, pieces=pieces))
    assert len(client.came) == len(pieces)
    assert all(got is sent for got, sent in zip(client.came, pieces, strict=True))
    assert client.is_whole


@given(asking=requests(), data=st.data())
@pytest.mark.parametrize("trouble", ["", "listen", "head", "piece", "late", "commit", "slow"])
def test_an_ear_changes_no_byte_whatever_it_holds_and_however_it_fails(
    trouble: str, asking: tuple[str, bytes], data: st.DataObject
):
    path, sent = asking
    is_stream = data.draw(st.booleans())
    body = data.draw(streams(path) if is_stream else answers())
    free = data.draw(st.integers(0, len(body)))
    ear = Ear(free=free, whole_at=data.draw(st.integers(free, len(body) + 1)), trouble=trouble)
    pieces = [piece for piece in cut(body, data.draw(borders())) if piece]
    client = Client(path=path, pieces=[sent])
    upstream = asked(
        client,
        lambda outgoing: Coming(headers=STREAM_HEAD if is_stream else JSON_HEAD, pieces=pieces),
        ears=Ears(ear),
        hold_s=0.001,
    )
    assert client.body == body
    assert client.is_whole
    assert upstream.sent[0].body is sent
