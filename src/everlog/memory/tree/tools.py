"""What an agent does with a tree in one turn: `zoom`, `read`, `date`, and `search` where it is wanted.

Each tool takes what a model wrote and returns a short text for it; a bad address, a repetition or a spent allowance is
such a text too, never an error, and none of them uses the allowance up. Opening and searching have allowances of their
own. What was opened is counted at the end of the turn, in one unit of work, so that no tool waits for it.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from types import TracebackType
from typing import Self

from everlog import log
from everlog.clock import new_id
from everlog.errors import EverlogError, Mistake
from everlog.log import ThreadRow
from everlog.memory.tree import digs, lookup
from everlog.memory.tree.digs import Dig
from everlog.memory.tree.nodes import address, position, start_of, stop_of
from everlog.memory.tree.render import Shown
from everlog.memory.tree.schemas import ARGUMENTS, SCHEMAS
from everlog.memory.tree.search import Mask, log_refused, search
from everlog.messages import JSON
from everlog.store import Store, Unit

ZOOM_CAP = 12
"""Lines and pages a turn may open, at least; in a tall tree two more than it has levels."""

SEARCH_CAP = 3
"""Searches a turn may run."""

OPENED = "You already opened this line in this turn; its text is above."

_logger = logging.getLogger(__name__)


class Tools:
    """The tools of one turn. Thread-safe; `close` it when the turn ends, or use it in a `with` block."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        thread: str,
        *,
        view: Shown | None = None,
        search: bool = False,
        mask: Mask | None = None,
        search_cap: int = SEARCH_CAP,
        zoom_cap: int | None = None,
        turn: int | None = None,
    ) -> None:
        """Make the tools.

        Args:
            store: the database.
            tenant: whose thread.
            thread: id of the thread.
            view: what the agent was shown, so that a hit can name its line.
            search: whether there is the tool `search`.
            mask: hides spans of each text from it.
            search_cap: searches that may run.
            zoom_cap: lines and pages that may be opened; max(12, levels of the tree + 2) if None.
            turn: number of the turn, for the record.
        """
        self._store = store
        self._tenant = tenant
        self._thread = thread
        self.view = view
        """What the agent is shown now."""
        self._search = search
        self._mask = mask
        self._searches_left = search_cap
        self._search_cap = search_cap
        self._zoom_cap = zoom_cap
        self._turn = turn
        self._seen: set[tuple[int, int]] = set()
        self._dated: set[str] = set()
        self._dug: list[int] = []
        self._reached: list[Dig] = []
        self._lock = threading.Lock()

    @property
    def schemas(self) -> list[dict[str, JSON]]:
        """Name, description and JSON schema of each tool there is, for whatever wire."""
        return [deepcopy(dict(schema)) for name, schema in SCHEMAS.items() if name != "search" or self._search]

    @property
    def spent(self) -> int:
        """How often something new was opened or searched for, or dated, of which no more count than a turn opens at least."""
        with self._lock:
            return len(self._seen) + self._search_cap - self._searches_left + min(ZOOM_CAP, len(self._dated))

    def call(self, name: str, arguments: object) -> str:
        """Run a tool by its name with the arguments that a model gave, decoded from JSON."""
        schema = SCHEMAS.get(name) if name != "search" or self._search else None
        if schema is None:
            return f"There is no such tool; there are {', '.join(str(one['name']) for one in self.schemas)}."
        required, known = ARGUMENTS[name]
        if not isinstance(arguments, Mapping) or not set(required) <= arguments.keys() <= {*required, *known}:
            return f"{name} takes {', '.join((*required, *known))}; required: {', '.join(required)}."
        acts: dict[str, Callable[..., str]] = {
            "zoom": self.zoom,
            "read": self.read,
            "date": self.date,
            "search": self.search,
        }
        given = [arguments[word] for word in required]
        given += [arguments[word] for word in known if arguments.get(word) is not None]
        return acts[name](*given)

    def zoom(self, first: object, size: object = 1) -> str:
        """Open the line `first+size` into the two it was made of; a single message into its words."""
        return self._open(partial(_zoomed, first=first, size=size))

    def read(self, i: object, page: object = 0) -> str:
        """Return a page of a long message."""
        return self._open(partial(_paged, i=i, page=page))

    def date(self, i: object) -> str:
        """Return when a message was said."""
        try:
            said = self._store.read(self._tenant, partial(_date, thread=self._thread, i=i))
        except Mistake as error:
            return str(error)
        with self._lock:
            self._dated.add(str(i))
        return said

    def search(self, words: object, before: object = None) -> str:
        """Return which messages have these words: positions, dates and lines, no text."""
        with self._lock:
            if not self._searches_left:
                log_refused("cap")
                return f"No more searches in this turn; {self._search_cap} were run. Use zoom instead."
            try:
                found = search(self._store, self._tenant, self._thread, words, before, view=self.view, mask=self._mask)
            except Mistake as error:
                return str(error)
            self._searches_left -= 1
            return found.text

    def close(self) -> None:
        """Count what was opened since the last time. It fails open: what cannot be stored is dropped and logged."""
        with self._lock:
            dug, reached, self._dug, self._reached = self._dug, self._reached, [], []
        if not dug:
            return
        try:
            act = partial(digs.put, thread=self._thread, opened=dug, reached=reached, key=new_id(self._store.clock))
            self._store.write(self._tenant, act, name="tree.digs")
        except EverlogError as error:
            _logger.warning(
                "what was opened could not be counted: %s", error, extra={"thread_id": self._thread, "lost": len(dug)}
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self, act: "_Act") -> str:
        with self._lock:
            try:
                key, text = self._store.read(self._tenant, partial(self._look, act=act))
            except Mistake as error:
                return str(error)
            if key is not None:
                self._note(*key)
            return text

    def _look(self, unit: Unit, act: "_Act") -> tuple[tuple[int, int] | None, str]:
        """Return what is opened, (node, page), and its text; or None and why nothing was."""
        thread = log.load(unit, self._thread)
        key, text = act(thread.next)
        if key in self._seen:
            return None, OPENED
        cap = self._zoom_cap
        if cap is None:
            cap = max(ZOOM_CAP, (thread.next - 1).bit_length() + 2)
        if len(self._seen) >= cap:
            return None, f"No more lines can be opened in this turn; {cap} were. Answer with what is above."
        return key, text(unit, thread)

    def _note(self, nid: int, page: int) -> None:
        """Remember an opened line; one that reached the words of a message ends a dig."""
        self._seen.add((nid, page))
        self._dug.append(nid)
        leaf = start_of(nid)
        if stop_of(nid) == leaf + 1 and not page:
            steps = sum(start_of(one) <= leaf < stop_of(one) for one, at in self._seen if not at)
            self._reached.append(Dig(leaf, steps, self._turn))


_Text = Callable[[Unit, ThreadRow], str]
_Act = Callable[[int], tuple[tuple[int, int], _Text]]
"""Gives, for a thread of so many entries, what is to be opened, and how its text is read."""


def _zoomed(count: int, first: object, size: object) -> tuple[tuple[int, int], _Text]:
    nid = address(first, size, count)
    return (nid, 0), lambda unit, thread: lookup.zoom(unit, thread, first, size).text


def _paged(count: int, i: object, page: object) -> tuple[tuple[int, int], _Text]:
    at = position(i, count)
    return (at, page if type(page) is int else -1), lambda unit, thread: lookup.read(unit, thread, at, page).text


def _date(unit: Unit, thread: str, i: object) -> str:
    return lookup.date(unit, log.load(unit, thread), i)
