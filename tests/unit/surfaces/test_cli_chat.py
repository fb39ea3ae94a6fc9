"""What counts as a command of `everlog chat`, and the one line that a turn comes to."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog import Chat, Everlog, MemoryStatus, StoreUnavailable, UnknownThread
from everlog.chat.cost import Cost
from everlog.chat.message import user_message
from everlog.protocols.exchange import Usage
from everlog.surfaces.cli.chat_commands import is_command, is_end
from everlog.surfaces.cli.chat_screen import as_json, footer
from everlog.surfaces.cli.chat_talk import Talk, Turn
from everlog.testing import failpoints
from everlog.testing.upstream import Answer, Upstream


def status(**changes) -> MemoryStatus:
    known: dict[str, Any] = {
        "trouble": {},
        "last_error": None,
        "waiting": 0,
        "refused": 0,
        "is_open": False,
        "can_resume": False,
        "epoch": 1,
        "reason": "first",
        "turns_when": None,
        "memory_bytes": 0,
        "hidden": 0,
        "behind": 0,
        "placeholders": 0,
        "unbuilt": 0,
        "hindrance": None,
        "bad_answers": 0,
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


def test_money_is_told_to_programs_to_the_billionth_of_a_dollar():
    made = turn(status(), status())
    for exact, told in ((0.1 + 0.2, 0.3), (None, None)):
        shown: Any = as_json(replace(made, cost=Cost(total_usd=exact)))
        assert shown["usd"] == told


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(lambda received: Answer(text=received.body["messages"][-1]["content"])) as upstream:
        yield upstream


def talk(home: Everlog, upstream: Upstream) -> Talk:
    partner = Chat("m-1", base_url=upstream.url)
    return Talk(home, home.attach(partner.fresh, key="sea", pump="none"))


def away(name: str) -> None:
    """The database is away, whatever is done."""
    raise StoreUnavailable("the disk is gone")


def test_what_could_not_be_recorded_when_a_conversation_ends_waits_for_the_next(
    upstream: Upstream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with everlog.open(tmp_path / "everlog.db") as home:
        with failpoints._listening(away), talk(home, upstream) as first:
            first.say("one", lambda chunk: None)
            assert first.last.missing == ["asked without the memory", "2 messages not recorded yet"]
        assert "what waited is recorded by now, or when" in capsys.readouterr().err
        with talk(home, upstream) as second:
            second.say("two", lambda chunk: None)
            assert second.last.missing == []
        assert [one.text for one in home.thread("sea").entries()] == ["one", "one", "two", "two"]


def test_what_nothing_can_keep_is_said_to_be_lost(upstream: Upstream):
    with (
        everlog.open(":memory:") as home,
        pytest.raises(StoreUnavailable, match="2 messages could not be recorded"),
        failpoints._listening(away),
        talk(home, upstream) as only,
    ):
        only.say("one", lambda chunk: None)


def test_a_fork_gets_the_next_free_name(upstream: Upstream):
    with everlog.open(":memory:") as home, talk(home, upstream) as only:
        with pytest.raises(UnknownThread):
            only.fork()
        only.say("one", lambda chunk: None)
        for key in ("sea-2", "sea-2-2"):
            only.fork()
            assert only.memory.key == key
        only.fork("other")
        assert (only.memory.key, only.length) == ("other", 2)
