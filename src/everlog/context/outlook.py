"""What an epoch has come to, and what would end it, without a request at hand: read from rows, nothing is kept."""

from dataclasses import dataclass
from typing import Literal, cast

from everlog import log
from everlog.context import past as pasts
from everlog.context import stored
from everlog.context.drafts import drafted
from everlog.context.reading import Reading
from everlog.context.turning import turns_when
from everlog.context.values import Consumer, Epoch, Mode, Terms
from everlog.store import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The newest epoch of one consumer of a thread."""

    consumer: Consumer
    epoch: Epoch
    memory_bytes: int
    """What its prompt has come to by now, without the caller's own."""
    lines: int
    """How many lines of the tree are in it."""
    placeholders: int
    """How many of them stand for words that were not built when it opened."""
    hidden: int
    """How many of the oldest messages nothing in it stands for."""
    turns_when: str
    """What would end it, in words, if instructions and tools stay as they are."""


def outlooks(unit: Unit, thread: str) -> list[Outlook]:
    """Return the newest epoch of each consumer of a thread, the one that asked last first.

    Raises:
        Erased: the thread was erased.
    """
    row = log.load(unit, thread)
    found = []
    for key in stored.consumers(unit, row.id):
        epoch = stored.newest(unit, row.id, key)
        if epoch is not None:
            found.append(_outlook(unit, thread, key, epoch))
    return sorted(found, key=lambda one: one.epoch.last_at, reverse=True)


def _outlook(unit: Unit, thread: str, key: str, epoch: Epoch) -> Outlook:
    consumer = _consumer(key, epoch)
    reading = Reading(unit, thread, Terms(consumer=consumer))
    draft = drafted(reading, epoch, stored.held_for(unit, reading.row.id, key, epoch.n), reading.entries(epoch.cut))
    past = (pasts.parse(epoch.past) if consumer.mode == "tree" else None) or pasts.EMPTY
    return Outlook(
        consumer=consumer,
        epoch=epoch,
        memory_bytes=draft.memory_bytes,
        lines=len(past.shown),
        placeholders=len(past.placeholders),
        hidden=0 if draft.seen is None else draft.seen.hidden,
        turns_when=turns_when(epoch, draft.bytes),
    )


def _consumer(key: str, epoch: Epoch) -> Consumer:
    """Return the consumer of a key; of one that is hashed, budget and mode are known alone."""
    budget, unit, kin = key.split(" ", 2)
    mode, _, rest = kin.partition(" ")
    is_told = mode in ("tree", "rolling", "none")
    if not is_told:
        mode, rest = "rolling" if epoch.past.startswith("[") else "tree", ""
    tail = not rest.startswith("tail=0 ")
    return Consumer(
        mode=cast("Mode", mode),
        budget=int(budget),
        unit=cast("Literal['bytes', 'tokens']", unit),
        renderer=epoch.renderer,
        family=rest.removeprefix("tail=0 ").removeprefix(f"{epoch.renderer} "),
        tail=tail,
    )
