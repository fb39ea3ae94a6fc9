"""Preparing a request: read the epoch and what was said since its cut, decide, render, and keep what was decided.

The decision is made in one unit that reads; another writes it before the request leaves, if the row is still the one
that was read. Who loses reads again, so that two processes never send two continuations of one prefix.
"""

import logging
from collections.abc import Sequence
from functools import partial

from everlog.context import stored
from everlog.context.compiler import Compiled, compiled
from everlog.context.explain import EPOCHS_EXPLAINED, drop_requests
from everlog.context.opening import MIN_BUDGET_BYTES
from everlog.context.reading import Reading
from everlog.context.values import Context, Held, Status, Terms
from everlog.errors import BudgetTooSmall, StoreUnavailable
from everlog.protocols.exchange import Usage
from everlog.store import Store, Unit

TRIES = 8
"""Others that may be faster in a row."""

_logger = logging.getLogger(__name__)


def prepare(store: Store, tenant: str, thread: str, terms: Terms) -> Context:
    """Compile the next request of a thread, and keep what it is made of.

    Args:
        store: the database.
        tenant: whose thread.
        thread: id of the thread.
        terms: for whom, and what the caller adds.

    Raises:
        BudgetTooSmall: the budget is under 512 bytes.
        ContextTooLong: instructions, tools and the open turn leave no room for memory in the model's window.
        Erased: the thread was erased.
        StoreUnavailable: the database cannot be read or written.
    """
    if terms.consumer.unit == "bytes" and terms.consumer.budget < MIN_BUDGET_BYTES:
        raise BudgetTooSmall(f"memory needs at least {MIN_BUDGET_BYTES} bytes, not {terms.consumer.budget}")
    for _ in range(TRIES):
        found = store.read(tenant, partial(_compile, thread=thread, terms=terms))
        if store.write(tenant, partial(_keep, thread=thread, terms=terms, found=found), name="context.prepare"):
            if found.context.turned is not None:
                _logger.info("an epoch opened", extra=_facts(thread, found.context))
            return found.context
    raise StoreUnavailable("others write to this thread faster than a request for it can be prepared; try again")


def look(store: Store, tenant: str, thread: str | None, terms: Terms) -> Context:
    """Return what `prepare` would, and keep nothing; of a thread that is not there yet (None), what it begins with.

    Raises:
        Erased: the thread was erased.
    """
    return store.read(tenant, partial(_compile, thread=thread, terms=terms)).context


def answered(
    unit: Unit,
    thread: str,
    terms: Terms,
    context: Context,
    *,
    status: Status,
    model: str | None = None,
    usage: Usage | None = None,
) -> None:
    """Note what became of a request, within the unit that records the reply."""
    stored.put_answer(unit, thread, terms.consumer.key, context, status=status, model=model, usage=usage)


def hold(unit: Unit, thread: str, terms: Terms, context: Context, held: Sequence[Held]) -> None:
    """Hold what was sent or answered and is no entry until the epoch turns, within the unit that records the rest."""
    stored.put_held(unit, thread, terms.consumer.key, context.epoch.n, held)


def _compile(unit: Unit, thread: str | None, terms: Terms) -> "Compiled":
    return compiled(Reading(unit, thread, terms))


def _keep(unit: Unit, thread: str, terms: Terms, found: "Compiled") -> bool:
    consumer, context = terms.consumer.key, found.context
    if found.before is not None:
        kept = stored.put_sent(unit, thread, consumer, found.before, context.epoch)
    else:
        kept = stored.put_epoch(unit, thread, consumer, context.epoch)
        if kept:
            stored.drop_held(unit, thread, consumer, context.epoch.n)
            drop_requests(unit, thread, consumer, context.epoch.n - EPOCHS_EXPLAINED)
    if kept:
        stored.put_held(unit, thread, consumer, context.epoch.n, found.held)
        stored.put_request(unit, thread, consumer, context, found.turn)
    return kept


def _facts(thread: str, context: Context) -> dict[str, object]:
    epoch = context.epoch
    return {"thread_id": thread, "epoch": epoch.n, "reason": epoch.reason, "memory_bytes": context.memory_bytes}
