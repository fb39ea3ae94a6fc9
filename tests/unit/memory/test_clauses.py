"""Sentences and phrases of a text, word for word."""

import pytest

from everlog.memory.tree.clauses import phrases, sentences


def shown(text: str) -> list[str]:
    return [phrase.text for phrase in phrases(0, text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We saw the painting class and a lighthouse.", ["painting class", "lighthouse"]),
        ("It is what it was.", []),
        ("That is a good thing to do", []),
        ("about 34,000 passengers at 07:40, 18.50 each", ["34,000 passengers", "07:40", "18.50"]),
        ("wrote ~/src/slipway/timetable/winter.csv twice", ["wrote ~/src/slipway/timetable/winter.csv twice"]),
        ("git log --oneline; cost $18 in .env", ["git log --oneline", "cost $18", ".env"]),
        ("the week 1 plan", ["week 1 plan"]),
        ("1. 2. 3.", []),
        ("Kein Zug nach Köln", ["Kein Zug nach Köln"]),
        ("明日の会議は中止です。予算は3,500円です。", ["明日の会議は中止です", "予算は3,500円です"]),
        (r'write_file {"path": "a.py", "text": "import jwt\n\ndef sign"}', ["write_file", "path", "a.py", "import jwt", "def sign"]),
        ("paint; pottery; the sunset of 2022 …", ["paint", "pottery", "sunset", "2022"]),
    ],
)  # fmt: skip
def test_phrases_are_runs_of_words_that_say_something(text: str, expected: list[str]):
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Anna has not agreed to the move to Fly.io, she will call.", ["Anna has not agreed to the move to Fly.io"]),
        ("Don't give up, the harbour is near.", ["Don't give up"]),
        ("The tickets are ready. The pier is not safe!", ["tickets", "pier is not safe"]),
        ("Sandle Point: no, the quay has no network", ["quay has no network"]),
        ("No.", []),
    ],
)
def test_a_sentence_with_a_negation_gives_no_phrase_without_it(text: str, expected: list[str]):
    assert shown(text) == expected


def test_where_a_clause_stands_in_its_text_is_known():
    text = "We paint. The lighthouse is not open, the harbour is; see docs/map.txt for more."
    for clause in [*sentences(3, text), *phrases(3, text)]:
        assert clause.piece == 3
        assert clause.sentence <= clause.start < clause.end
        assert clause.text == text[clause.start : clause.end].strip()
        assert clause.words
