"""What was tried, and what it took: one row for each request that went out, retries and fallbacks included."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from everlog.chat.cost import Bill, Cost, cost_of, sum_costs, sum_usages
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


KEPT = 1_000
"""How many attempts a chat remembers one by one; of older ones it knows the sums."""


class Ledger:
    """The attempts of a chat, in the order in which they began. Each has a place, counted from 0."""

    def __init__(self, recorder: Callable[[Attempt], None] | None = None) -> None:
        """Begin empty; a `recorder` is told of each attempt as it begins, and again as it ends."""
        self.recorder = recorder
        self._rows: deque[Attempt] = deque()
        self._older = 0
        self._older_usage: Usage | None = None
        self._older_bill = Bill()

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The newest thousand."""
        return tuple(self._rows)

    def since(self, place: int) -> tuple[Attempt, ...]:
        """Return the attempts from a place on, as far as they are remembered."""
        return tuple(islice(self._rows, max(0, place - self._older), None))

    def tokens(self) -> Usage:
        """Return the tokens of all attempts."""
        return sum_usages([self._older_usage, *(one.usage for one in self._rows)])

    def cost(self) -> Cost:
        """Return the cost of all attempts; its total is None if that of one is not known."""
        return sum_costs(((one.usage, one.model) for one in self._rows), self._older_bill)

    def __len__(self) -> int:
        return self._older + len(self._rows)

    def begin(self, attempt: Attempt) -> int:
        """Add an attempt and return its place."""
        self._rows.append(attempt)
        while len(self._rows) > KEPT and self._rows[0].status != "pending":
            oldest = self._rows.popleft()
            self._older += 1
            self._older_usage = _both(self._older_usage, oldest.usage)
            self._older_bill = self._older_bill.plus(oldest.usage, oldest.model)
        self._told(attempt)
        return len(self) - 1

    def end(self, place: int, **changes: Any) -> Attempt:
        """Say how an attempt ended, and return it."""
        at = place - self._older
        self._rows[at] = replace(self._rows[at], **changes)
        self._told(self._rows[at])
        return self._rows[at]

    def _told(self, attempt: Attempt) -> None:
        if self.recorder is not None:
            self.recorder(attempt)


def _both(first: Usage | None, second: Usage | None) -> Usage | None:
    return second if first is None else first if second is None else sum_usages([first, second])
