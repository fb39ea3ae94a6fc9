"""Answers in their two forms: columns for people, JSON for programs."""

import shutil
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells

from everlog import Spent
from everlog.jsonl import dumps, encoded
from everlog.messages import JSON, Entry
from everlog.surfaces.cli.console import flat, is_terminal, line, write_json

Cell = str | int | None

LEAST_COLUMNS = 30
"""The narrowest that a last column of words is made, before it goes on lines of its own."""


def money(spent: Spent) -> str:
    """Return what requests to models took, in words."""
    if not spent.requests:
        return "no request to a model"
    unknown = f", the price of {spent.unpriced:,} unknown" if spent.unpriced else ""
    known = "" if spent.unpriced == spent.requests else f"${spent.nano_usd / 1e9:,.4f}, "
    return f"{known}{count(spent.requests, 'request')}{unknown}, {count(spent.tokens, 'token')}"


def account(spent: Spent) -> JSON:
    """Return the same for programs; `usd` is null if the price of one request is not known."""
    return {
        "usd": spent.usd,
        "requests": spent.requests,
        "unpriced": spent.unpriced,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cache_read_tokens": spent.cache_read_tokens,
        "cache_write_tokens": spent.cache_write_tokens,
    }


def document(value: JSON) -> None:
    """Print one JSON value."""
    write_json(encoded(dumps(value)) + b"\n")


def array(values: Iterable[JSON]) -> None:
    """Print a JSON array as its values come, one a line."""
    between = b"[\n"
    for value in values:
        write_json(between + encoded(dumps(value)))
        between = b",\n"
    write_json(b"[]\n" if between == b"[\n" else b"\n]\n")


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows in columns, numbers to the right.

    On a terminal that is too narrow for a row, the last cell goes on below, beside the others or, where that leaves too
    little room, under them. Nothing is cut off.
    """
    cells = [[_shown(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    numbers = [all(isinstance(row[n], int) for row in rows) for n in range(len(headings))]
    room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * len(widths[:-1])
    stacked = is_terminal() and room < min(widths[-1], LEAST_COLUMNS)
    for row in [headings, *cells]:
        if stacked:
            _print_stacked(row)
            continue
        padded = [
            " " * (width - cell_len(cell)) + cell if right else cell + " " * (width - cell_len(cell))
            for cell, width, right in zip(row, widths, numbers, strict=True)
        ]
        first, *more = _wrapped(padded[-1].rstrip(), room) if is_terminal() else [padded[-1]]
        line("  ".join([*padded[:-1], first]).rstrip())
        for rest in more:
            line(" " * (sum(widths[:-1]) + 2 * len(widths[:-1])) + rest)


def _print_stacked(row: Sequence[str]) -> None:
    """Print a row with its last cell on lines of its own; the first, which names it, stays in one piece."""
    width = shutil.get_terminal_size().columns
    for part in _wrapped("  ".join(row[:-1]).rstrip(), width):
        line(part)
    for part in _wrapped(row[-1], width - 2):
        if part:
            line(f"  {part}")


def _wrapped(words: str, width: int) -> list[str]:
    """Return words in lines of a width, broken at blanks where there are any; at least one line."""
    lines = [""]
    for word in words.split(" "):
        begun = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(begun) <= width:
            lines[-1] = begun
        else:
            lines[len(lines) - (not lines[-1]) :] = chop_cells(word, max(2, width))
    return lines


def facts(pairs: Iterable[tuple[str, Cell]]) -> None:
    """Print names and values, one pair a line."""
    shown = [(name, _shown(value)) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        line(f"{name:<{width}}  {value}".rstrip())


def speaker(entry: Entry) -> str:
    """Return who said something: the kind, and the name where it says more."""
    name = flat(entry.author or "")
    return entry.kind if name.casefold() in {"", entry.kind} else f"{entry.kind} {name}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 entry` or `1,200 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _shown(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else flat(cell or "")
