import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.memory.escapes import escape, unescape
from everlog.memory.tree.clauses import GAP
from everlog.memory.tree.lines import PLACEHOLDER, shown
from everlog.memory.tree.nodes import cover, label_of, stop_of
from everlog.memory.tree.render import FRAME_BYTES, MIN_LINE_BYTES, Shown, begun, line_bytes, notice, parse
from everlog.tokens import size_bytes
from tests.unit.memory.test_lines import hostile

RENDER = json.loads((Path(__file__).parents[2] / "vectors" / "text.json").read_text("utf-8"))["render"]


def test_an_empty_view_is_its_tags():
    assert Shown(()).text == "<chat>\n</chat>"
    assert size_bytes(Shown(()).text) == FRAME_BYTES


def test_two_messages_are_two_lines():
    lines = tuple((i, shown(f"{kind}: {text}")) for i, (kind, text) in enumerate(RENDER["two"]["messages"]))
    assert Shown(lines).text == RENDER["two"]["view"]


def test_the_size_of_a_view_is_counted_as_it_is_rendered():
    sizes = RENDER["size"]
    assert FRAME_BYTES + sum(line_bytes(i, n) for i, n in enumerate(sizes["line_text_bytes"])) == 102
    view = Shown(tuple((i, "x" * n) for i, n in enumerate(sizes["line_text_bytes"])))
    assert size_bytes(view.text) == sizes["rendered_without_final_newline"]


def test_a_message_that_is_not_summarized_yet_says_so():
    assert Shown(((0, PLACEHOLDER),)).view_lines == ["0+1|(not summarized yet: zoom it)"]


def test_no_line_is_shorter_than_the_planner_thinks():
    assert line_bytes(0, 1) == MIN_LINE_BYTES


@given(st.integers(0, 300), st.lists(hostile, max_size=6), st.integers(0, 400))
def test_a_view_is_read_back_as_it_was_shown(hidden: int, texts: list[str], room: int):
    lines = []
    at = hidden
    for text in texts:
        nid = cover(at, at + 8)[0]
        lines.append((nid, shown(text)))
        at = stop_of(nid)
    view = Shown(tuple(lines), hidden, notice(hidden, room) if hidden else "")
    assert parse(view.text) == view


@given(st.integers(1, 2_000_000_000))
def test_what_is_left_out_is_named_by_its_blocks_and_fits_the_smallest_view(hidden: int):
    assert FRAME_BYTES + size_bytes(notice(hidden, 0)) + 1 <= 256
    assert parse(f"<chat>\n{notice(hidden, 0)}\n</chat>").hidden == hidden
    named = notice(hidden, 10_000).removeprefix("(left out, zoom to open: ").removesuffix(")").split(" ")
    assert named == [label_of(nid) for nid in cover(0, hidden)]


def test_even_the_longest_list_of_blocks_fits_the_smallest_view():
    assert FRAME_BYTES + size_bytes(notice((1 << 31) - 1, 0)) + 1 <= 256


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<chat>",
        "<chat>\n</chat>\n",
        "<chat>\n0+1|a</chat>",
        "<chat>\nhello\n</chat>",
        "<chat>\n0+1|a\n2+1|b\n</chat>",
        "<chat>\n1+1|a\n</chat>",
        "<chat>\n(left out, zoom to open: 0+3)\n</chat>",
    ],
)
def test_what_is_not_a_view_is_refused(text: str):
    with pytest.raises(ValueError, match=r"view|address"):
        parse(text)


@given(hostile, st.integers(29, 300))
def test_the_beginning_of_a_line_takes_no_more_room_than_it_is_given(text: str, room: int):
    line = begun(f"user: {text}", room)
    assert 0 < size_bytes(line) <= room
    assert not set(line) & set("\n\r\u2028")
    assert escape(unescape(line)) == line or "amp" in line
    if size_bytes(shown(f"user: {text}")) <= room:
        assert line == shown(f"user: {text}") == begun(f"user: {text}", None)
    else:
        assert line.endswith(GAP)


def test_what_is_cut_off_opens_no_tag():
    assert begun("user: " + "w" * 20 + " <chatter and more of it", 34) == "user: " + "w" * 20 + "…"
    assert "<chat" not in begun("user: " + "w" * 12 + "<chatter" + "r" * 40, 29)
