"""The rolling summary of a thread, as a program holds it."""

from functools import partial

from everlog import log
from everlog.memory import rolling as memory
from everlog.pump import mark_rolling
from everlog.store import Store, Unit


class Rolling:
    """The rolling summary of one thread."""

    def __init__(self, store: Store, tenant: str, thread: str) -> None:
        self._store = store
        self._tenant = tenant
        self._thread = thread

    def summary(self, upto: int | None = None) -> memory.Summary | None:
        """Return the newest summary, or the newest that stands for no message from `upto` on; None if there is none.

        Raises:
            Erased: the thread was erased.
        """
        return self._store.read(self._tenant, partial(_latest, thread=self._thread, upto=upto))

    def rebuild(self) -> int:
        """Drop all summaries of the thread, so that the pump makes them again; return how many.

        The words stay; what a fork shares with its parent is its parent's.

        Raises:
            Erased: the thread was erased.
        """
        return self._store.write(self._tenant, partial(_drop, thread=self._thread), name="rolling.rebuild")


def _latest(unit: Unit, thread: str, upto: int | None) -> memory.Summary | None:
    return memory.latest(unit, log.load(unit, thread), upto)


def _drop(unit: Unit, thread: str) -> int:
    dropped = memory.drop(unit, thread)
    mark_rolling(unit, thread, upto=log.load(unit, thread).next)
    return dropped
