"""The tree of a thread, as a program holds it: a view within a budget, what each of its lines opens to, and a search."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from everlog import log
from everlog.conversation.stats import is_due
from everlog.errors import Mistake, UnknownThread, expect
from everlog.log import ThreadRow
from everlog.memory import tree as memory
from everlog.memory.interface import Compactor
from everlog.pump import mark_tree
from everlog.store import Store, Unit

T = TypeVar("T")

MOST_BYTES = (1 << 63) - 1
"""The largest number that every engine can keep."""


class Tree:
    """The tree memory of one thread."""

    def __init__(self, store: Store, tenant: str, thread: str | None) -> None:
        """Show the tree of a thread by its id; None for one in which nothing was said yet."""
        self._store = store
        self._tenant = tenant
        self._known = thread

    @property
    def _thread(self) -> str:
        if self._known is None:
            raise UnknownThread("nothing was said in this thread yet, so there is nothing to open")
        return self._known

    @property
    def is_current(self) -> bool:
        """Whether nothing of it is left to build."""
        return self._known is None or not self._store.read(self._tenant, partial(is_due, thread=self._known))

    def view(self, budget: int) -> str:
        """Return the whole thread in at most `budget` UTF-8 bytes, tags, labels and line breaks counted.

        Raises:
            BudgetTooSmall: the budget is under 256 bytes.
            Mistake: it is no whole number, or more than any thread could fill.
            Erased: the thread was erased.
        """
        return self.shown(budget).text

    def view_lines(self, budget: int) -> list[str]:
        """Return the same as `id+n|text` lines, oldest first."""
        return self.shown(budget).view_lines

    def shown(self, budget: int) -> memory.Shown:
        """Return the view with its nodes, and how many messages it had to leave out."""
        expect(budget, int, "a budget is an int, of bytes")
        if budget > MOST_BYTES:
            raise Mistake(f"a budget is at most {MOST_BYTES} bytes, not {budget}")
        return memory.show(self._store, self._tenant, self._known, budget)

    def zoom(self, first: int, size: int = 1) -> str:
        """Open the line `first+size` into the two it was made of; a single message into its words.

        Of a message longer than a page the first page is shown, and how to go on.

        Raises:
            UnknownAddress: there is no such line.
        """
        return self._read(lambda unit, thread: memory.zoom(unit, thread, first, size)).text

    def read(self, i: int, page: int = 0) -> str:
        """Return a page of a message, 25,000 characters each, counted from 0; pages join to `kind: text`, exactly.

        Raises:
            UnknownAddress: there is no such message or page.
        """
        return self.page(i, page).words

    def page(self, i: int, page: int = 0) -> memory.Page:
        """Return the same page with what an agent is told of it, and how many there are."""
        return self._read(lambda unit, thread: memory.read(unit, thread, i, page))

    def date(self, i: int) -> str:
        """Return when a message was said, as `Tue 2026-11-10 14:02 UTC`.

        Raises:
            UnknownAddress: there is no such message.
        """
        return self._read(lambda unit, thread: memory.date(unit, thread, i))

    def search(
        self,
        words: str,
        before: int | None = None,
        *,
        view: memory.Shown | None = None,
        mask: memory.Mask | None = None,
    ) -> memory.Found:
        """Find messages by their words; `.text` of what is returned says where they are, and nothing of what they say.

        Args:
            words: at most eight words, with spaces between. A word of five letters or more also matches the beginning
                of a longer one; a word with a digit or a symbol is looked for between spaces.
            before: only messages below this position, which is above 0.
            view: `shown(budget)`, whose lines a hit is to name.
            mask: gets each text and returns it with what must not be found replaced by spaces; where it fails, the
                message is not found.

        Raises:
            Mistake: there are no usable words, or `before` is no position above 0.
        """
        return memory.search(self._store, self._tenant, self._thread, words, before, view=view, mask=mask)

    def tools(
        self,
        *,
        view: memory.Shown | None = None,
        search: bool = False,
        mask: memory.Mask | None = None,
        search_cap: int = 3,
        turn: int | None = None,
    ) -> memory.Tools:
        """Return the tools of an agent for one turn, to be closed when it ends.

        Args:
            view: what the agent is shown.
            search: whether it may search; it may zoom, read and date.
            mask: as for `search`.
            search_cap: how often it may search in the turn.
            turn: number of the turn, for the record.
        """
        return memory.Tools(
            self._store,
            self._tenant,
            self._thread,
            view=view,
            search=search,
            mask=mask,
            search_cap=search_cap,
            turn=turn,
        )

    @property
    def stats(self) -> "TreeStats":
        """What agents opened."""
        return TreeStats(self._store, self._tenant, self._thread)

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
        start = self._store.read(self._tenant, partial(memory.reach, thread=self._thread))
        dropped = 0
        while True:
            start = max(0, start - memory.ENTRIES)
            act = partial(_drop, thread=self._thread, start=start)
            dropped += self._store.write(self._tenant, act, name="tree.rebuild")
            if not start:
                return dropped

    def _read(self, act: Callable[[Unit, ThreadRow], T]) -> T:
        return self._store.read(self._tenant, lambda unit: act(unit, log.load(unit, self._thread)))


@dataclass(frozen=True, slots=True)
class TreeStats:
    """Counts of one thread's tree. Only what an agent opened with its tools is counted."""

    _store: Store = field(repr=False)
    _tenant: str
    _thread: str

    def hot_nodes(self, limit: int = 10) -> list[memory.Hot]:
        """Return the most opened lines, the latest of equals first."""
        return self._store.read(self._tenant, partial(memory.hot, thread=self._thread, limit=_positive(limit)))

    def digs(self, limit: int = 10) -> list[memory.Dig]:
        """Return the latest ways down to the words of a message, with the steps each took."""
        return self._store.read(self._tenant, partial(memory.events, thread=self._thread, limit=_positive(limit)))


def _positive(limit: int) -> int:
    if limit < 1:
        raise Mistake(f"ask for at least one, not {limit}")
    return limit


def _stale(unit: Unit, thread: str, model: str, prompt: str | None) -> int:
    return memory.stale(unit, log.load(unit, thread).id, model=model, prompt=prompt)


def _drop(unit: Unit, thread: str, start: int) -> int:
    dropped = memory.drop(unit, thread, start)
    mark_tree(unit, thread, upto=log.load(unit, thread).next)
    return dropped
