"""What counts as a command of `everlog chat`, and the one line that a turn comes to."""

from typing import Any

import pytest

from everlog import MemoryStatus
from everlog.chat.cost import Cost
from everlog.chat.message import user_message
from everlog.protocols.exchange import Usage
from everlog.surfaces.cli.chat_commands import is_command, is_end
from everlog.surfaces.cli.chat_screen import footer
from everlog.surfaces.cli.chat_talk import Turn


def status(**changes) -> MemoryStatus:
    known: dict[str, Any] = {
        "trouble": {},
        "last_error": None,
        "waiting": 0,
        "is_open": False,
        "epoch": 1,
        "reason": "first",
        "turns_when": None,
        "memory_bytes": 0,
        "hidden": 0,
        "placeholders": 0,
        "unbuilt": 0,
    }
    return MemoryStatus(**known | changes)


def turn(before: MemoryStatus, after: MemoryStatus) -> Turn:
    return Turn(
        thread="t",
        reply=user_message("x"),
        words="x",
        usage=Usage(input=500, cache_read=9_500, output=1_200),
        cost=Cost(total_usd=0.0125),
        error=None,
        before=before,
        after=after,
    )


@pytest.mark.parametrize("words", ["/zoom 3", "/HELP", "/zom", "/", "/quit ", "/search a b c"])
def test_a_word_behind_a_slash_is_a_command(words: str):
    assert is_command(words)


@pytest.mark.parametrize("words", ["/etc/hosts is empty", " /zoom 3", "zoom 3", "/zoom 3\nand more", "/-", "1/2"])
def test_paths_texts_of_several_lines_and_what_begins_with_a_blank_are_words(words: str):
    assert not is_command(words)


def test_quit_ends_however_it_is_written():
    assert [is_end(word) for word in ("/quit", "/EXIT", "/quite")] == [True, True, False]


def test_the_line_of_a_turn_says_tokens_money_and_the_epoch():
    assert footer(turn(status(), status())) == "10,000 in (95 % read from cache), 1,200 out · $0.0125 · epoch 1"


def test_the_line_of_a_turn_says_why_the_prompt_was_begun_anew_and_what_is_missing():
    before = status(trouble={"prepare": 2, "record": 1, "derive": 0})
    after = status(
        epoch=2,
        reason="full",
        waiting=3,
        hidden=12,
        placeholders=1,
        trouble={"prepare": 3, "record": 3, "derive": 0},
    )
    assert footer(turn(before, after)).split(" · ")[2:] == [
        "epoch 2, turned: full",
        "asked without the memory",
        "3 messages not recorded yet",
        "1 line not built yet",
        "the oldest 12 messages not in the prompt",
    ]
    assert turn(status(epoch=None), after).turned is None, "the first here has none to differ from"
