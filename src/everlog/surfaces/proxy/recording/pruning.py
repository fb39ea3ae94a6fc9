"""What requests were is kept for a while, and up to a number: the rest is forgotten beside new ones, in small steps."""

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count

from everlog import access
from everlog.clock import first_id
from everlog.errors import EverlogError
from everlog.store import Store

log = logging.getLogger(__name__)

EVERY = 256
"""After how many requests old ones are looked for; most often there are none."""

COUNTED = 16
"""After how many steps it is counted again how many there are, which takes 2 ms for 20,000."""

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
    counted: int = COUNTED
    _count: "count[int]" = field(default_factory=lambda: count(1))
    _surplus: dict[str, str] = field(default_factory=dict)
    """By tenant, up to which id there are too many, as it was counted last."""

    def after(self, store: Store, tenant: str) -> None:
        """Note that a request of a tenant was kept; one of many takes a step. Called in a thread of the recorder."""
        step, rest = divmod(next(self._count), self.every)
        if rest:
            return
        if step % self.counted == 0:
            self._surplus.clear()
        try:
            if (upto := self._surplus.get(tenant)) is None:
                upto = self._surplus[tenant] = store.read(tenant, partial(access.surplus, most=self.most)) or ""
            upto = max(upto, first_id(store.clock.now() - timedelta(days=self.days)))
            if ids := store.read(tenant, partial(access.oldest, upto=upto, limit=STEP)):
                store.write(tenant, partial(access.forget, ids=ids), name="record.prune")
        except EverlogError as error:  # the answer is kept; the next step forgets more
            log.warning("old requests could not be forgotten", extra={"error": type(error).__name__})
