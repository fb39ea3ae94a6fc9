"""What a request was, in numbers: its row, what it took of the limits of its key, and what is told of it."""

from dataclasses import replace
from datetime import datetime, timedelta

from everlog import access
from everlog.access import Requested
from everlog.access.keys import NANO
from everlog.access.requests import counted
from everlog.conversation.alignment.values import Answer, Recorded, Request
from everlog.store import Unit
from everlog.tokens import BYTES_PER_TOKEN, size_bytes


def requested(
    *,
    id_: str,
    at: datetime,
    now: datetime,
    key: str,
    protocol: str,
    upstream: str | None,
    status: int | None,
    request: Request | None,
    answer: Answer | None,
) -> Requested:
    """Return what a request was, before it is known what becomes of it in the log."""
    cost_usd = None if answer is None else answer.cost_usd
    return Requested(
        id=id_,
        at=at,
        key=key,
        user="" if request is None else request.caller.user,
        session=None if request is None else request.session or None,
        project=None if request is None else request.origin.project,
        protocol=protocol,
        upstream=upstream,
        response=None if answer is None else answer.id,
        previous=None if request is None else request.after,
        model=None if request is None else request.model,
        status=status,
        decision="nothing",
        ms=max(0, (now - at) // timedelta(milliseconds=1)),
        **counted(None if answer is None else answer.usage),
        nano_usd=None if cost_usd is None else round(cost_usd * NANO),
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


def use(unit: Unit, requested: Requested, size: int, *, is_asked: bool = False) -> None:
    """Add what a request took to what was used under its key.

    Args:
        unit: the unit to do it in.
        requested: the request; one without a key counts nowhere.
        size: bytes of question and answer, by which tokens are estimated where the provider counted none.
        is_asked: whether the upstream had the question when the client left, before any answer.
    """
    if not requested.key:
        return
    is_answered = is_asked if requested.status is None else 200 <= requested.status < 300
    is_counted = requested.tokens_in is not None or requested.tokens_out is not None
    tokens = requested.tokens if is_counted else size // BYTES_PER_TOKEN
    access.use(
        unit,
        requested.key,
        tokens=tokens if is_answered else 0,
        nano_usd=requested.nano_usd if is_answered else 0,
    )


def size_of(answer: Answer | None) -> int:
    """Return the bytes of what an answer said."""
    return 0 if answer is None else sum(size_bytes(message.text) for message in answer.messages)
