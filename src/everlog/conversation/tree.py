"""The tree of a thread, as a program holds it: a view within a budget, and what each of its lines opens to."""

from functools import partial

from everlog import log
from everlog.errors import UnknownAddress
from everlog.memory import tree as memory
from everlog.memory.interface import Compactor
from everlog.messages import Entry
from everlog.pump import mark_tree
from everlog.store import Store, Unit

PAGE_CHARACTERS = 25_000
"""Characters of a long message on one page."""


class Tree:
    """The tree memory of one thread."""

    def __init__(self, store: Store, tenant: str, thread: str) -> None:
        self._store = store
        self._tenant = tenant
        self._thread = thread

    def view(self, budget: int) -> str:
        """Return the whole thread in at most `budget` UTF-8 bytes, tags, labels and line breaks counted.

        Raises:
            BudgetTooSmall: the budget is under 256 bytes.
            Erased: the thread was erased.
        """
        return self.shown(budget).text

    def view_lines(self, budget: int) -> list[str]:
        """Return the same as `id+n|text` lines, oldest first."""
        return self.shown(budget).view_lines

    def shown(self, budget: int) -> memory.Shown:
        """Return the view with its nodes, and how many messages it had to leave out."""
        return memory.show(self._store, self._tenant, self._thread, budget)

    def zoom(self, first: int, size: int = 1) -> str:
        """Open the line `first+size` into the two it was made of; a single message into its words.

        Raises:
            UnknownAddress: there is no such line.
        """
        return self._store.read(self._tenant, partial(_zoom, thread=self._thread, first=first, size=size)).text

    def read(self, i: int, page: int = 0) -> str:
        """Return a page of a long message, 25,000 characters each, counted from 0; pages join to the message.

        Raises:
            UnknownAddress: there is no such message or page.
        """
        text = self._entry(i).message.source
        pages = max(1, -(-len(text) // PAGE_CHARACTERS))
        if not 0 <= page < pages:
            raise UnknownAddress(
                f"message {i} has {pages} pages, numbered from 0 to {pages - 1}; there is no page {page}"
            )
        return text[page * PAGE_CHARACTERS : (page + 1) * PAGE_CHARACTERS]

    def date(self, i: int) -> str:
        """Return when a message was said, as `Tue 2026-11-10 14:02 UTC`."""
        return self._entry(i).at.strftime("%a %Y-%m-%d %H:%M UTC")

    def stale(self, compactor: Compactor | None = None) -> int:
        """Return how many lines another compactor than this one made, or the same with other prompts.

        Args:
            compactor: the one that answers now; the built-in one, which needs no model, if None.
        """
        now = memory.Tree.of(compactor or memory.Extractive())
        act = partial(_stale, thread=self._thread, model=now.model, prompt=now.prompt_id)
        return self._store.read(self._tenant, act)

    def rebuild(self) -> int:
        """Drop all lines of the thread, so that the pump makes them again; return how many.

        The words stay, and so do the views that are saved; what a fork shares with its parent is its parent's.

        Raises:
            Erased: the thread was erased.
        """
        start = self._store.read(self._tenant, partial(log.load, thread=self._thread)).next
        dropped = 0
        while True:
            start = max(0, start - memory.ENTRIES)
            act = partial(_drop, thread=self._thread, start=start)
            dropped += self._store.write(self._tenant, act, name="tree.rebuild")
            if not start:
                return dropped

    def _entry(self, i: int) -> Entry:
        found = self._store.read(self._tenant, partial(_at, thread=self._thread, i=i))
        if found is None:
            raise UnknownAddress(f"No message {i}.")
        return found


def _zoom(unit: Unit, thread: str, first: int, size: int) -> memory.Opened:
    return memory.zoom(unit, log.load(unit, thread), first, size)


def _stale(unit: Unit, thread: str, model: str, prompt: str | None) -> int:
    return memory.stale(unit, log.load(unit, thread).id, model=model, prompt=prompt)


def _drop(unit: Unit, thread: str, start: int) -> int:
    dropped = memory.drop(unit, thread, start)
    mark_tree(unit, thread, upto=log.load(unit, thread).next)
    return dropped


def _at(unit: Unit, thread: str, i: int) -> Entry | None:
    return log.at(unit, log.load(unit, thread), [i]).get(i)
