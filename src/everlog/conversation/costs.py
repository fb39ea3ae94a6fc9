"""What a thread, or a tenant, took of models: the talk, and what is remembered of it, apart."""

from dataclasses import dataclass
from functools import partial

from everlog import log
from everlog.log import Purpose, Spent
from everlog.store import Store, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What requests to models took."""

    talk: Spent
    """The conversation itself."""
    memory: Spent
    """What is derived from it; a compactor without a model takes nothing."""

    @property
    def usd(self) -> float | None:
        """What both cost together, in dollars; None if the price of one request is not known."""
        if self.talk.usd is None or self.memory.usd is None:
            return None
        return self.talk.usd + self.memory.usd

    @property
    def tokens(self) -> int:
        """Tokens of all kinds, of both."""
        return self.talk.tokens + self.memory.tokens


def costs(unit: Unit, thread: str | None = None) -> Costs:
    """Return what was spent on a thread, by its id, or by the whole tenant."""
    found = log.spent(unit, thread)
    return Costs(talk=found[Purpose.TALK], memory=found[Purpose.MEMORY])


def costs_of(store: Store, tenant: str, thread: str) -> Costs:
    """Return what was spent on a thread, by its id."""
    return store.read(tenant, partial(costs, thread=thread))
