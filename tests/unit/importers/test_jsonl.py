"""Rendering an entry and parsing the line gives the entry back, whatever is in it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.jsonl import ENTRY, BadLine, encoded, lines, parse_line, render_entry
from everlog.messages import KINDS, Call, Entry, Media, Message, Origin, Part, Result, Unknown, joined_surrogates

words = st.text(st.characters(exclude_categories=[]), max_size=20).map(joined_surrogates)
"""Any text, NUL and lone surrogates among it. A source never holds two halves of a pair in a row."""

numbers = st.integers(0, 10**6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
parts = st.one_of(
    st.builds(
        Media,
        media_type=words,
        content=st.none() | st.binary(max_size=20),
        url=st.none() | words,
        name=st.none() | words,
        offset=numbers,
    ),
    st.builds(Call, call_id=words, name=words, arguments=words),
    st.builds(Result, call_id=words, name=st.none() | words, failed=st.booleans()),
    st.builds(Unknown, source=words, value=json_values, offset=numbers),
)
origins = st.builds(Origin, **{name: st.none() | words for name in ("request", "session", "user", "project", "cwd")})


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    at = draw(st.datetimes(timezones=st.just(UTC)))
    message = Message(
        kind=draw(st.sampled_from(KINDS)),
        text=draw(words),
        author=draw(st.none() | words),
        at=at,
        parts=tuple(draw(st.lists(parts, max_size=3))),
        id=draw(st.none() | words),
        model=draw(st.none() | words),
        meta=draw(st.dictionaries(words, json_values, max_size=3)),
    )
    return Entry(
        i=draw(numbers), turn=draw(numbers), message=message, at=at, origin=draw(origins), erased=draw(st.booleans())
    )


@given(st.lists(entries(), min_size=1, max_size=3), st.none() | words, st.none() | words, st.none() | words, numbers)
def test_what_is_rendered_is_parsed_back_equal(
    given_entries: list[Entry], key: str | None, title: str | None, parent: str | None, shared: int
):
    written = list(lines(given_entries, key=key, title=title, parent=parent, shared=shared))
    read = [parse_line(json.loads(line)) for line in written]
    assert [line.entry for line in read] == given_entries
    first, *others = read
    expected = (key, title, parent, shared if parent is not None else 0)
    assert (first.thread, first.title, first.parent, first.shared) == expected
    assert {(line.thread, line.title, line.parent, line.shared) for line in others} <= {(None, None, None, 0)}


@given(entries())
def test_a_line_is_one_line_of_utf8_that_any_reader_of_json_takes(entry: Entry):
    (line,) = lines([entry])
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    value = json.loads(line.decode("utf-8"))
    assert [name for name in ("i", "kind", "author", "text", "time") if name in value] == list(value)[:5]


AT = datetime(2026, 1, 5, 9, 12, 0, 5, tzinfo=UTC)


def test_a_full_line_reads_as_the_form_says():
    message = Message(
        kind="user",
        text="Grüße \ud83d und \x00",
        author="Ada",
        at=AT,
        parts=(
            Media(media_type="image/png", content=b"", name="a.png", offset=3),
            Media(media_type="image/png", url="https://p.example/a"),
            Call(call_id="c", name="look", arguments="{}"),
            Result(call_id="c"),
            Unknown(source="x", value=None),
        ),
        id="m1",
        model="m",
        meta={"a": 1},
    )
    entry = Entry(i=7, turn=2, message=message, at=AT, origin=Origin(user="u"), erased=True)
    (line,) = lines([entry], key="boat", title="The boat", parent="yard", shared=3)
    assert line.decode() == (
        '{"i":7,"kind":"user","author":"Ada","text":"Grüße \\ud83d und \\u0000","time":"2026-01-05T09:12:00.000005Z",'
        '"thread":"boat","title":"The boat","fork":{"of":"yard","at":3},"turn":2,"id":"m1","model":"m","meta":{"a":1},'
        '"origin":{"user":"u"},"erased":true,"parts":['
        '{"type":"media","media_type":"image/png","content":"","name":"a.png","offset":3},'
        '{"type":"media","media_type":"image/png","url":"https://p.example/a","offset":0},'
        '{"type":"call","call_id":"c","name":"look","arguments":"{}"},'
        '{"type":"result","call_id":"c","name":null,"failed":false},'
        '{"type":"unknown","source":"x","value":null,"offset":0}]}\n'
    )


def test_the_first_line_of_a_thread_says_what_the_model_was_told():
    entry = Entry(i=0, turn=0, message=Message(kind="note", at=AT), at=AT)
    first, second = lines([entry, replace(entry, i=1)], key="boat", instructions=["Be brief.", "\ud83d"])
    assert b'"thread":"boat","instructions":["Be brief.","\\ud83d"],"turn":0' in first
    assert b"instructions" not in second
    assert parse_line(json.loads(first)).instructions == ("Be brief.", "\ud83d")
    assert parse_line(json.loads(second)).instructions == ()


def test_a_thread_without_entries_is_a_line_that_says_so():
    (line,) = lines([], key="boat", title="The boat", instructions=["Be brief."])
    assert line == b'{"thread":"boat","title":"The boat","instructions":["Be brief."],"entries":0}\n'
    parsed = parse_line(json.loads(line))
    assert (parsed.entry, parsed.thread, parsed.title) == (None, "boat", "The boat")
    assert not line.startswith(ENTRY)
    assert list(lines([])) == []


def test_a_message_without_a_time_comes_back_with_its_entrys():
    entry = Entry(i=0, turn=0, message=Message(kind="note"), at=AT)
    assert parse_line(render_entry(entry)).entry == replace(entry, message=Message(kind="note", at=AT))


LINE: dict[str, Any] = {"i": 0, "kind": "user", "author": None, "text": "", "time": "2026-01-05T09:12:00Z"}


@pytest.mark.parametrize(
    ("time", "at"),
    [
        ("2026-01-05T09:12:00", datetime(2026, 1, 5, 9, 12, tzinfo=UTC)),
        ("2026-01-05T09:12:00+02:00", datetime(2026, 1, 5, 7, 12, tzinfo=UTC)),
        ("2026-01-05 09:12:00.5Z", datetime(2026, 1, 5, 9, 12, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_a_time_of_iso_8601_is_taken_in_any_zone(time: str, at: datetime):
    parsed = parse_line(LINE | {"time": time}).entry
    assert parsed is not None
    assert (parsed.at, parsed.message.at, parsed.at.tzinfo) == (at, at, UTC)


def test_a_time_in_another_zone_is_written_in_utc():
    at = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    entry = Entry(i=0, turn=0, message=Message(kind="user", at=at), at=at)
    assert render_entry(entry)["time"] == "2026-01-05T09:12:00.000005Z"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"i": "0"}, "i is not a number of at least 0"),
        ({"i": True}, "i is not a number of at least 0"),
        ({"i": None}, "i is not a number of at least 0"),
        ({"kind": "human"}, "kind is none of system, user, assistant, tool_call, tool_result, note"),
        ({"kind": ["user"]}, "kind is not a text"),
        ({"author": 7}, "author is not a text"),
        ({"text": None}, "text is not a text"),
        ({"time": 7}, "time is not a text"),
        ({"time": "tomorrow"}, "time is not a date of ISO 8601"),
        ({"time": "0001-01-01T00:00:00+23:59"}, "time is not a date of ISO 8601"),
        ({"turn": -1}, "turn is not a number of at least 0"),
        ({"id": 1}, "id is not a text"),
        ({"model": {}}, "model is not a text"),
        ({"thread": 1}, "thread is not a text"),
        ({"fork": "boat"}, "fork is not an object"),
        ({"fork": {"of": "boat"}}, "at is missing"),
        ({"meta": []}, "meta is not an object"),
        ({"erased": 1}, "erased is neither true nor false"),
        ({"origin": "x"}, "origin is not an object"),
        ({"origin": {"user": 1}}, "user is not a text"),
        ({"parts": {}}, "parts is not a list"),
        ({"parts": [1]}, "a part is not an object"),
        ({"parts": [{"type": "film"}]}, "a part is neither media, call, result nor unknown"),
        ({"parts": [{"type": "media"}]}, "media_type is missing"),
        ({"parts": [{"type": "media", "media_type": "x", "content": "?"}]}, "content is not base64"),
        ({"parts": [{"type": "call", "call_id": "c", "name": "n"}]}, "arguments is missing"),
        ({"parts": [{"type": "result", "call_id": "c", "failed": 0}]}, "failed is neither true nor false"),
        ({"parts": [{"type": "unknown", "source": "x"}]}, "value is missing"),
        ({"parts": [{"type": "unknown", "source": "x", "value": 1, "offset": -1}]}, "offset is not a number"),
    ],
)
def test_a_line_of_another_form_is_refused_with_the_field_and_not_its_words(change: Mapping[str, Any], complaint: str):
    with pytest.raises(BadLine, match=complaint):
        parse_line(LINE | dict(change))


@pytest.mark.parametrize("name", LINE)
def test_a_line_without_a_required_field_is_refused(name: str):
    with pytest.raises(BadLine, match=f"{name} is missing"):
        parse_line({field: value for field, value in LINE.items() if field != name})


def test_a_line_that_is_no_object_is_refused():
    with pytest.raises(BadLine, match="it is not an object"):
        parse_line([LINE])


def test_lone_surrogates_are_written_as_json_escapes():
    assert encoded('"\\\ud800é"') == b'"\\\\ud800\xc3\xa9"'
    assert json.loads(encoded(json.dumps("\\\ud800é", ensure_ascii=False))) == "\\\ud800é"


def test_every_kind_of_part_is_covered():
    assert set(Part.__args__) == {Media, Call, Result, Unknown}
