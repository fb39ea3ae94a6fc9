"""What was tried, and what it took: one row for each request that went out, retries and fallbacks included."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from everlog.chat.cost import Cost, cost_of, sum_costs, sum_usages
from everlog.protocols.exchange import Usage
from everlog.registry import Model

Status = Literal["pending", "succeeded", "failed", "cancelled"]

NOTHING = Usage(input=0, cache_read=0, cache_write=0, output=0)
"""What a request takes that no model has seen."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Attempt:
    """One request to a provider."""

    provider: str
    model: Model
    protocol: str
    began: datetime
    purpose: str = "chat"
    """`chat`, `compact` or `count_tokens`."""
    number: int = 1
    """Which try of the same request it is, from 1."""
    status: Status = "pending"
    ended: datetime | None = None
    http_status: int | None = None
    error: str | None = None
    """The name of the class of its error."""
    usage: Usage | None = None
    """None while, or where, nobody knows what it took."""
    request_id: str | None = None
    """By which the provider finds it."""

    @property
    def cost(self) -> Cost:
        """What it cost, as far as is known."""
        return cost_of(self.usage, self.model)

    def __repr__(self) -> str:
        status = f" {self.http_status}" if self.http_status else ""
        ended = f"{self.status}{status}" + (f" {self.error}" if self.error else "")
        return f"<Attempt {self.number} of {self.purpose} at {self.provider}/{self.model.id}: {ended}>"


class Ledger:
    """The attempts of a chat, in the order in which they began."""

    def __init__(self, recorder: Callable[[Attempt], None] | None = None) -> None:
        """Begin empty; a `recorder` is told of each attempt as it begins, and again as it ends."""
        self.recorder = recorder
        self._rows: list[Attempt] = []

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All of them."""
        return tuple(self._rows)

    def tokens(self, since: int = 0) -> Usage:
        """Return the tokens of all attempts from a place on."""
        return sum_usages(one.usage for one in self._rows[since:])

    def cost(self, since: int = 0) -> Cost:
        """Return the cost of all attempts from a place on; its total is None if that of one is not known."""
        return sum_costs((one.usage, one.model) for one in self._rows[since:])

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self, attempt: Attempt) -> int:
        """Add an attempt and return its place."""
        self._rows.append(attempt)
        self._told(attempt)
        return len(self._rows) - 1

    def end(self, place: int, **changes: Any) -> Attempt:
        """Say how an attempt ended, and return it."""
        self._rows[place] = replace(self._rows[place], **changes)
        self._told(self._rows[place])
        return self._rows[place]

    def _told(self, attempt: Attempt) -> None:
        if self.recorder is not None:
            self.recorder(attempt)
