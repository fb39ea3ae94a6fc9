"""A snapshot for the pump: the newest summary, and the piece of the conversation that is to be folded into it next."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from everlog import log
from everlog.log import ThreadRow
from everlog.memory.interface import Accept, Subject, Verdict
from everlog.memory.rolling import shelf
from everlog.memory.rolling.outline import Outline
from everlog.memory.rolling.settings import Settings
from everlog.memory.rolling.shelf import Row
from everlog.memory.rolling.weights import Weight, piece_end, tokens
from everlog.memory.sight import Seen, seen
from everlog.messages import Entry
from everlog.store import Unit

_FIRST = 8
"""Entries read at first; twice as many at each further look, since nobody knows how large they are."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A snapshot."""

    subject: Subject
    settings: Settings
    count: int
    """Entries of the thread."""
    reach: int
    """Entries from here on are kept back, while there is room for them."""
    before: Row | None
    """The newest summary."""
    piece: tuple[Entry, ...] = field(default=(), repr=False)
    """What is to be folded now; nothing, if nothing is due."""
    seen: Seen | None = None
    covered: str = ""
    """Hash over all that the next summary stands for."""
    secret: bytes = field(default=b"", repr=False)

    def after(self, verdicts: Sequence[Verdict]) -> "Fold | None":
        """Return the snapshot if nothing was accepted: each piece is read for itself."""
        return None if any(isinstance(one, Accept) for one in verdicts) else self

    @property
    def start(self) -> int:
        """Where the next piece begins."""
        return 0 if self.before is None else self.before.upto

    @property
    def outline(self) -> Outline:
        """The summary so far."""
        return Outline() if self.before is None else self.before.outline

    @property
    def stop(self) -> int:
        """Where the piece ends."""
        return self.piece[-1].i + 1

    @property
    def said_chars(self) -> int:
        """Characters of all messages that the next summary stands for."""
        before = 0 if self.before is None else self.before.said_chars
        return before + sum(Weight.of(entry).chars for entry in self.piece)


def fold(unit: Unit, subject: Subject, settings: Settings) -> Fold:
    """Take the snapshot of a thread.

    Raises:
        Erased: the thread was erased.
    """
    thread = log.load(unit, subject.key)
    newest = log.newest(unit, thread, "user")
    reach = min(thread.next - settings.min_recent, thread.next if newest is None else newest)
    before = next(shelf.believed(unit, thread), None)
    state = Fold(subject, settings, thread.next, reach, before)
    piece = _piece(unit, thread, state)
    if not piece:
        return state
    stop = piece[-1].i + 1
    covered = shelf.covered(unit, thread, stop).hex()
    return Fold(subject, settings, thread.next, reach, before, piece, seen(unit, thread, stop), covered, unit.secret())


def idle(unit: Unit, subject: Subject, settings: Settings) -> Fold:
    """Return a snapshot in which nothing is to be done.

    Raises:
        Erased: the thread was erased.
    """
    count = log.load(unit, subject.key).next
    return Fold(subject, settings, count, 0, None)


def _piece(unit: Unit, thread: ThreadRow, state: Fold) -> tuple[Entry, ...]:
    """Return the next piece, if it is due: the thread is long enough, and what is kept back comes after the piece.

    Where there is no room for all that comes after the summary, nothing is kept back.
    """
    if state.settings.room_bytes is None and state.start >= state.reach:
        return ()
    entries: list[Entry] = []
    weights: list[Weight] = []
    stop, length, at = None, _FIRST, state.start
    while at < thread.next:
        some = log.read(unit, thread, at, at + length, media=False)
        at, length = at + len(some), length * 2
        weights += map(Weight.of, some)
        if stop is None:
            entries += some
            stop = piece_end(weights, state.settings)
        is_crowded = _is_crowded(weights, state.settings)
        if stop is not None and (is_crowded or (stop <= state.reach and _is_long(weights, state))):
            return tuple(entry for entry in entries if entry.i < stop)
        if state.settings.room_bytes is None and weights[-1].i >= state.reach and (stop is None or stop > state.reach):
            return ()
    return ()


def _is_crowded(weights: Sequence[Weight], settings: Settings) -> bool:
    """Return whether there is no room for some messages in a prompt."""
    return settings.room_bytes is not None and sum(weight.room for weight in weights) > settings.room_bytes


def _is_long(weights: Sequence[Weight], state: Fold) -> bool:
    """Return whether a thread is to be compressed: what follows a summary is at once, since it was too long once."""
    return state.before is not None or tokens(sum(one.chars for one in weights)) > state.settings.threshold_tokens
