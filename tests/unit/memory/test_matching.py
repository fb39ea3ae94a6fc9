"""Which words are in a text: the rows of the vectors, every script, and laws over any text."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.memory.tree.matching import MAX_WORDS, MIN_CHARACTERS, fold, matched, terms
from everlog.memory.tree.search import BATCH, MAX_HITS, MAX_MESSAGES, MAX_SECONDS
from everlog.memory.tree.tools import SEARCH_CAP

ROWS = json.loads((Path(__file__).parents[2] / "vectors" / "text.json").read_text("utf-8"))["search_words"]


def found(words: str, text: str) -> bool | None:
    wanted = terms(words)
    return matched(wanted, fold(text)) == len(wanted) if wanted else None


@pytest.mark.covers("A57", "A58", "A59", "A60", "A61", "A62")
@pytest.mark.parametrize(("words", "text", "expected"), ROWS["rows"])
def test_the_rows_of_the_vectors(words: str, text: str, expected: bool | None):
    assert found(words, text) is expected


@pytest.mark.covers("A62", "A63", "A69", "A70", "A71")
def test_the_limits_of_the_vectors():
    assert ROWS["limits"] == {
        "min_word": MIN_CHARACTERS,
        "max_words": MAX_WORDS,
        "hits": MAX_HITS,
        "per_turn": SEARCH_CAP,
        "scan_messages": MAX_MESSAGES,
        "seconds": MAX_SECONDS,
        "batch": BATCH,
    }


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        ("café", "CAFÉ", True),
        ("cafe\u0301", "the caf\u00e9", True),
        ("STRASSE", "in der Straße", True),
        ("final", "the ﬁnal one", True),
        ("wide", "Ｗｉｄｅ", True),
        ("12345", "order １２３４５！", True),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", True),
        ("ﾃﾞｰﾀ", "データを保存", True),
        ("москва", "МОСКВА, июнь", True),
        ("नमस्ते", "नमस्ते, आप", True),
        ("नमस्", "नमस्ते", False),
    ],
)
@pytest.mark.covers("A57")
def test_case_width_and_form_make_no_difference(words: str, text: str, expected: bool):
    assert found(words, text) is expected


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        ("plan", "a plan-b", True),
        ("plan", "plan_b", False),
        ("plan", "aplan plane plan", True),
        ("deploy", "redeploy", False),
        ("deploy", "deploys42", True),
        ("plane", "planet", True),
        ("plan", "planet", False),
        ("deploy2", "deploy25", False),
        ("c++", "c", None),
        ("don't", "I don't.", True),
        ("don't", "don't-know", False),
        ("/etc/hosts", "see (etc/hosts)", True),
        ("a@b.de", "<a@b.de>,", True),
        ("12345", "12345;67", False),
        ("12345", "1234512345 12345", True),
        ("12345", "“12345”", True),
        ("_x1_", "x1", True),
        ("snake_case", "snake_case_name", False),
    ],
)
@pytest.mark.covers("A58", "A59", "A60", "A61")
def test_words_are_whole_long_ones_begin_others_and_tokens_stand_between_spaces(
    words: str, text: str, expected: bool | None
):
    assert found(words, text) is expected


@pytest.mark.parametrize(
    ("words", "text"),
    [("会議", "明日の会議は十時"), ("東京都", "彼は東京都に住む"), ("ไทย", "ภาษาไทยง่าย"), ("GPT", "これはGPTです")],
)
def test_scripts_without_spaces_have_words_anywhere(words: str, text: str):
    assert found(words, text)


def test_at_most_eight_words_are_used_each_once_and_short_ones_are_not():
    assert [term.text for term in terms("one ONE a b, two. (three) ## four five six seven eight nine")] == [
        *("one", "two", "three", "four", "five", "six", "seven", "eight"),
    ]
    assert terms("") == terms(" a ! \u3000 ") == ()


WIDE = "\u3000！Ａｚ～｟ﾃﾞﾟ\u3099\u0301\u0323\u0345ﬁǰẞÅ㍻가ᄀ\u1161 aA\ud800"


@given(st.one_of(st.text(max_size=80), st.text(alphabet=WIDE, max_size=20)))
def test_the_form_in_which_texts_are_compared_is_nfkc_case_folded(text: str):
    assert fold(text) == unicodedata.normalize("NFKC", text).casefold()


@given(st.lists(st.text(max_size=20), min_size=1, max_size=6), st.integers(0, 5))
def test_every_word_of_a_text_is_found_in_it(texts: list[str], at: int):
    text = " ".join(texts)
    for term in terms(texts[at % len(texts)]):
        assert matched([term], fold(text)) == 1


@given(st.text(max_size=40), st.text(max_size=200))
def test_no_query_and_no_text_crashes_it(words: str, text: str):
    wanted = terms(words)
    assert 0 <= matched(wanted, fold(text)) <= len(wanted) <= MAX_WORDS
