"""What a request was, in numbers: its row, what it took of the limits of its key, and what is told of it."""

from dataclasses import replace
from datetime import datetime, timedelta

from everlog import access
from everlog.access import Requested
from everlog.access.requests import counted
from everlog.chat.cost import cost_of
from everlog.conversation.exchange_values import Recorded, Request
from everlog.errors import UnknownModel
from everlog.protocols.exchange import Reply, Usage
from everlog.registry import builtin
from everlog.store import Unit

NANO = 1_000_000_000
TOKEN_BYTES = 4
"""Bytes of a body that are taken for a token where the provider counted none."""


def requested(
    *,
    id_: str,
    at: datetime,
    now: datetime,
    key: str,
    protocol: str,
    status: int | None,
    request: Request | None,
    reply: Reply | None,
) -> Requested:
    """Return what a request was, before it is known what becomes of it in the log."""
    usage = None if reply is None else reply.usage
    model = None if request is None else request.model
    return Requested(
        id=id_,
        at=at,
        key=key,
        user="" if request is None else request.caller.user,
        session=None if request is None else request.session or None,
        project=None if request is None else request.origin.project,
        protocol=protocol,
        model=model,
        status=status,
        decision="nothing",
        ms=max(0, (now - at) // timedelta(milliseconds=1)),
        **counted(usage),
        nano_usd=priced(usage, model),
    )


def placed(requested: Requested, recorded: Recorded) -> Requested:
    """Return it with what became of it."""
    return replace(
        requested,
        decision=recorded.decision,
        thread=recorded.thread or "",
        first=recorded.first,
        stop=recorded.stop,
    )


def priced(usage: Usage | None, model: str | None) -> int | None:
    """Return what an answer cost, in billionths of a dollar; None where nobody knows."""
    if usage is None:
        return None
    total = usage.cost_usd
    if total is None and model is not None:
        try:
            total = cost_of(usage, builtin().find(model)).total_usd
        except UnknownModel:
            return None
    return None if total is None else round(total * NANO)


def use(unit: Unit, requested: Requested, size_bytes: int) -> None:
    """Add what a request took to what was used under its key.

    Args:
        unit: the unit to do it in.
        requested: the request; one without a key counts nowhere.
        size_bytes: of question and answer, by which tokens are estimated where the provider counted none.
    """
    if not requested.key:
        return
    is_answered = requested.status is not None and 200 <= requested.status < 300
    is_counted = requested.tokens_in is not None or requested.tokens_out is not None
    tokens = requested.tokens if is_counted else size_bytes // TOKEN_BYTES
    access.use(
        unit,
        requested.key,
        tokens=tokens if is_answered else 0,
        nano_usd=requested.nano_usd if is_answered else 0,
    )
