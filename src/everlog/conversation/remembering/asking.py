"""What a client asks is kept before it is asked of a model, so that its prompt can be compiled from the log.

By then the thread is long: a retry finds its words there, and adds none. A request that was answered to its end and is
sent again goes another way from there at once, since nobody can tell it from a new try before its answer comes.
"""

from dataclasses import dataclass
from functools import partial

from everlog import log
from everlog.context import Held
from everlog.conversation.alignment.exchanges import begun
from everlog.conversation.alignment.presence import Placed, Presence
from everlog.conversation.alignment.seen import Overtaken
from everlog.conversation.alignment.values import Request
from everlog.conversation.remembering.wire import Wire
from everlog.registry import Model
from everlog.store import Store, Unit

BEFORE = 64
"""Entries before a turn that are looked at: a round of tools beside which it may begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request whose words are in the log."""

    thread: str
    """Id of the thread that it is in."""
    open_at: int
    """Where the turn that it asks in begins."""
    turn: int
    """Number of that turn."""
    count: int
    """How many entries that turn has so far."""
    own: tuple[Held, ...]
    """What the client says of that turn in its own blocks."""


def ask(store: Store, tenant: str, request: Request, presence: Presence, wire: Wire) -> Asked | None:
    """Keep what is new of a request, and place its answer behind it; return None where there is nothing to ask with.

    Args:
        store: the database.
        tenant: whose it is.
        request: what is asked.
        presence: where it was found to belong; afterwards, where its answer goes.
        wire: its history as it came.

    Raises:
        Erased: the thread was erased meanwhile.
        StoreUnavailable: nothing of it was stored.
    """
    while True:
        placed = presence.placed or store.read(tenant, presence.place)
        if placed.thread is None and not placed.said:
            return None
        try:
            placed = store.write(tenant, partial(begun, request=request, placed=placed), name="record.asked")
        except Overtaken:
            presence.placed = None
            continue
        presence.take(placed)
        return store.read(tenant, partial(_asked, placed=placed, presence=presence, wire=wire))


def _asked(unit: Unit, placed: Placed, presence: Presence, wire: Wire) -> Asked:
    assert placed.thread is not None
    thread = log.load(unit, placed.thread.id)
    turn = thread.turns - 1
    start = log.turn_start(unit, thread, turn, thread.next - 1)
    open_at = thread.next if start is None else start
    begin = max(0, open_at - BEFORE)
    prints, there = presence.printed(unit), log.seen(unit, thread, begin)
    own = wire.own(prints, there, begin, open_at) if len(prints) == presence.shown else ()
    return Asked(thread=thread.id, open_at=open_at, turn=turn, count=thread.next - open_at, own=own)


def outgrown(unit: Unit, placed: Placed, size_bytes: int, shown: int) -> int:
    """Return the bytes of a history: what the client sends of it, or what its thread holds where it sends less.

    Args:
        unit: the unit to read in.
        placed: where the request belongs.
        size_bytes: bytes of the messages that the client sends.
        shown: how many those are.
    """
    thread = placed.thread
    if thread is None or placed.forks_at is not None or thread.next <= shown:
        return size_bytes
    return max(size_bytes, sum(one.size for one in log.seen(unit, thread)))


def threshold_tokens(budget_tokens: int, model: Model) -> int:
    """Return from how many tokens of history on memory stands for a part of it: the budget, or half of the window."""
    window = model.context_tokens or model.input_tokens
    return budget_tokens if window is None else min(budget_tokens, window // 2)
