"""What is known of whether exchanges can be kept now, and what an answer says of it.

Whoever keeps something tells how it went. Where nobody has for a moment, and while there is trouble, the next exchange
makes sure that something can be written before its answer begins, so that the answer can say so.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from everlog.clock import monotonic
from everlog.errors import StoreUnavailable
from everlog.store import Store
from everlog.surfaces.proxy.incoming import Headers
from everlog.surfaces.proxy.relay.hearing import HOLD_S, LATE, NOT_KEPT

PROVED_S = 0.25
"""For how long something that was written shows that more can be, in seconds."""


class Standing:
    """Whether exchanges can be kept, as far as is known; for any thread."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = monotonic) -> None:
        """Know nothing yet; `clock` gives seconds that only go forward."""
        self._store = store
        self._clock = clock
        self._proved_at = float("-inf")
        self._under_way: dict[object, float] = {}
        self._proving = threading.Lock()
        self.is_well = True
        """Whether the last that was tried could be written."""

    def prove(self) -> None:
        """Make sure that something can be written, unless that is known, or somebody is at it.

        Raises:
            StoreUnavailable: nothing can.
        """
        if self.is_well and self._clock() - self._proved_at < PROVED_S:
            return
        if self._proving.acquire(blocking=False):
            try:
                with self._trying(Exception):
                    self._store.prove()
            finally:
                self._proving.release()

    async def aprove(self) -> None:
        """Make sure that something can be written now, whatever is known.

        Raises:
            StoreUnavailable: nothing can.
        """
        with self._trying(Exception):
            await self._store.aprove()

    def doubt(self) -> None:
        """Take it that nothing can be kept, until somebody has made sure that something can."""
        self.is_well = False

    def keeping(self) -> AbstractContextManager[None]:
        """See how it goes to keep an exchange; what is wrong with one alone says nothing of the others."""
        return self._trying(StoreUnavailable)

    @contextmanager
    def _trying(self, trouble: type[Exception]) -> Iterator[None]:
        attempt = object()
        self._under_way[attempt] = self._clock()
        try:
            yield
        except trouble:
            self.is_well = False
            raise
        else:
            self.is_well, self._proved_at = True, self._clock()
        finally:
            del self._under_way[attempt]

    @property
    def said(self) -> Headers:
        """What an answer says whose own exchange nothing is known of yet."""
        if not self.is_well:
            return NOT_KEPT
        oldest = min(list(self._under_way.values()), default=None)
        return LATE if oldest is not None and self._clock() - oldest > HOLD_S else ()
