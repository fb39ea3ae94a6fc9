"""What goes to the terminal, a pipe or a file: always UTF-8, whatever the locale.

Words of a conversation are data. Halves of surrogate pairs, which UTF-8 cannot hold, are shown as U+FFFD to people and
kept as escapes in JSON. On a terminal, control characters are made visible, so that no message can move the cursor or
change a colour; in a pipe they are passed as they are.
"""

import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import IO, cast

from rich.cells import cell_len, set_cell_size

from everlog.jsonl import dumps, encoded
from everlog.messages import JSON

_HALF = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BREAK = re.compile(r"\s+")

Cell = str | int | None


def write(data: bytes) -> None:
    """Write bytes to standard output as they are."""
    if sys.stdout is not None:  # closed by the caller: nobody wants to hear it
        cast("IO[bytes]", sys.stdout.buffer).write(data)


def is_terminal() -> bool:
    """Whether standard output is read by a person as it appears."""
    return sys.stdout is not None and sys.stdout.isatty()


def text(words: str) -> None:
    """Print words that may come from a conversation; nothing is added."""
    words = _HALF.sub("�", words)
    if is_terminal():
        words = _CONTROL.sub(lambda found: _picture(found[0]), words)
    write(words.encode())


def line(words: str = "") -> None:
    """Print a line."""
    text(f"{words}\n")


def document(value: JSON) -> None:
    """Print one JSON value."""
    write(encoded(dumps(value)) + b"\n")


def array(values: Iterable[JSON]) -> None:
    """Print a JSON array as its values come, one a line."""
    start = b"[\n"
    for value in values:
        write(start + encoded(dumps(value)))
        start = b",\n"
    write(b"[]\n" if start == b"[\n" else b"\n]\n")


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows in columns, numbers to the right; on a terminal no line is wider than it is."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    numbers = [all(isinstance(row[n], int) for row in rows) for n in range(len(headings))]
    for row in [headings, *cells]:
        padded = [
            " " * (width - cell_len(cell)) + cell if right else cell + " " * (width - cell_len(cell))
            for cell, width, right in zip(row, widths, numbers, strict=True)
        ]
        line(_fitting("  ".join(padded).rstrip()))


def facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """Print names and values, one pair a line."""
    shown = [(name, _cell(value)) for name, value in pairs]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        line(f"{name:<{width}}  {value}".rstrip())


def flat(words: str) -> str:
    """Return words on one line, without control characters."""
    return _CONTROL.sub("�", _BREAK.sub(" ", words)).strip()


def note(words: str) -> None:
    """Say something to the person at the terminal that is not part of the output."""
    if sys.stderr is not None:
        sys.stderr.write(f"{flat(words)}\n")


def failure(error: str, *, kind: str, status: int, as_json: bool) -> None:
    """Say on standard error, in one line, what went wrong."""
    if sys.stderr is None:
        return
    if as_json:
        sys.stderr.write(dumps({"error": flat(error), "type": kind, "exit": status}) + "\n")
    else:
        sys.stderr.write(f"everlog: {flat(error)}\n")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 entry` or `1,200 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _cell(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else flat(cell or "")


def _fitting(words: str) -> str:
    if not is_terminal():
        return words
    width = shutil.get_terminal_size().columns
    return words if cell_len(words) <= width else set_cell_size(words, width - 1).rstrip() + "…"


def _picture(control: str) -> str:
    return chr(0x2400 + ord(control)) if ord(control) < 0x20 else "�"
