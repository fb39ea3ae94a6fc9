"""Titles are made of words, and of one source conversation's words in all of its branches: where words go, so do they."""

from collections.abc import Iterator
from typing import Any

from everlog.log import rows
from everlog.log.threads import ThreadRow, load
from everlog.store import Unit


def kin(unit: Unit, thread: ThreadRow) -> Iterator[ThreadRow]:
    """Yield a thread, its parent, its forks, and the other forks of its parent, all those that live."""
    yield thread
    for other, _, _ in _kin(unit, thread.id, thread.parent):
        if other != thread.id:
            yield load(unit, other)


def untitle(unit: Unit, thread: str, parent: str | None, title: bytes | None) -> None:
    """Take the sealed title from a thread, and from those of its kin, and of theirs, that bear the same."""
    if title is None:
        return
    words = unit.open(rows.thread.c.title, (thread,), title)
    waiting = [(thread, parent)]
    while waiting:
        one, its_parent = waiting.pop()
        unit.run(rows.SET_TITLE, {"thread": one, "new_title": None})
        for other, other_parent, sealed in _kin(unit, one, its_parent):
            if sealed is not None and unit.open(rows.thread.c.title, (other,), sealed) == words:
                waiting.append((other, other_parent))


def _kin(unit: Unit, thread: str, parent: str | None) -> list[tuple[str, str | None, bytes | None]]:
    found: list[Any] = unit.rows(rows.KIN, thread=thread, of_parent=parent)
    return [(other, its_parent, title) for other, its_parent, title in found]
