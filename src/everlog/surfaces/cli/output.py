"""Answers in their two forms: columns for people, JSON for programs."""

import shutil
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

from everlog.jsonl import dumps, encoded
from everlog.messages import JSON
from everlog.surfaces.cli.console import flat, is_terminal, line, write

Cell = str | int | None


def document(value: JSON) -> None:
    """Print one JSON value."""
    write(encoded(dumps(value)) + b"\n")


def array(values: Iterable[JSON]) -> None:
    """Print a JSON array as its values come, one a line."""
    between = b"[\n"
    for value in values:
        write(between + encoded(dumps(value)))
        between = b",\n"
    write(b"[]\n" if between == b"[\n" else b"\n]\n")


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows in columns, numbers to the right; on a terminal no line is wider than it is."""
    cells = [[_shown(cell) for cell in row] for row in rows]
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
    shown = [(name, _shown(value)) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        line(f"{name:<{width}}  {value}".rstrip())


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 entry` or `1,200 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _shown(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else flat(cell or "")


def _fitting(words: str) -> str:
    width = shutil.get_terminal_size().columns
    if not is_terminal() or cell_len(words) <= width:
        return words
    return set_cell_size(words, width - 1).rstrip() + "…"
