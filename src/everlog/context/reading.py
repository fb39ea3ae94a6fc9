"""What a request is compiled from, read in one unit: the epoch, what was said since its cut, what is held for it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from everlog import log
from everlog.context import stored
from everlog.context.codec import encode
from everlog.context.keepers import Keeper, keeper
from everlog.context.pieces import Shape, size_of
from everlog.context.rounds import Round, rounds
from everlog.context.values import Epoch, Held, Reason, Terms
from everlog.messages import Entry
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import utf8

PAGE = 32
"""Entries that are read first where nobody knows how many fit."""


class Reading:
    """A thread as one unit saw it, for one consumer."""

    def __init__(self, unit: Unit, thread: str | None, terms: Terms) -> None:
        self.unit = unit
        self.terms = terms
        self.row = log.unborn(unit) if thread is None else log.load(unit, thread)
        self.keeper: Keeper = keeper(terms.consumer.mode, unit, self.row)
        self.secret = unit.secret()
        self.head_hash = digest(self.secret, b"head", encode(terms.head.instructions))
        self.tools_hash = digest(self.secret, b"tools", terms.head.tools)

    @property
    def turn(self) -> int:
        """Number of the turn that asks."""
        return max(0, self.row.turns - (self.terms.open_at is not None))

    @cached_property
    def newest(self) -> Epoch | None:
        """The epoch that the consumer is in."""
        return stored.newest(self.unit, self.row.id, self.terms.consumer.key)

    def inherited(self) -> tuple[Epoch | None, list[Held], Reason]:
        """Return the epoch that a consumer without one can go on from, what is held for it, and why it is new."""
        kin = self._kin()
        if kin is not None:
            name, epoch = kin
            return epoch, stored.held_for(self.unit, self.row.id, name, epoch.n), "budget"
        if self.row.parent is not None:
            return self._of_parent(self.row.parent)
        was = stored.was_asked(self.unit, self.row.id, self.terms.consumer.key)
        return None, [], "lost" if was else "first"

    def held(self, epoch: Epoch) -> list[Held]:
        """Return what is held for the consumer's epoch."""
        return stored.held_for(self.unit, self.row.id, self.terms.consumer.key, epoch.n)

    def entries(self, start: int) -> list[Entry]:
        """Return what was said from a position on."""
        return log.read(self.unit, self.row, start)

    def newest_entries(self, enough: int, shape: Shape) -> list[Entry]:
        """Return the newest entries, so many that they fill some bytes, or all, from where a round begins."""
        count = PAGE
        while True:
            found = self.entries(max(0, self.row.next - count))
            if count >= self.row.next:
                return found
            cut = self.cut(found, shape)[1:]
            if len(cut) > 1 and sum(one.size for one in cut) >= enough:
                return [entry for entry in found if entry.i >= cut[0].start]
            count *= 4

    def cut(self, entries: Sequence[Entry], shape: Shape) -> list[Round]:
        """Return entries in rounds, with the sizes they would have."""
        return rounds(entries, lambda entry: size_of(entry, shape))

    def entry(self, i: int) -> Entry | None:
        """Return one entry; None where there is none."""
        return log.at(self.unit, self.row, [i], media=True).get(i)

    def turn_start(self, turn: int, i: int) -> int | None:
        """Return where the turn of an entry began."""
        return log.turn_start(self.unit, self.row, turn, i)

    def past_hash(self, text: str) -> bytes:
        """Return the hash of a past as it is shown."""
        return digest(self.secret, b"past", utf8(text))

    def prefix_hash(self, encoded: Sequence[bytes]) -> bytes:
        """Return the hash of some pieces, from the first on."""
        return digest(self.secret, b"prefix", *encoded)

    def _kin(self) -> tuple[str, Epoch] | None:
        """Return the latest epoch of a consumer that differs in its budget alone, by its key."""
        ours = self.terms.consumer
        found = [
            (key, epoch)
            for key in stored.consumers(self.unit, self.row.id)
            if key != ours.key and key.partition(" ")[2].partition(" ")[2] == ours.kin
            if (epoch := stored.newest(self.unit, self.row.id, key)) is not None
        ]
        return max(found, key=lambda one: one[1].last_at, default=None)

    def _of_parent(self, parent: str) -> tuple[Epoch | None, list[Held], Reason]:
        """Return the epoch of the thread that this one was forked of, if the fork is in its tail."""
        shared = self.row.segments[-2][1] if len(self.row.segments) > 1 else 0
        consumer = self.terms.consumer.key
        epoch = stored.newest(self.unit, parent, consumer)
        if epoch is None:
            return None, [], "first"
        if epoch.cut > shared or (epoch.cut == shared and epoch.repeat is not None):
            return None, [], "fork"
        held = stored.held_for(self.unit, parent, consumer, epoch.n)
        ours = replace(epoch, whole=min(epoch.whole, shared))  # what the parent said after the fork is not said here
        return ours, [one for one in held if one.position + one.covers <= shared], "fork"
