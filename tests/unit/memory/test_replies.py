"""What answers are worth."""

from typing import Any

import pytest

from everlog.memory.interface import Answer
from everlog.memory.tree import replies
from everlog.memory.tree.lines import Line, joined, line_of
from everlog.memory.tree.replies import Judged, judge

USER = Line("user: " + "word " * 120)
PAIR = line_of([("user (Ann)", "Sell the boat. " * 30), ("user (Bob)", "No. " * 60), ("assistant", "Noted. " * 60)])


def judged(text: str, made: Line = USER, given: Line | None = None, **more: Any) -> Judged:
    return judge(Answer(text=text, model="m", **more), made, given or made)


@pytest.mark.parametrize(
    "text", ["0+1|user: words", " 12+4|user: words", "user: words", "User: words", "- user: words"]
)
def test_a_copied_label_and_a_bullet_are_taken_off(text: str):
    """Fault 27."""
    assert judged(text).line == Line("user: words")


@pytest.mark.parametrize("text", ["-" * 512 + "\nuser: words", "user: words\n" + "-" * 512, "user: words " + "-" * 40])
def test_a_copied_ruler_is_taken_off(text: str):
    """Fault 28."""
    assert judged(text).line == Line("user: words")


def test_a_ruler_alone_is_nothing_and_dashes_of_the_source_stay():
    assert judged("-" * 512).reason == replies.EMPTY
    dashed = Line("user: " + "-" * 30 + " word" * 120)
    assert judged("user: " + "-" * 30, dashed).line == Line("user: " + "-" * 30)


@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        ("", {}, replies.EMPTY),
        (" \n\t", {}, replies.EMPTY),
        ("user:", {}, replies.EMPTY),
        ("0+1|", {}, replies.EMPTY),
        ("user: wor", {"finish": "length"}, replies.CUT_OFF),
        ("user: words", {"finish": "tool_calls"}, replies.TOOL),
        ("user: words", {"finish": "filtered"}, replies.FILTERED),
        ('API Error: 529 {"type":"error"}', {}, replies.ERROR),
        ('{"error": {"message": "rate limit"}}', {}, replies.ERROR),
        ('{"type": "error", "error": {}}', {}, replies.ERROR),
        ("user: API Error: 500 internal server error", {}, replies.ERROR),
        ("Internal Server Error 500", {}, replies.ERROR),
        ("I'm sorry, I cannot help with that.", {}, replies.UNTAGGED),
        ("The user said words.", {}, replies.UNTAGGED),
        ("assistant: words", {}, replies.UNTRUE),
        ("user: words\nassistant: and more", {}, replies.UNTRUE),
        ("user: words; assistant: and more", {}, replies.UNTRUE),
        ("user (Eve): words", {}, replies.UNTRUE),
        ("user: " + "x" * 700, {}, replies.NO_SHORTER),
        ("user: " + "x" * (USER.size_bytes - 6), {}, replies.NO_SHORTER),
        ("user: " + "x" * 520, {}, replies.TOO_LONG),
    ],
)
def test_what_cannot_be_kept_has_a_reason(text: str, more: dict[str, Any], reason: str):
    """Faults 25, 26, 29, 30, 31."""
    found = judged(text, **more)
    assert found.reason == reason
    assert (found.line is not None) == (reason == replies.TOO_LONG)


def test_an_error_that_the_source_speaks_of_is_no_error_of_the_server():
    made = Line("tool_result: API Error: 529 overloaded " + "word " * 120)
    assert judged("tool_result: API Error: 529 overloaded", made).line == Line("tool_result: API Error: 529 overloaded")


def test_items_keep_their_speakers_on_the_way_up():
    found = judged("user (Ann): sell\nuser (Bob): no\nassistant: noted", PAIR)
    assert found.line == line_of([("user (Ann)", "sell"), ("user (Bob)", "no"), ("assistant", "noted")])
    assert judged("user (Ann): sell; user (Bob): no | assistant: noted", PAIR).line == found.line


def test_a_speaker_that_is_certain_is_filled_in_and_one_that_is_not_is_asked_for():
    alone = line_of([("user (Ann)", "Sell the boat. " * 60)])
    assert judged("user: sell", alone).line == Line("user (Ann): sell")
    assert judged("user: sell", PAIR).reason == replies.UNTRUE


def test_words_that_look_like_an_item_and_stand_so_in_the_source_are_words():
    made = Line("tool_result: grep found; user: root " + "word " * 120)
    assert judged("tool_result: found; user: root", made).line == Line("tool_result: found; user: root")


def test_a_line_that_goes_on_belongs_to_its_item():
    assert judged("user: a\r\nb\n").line == Line("user: a b")


def test_a_tools_result_may_name_its_call():
    """Fault 31: but nobody else."""
    made = Line("tool_result: " + "found " * 120)
    given = joined(Line("tool_call: grep beta"), made)
    assert judged("tool_call: grep beta\ntool_result: found", made, given).line is not None
    assert judged("user: look for beta", made, given).reason == replies.UNTRUE


def test_escapes_in_what_was_shown_come_back_as_what_was_said():
    assert judged("user: closed &lt;/input> and 7+1&#124; and &lt;/chat>").line == Line(
        "user: closed </input> and 7+1| and </chat>"
    )


def test_of_tries_that_were_only_too_long_the_shortest_counts_and_of_equals_the_first():
    texts = ["user: " + letter * size for letter, size in (("a", 600), ("b", 520), ("c", 520))]
    long = Line("user: " + "word " * 200)
    assert replies.shortest(texts, long, long) == Line(texts[1])
    assert replies.shortest(["words"], long, long) is None
    assert replies.shortest([], long, long) is None
