"""Epochs and what is held for them, as rows: read, and written by compare-and-set."""

from collections.abc import Sequence
from typing import Any

from everlog.clock import micros, moment
from everlog.context import codec, rows
from everlog.context.values import (
    HELD_KINDS,
    ITEM_KINDS,
    REASONS,
    STATUSES,
    Context,
    Epoch,
    Held,
    Item,
    Mode,
    Rate,
    Status,
)
from everlog.protocols.exchange import Usage
from everlog.store import Unit


def newest(unit: Unit, thread: str, consumer: str) -> Epoch | None:
    """Return the epoch that a consumer of a thread is in."""
    row = unit.row(rows.NEWEST, thread=thread, consumer=consumer)
    return None if row is None else _epoch(row)


def epoch_at(unit: Unit, thread: str, consumer: str, n: int) -> Epoch | None:
    """Return one epoch of a consumer by its number."""
    row = unit.row(rows.EPOCH_AT, thread=thread, consumer=consumer, n=n)
    return None if row is None else _epoch(row)


def epochs(unit: Unit, thread: str, consumer: str) -> list[Epoch]:
    """Return all epochs of a consumer, oldest first."""
    return [_epoch(row) for row in unit.rows(rows.EPOCHS, thread=thread, consumer=consumer)]


def consumers(unit: Unit, thread: str) -> list[str]:
    """Return the consumers that a thread has epochs for."""
    return [key for (key,) in unit.rows(rows.CONSUMERS, thread=thread)]


def in_use(unit: Unit, thread: str, mode: Mode) -> tuple[int, str, Epoch] | None:
    """Return the budget, its unit, and the epoch, of the consumer that asked last in a mode; None if there is none."""
    found = []
    for key in consumers(unit, thread):
        budget, _, rest = key.partition(" ")
        of, _, kin = rest.partition(" ")
        if kin.startswith(f"{mode} ") and (epoch := newest(unit, thread, key)) is not None:
            found.append((int(budget), of, epoch))
    return max(found, key=lambda one: one[2].last_at, default=None)


def was_asked(unit: Unit, thread: str, consumer: str) -> bool:
    """Return whether there were requests of a consumer."""
    return unit.row(rows.REQUEST_OF, thread=thread, consumer=consumer) is not None


def put_epoch(unit: Unit, thread: str, consumer: str, epoch: Epoch) -> bool:
    """Store an epoch; return False if there is one of its number."""
    return unit.count(rows.PUT_EPOCH, **_row(thread, consumer, epoch)) == 1


def put_sent(unit: Unit, thread: str, consumer: str, before: Epoch, now: Epoch) -> bool:
    """Note what a request will have sent; return False if another one did meanwhile."""
    changed = unit.count(
        rows.SENT,
        of_thread=thread,
        of_consumer=consumer,
        of_n=before.n,
        seen_prefix=before.prefix,
        seen_hash=before.prefix_hash,
        new_prefix=now.prefix,
        new_hash=now.prefix_hash,
        new_sent=now.sent,
        new_looked=now.looked,
        now=micros(now.last_at),
    )
    return changed == 1


def held_for(unit: Unit, thread: str, consumer: str, n: int) -> list[Held]:
    """Return what is held for an epoch, in order."""
    found = []
    for name, position, number, kind, covers, body in unit.rows(rows.HELD, thread=thread, consumer=consumer, epoch=n):
        plain = unit.open(rows.held.c.body, (thread, name), body)
        found.append(Held(position=position, n=number, kind=HELD_KINDS[kind], covers=covers, said=codec.decode(plain)))
    return found


def held_at(unit: Unit, thread: str, start: int) -> dict[int, int]:
    """Return of each position from `start` on the next number that is free there, whoever's it is."""
    return {position: n + 1 for position, n in unit.rows(rows.HELD_AT, thread=thread, start=start)}


def put_held(unit: Unit, thread: str, consumer: str, epoch: int, held: Sequence[Held]) -> None:
    """Hold something for an epoch; what is held at the same place already stays as it is."""
    unit.run(rows.PUT_HELD, [_held_row(unit, thread, consumer, epoch, one) for one in held])


def drop_held(unit: Unit, thread: str, consumer: str, before: int) -> None:
    """Let go of what was held for earlier epochs."""
    unit.run(rows.DROP_HELD, {"thread": thread, "of_consumer": consumer, "before": before})


def put_request(unit: Unit, thread: str, consumer: str, context: Context, turn: int) -> None:
    """Note a request, and what it is made of, before it leaves."""
    unit.run(
        rows.PUT_REQUEST,
        {
            "thread": thread,
            "id": context.request,
            "turn": turn,
            "at": unit.now_us,
            "consumer": consumer,
            "epoch": context.epoch.n,
            "model": None,
            "tokens_in": None,
            "tokens_out": None,
            "tokens_read": None,
            "tokens_written": None,
            "status": STATUSES.index("sent"),
        },
    )
    items = [
        {
            "thread": thread,
            "request": context.request,
            "n": n,
            "kind": ITEM_KINDS.index(item.kind),
            "ref": item.ref,
            "tokens": item.tokens,
            "reason": REASONS.index(context.epoch.reason),
        }
        for n, item in enumerate(context.items)
    ]
    unit.run(rows.PUT_ITEMS, items)


def put_answer(
    unit: Unit,
    thread: str,
    consumer: str,
    context: Context,
    *,
    status: Status,
    model: str | None = None,
    usage: Usage | None = None,
) -> None:
    """Note what became of a request, and what its provider counted."""
    usage = usage or Usage()
    unit.run(
        rows.ANSWERED,
        {
            "of_thread": thread,
            "of_id": context.request,
            "new_model": model,
            "new_in": usage.input,
            "new_out": usage.output,
            "new_read": usage.cache_read,
            "new_written": usage.cache_write,
            "new_status": STATUSES.index(status),
        },
    )
    taken = [usage.input, usage.cache_read, usage.cache_write]
    if usage.input is not None and (tokens := sum(one or 0 for one in taken)):
        counted = {"more_bytes": context.prompt_bytes, "more_tokens": tokens}
        unit.run(
            rows.COUNTED_TOKENS, {"of_thread": thread, "of_consumer": consumer, "of_n": context.epoch.n, **counted}
        )


def items_of(unit: Unit, thread: str, request: str) -> list[Item]:
    """Return what a request was made of."""
    found = unit.rows(rows.ITEMS, thread=thread, request=request)
    return [Item(kind=ITEM_KINDS[kind], ref=ref, tokens=tokens) for _, kind, ref, tokens, _ in found]


def _held_row(unit: Unit, thread: str, consumer: str, epoch: int, one: Held) -> dict[str, Any]:
    name = f"{one.position}.{one.n} {epoch} {consumer}"
    return {
        "thread": thread,
        "name": name,
        "consumer": consumer,
        "epoch": epoch,
        "position": one.position,
        "n": one.n,
        "kind": HELD_KINDS.index(one.kind),
        "covers": one.covers,
        "body": unit.seal(rows.held.c.body, (thread, name), codec.encode(one.said)),
    }


def _row(thread: str, consumer: str, epoch: Epoch) -> dict[str, Any]:
    return {
        "thread": thread,
        "consumer": consumer,
        "n": epoch.n,
        "reason": REASONS.index(epoch.reason),
        "opened_at": micros(epoch.opened_at),
        "turn": epoch.turn,
        "looked": epoch.looked,
        "budget": epoch.budget,
        "rate_bytes": epoch.rate.bytes,
        "rate_tokens": epoch.rate.tokens,
        "renderer": epoch.renderer,
        "past": epoch.past,
        "cut": epoch.cut,
        "repeat": epoch.repeat,
        "whole": epoch.whole,
        "head_hash": epoch.head_hash,
        "tools_hash": epoch.tools_hash,
        "past_hash": epoch.past_hash,
        "prefix": epoch.prefix,
        "prefix_hash": epoch.prefix_hash,
        "sent": epoch.sent,
        "seen_bytes": epoch.seen_bytes,
        "seen_tokens": epoch.seen_tokens,
        "last_at": micros(epoch.last_at),
    }


def _epoch(row: Sequence[Any]) -> Epoch:
    (_, _, _, n, reason, opened_at, turn, looked, budget, rate_bytes, rate_tokens, renderer, past, cut, repeat, whole,
     head, tools, past_hash, prefix_hash, prefix, sent, seen_bytes, seen_tokens, last_at) = row  # fmt: skip
    return Epoch(
        n=n,
        reason=REASONS[reason],
        opened_at=moment(opened_at),
        turn=turn,
        looked=looked,
        budget=budget,
        rate=Rate(bytes=rate_bytes, tokens=rate_tokens),
        renderer=renderer,
        past=past,
        cut=cut,
        repeat=repeat,
        whole=whole,
        head_hash=bytes(head),
        tools_hash=bytes(tools),
        past_hash=bytes(past_hash),
        prefix=prefix,
        prefix_hash=bytes(prefix_hash),
        sent=sent,
        seen_bytes=seen_bytes,
        seen_tokens=seen_tokens,
        last_at=moment(last_at),
    )
