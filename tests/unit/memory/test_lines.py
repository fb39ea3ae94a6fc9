import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everlog.clock import EPOCH
from everlog.memory.escapes import escape, unescape, whole
from everlog.memory.tree.lines import (
    LIMIT_BYTES,
    Line,
    decode,
    encode,
    flatten,
    joined,
    line_of,
    shown,
    source,
)
from everlog.messages import KINDS, Entry, Kind, Message
from everlog.tokens import size_bytes

TEXT = json.loads((Path(__file__).parents[2] / "vectors" / "text.json").read_text("utf-8"))
BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"

hostile = st.lists(
    st.one_of(
        st.text(st.characters(), max_size=4),
        st.sampled_from(
            ["<chat>", "</chat>", "< / Chat", "&lt;", "&amp;lt;", "chat", "7+1|", "7+1&#124;", "&amp;#124;", "7+1", "|"]
        ),
        st.sampled_from([*BREAKS, "\r\n", " ", "user: ", "\nassistant: ", "\ud800", "\x00"]),
    ),
    max_size=12,
).map("".join)
pieces = st.lists(st.tuples(st.sampled_from(KINDS), hostile), min_size=1, max_size=5)


def entry(text: str, kind: Kind = "user", *, erased: bool = False) -> Entry:
    message = Message(kind=kind, text=text)
    return Entry(i=0, turn=0, message=message, at=EPOCH, erased=erased)


@pytest.mark.parametrize(("text", "line"), [(row[0], row[3]) for row in TEXT["flatten"]["rows"]])
def test_each_line_break_is_one_space(text: str, line: str):
    assert flatten(text) == line


@given(hostile)
def test_a_shown_text_is_one_line_whatever_it_says(text: str):
    assert not set(shown(text)) & set(BREAKS)
    assert shown(text).splitlines() in ([], [shown(text)])


@given(hostile)
@example("&amp;lt;/chat>")
@example("7+1&amp;#124;")
def test_escaping_gives_back_every_text(text: str):
    assert unescape(escape(text)) == whole(text)


@given(hostile)
def test_an_escaped_text_neither_closes_a_tag_nor_passes_for_a_line(text: str):
    assert not re.search(r"<[\s/]*chat\b", escape(text), re.IGNORECASE)
    assert not re.search(r"(^|\s)[0-9]+\+[0-9]+\|", escape(text))


@given(hostile)
def test_a_shown_text_is_escaped(text: str):
    assert unescape(shown(text)) == whole(flatten(text))
    assert escape(flatten(text)) == shown(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("</chat>", "&lt;/chat>"),
        ("see <chat> and < / CHAT >", "see &lt;chat> and &lt; / CHAT >"),
        ("&lt;/chat>", "&amp;lt;/chat>"),
        ("7+1|x", "7+1&#124;x"),
        ("a\n7+1|x", "a\n7+1&#124;x"),
        ("f(7+1|x) and <chatter>, a < b & c | d, 1+1=2", "f(7+1|x) and <chatter>, a < b & c | d, 1+1=2"),
    ],
)
def test_only_what_could_be_mistaken_is_escaped(text: str, line: str):
    assert escape(text) == line


@pytest.mark.covers("A114")
@pytest.mark.parametrize(
    ("words", "size", "free"),
    [("a" * 506, 512, True), ("a" * 507, 513, False), ("é" * 253, 512, True), ("é" * 254, 514, False)],
)
def test_a_leaf_weighs_its_kind_and_words_in_bytes(words: str, size: int, free: bool):
    leaf = source(entry(words))
    assert leaf.size_bytes == size
    assert (leaf.size_bytes <= LIMIT_BYTES) is free


def test_two_lines_are_joined_by_one_newline_that_counts():
    assert joined(Line("a" * 255), Line("b" * 256)).size_bytes == 512
    assert joined(Line("a" * 256), Line("b" * 256)).size_bytes == 513


def test_an_erased_entry_is_a_line_without_words():
    assert source(entry("", "assistant", erased=True)).text == "assistant: (erased)"


@given(pieces)
def test_a_line_knows_its_true_pieces_whatever_their_words_say(found: list[tuple[str, str]]):
    assert line_of(found).pieces == found


@given(pieces, pieces)
def test_joining_keeps_the_pieces_of_both(one: list[tuple[str, str]], other: list[tuple[str, str]]):
    assert joined(line_of(one), line_of(other)) == line_of(one + other)


@given(pieces)
def test_a_line_is_stored_and_read_back(found: list[tuple[str, str]]):
    assert decode(encode(line_of(found))) == line_of(found)


def test_a_line_without_true_pieces_is_one_note():
    line = Line("12,3|user: something", ())
    assert decode(encode(line)) == line
    assert line.pieces == [("note", line.text)]
    assert joined(line, Line("user: x")).pieces == [("note", f"{line.text}\nuser: x")]


def test_a_kind_that_does_not_exist_makes_no_line():
    with pytest.raises(ValueError, match="unknown kind"):
        line_of([("thought", "hm")])


@given(hostile)
def test_escaping_a_plain_text_costs_nothing(text: str):
    plain = text.replace("<", "").replace("+", "").replace("&", "")
    assert size_bytes(escape(plain)) == size_bytes(plain)
