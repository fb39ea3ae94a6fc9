"""What somebody may see of a tenant's log: their threads, and the trees of these."""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial

from everlog import log
from everlog.access import Principal
from everlog.clock import monotonic
from everlog.conversation.database import Everlog, Overview
from everlog.conversation.pumping import WARM_S
from everlog.conversation.thread import Thread
from everlog.conversation.tree import Tree
from everlog.errors import EverlogError, UnknownThread
from everlog.memory import tree as memory
from everlog.pump import run
from everlog.store import Unit
from everlog.surfaces.api import values
from everlog.surfaces.beginnings import begun_by
from everlog.surfaces.examining import Usual

events = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Home:
    """A tenant's log, as far as somebody may see it."""

    everlog: Everlog
    principal: Principal
    builds: bool = True
    """Whether lines that are missing may be built before they are shown: no model is set to do that."""
    usual: Usual = field(default_factory=Usual)
    """What the proxy does with conversations unless somebody says otherwise."""
    since: values.Since | None = None
    """What the server counted of the tenant since it began."""

    @property
    def sees_all(self) -> bool:
        """Whether all threads of the tenant may be seen."""
        return self.principal.role != "chat"

    def thread(self, key: str) -> Thread:
        """Return a thread, by its whole key.

        Raises:
            UnknownThread: there is none, or it is somebody else's: nobody is told which.
        """
        thread = self.everlog.thread(key)
        unknown = UnknownThread(f"no thread {key!r} here; GET /everlog/v1/threads lists those that are")
        try:
            id_ = thread.id
        except UnknownThread:
            raise unknown from None
        if not self.sees_all and id_ not in self.own():
            raise unknown
        return thread

    def named(self, word: str) -> Thread:
        """Return a thread to be read, by its key, or by the beginning of that where it means one thread alone.

        Raises:
            UnknownThread: there is none, or there are several, of those that may be seen.
        """
        try:
            return self.thread(word)
        except UnknownThread:
            key = begun_by([one.key for one in self.threads("")], word)
            if key is None:
                raise
        return self.thread(key)

    def tree(self, key: str) -> Tree:
        """Return the tree of a thread; what is missing of it is built first, for a while, where code builds it."""
        thread = self.named(key)
        tree = thread.tree
        if not self.builds or tree.is_current:
            return tree
        until = monotonic() + WARM_S
        compactor = memory.Extractive()
        try:
            run(
                self.everlog.store,
                self.everlog.name,
                thread.id,
                memory.Tree.of(compactor),
                compactor,
                stop=lambda: monotonic() > until,
            )
        except EverlogError as error:  # what is there can be shown
            events.warning("a tree could not be brought up to date", extra={"error": type(error).__name__})
        return tree

    def own(self) -> frozenset[str]:
        """Return the ids of the principal's own threads."""
        return self.everlog.store.read(self.everlog.name, partial(_own, principal=self.principal))

    def beside(self, keys: Collection[str]) -> frozenset[str]:
        """Return the keys of those threads that were questions beside a talk."""
        ids = {id_: key for id_, key in self.everlog.keys().items() if key in keys}
        found = self.everlog.store.read(self.everlog.name, partial(log.beside, threads=list(ids)))
        return frozenset(ids[id_] for id_ in found)

    def threads(self, after: str) -> Iterator[Overview]:
        """Yield the threads that may be seen, from one behind a key on, in the order in which they were made."""
        own = None if self.sees_all else self.own()
        ids = self.everlog.keys()
        visible = {key for id_, key in ids.items() if own is None or id_ in own}
        found = (one for one in self.everlog.threads() if one.key in visible)
        if after:
            for one in found:
                if one.key == after:
                    break
        yield from found


def _own(unit: Unit, principal: Principal) -> frozenset[str]:
    name = log.principal_of(unit, principal.key or "", principal.user or "")
    return frozenset(log.threads_of(unit, principal=name))
