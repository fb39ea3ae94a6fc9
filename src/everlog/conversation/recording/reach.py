"""Reaching the database for one tenant, without waiting for it again and again while it is away."""

from collections.abc import Callable
from typing import Any, TypeVar

from everlog.clock import monotonic
from everlog.conversation.recording.trouble import PASSES
from everlog.errors import StoreUnavailable
from everlog.store import Store, Unit

T = TypeVar("T")

SLOW_S = 1.0
"""A database that fails after a longer wait is left alone for as long, so that a turn waits for it once and not at each act."""


class Reach:
    """A database, as the turns of one memory reach it."""

    def __init__(self, store: Store, tenant: str) -> None:
        self.store = store
        self.tenant = tenant
        self.rests_until = 0.0

    def reach(self, act: Callable[[], T]) -> T:
        """Do something with the database, unless it was waited for in vain a moment ago.

        Raises:
            StoreUnavailable: it cannot be reached, or was not a moment ago.
        """
        if monotonic() < self.rests_until:
            raise StoreUnavailable("the database was waited for in vain a moment ago; it is tried again later")
        began = monotonic()
        try:
            return act()
        except PASSES:
            took = monotonic() - began
            if took > SLOW_S:
                self.rests_until = monotonic() + took
            raise

    def write(self, act: Callable[[Unit], Any], *, name: str) -> Any:
        """Run a unit that writes."""
        return self.reach(lambda: self.store.write(self.tenant, act, name=name))
