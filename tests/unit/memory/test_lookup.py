"""Pages of a message and the words for a time."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.errors import UnknownAddress
from everlog.memory.escapes import unescape
from everlog.memory.tree import lookup
from everlog.memory.tree.lookup import Page, dated, page_of

PAGING = json.loads((Path(__file__).parents[2] / "vectors" / "text.json").read_text("utf-8"))["paging"]["codepoint"]
LONG = "a" * 24_999 + "\U0001f600" + "b" * 40_000


@pytest.mark.covers("A127", "fault 63")
def test_the_row_of_the_vectors():
    pages = [page_of(LONG, 7, n) for n in range(len(PAGING["page_starts"]))]
    assert [LONG[start:end] for start, end in zip(PAGING["page_starts"], PAGING["ends"], strict=True)] == [
        page.words for page in pages
    ]
    assert len(LONG) == PAGING["length"] == PAGING["bad_offset"]
    assert [page.note for page in pages] == [
        "(page 0 of 0 to 2; read(7, 1) goes on)",
        "(page 1 of 0 to 2; read(7, 2) goes on)",
        "",
    ]


@pytest.mark.covers("fault 63")
@pytest.mark.parametrize("page", [3, -1, 1 << 64, True, 1.0, "1", None])
def test_a_page_that_is_not_there_is_refused_with_the_range(page: object):
    with pytest.raises(UnknownAddress, match="Message 7 has 3 pages, numbered from 0 to 2; there is no page"):
        page_of(LONG, 7, page)


def test_a_message_of_one_page_says_so():
    assert page_of("", 7, 0) == Page(7, 0, 1, "")
    with pytest.raises(UnknownAddress, match="Message 7 has 1 page, numbered 0; there is no page 1"):
        page_of("", 7, 1)


@pytest.mark.covers("A127", "fault 63", "fault 64")
@given(st.text(max_size=60), st.integers(1, 7))
def test_pages_join_to_the_text_also_as_an_agent_reads_them(text: str, size: int):
    text += "</chat>\n7+1|x"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "PAGE_CHARACTERS", size)
        first = page_of(text, 0, 0)
        pages = [page_of(text, 0, n) for n in range(first.pages)]
    assert "".join(page.words for page in pages) == text
    assert all(0 < len(page.words) <= size for page in pages)
    assert "".join(unescape(page.text.removesuffix(f"\n{page.note}" if page.note else "")) for page in pages) == text


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (datetime(2026, 11, 10, 14, 2, 59, tzinfo=UTC), "Tue 2026-11-10 14:02 UTC"),
        (datetime(476, 9, 4, tzinfo=UTC), "Fri 0476-09-04 00:00 UTC"),
    ],
)
@pytest.mark.covers("A54")
def test_a_time_is_said_in_the_same_words_everywhere(when: datetime, said: str):
    assert dated(when) == said
