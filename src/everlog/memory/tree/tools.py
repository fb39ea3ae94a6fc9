"""What an agent, a person or a program does with a line: open it. Pure forms, and the reading they need.

Opened, a line is the two lines it was made of, and a line of one entry is the message itself, with its line breaks.
That always works, also where nothing is built yet, so every message can be reached from whatever a view shows.
"""

from dataclasses import dataclass

from everlog import log
from everlog.log import ThreadRow
from everlog.memory.tree.lines import Line, escape, source
from everlog.memory.tree.nodes import address, children_of, label_of, level_of, start_of
from everlog.memory.tree.shelf import Shelf
from everlog.store import Unit


@dataclass(frozen=True, slots=True)
class Opened:
    """What opening a line shows."""

    nid: int
    """The node that was opened."""
    lines: tuple[tuple[int, str], ...] = ()
    """Its two halves, as (node, text as shown); none for a single message."""
    message: Line | None = None
    """The whole message, exactly, of a single one."""

    @property
    def text(self) -> str:
        """The form in which an agent reads it. A message's text is escaped where it could pass for something else."""
        if self.message is not None:
            return f"{label_of(self.nid)}|{escape(self.message.text)}"
        return "\n".join(f"{label_of(nid)}|{text}" for nid, text in self.lines)


def zoom(unit: Unit, thread: ThreadRow, first: int, size: int) -> Opened:
    """Open the line `first+size` of a thread.

    Raises:
        UnknownAddress: there is no such line.
    """
    nid = address(first, size, thread.next)
    if level_of(nid):
        return Opened(nid, Shelf(unit, thread).shown(children_of(nid)))
    return Opened(nid, message=source(log.at(unit, thread, [start_of(nid)])[start_of(nid)]))
