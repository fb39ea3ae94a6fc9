"""What an old request was made of, and why: read from rows that hold references and counts, no text.

Requests are explained for the newest epochs only; older rows go when an epoch opens, so that their number is bounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everlog.clock import moment
from everlog.context import rows, stored
from everlog.context.values import STATUSES, Epoch, Item, Status
from everlog.protocols.exchange import Usage
from everlog.store import Unit

EPOCHS_EXPLAINED = 32
"""How many epochs before the one that opens keep their requests; at 20,000 tokens some thousand requests, 570 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One request that was sent."""

    id: str
    turn: int
    """Number of the turn, from 0."""
    at: datetime
    """When it was prepared."""
    consumer: str
    """Whose prompts it continues: budget, unit, mode, form and model."""
    epoch: Epoch
    """As it is now: later requests of the same epoch have moved what was sent."""
    is_first: bool
    """Whether it is the first one that is known of its epoch, which it then opened."""
    model: str | None
    """None where no answer came."""
    usage: Usage
    """What the provider counted."""
    status: Status
    items: tuple[Item, ...]
    """What was in the prompt, and what was left out, in order."""


def request(unit: Unit, thread: str, turn: int | None = None) -> Explained | None:
    """Return the newest request of a thread, or of one of its turns; None where none is known."""
    if turn is None:
        row = unit.row(rows.REQUESTS, thread=thread, limit=1)
    else:
        row = unit.row(rows.OF_TURN, thread=thread, turn=turn)
    return None if row is None else _explained(unit, thread, row)


def drop_requests(unit: Unit, thread: str, consumer: str, epoch: int) -> None:
    """Forget the requests of a thread that are older than the first one of a consumer's epoch."""
    if epoch <= 0:
        return
    found = unit.row(rows.FIRST_SINCE, thread=thread, consumer=consumer, epoch=epoch)
    if found is not None:
        for statement in (rows.DROP_ITEMS, rows.DROP_REQUESTS):
            unit.run(statement, {"of_thread": thread, "before": found[0]})


def _explained(unit: Unit, thread: str, row: Sequence[Any]) -> Explained | None:
    _, _, id_, turn, at, consumer, n, model, sent, answered, read, written, status = row
    epoch = stored.epoch_at(unit, thread, consumer, n)
    if epoch is None:
        return None
    first = unit.row(rows.FIRST_SINCE, thread=thread, consumer=consumer, epoch=n)
    return Explained(
        id=id_,
        turn=turn,
        at=moment(at),
        consumer=consumer,
        epoch=epoch,
        is_first=first is not None and first[0] == id_,
        model=model,
        usage=Usage(input=sent, output=answered, cache_read=read, cache_write=written),
        status=STATUSES[status],
        items=tuple(stored.items_of(unit, thread, id_)),
    )
