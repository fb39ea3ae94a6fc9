"""Titles made of the first words."""

import pytest

from everlog.importers.titles import titled
from everlog.messages import Message

LONG = "Please look at the timetable of the winter ferry and tell me which sailings are new"


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        ([], None),
        ([" \n "], None),
        (["Two for\n\n Sunday. "], "Two for Sunday."),
        (["x" * 60], "x" * 60),
        (["x" * 61], "x" * 60 + "…"),
        ([LONG], "Please look at the timetable of the winter ferry and tell…"),
        (["<command-name>/clear</command-name>", "Go on"], "Go on"),
        (["<b>only</b>", " "], "<b>only</b>"),
        (["\ud83d half"], "\ud83d half"),
    ],
)
def test_a_title_is_what_the_person_said_first_on_one_line_and_not_long(texts: list[str], title: str | None):
    said = [Message(kind="system", text="Be brief."), *(Message(kind="user", text=text) for text in texts)]
    assert titled(said) == title
