"""What requests to models took: tokens and money, added up by thread, day, purpose and model. No text.

Money is counted in whole nano-dollars, so that a sum does not depend on the order of its parts. A request of which
nobody knows the price is counted as such, never as one that was free.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from everlog.log import rows
from everlog.log.purposes import Purpose
from everlog.log.threads import ThreadRow, ask
from everlog.protocols.exchange import Usage
from everlog.store import Unit

NANO = 1_000_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MODEL_CHARS = 200
_MOST = (1 << 50) - 1
"""More of anything than one request can take, and little enough that sums stay within their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What some requests took."""

    requests: int = 0
    unpriced: int = 0
    """How many of them have a price that nobody knows."""
    input_tokens: int = 0
    """Read anew, neither from nor into a cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    nano_usd: int = 0
    """What those cost whose price is known, in billionths of a dollar."""

    @property
    def usd(self) -> float | None:
        """What all of them cost, in dollars; None if the price of one is not known."""
        return None if self.unpriced else self.nano_usd / NANO

    @property
    def tokens(self) -> int:
        """Tokens of all kinds."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


def spend(
    unit: Unit,
    thread: ThreadRow | str | None,
    purpose: Purpose,
    model: str,
    usage: Usage | None,
    cost_usd: float | None,
) -> None:
    """Add what one request took to what its thread took that day.

    Args:
        unit: the unit to do it in.
        thread: the thread, or its id; None where the request is for none alone.
        purpose: what the request was for.
        model: provider and id.
        usage: tokens; None where nobody knows.
        cost_usd: dollars; None where nobody knows.

    Raises:
        Erased: the thread was erased.
    """
    usage = usage or Usage()
    row = None if thread is None else ask(unit, thread)()
    key = {
        "thread": "" if row is None else row.id,
        "day": (unit.now - _EPOCH).days,
        "purpose": int(purpose),
        "model": model[:_MODEL_CHARS],
    }
    more = {
        "requests": 1,
        "unpriced": int(cost_usd is None),
        "tokens_in": _count(usage.input),
        "tokens_out": _count(usage.output),
        "tokens_read": _count(usage.cache_read),
        "tokens_written": _count(usage.cache_write),
        "nano_usd": _count(None if cost_usd is None else round(cost_usd * NANO)),
    }
    unit.run(rows.PUT_SPEND, key | dict.fromkeys(more, 0))
    named = {f"of_{name}": value for name, value in key.items()}
    unit.run(rows.ADD_SPEND, named | {f"more_{name}": value for name, value in more.items()})


def spent(unit: Unit, thread: str | None = None) -> Mapping[Purpose, Spent]:
    """Return what was spent on a thread, by its id, or by the whole tenant, for each purpose."""
    found: list[Any] = unit.rows(rows.SPENT) if thread is None else unit.rows(rows.SPENT_ON, thread=thread)
    sums = {Purpose(purpose): _spent(counts) for purpose, *counts in found}
    return {purpose: sums.get(purpose, Spent()) for purpose in Purpose}


def _count(given: int | None) -> int:
    return min(_MOST, max(0, given or 0))


def _spent(counts: list[Any]) -> Spent:
    requests, unpriced, tokens_in, tokens_out, tokens_read, tokens_written, nano = map(int, counts)
    return Spent(
        requests=requests,
        unpriced=unpriced,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=tokens_read,
        cache_write_tokens=tokens_written,
        nano_usd=nano,
    )
