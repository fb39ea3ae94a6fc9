"""A view as text: `<chat>`, one `id+n|text` line each, `</chat>`; and back.

The planner counts with `FRAME_BYTES`, `line_bytes` and `notice` what `render` then writes, to the byte. The messages
left out of a view that is too small stand in one line that names the blocks they are in, so that they can be opened.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from everlog.memory.tree.extractive import clip
from everlog.memory.tree.lines import PLACEHOLDER, shown
from everlog.memory.tree.nodes import cover, label_of, parse_label, start_of, stop_of
from everlog.tokens import size_bytes

_OPEN, _CLOSE = "<chat>\n", "</chat>"
FRAME_BYTES = len(_OPEN) + len(_CLOSE)
"""Bytes of an empty view."""

PLACEHOLDER_BYTES = size_bytes(PLACEHOLDER)

MIN_LINE_BYTES = 6
"""No line is shorter than `0+1|x` and its newline."""

_NOTICE = re.compile(r"\(left out, zoom to open: ([0-9+ ]+)\)|\(left out from 0: ([0-9+ ]+)\)")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a reader sees of a tree: which nodes, with which text, and what is left out."""

    lines: tuple[tuple[int, str], ...]
    """(node, text as shown), oldest first."""
    hidden: int = 0
    """How many of the oldest entries no line covers."""
    notice: str = ""
    """The line that names them."""

    @property
    def count(self) -> int:
        """How many entries the view stands for."""
        return stop_of(self.lines[-1][0]) if self.lines else self.hidden

    @property
    def view_lines(self) -> list[str]:
        """The lines between the tags."""
        lines = [f"{label_of(nid)}|{text}" for nid, text in self.lines]
        return [self.notice, *lines] if self.hidden else lines

    @property
    def text(self) -> str:
        """The view as it is delivered."""
        return "".join((_OPEN, *(f"{line}\n" for line in self.view_lines), _CLOSE))


def begun(text: str, room: int | None) -> str:
    """Return a node's text as it is shown; where `room` is given, as much of its beginning as takes so many bytes."""
    line, limit = shown(text), room or 0
    while room is not None and size_bytes(line) > room:
        line = shown(clip(text, limit))
        limit -= max(1, size_bytes(line) - room)
    return line


def line_bytes(nid: int, text_bytes: int) -> int:
    """Return the bytes of a rendered line: label, bar, text, newline."""
    return len(label_of(nid)) + 2 + text_bytes


def notice(hidden: int, room: int) -> str:
    """Return the line for entries left out, without its newline.

    Where `room` bytes allow it names each block by its address; the shorter form gives the blocks' sizes, from entry 0
    on, and for any thread under two billion entries fits in a view of 256 bytes.
    """
    blocks = cover(0, hidden)
    full = f"(left out, zoom to open: {' '.join(map(label_of, blocks))})"
    if len(full) <= room:
        return full
    return f"(left out from 0: {' '.join('+' + label_of(nid).partition('+')[2] for nid in blocks)})"


def parse(view: str) -> Shown:
    """Return what a rendered view shows.

    Raises:
        ValueError: it is not a view.
    """
    if not view.startswith(_OPEN) or not view.endswith(_CLOSE):
        raise ValueError("a view stands between <chat> and </chat>")
    rows = view[len(_OPEN) : -len(_CLOSE)].split("\n")
    if rows.pop() != "":
        raise ValueError("a view's lines end in a newline each")
    hidden, said = 0, ""
    if rows and (match := _NOTICE.fullmatch(rows[0])):
        said = rows.pop(0)
        hidden = _hidden_in(match[1], match[2])
    return Shown(tuple(_parse_lines(rows, hidden)), hidden, said)


def _parse_lines(rows: Sequence[str], at: int) -> list[tuple[int, str]]:
    lines = []
    for row in rows:
        label, bar, text = row.partition("|")
        nid = parse_label(label)
        if nid is None or not bar or start_of(nid) != at:
            raise ValueError(f"no line of a view begins with {label[:40]!r} here")
        lines.append((nid, text))
        at = stop_of(nid)
    return lines


def _hidden_in(labels: str | None, sizes: str | None) -> int:
    if labels is not None:
        last = parse_label(labels.rpartition(" ")[2])
        if last is None:
            raise ValueError("the blocks left out have no such address")
        return stop_of(last)
    return sum(int(size[1:]) for size in (sizes or "").split(" "))
