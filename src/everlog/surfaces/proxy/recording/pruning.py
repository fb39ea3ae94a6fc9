"""What requests were is kept for a while, and up to a number: the rest is forgotten beside new ones, in small steps."""

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count

from everlog import access
from everlog.errors import EverlogError
from everlog.store import Store

log = logging.getLogger(__name__)

EVERY = 256
"""After how many requests old ones are looked for; most often there are none."""

STEP = 1024
"""How many are forgotten at once: more than have come meanwhile, so that what is too much gets less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """Forgets what requests were."""

    days: int = 90
    """For how long it is kept, in days; at least so long as answers can be asked for at their providers."""
    most: int = 1_000_000
    """How many of a tenant are kept."""
    every: int = EVERY
    _count: "count[int]" = field(default_factory=lambda: count(1))

    def after(self, store: Store, tenant: str) -> None:
        """Note that a request of a tenant was kept; one of many takes a step. Called in a thread of the recorder."""
        if next(self._count) % self.every:
            return
        try:
            since = store.clock.now() - timedelta(days=self.days)
            ids = store.read(tenant, partial(access.outlived, since=since, most=self.most, limit=STEP))
            if ids:
                store.write(tenant, partial(access.forget, ids=ids), name="record.prune")
        except EverlogError as error:  # the answer is kept; the next step forgets more
            log.warning("old requests could not be forgotten", extra={"error": type(error).__name__})
