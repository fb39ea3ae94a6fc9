"""What a client says of the turn that is open in blocks of its own, over histories as nobody should send them."""

from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.conversation.remembering.wire import MARKS, Wire
from everlog.log import Print
from everlog.protocols import FORMATS
from everlog.protocols.shapes import dumps
from tests.unit.protocols.histories import BODIES

START = 100
SECRET = "a word"
CITED = {"type": "text", "text": "Look:", "citations": {"enabled": True}}


def printed(messages):
    return [Print(fp=sha256(repr(one).encode()).digest()[:16], kind=one.kind, size=1) for one in messages]


def redacted(message):
    return replace(message, text=message.text.replace(SECRET, "[gone]"))


def wire_of(protocol, body, redact=lambda one: one):
    """Return a history, its messages, and the prints of those behind the instructions at its beginning."""
    history = FORMATS[protocol].parse_history(body)
    wire = Wire.of(history, redact)
    messages = [one for said in history for one in said.messages]
    leading = sum(len(said.messages) for said in wire.leading)
    return wire, messages, printed(messages)[leading:]


def owned(protocol, messages, redact=lambda one: one):
    """Return what is held of a history that is one open turn, and all in the log."""
    wire, _, prints = wire_of(protocol, {"messages": messages, "input": messages}, redact)
    return wire.own(prints, prints, START, START)


@given(data=st.data(), protocol=st.sampled_from(sorted(BODIES)))
def test_what_is_held_stands_for_the_entries_at_its_place_and_for_each_once(data, protocol):
    body = data.draw(BODIES[protocol])
    wire, messages, prints = wire_of(protocol, body, redacted)
    there = prints[len(prints) - data.draw(st.integers(0, len(prints))) :]
    stop = START + len(there)
    open_at = data.draw(st.integers(START, stop))
    held = wire.own(prints, there, START, open_at)
    for before, after in pairwise(held):
        assert before.position + before.covers <= after.position
    for one in held:
        assert START <= one.position <= one.position + one.covers <= stop
        first = len(messages) - (stop - one.position)
        [said] = one.said
        assert list(said.messages) == messages[first : first + one.covers]
        assert all(message.kind != "system" and SECRET not in message.text for message in said.messages)
        again = FORMATS[protocol].parse_history({"messages": list(said.raw.items), "input": list(said.raw.items)})
        assert [message for each in again for message in each.messages] == list(said.messages)
        assert not any(f'"{mark}"' in dumps(list(said.raw.items)) for mark in MARKS)


@given(data=st.data(), protocol=st.sampled_from(sorted(BODIES)))
def test_nothing_is_held_of_a_history_that_the_log_does_not_end_with(data, protocol):
    wire, _, prints = wire_of(protocol, data.draw(BODIES[protocol]))
    other = [*prints, Print(fp=b"another message!", kind="user", size=1)]
    assert wire.own(prints, other, START, START) == ()


@pytest.mark.parametrize("protocol", sorted(BODIES))
def test_plain_words_are_not_held(protocol):
    assert owned(protocol, [{"role": "user", "content": "hi"}]) == ()


def test_blocks_that_say_more_than_words_are_held_without_the_marks_that_move():
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    assert owned("anthropic", [{"role": "user", "content": [marked]}]) == ()
    [held] = owned("anthropic", [{"role": "user", "content": [CITED, marked]}])
    plain = {"role": "user", "content": [CITED, {"type": "text", "text": "hi"}]}
    assert held.said[0].raw.items == (plain,)


def test_of_a_message_from_which_something_was_taken_out_no_block_is_held():
    words = {"type": "text", "text": f"it is {SECRET}"}
    assert owned("anthropic", [{"role": "user", "content": [CITED, words]}])
    assert owned("anthropic", [{"role": "user", "content": [CITED, words]}], redacted) == ()


def test_what_names_an_item_instead_of_saying_it_is_never_held():
    user = {"role": "user", "content": [{"type": "input_text", "text": "hi"}], "x_new": 1}
    assert owned("responses", [user])
    assert owned("responses", [{"type": "item_reference", "id": "msg_1"}]) == ()
