"""What stands for the past, by mode: how it is folded when an epoch opens, and how it is shown again while it lasts."""

from dataclasses import dataclass
from typing import Protocol, assert_never

from everlog.context import past as pasts
from everlog.context.opening import Room
from everlog.context.values import ItemKind, Mode
from everlog.log import ThreadRow
from everlog.memory.tree.render import Shown
from everlog.memory.tree.shelf import Shelf
from everlog.store import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The past as it is shown."""

    text: str = ""
    kind: ItemKind = "view"
    shown: Shown | None = None
    hidden: int = 0
    """How many of the oldest entries nothing stands for."""


class Keeper(Protocol):
    """Makes and shows the past of one thread, within a unit of work."""

    def fold(self, before: str, room: Room) -> str:
        """Return the past up to `room.cut`, from the one before."""
        ...

    def grow(self, before: str, cut: int, *, budget: int, low: int) -> str:
        """Return the past up to `cut`, of a memory without a tail."""
        ...

    def show(self, past: str) -> Seen | None:
        """Return the past as it is shown; None if it is damaged."""
        ...

    def has_landed(self, past: str) -> bool:
        """Return whether half of what was missing in it is there by now."""
        ...


def keeper(mode: Mode, unit: Unit, thread: ThreadRow) -> Keeper:
    """Return what keeps the past of a thread in a mode."""
    match mode:
        case "tree":
            return TreeKeeper(unit, thread)
        case "none" | "rolling":
            return NoKeeper()
        case _:
            assert_never(mode)


class TreeKeeper:
    """Lines of the tree."""

    def __init__(self, unit: Unit, thread: ThreadRow) -> None:
        self._shelf = Shelf(unit, thread)

    def fold(self, before: str, room: Room) -> str:
        """Return the past up to `room.cut`, from the lines of the one before."""
        return pasts.render(
            pasts.fold(_past(before), room.cut, target=room.target, cap=room.cap, weigh=self._shelf.weigh)
        )

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


class NoKeeper:
    """Nothing: what is not shown as it was said is not shown."""

    def fold(self, before: str, room: Room) -> str:  # noqa: ARG002 -- the interface
        """Return how far nothing is shown."""
        return str(room.cut) if room.cut else ""

    def grow(self, before: str, cut: int, *, budget: int, low: int) -> str:  # noqa: ARG002 -- the interface
        """Return how far nothing is shown."""
        return str(cut) if cut else ""

    def show(self, past: str) -> Seen | None:
        """Return that nothing stands for them."""
        if past and not past.isdecimal():
            return None
        return Seen(kind="left out", hidden=int(past or 0))

    def has_landed(self, past: str) -> bool:  # noqa: ARG002 -- the interface
        """Nothing was missing."""
        return False


def _past(text: str) -> pasts.Past:
    """Return a past; a damaged one is made anew."""
    return pasts.parse(text) or pasts.EMPTY
