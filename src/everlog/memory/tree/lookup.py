"""What a line opens to: two lines, or the message; a page of a long message; when it was said. Pure forms, and reading.

A line of one entry opens to the message itself, with its line breaks. That always works, also where nothing is built
yet, so every message can be reached from whatever a view shows. A message longer than a page is read in pages, which
join to `kind: text`, word for word.

For an agent, words are escaped where they could pass for something else (`escapes.py`); a program gets them as they are,
but for halves of surrogate pairs, which no encoding takes.
"""

from dataclasses import dataclass
from datetime import datetime

from everlog import log
from everlog.errors import UnknownAddress
from everlog.log import ThreadRow
from everlog.memory.escapes import escape, whole
from everlog.memory.tree.lines import Line, source
from everlog.memory.tree.nodes import address, children_of, label_of, level_of, position, shown_value, start_of
from everlog.memory.tree.shelf import Shelf
from everlog.messages import Entry
from everlog.store import Unit

PAGE_CHARACTERS = 25_000
"""Characters (Unicode code points) on one page."""

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a message."""

    i: int
    """Position of the message."""
    page: int
    """Which page; pages count from 0."""
    pages: int
    """How many the message has; at least 1."""
    words: str
    """The page as it is; halves of surrogate pairs are U+FFFD."""

    @property
    def note(self) -> str:
        """What an agent is told behind the page, so that it knows of the next one; empty at the last."""
        if self.page + 1 == self.pages:
            return ""
        return f"(page {self.page} of 0 to {self.pages - 1}; read({self.i}, {self.page + 1}) goes on)"

    @property
    def text(self) -> str:
        """The form in which an agent reads it."""
        return f"{escape(self.words)}\n{self.note}" if self.note else escape(self.words)


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
        """The form in which an agent reads it; of a long message the first page."""
        if self.message is not None:
            return f"{label_of(self.nid)}|{page_of(self.message.text, start_of(self.nid), 0).text}"
        return "\n".join(f"{label_of(nid)}|{text}" for nid, text in self.lines)


def zoom(unit: Unit, thread: ThreadRow, first: object, size: object) -> Opened:
    """Open the line `first+size` of a thread.

    Raises:
        UnknownAddress: there is no such line.
    """
    nid = address(first, size, thread.next)
    if level_of(nid):
        return Opened(nid, Shelf(unit, thread).shown(children_of(nid)))
    return Opened(nid, message=source(_entry(unit, thread, nid)))


def read(unit: Unit, thread: ThreadRow, i: object, page: object) -> Page:
    """Return a page of a message.

    Raises:
        UnknownAddress: there is no such message or page.
    """
    at = position(i, thread.next)
    return page_of(source(_entry(unit, thread, at)).text, at, page)


def date(unit: Unit, thread: ThreadRow, i: object) -> str:
    """Return when a message was said, as `Tue 2026-11-10 14:02 UTC`.

    Raises:
        UnknownAddress: there is no such message.
    """
    return dated(_entry(unit, thread, position(i, thread.next)).at)


def page_of(text: str, i: int, page: object) -> Page:
    """Return a page of the text of message `i`.

    Raises:
        UnknownAddress: it has no such page.
    """
    pages = max(1, -(-len(text) // PAGE_CHARACTERS))
    if type(page) is not int or not 0 <= page < pages:
        has = "1 page, numbered 0" if pages == 1 else f"{pages} pages, numbered from 0 to {pages - 1}"
        raise UnknownAddress(f"Message {i} has {has}; there is no page {shown_value(page)}.")
    return Page(i, page, pages, whole(text[page * PAGE_CHARACTERS : (page + 1) * PAGE_CHARACTERS]))


def dated(when: datetime) -> str:
    """Return a time as `Tue 2026-11-10 14:02 UTC`, in the same words whatever the locale."""
    return f"{_DAYS[when.weekday()]} {when.year:04}-{when:%m-%d %H:%M} UTC"


def _entry(unit: Unit, thread: ThreadRow, i: int) -> Entry:
    return log.at(unit, thread, [i])[i]
