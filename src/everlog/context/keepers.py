"""What stands for the past, by mode: how it is folded when an epoch opens, and how it is shown again while it lasts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from everlog.context import past as pasts
from everlog.context.opening import Room
from everlog.context.past import PAIR_BYTES
from everlog.context.rounds import Round
from everlog.context.values import ItemKind, Mode
from everlog.log import ThreadRow
from everlog.memory import rolling
from everlog.memory.rolling import Summary
from everlog.memory.tree.render import Shown
from everlog.memory.tree.shelf import Shelf
from everlog.store import Unit
from everlog.tokens import size_bytes

NOTE_BYTES = 96
"""Room for the line that says what is left out, and the frame of a message that is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The past as it is shown."""

    text: str = ""
    kind: ItemKind = "view"
    shown: Shown | None = None
    hidden: int = 0
    """How many entries nothing stands for."""
    hidden_from: int = 0
    """The first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The past of a new epoch."""

    past: str
    """As it is recorded."""
    cut: int
    """The entry up to which it reaches."""


class Keeper(Protocol):
    """Makes and shows the past of one thread, within a unit of work."""

    def fold(self, before: str, room: Room, rounds: Sequence[Round]) -> Folded:
        """Return the past up to about `room.cut`, from the one before; `rounds` are what was said since."""
        ...

    def grow(self, before: str, cut: int, *, budget: int, low: int) -> str:
        """Return the past up to `cut`, of a memory without a tail."""
        ...

    def show(self, past: str) -> Seen | None:
        """Return the past as it is shown; None if it cannot be any more."""
        ...

    def has_landed(self, past: str) -> bool:
        """Return whether half of what was missing in it is there by now."""
        ...


def keeper(mode: Mode, unit: Unit, thread: ThreadRow) -> Keeper:
    """Return what keeps the past of a thread in a mode."""
    match mode:
        case "tree":
            return TreeKeeper(unit, thread)
        case "rolling" | "none":
            return SummaryKeeper(unit, thread, summaries=mode == "rolling")
        case _:
            assert_never(mode)


class TreeKeeper:
    """Lines of the tree."""

    def __init__(self, unit: Unit, thread: ThreadRow) -> None:
        self._shelf = Shelf(unit, thread)

    def fold(self, before: str, room: Room, rounds: Sequence[Round]) -> Folded:  # noqa: ARG002 -- the interface
        """Return the past up to `room.cut`, from the lines of the one before."""
        made = pasts.fold(_past(before), room.cut, target=room.target, cap=room.cap, weigh=self._shelf.weigh)
        return Folded(past=pasts.render(made), cut=room.cut)

    def grow(self, before: str, cut: int, *, budget: int, low: int) -> str:
        """Return the past up to `cut`, of a memory without a tail."""
        return pasts.render(pasts.grow(_past(before), cut, budget=budget, low=low, weigh=self._shelf.weigh))

    def show(self, past: str) -> Seen | None:
        """Return the past as it is shown; None if it is damaged."""
        found = pasts.parse(past)
        if found is None:
            return None
        if found == pasts.EMPTY:
            return Seen()
        shown = pasts.show(found, self._shelf.shown)
        return Seen(text=shown.text, shown=shown, hidden=shown.hidden)

    def has_landed(self, past: str) -> bool:
        """Return whether half of the placeholders are built by now."""
        waiting = _past(past).placeholders
        return bool(waiting) and 2 * len(self._shelf.weigh(waiting)) >= len(waiting)


class SummaryKeeper:
    """A summary, where there are any, and a line that says what it does not reach.

    What lies between the summary and the words that are shown is shown too while it fits; the budget decides. Where it
    does not fit, a summary that reaches further stands for some of those words.
    """

    def __init__(self, unit: Unit, thread: ThreadRow, *, summaries: bool) -> None:
        self._unit = unit
        self._thread = thread
        self._summaries = summaries

    def fold(self, before: str, room: Room, rounds: Sequence[Round]) -> Folded:
        """Return the newest summary that reaches no further than `room.cut`, and where the words after it begin.

        If that leaves a hole, the summary may reach up to the newest round.
        """
        _, cut = _reach(before)
        upto, text = self._fitting(room.cut, room.budget - room.tail - PAIR_BYTES - NOTE_BYTES)
        left = room.budget * 7 // 8 - room.tail - text - PAIR_BYTES - NOTE_BYTES
        begin = room.cut
        for one in reversed([one for one in rounds if cut <= one.start < room.cut and one.stop > upto]):
            left -= one.size
            if left < 0:
                break
            begin = one.start
        if upto < begin:
            upto, begin = self._further(room, rounds) or (upto, begin)
        return Folded(past=_render(upto, begin), cut=begin)

    def grow(self, before: str, cut: int, *, budget: int, low: int) -> str:  # noqa: ARG002 -- the interface
        """Return the newest summary up to `cut`."""
        return _render(self._fitting(cut, budget - NOTE_BYTES)[0], cut)

    def show(self, past: str) -> Seen | None:
        """Return the summary as it is shown; None if it is no longer there."""
        upto, cut = _reach(past)
        if not cut:
            return Seen(kind="summary")
        found = self._latest(upto) if upto else None
        if upto and (found is None or found.upto != upto):
            return None
        text = "" if found is None else rolling.injection(found)[0]
        if upto < cut:
            note = f"[messages {upto} to {cut - 1} of this conversation are not shown]"
            text = f"{text}\n{note}" if text else note
        return Seen(text=text, kind="summary" if upto else "left out", hidden=max(0, cut - upto), hidden_from=upto)

    def has_landed(self, past: str) -> bool:
        """Return whether there is a summary now that reaches into what was not shown, or beyond it."""
        upto, cut = _reach(past)
        found = self._latest(self._thread.next) if upto < cut else None
        return found is not None and found.upto > upto

    def _further(self, room: Room, rounds: Sequence[Round]) -> tuple[int, int] | None:
        """Return how far a summary reaches into the tail, and the round from which on words are shown beside it."""
        tail = [one for one in rounds if one.start >= room.cut]
        found = self._latest(tail[-1].start if tail else 0)
        begin = max((one.start for one in tail if found is not None and one.start <= found.upto), default=room.cut)
        if found is None or found.upto < room.cut:
            return None
        left = max(0, room.tail - sum(one.size for one in tail if one.start < begin))
        fits = size_bytes(rolling.injection(found)[0]) <= room.budget - left - PAIR_BYTES - NOTE_BYTES
        return (found.upto, begin) if fits else None

    def _fitting(self, cut: int, room: int) -> tuple[int, int]:
        """Return how far a summary up to `cut` reaches, and its bytes: of those that fit, the newest or nearly so."""
        found = self._latest(cut)
        while found is not None:
            size = size_bytes(rolling.injection(found)[0])
            if size <= room:
                return found.upto, size
            found = self._latest(found.upto // 2)
        return 0, 0

    def _latest(self, upto: int) -> Summary | None:
        return rolling.latest(self._unit, self._thread, upto) if self._summaries else None


def _past(text: str) -> pasts.Past:
    """Return a past; a damaged one is made anew."""
    return pasts.parse(text) or pasts.EMPTY


def _render(upto: int, cut: int) -> str:
    return json.dumps([upto, cut], separators=(",", ":")) if cut else ""


def _reach(past: str) -> tuple[int, int]:
    """Return how far a summary reaches, maybe into the first round that is shown, and where that begins.

    Both are 0 if it is damaged.
    """
    try:
        upto, cut = json.loads(past or "[0,0]")
        return (upto, cut) if type(upto) is int and type(cut) is int and min(upto, cut) >= 0 else (0, 0)
    except (ValueError, TypeError, RecursionError):
        return 0, 0
