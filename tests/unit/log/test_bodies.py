"""What a message is laid out as comes back as the message."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given

from everlog import Damaged, Media, Message
from everlog.log.bodies import KIND_NUMBER, blob_name, decode, encode
from everlog.messages import KINDS
from everlog.tokens import utf8
from tests.conformance import log_strategies as some

SECRET = bytes(32)
NOW = datetime(2026, 1, 5, tzinfo=UTC)


@given(message=some.messages)
def test_a_message_comes_back_as_it_was(message: Message):
    """What is empty and what is missing are the same of an author and an id."""
    body = encode(message, SECRET)
    at = message.at or NOW
    found = decode(body.plain, KIND_NUMBER[message.kind], at, model=message.model, blob=body.blobs.get)
    assert found.author in (message.author, message.author or None)
    assert found.id in (message.id, message.id or None)
    assert replace(found, author=message.author, id=message.id) == replace(message, at=at)


@given(message=some.messages)
def test_the_bytes_of_media_are_beside_the_body_under_a_keyed_name(message: Message):
    body = encode(message, SECRET)
    contents = {part.content for part in message.parts if isinstance(part, Media) and part.content is not None}
    assert set(body.blobs.values()) == contents
    assert all(blob_name(content, SECRET) == name for name, content in body.blobs.items())
    other = encode(message, bytes(31) + b"\x01")
    assert not body.blobs.keys() & other.blobs.keys()
    assert all(content not in body.plain for content in contents if len(content) > 8)


def test_equal_messages_have_equal_bodies_and_others_do_not():
    """A repeated client key is told from a misused one by the body."""
    one = Message(kind="user", text="a", author="b", meta={"x": 1, "y": [1.5, None]})
    assert encode(one, SECRET).plain == encode(replace(one), SECRET).plain
    for other in (replace(one, text="A"), replace(one, author=None), replace(one, meta={"x": 2}), replace(one, id="i")):
        assert encode(one, SECRET).plain != encode(other, SECRET).plain


def test_media_that_is_asked_for_without_bytes_keeps_all_else():
    picture = Media(media_type="image/png", content=b"bytes", url="https://x.test/a", name="a.png", offset=3)
    body = encode(Message(kind="user", text="look", parts=(picture,)), SECRET)
    (part,) = decode(body.plain, KIND_NUMBER["user"], NOW, model=None, blob=None).parts
    assert part == replace(picture, content=None)


def test_the_numbers_of_kinds_are_stored_and_so_stay_as_they_are():
    assert dict(KIND_NUMBER) == {"system": 0, "user": 1, "assistant": 2, "tool_call": 3, "tool_result": 4, "note": 5}
    assert list(KIND_NUMBER) == list(KINDS)


def test_a_part_from_a_newer_version_is_an_error_and_no_silence():
    with pytest.raises(Damaged, match="does not know"):
        decode(utf8('["text",null,[["z",1]]]'), 1, NOW, model=None, blob=None)


@pytest.mark.parametrize(
    "plain", [b"", b"[", b"{}", b"[]", b"[1]", b'["a",2]', b'["a",null,[9]]', b"\xff", b'["a","b",{},{},5,6]']
)
def test_a_body_that_is_not_what_was_stored_is_damage_and_shows_no_words(plain: bytes):
    with pytest.raises(Damaged, match=r"what was stored|does not know"):
        decode(plain, 1, NOW, model=None, blob=None)
