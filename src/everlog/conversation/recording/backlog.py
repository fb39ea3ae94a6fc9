"""What a thread could not record yet, how it goes in later, and what becomes of what never will.

What waits goes in under the lease of the thread, in order, each piece once: a piece knows where it would stand if an
earlier try of it was stored unseen. What was erased since does not come back; what the database refuses for good stops
nothing that was said after it.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from everlog.context import Mode
from everlog.conversation.recording import leftovers, units
from everlog.conversation.recording.spool import Spool, Waiting
from everlog.conversation.recording.trouble import Trouble
from everlog.conversation.recording.units import Turn
from everlog.errors import Erased, KeyTrouble, Mistake
from everlog.store import Store

_logger = logging.getLogger(__name__)


class Backlog:
    """What waits to be recorded in one thread."""

    def __init__(self, store: Store, tenant: str, key: str, trouble: Trouble, mode: Mode) -> None:
        self.spool = Spool()
        self.refused = 0
        """Messages that the database refused for good."""
        self._store = store
        self._tenant = tenant
        self._key = key
        self._trouble = trouble
        self._mode = mode
        self._files: list[Path] = []

    def take_in(self) -> str | None:
        """Take in what programs before this one left, and return our id of the thread, if they knew it.

        Raises:
            KeyTrouble: it is sealed under another master key.
        """
        left = leftovers.take(self._store, self._tenant, self._key)
        self.spool.put_back(left.waiting)
        self._files = left.paths
        return left.threads[-1] if left.threads else None

    def put(self, turn: Turn | None, thread: str, holder: Turn, write: Callable[..., Any]) -> None:
        """Record all of it, and note where a turn under way stands by then.

        Raises:
            Erased: some of it was of a turn that was erased; that is dropped, and the rest is recorded.
            LeaseLost: another process took the thread over.
            StoreUnavailable: the rest cannot be recorded yet.
        """
        assert holder.lease is not None
        erased = 0
        while (one := self.spool.first) is not None:
            if one.turn.more and one.number is None:  # what the turn began with was erased while it waited
                erased += self._dropped(one)
                continue
            act = partial(units.put, thread=thread, waiting=one, mode=self._mode, lease=holder.lease)
            try:
                stood = write(act, name="turn.spool")
            except Erased:
                erased += self._dropped(one)
                continue
            except KeyTrouble:
                raise
            except Mistake as error:
                self._refuse(one, thread, error)
                continue
            self.spool.drop_first(one, number=stood.number, stop=stood.stop)
            if turn is not None and one.of == turn.name:
                turn.number, turn.next = stood.number, stood.stop
                turn.at = turn.at if one.turn.more else stood.first
        leftovers.drop(self._files)
        self._files = []
        if erased:
            raise Erased(f"{erased} messages waited to be recorded in a turn that was erased since; they are dropped")

    def forget(self) -> bool:
        """Drop all of it: the thread was erased; say whether there was any."""
        dropped = self.spool.clear()
        if dropped:
            self._trouble.count("record", "Erased", dropped=_count(dropped))
        leftovers.drop(self._files)
        self._files = []
        return bool(dropped)

    def forget_user(self, user: str) -> bool:
        """Drop what waits of an end user; say whether there was any."""
        return bool(self.spool.drop(lambda one: one.turn.origin.user == user))

    def save(self, thread: str | None) -> None:
        """Write what waits to a file, in case the program is killed, and have it wait on."""
        waiting = self.spool.waiting
        if waiting and (path := leftovers.save(self._store, self._tenant, self._key, thread, waiting)) is not None:
            leftovers.drop(self._files)
            self._files = [path]

    def keep(self, thread: str | None) -> None:
        """Keep what waits in a file, where there may be one, and nowhere else."""
        waiting = self.spool.waiting
        if waiting and leftovers.keep(self._store, self._tenant, self._key, thread, waiting) is not None:
            self.spool.clear()
            leftovers.drop(self._files)
            self._files = []

    def _dropped(self, one: Waiting) -> int:
        dropped = _count(self.spool.drop(lambda other: other.of == one.of))
        self._trouble.count("record", "Erased", dropped=dropped)
        return dropped

    def _refuse(self, one: Waiting, thread: str, error: Mistake) -> None:
        """Set a turn aside that the database will never take."""
        refused = self.spool.drop(lambda other: other.of == one.of)
        self.refused += _count(refused)
        self._trouble.note("record", error, refused=_count(refused))
        leftovers.keep(self._store, self._tenant, self._key, thread, refused, kind="refused")


def _count(waiting: list[Waiting]) -> int:
    return sum(len(one.turn.messages) for one in waiting)
