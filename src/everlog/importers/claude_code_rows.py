"""Puts the lines of a Claude Code session in rows, so that a line has two children only where the talk really forks.

A *row* is one assistant message, written as a line per block, with the results of its calls. As written, each block hangs
under the one before it and each result under its own call; in a row they follow each other in the order of the file, and
what came after any of them comes after the last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from everlog.importers.claude_code_lines import Line
from everlog.messages import Media, Message, Part, Unknown


def in_rows(lines: Mapping[str, Line]) -> list[Line]:
    """Return the lines that hold something, with the parents they have once rows are in a row."""
    rows = _Rows(lines)
    for line in lines.values():
        rows.add(line)
    placed: list[Line] = []
    newest: dict[tuple[bool, str | None], str] = {}
    for line in lines.values():
        if line.messages or line.name in rows.row_of:
            track = (line.sidechain, line.agent)
            parent = rows.parent(line, newest.get(track))
            newest[track] = line.name
            placed.append(replace(line, parent=parent, messages=rows.messages.get(line.name, line.messages)))
    return placed


def roots(lines: Iterable[Line]) -> dict[str, str]:
    """Return for each line the name of the line that its branch begins with."""
    parents = {line.name: line.parent for line in lines}
    found: dict[str, str] = {}
    for name, parent in parents.items():
        path: dict[str, None] = {}
        root, above = name, parent
        while root not in found and root not in path and above in parents:
            path[root] = None
            root, above = above, parents[above]
        begin = found.get(root, root)
        found |= dict.fromkeys([*path, root], begin)
    return found


class _Rows:
    def __init__(self, lines: Mapping[str, Line]) -> None:
        self.row_of: dict[str, str] = {}
        self.messages: dict[str, tuple[Message, ...]] = {}
        self._lines = lines
        self._tails: dict[str, str] = {}
        self._before: dict[str, str] = {}
        self._row_of_call: dict[str, str] = {}

    def add(self, line: Line) -> None:
        """Take the line into the row it belongs to, if it belongs to one."""
        row = self._row(line)
        if row is None:
            return
        if (before := self._tails.get(row)) is not None:
            self._before[line.name] = before
            self._join_words(before, line)
        self.row_of[line.name] = row
        self._tails[row] = line.name
        for call_id in line.calls:
            self._row_of_call[call_id] = row

    def parent(self, line: Line, newest: str | None) -> str | None:
        """Return what the line follows; `newest` is the line before it in the file, for lines that lost their parent."""
        if (before := self._before.get(line.name)) is not None:
            return before
        above = self._passing(line.parent)
        if above is None or above not in self._lines:
            return newest if line.boundary or above is not None else None
        if (self._lines[above].sidechain, self._lines[above].agent) != (line.sidechain, line.agent):
            return None
        row = self.row_of.get(above)
        return above if row is None or row == self.row_of.get(line.name) else self._tails[row]

    def _row(self, line: Line) -> str | None:
        if line.wire_id is not None:
            above = self._passing(line.parent)
            new = line.wire_id not in self._tails
            return line.wire_id if new or self.row_of.get(above or "") == line.wire_id else line.name
        if line.calls:
            return line.name
        return next((self._row_of_call[call_id] for call_id in line.answers if call_id in self._row_of_call), None)

    def _passing(self, name: str | None) -> str | None:
        """Return the nearest line, from name upwards, that holds something; lines of progress stand between."""
        passed: set[str] = set()
        while name is not None and name not in self.row_of and name not in passed:
            line = self._lines.get(name)
            if line is None or line.messages:
                break
            passed.add(name)
            name = line.parent
        return name

    def _join_words(self, before: str, line: Line) -> None:
        """Make one message of the words in two blocks that follow each other."""
        first = self.messages.get(before, self._lines[before].messages)
        if first and line.messages and first[-1].kind == line.messages[0].kind == "assistant":
            self.messages[before] = ()
            self.messages[line.name] = (*first[:-1], _joined(first[-1], line.messages[0]), *line.messages[1:])


def _joined(first: Message, second: Message) -> Message:
    shift = len(first.text) + 1
    parts = tuple(_moved(part, shift) for part in second.parts)
    return replace(first, text=f"{first.text}\n{second.text}", parts=(*first.parts, *parts))


def _moved(part: Part, shift: int) -> Part:
    return replace(part, offset=part.offset + shift) if isinstance(part, Media | Unknown) else part
