"""Columns, JSON and words as they are printed."""

import json
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from everlog.messages import JSON
from everlog.surfaces.cli import console, output


@pytest.fixture
def printed(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[[], bytes]:
    """What was printed since it was last asked."""
    return lambda: capsysbinary.readouterr().out


@pytest.fixture
def terminal(printed: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[[], bytes]:
    """The same, on a terminal of 30 columns."""
    for module in (console, output):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    return printed


def test_text_is_utf8_and_half_a_pair_takes_the_three_bytes_it_is_counted_as(printed: Callable[[], bytes]):
    console.text("\u00e9\ud83d\x1b")
    assert printed() == b"\xc3\xa9\xef\xbf\xbd\x1b"


def test_on_a_terminal_control_characters_become_pictures_and_lines_stay_lines(terminal: Callable[[], bytes]):
    console.text("a\tb\n\x1b[2J\x7f\x9b\u202e")
    assert terminal().decode() == "a\tb\n\u241b[2J\ufffd\ufffd\ufffd"


def test_columns_are_as_wide_as_what_is_in_them_also_in_wide_scripts(printed: Callable[[], bytes]):
    output.table(("KEY", "N", "TITLE"), [("a", 1, "x"), ("\u4f60\u597d", 12345, None), ("b", 0, "two\nlines\x07")])
    assert printed().decode().splitlines() == [
        "KEY        N  TITLE",
        "a          1  x",
        "\u4f60\u597d  12,345",
        "b          0  two lines\u2407",
    ]


def test_on_a_terminal_no_line_is_wider_than_it_and_no_word_is_lost(
    terminal: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
):
    rows = [("key-a", 12, "word " * 20 + "end"), ("b" * 25, 1, "\u597d" * 40), ("c", 0, None), ("d", 1234, "x" * 50)]
    for columns in (7, 20, 30, 45, 60, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        output.table(("KEY", "N", "TITLE"), rows)
        shown = terminal().decode()
        assert [cell_len(line) <= columns for line in shown.splitlines()] == [True] * shown.count("\n")
        together = "".join(shown.split())
        for row in rows:
            assert "".join(output._shown(row[2]).split()) in together
            assert row[0] in together


def test_a_last_column_goes_on_beside_the_others_or_where_there_is_no_room_under_them(
    terminal: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
):
    rows = [("a" * 24, 3, "To the sea in June?"), ("b", 12, "")]
    output.table(("KEY", "N", "TITLE"), rows)
    assert terminal().decode().splitlines() == ["KEY  N", "  TITLE", "a" * 24 + "  3", "  To the sea in June?", "b  12"]
    monkeypatch.setenv("COLUMNS", "50")
    output.table(("KEY", "N", "TITLE"), [("a", 3, "To the sea in June, and to the mountains in May"), ("b", 12, "")])
    assert terminal().decode().splitlines() == [
        "KEY   N  TITLE",
        "a     3  To the sea in June, and to the mountains",
        "         in May",
        "b    12",
    ]


def test_lines_of_ours_hold_no_controls_in_a_pipe_either_and_json_none_on_a_terminal(
    printed: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
):
    console.line("a\x1b[2J\x9b\u202eb")
    assert printed().decode() == "a\u241b[2J\ufffd\ufffdb\n"
    value: JSON = {"a": "\x1b\x7f\x9b\u202e\u00e9\U0001f600"}
    output.document(value)
    plain = printed().decode()
    for module in (console, output):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
    output.document(value)
    shown = printed().decode()
    assert json.loads(plain) == json.loads(shown) == value
    assert "\x9b" in plain
    assert not set(shown) & set("\x1b\x7f\x9b\u202e")


def test_in_a_pipe_lines_are_whole(printed: Callable[[], bytes]):
    output.table(("KEY", "TITLE"), [("a", "word " * 50)])
    assert printed().decode().splitlines()[1] == "a    " + " ".join(["word"] * 50)


def test_a_table_without_rows_is_its_heading(printed: Callable[[], bytes]):
    output.table(("KEY", "N"), [])
    assert printed() == b"KEY  N\n"


@pytest.mark.parametrize("values", [[], [1], [{"a": "\u00e9"}, {"b": "\ud83d"}, None]])
def test_an_array_is_one_json_value_that_comes_in_lines(values: list[object], printed: Callable[[], bytes]):
    output.array(iter(values))  # type: ignore[arg-type]
    assert json.loads(printed().decode()) == values


def test_facts_stand_under_each_other(printed: Callable[[], bytes]):
    output.facts([("a", 1200), ("longer", "x\ny"), ("none", None)])
    assert printed() == b"a       1,200\nlonger  x y\nnone\n"
    output.facts([])


@pytest.mark.parametrize(("number", "words"), [(1, "1 entry"), (0, "0 entries"), (1200, "1,200 entries")])
def test_numbers_come_with_their_noun(number: int, words: str):
    assert output.count(number, "entry", "entries") == words


def test_a_failure_is_one_line_whatever_it_says(capsys: pytest.CaptureFixture[str]):
    console.failure("two\nlines \x1b[2J", kind="Mistake", status=2, as_json=False)
    console.failure("two\nlines", kind="Mistake", status=2, as_json=True)
    plain, told = capsys.readouterr().err.splitlines()
    assert plain == "everlog: two lines \u241b[2J"
    assert json.loads(told) == {"error": "two lines", "type": "Mistake", "exit": 2}


def test_nothing_is_written_where_outputs_are_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    console.line("x")
    console.note("x")
    assert not console.is_terminal()
