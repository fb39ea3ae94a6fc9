"""Law 11, as a reader sees it who passes over what has no shape, or takes it for a blank."""

import re
import sys
import unicodedata
from time import perf_counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everlog.memory.escapes import UNSEEN, disclose, enclose, escape, unescape, whole

TAG = re.compile(r"<[\s/]*chat(?!\w)", re.IGNORECASE)
INPUT = re.compile(r"<[\s/]*input(?!\w)", re.IGNORECASE)
LABEL = re.compile(r"(?<!\S)[0-9]+\+[0-9]+\|")
UNSEEN_CHARACTERS = re.compile(f"[{UNSEEN}]")
SHAPELESS = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\u202e\u2066\u200f\ufe0f\U000e0061\U000e0100\x00\x1b\x9b\u3164\u2800"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"

shapeless = st.sampled_from(SHAPELESS)
hostile = st.lists(
    st.one_of(
        shapeless,
        st.sampled_from([*"<>/&+|;", "chat", "cHa", "T", "input", "lt;", "&lt;", "amp;", "&#124;", "#124;", "7+1|", "12", "0"]),
        st.sampled_from([" ", "\n", "x", "_", "\ud800", FAMILY]),
    ),
    max_size=16,
).map("".join)  # fmt: skip


def readings(text: str) -> tuple[str, str, str]:
    """Return what a text is to a program, to a model, and to a person."""
    return text, UNSEEN_CHARACTERS.sub("", text), UNSEEN_CHARACTERS.sub(" ", text)


@given(hostile)
@example("\u200b7+1|x")
@example("7\u200b+\u200d1\ufe0f|x")
@example("a1\u31647+1|x")
@example("<\u200b/chat>")
@example("</\U000e0063c\u00adhat>")
@example("<chat\u3164>")
@example("<\u0600input>")
def test_nothing_passes_for_a_tag_or_a_label_to_any_reader(text: str):
    for read in readings(escape(text)):
        assert not TAG.search(read)
        assert not LABEL.search(read)
    for read in readings(enclose(text)):
        assert not TAG.search(read)
        assert not INPUT.search(read)
        assert not LABEL.search(read)


@given(hostile)
def test_what_is_escaped_comes_back_and_can_be_written(text: str):
    escape(text).encode()
    assert unescape(escape(text)) == whole(text)
    assert disclose(enclose(text)) == whole(text)
    assert len(whole(text).encode()) == len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "text",
    [
        f"we are {FAMILY} \u2764\ufe0f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 7+1",
        "\u0d30\u0d3e\u0d1c\u0d28\u0d4d\u200d | 1+1",
        "\ufeff# title\nsoft\u00adhyphen, \u202aleft\u202c",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f <chatter> <\u200bb>",
        "f(7+1|x)",
    ],
)
def test_joiners_and_selectors_stay_where_they_do_no_harm(text: str):
    assert enclose(text) == text


def test_unseen_is_what_unicode_says_may_be_ignored_and_every_control_but_breaks():
    letters = map(chr, range(sys.maxunicode + 1))
    missing = [
        hex(ord(letter))
        for letter in letters
        if unicodedata.category(letter) in {"Cc", "Cf"} and not letter.isspace() and not UNSEEN_CHARACTERS.match(letter)
    ]
    assert missing == []
    assert not UNSEEN_CHARACTERS.search(" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029\u00a0\u3000")


@pytest.mark.parametrize(
    "piece", ["0\u200b", "0", "\u200b", "<\u200b", "< / ", "7+", "7+1", "&amp;", "<c\u200bh", "7\u200b+1"]
)
def test_hostile_text_is_escaped_in_a_time_that_grows_with_its_length(piece: str):
    text = piece * (400_000 // len(piece)) + "+|<lt;#124;"
    began = perf_counter()
    enclose(text)
    assert perf_counter() - began < 5
