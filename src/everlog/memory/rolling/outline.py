"""A summary as values: what is carried over word for word, what is replaced, and what yields when there is no room.

Decisions, commitments and uncertainties are only added to; a commitment can be closed. Nothing here is cut inside an
item: what goes, goes whole, and leaves a pointer to its message.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

GUIDE = ("Topic horizon", "Last completed", "Current task", "Next steps")
"""Lines of the guide."""

ITEM_CHARS = 500
"""The most that one item may say."""

_POINTERS = 10
"""All pointers take one part in so many of the cap."""
_TOOLS = 8
"""Lines of tool calls take one part in so many of the cap, the newest first."""
_FLOOR = 20
"""Guide and state shrink to one part in so many of the cap each, before anything that is carried over goes."""

Pointers = tuple[tuple[int, int], ...]
"""Stretches of messages, first and last, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that is carried over."""

    text: str
    source: int | None
    """The message that says it, where the model named one that it was shown."""
    first: int
    """The first message of the piece that it was found in."""
    closed: str | None = None
    """Why a commitment is one no longer."""
    closed_by: int | None = None
    """The message that says so."""

    @property
    def pointer(self) -> tuple[int, int]:
        """The place in the log that it comes from, as near as is known."""
        at = self.first if self.source is None else self.source
        return at, at


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A summary."""

    guide: tuple[str, str, str, str] = ("", "", "", "")
    topics: tuple[str, ...] = ()
    decisions: tuple[Item, ...] = ()
    commitments: tuple[Item, ...] = ()
    uncertainties: tuple[Item, ...] = ()
    tools: tuple[str, ...] = ()
    """One line for each call, the oldest first."""
    strands: tuple[Item, ...] = ()
    """What the model left out on purpose."""
    pointers: Pointers = ()
    """What there was no room for, and pieces that could not be summarised."""
    state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A commitment that is kept, dropped or refused."""

    item: int
    """Its place among the commitments."""
    reason: str
    source: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What a model says of a piece: new items, and how things stand now."""

    guide: tuple[str, str, str, str] = ("", "", "", "")
    topics: tuple[str, ...] = ()
    decisions: tuple[Item, ...] = ()
    commitments: tuple[Item, ...] = ()
    uncertainties: tuple[Item, ...] = ()
    closings: tuple[Closing, ...] = ()
    strands: tuple[Item, ...] = ()
    state: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said at all."""
        return self == Additions()


Render = Callable[[Outline], str]


def merged(before: Outline, new: Additions, tools: Sequence[str], render: Render, cap: int) -> Outline:
    """Return the summary that goes on from another one, within the cap."""
    commitments = list(before.commitments)
    for closing in new.closings:
        item = commitments[closing.item]
        if item.closed is None:
            commitments[closing.item] = replace(item, closed=closing.reason, closed_by=closing.source)
    outline = Outline(
        guide=tuple(one or old for one, old in zip(new.guide, before.guide, strict=True)),  # type: ignore[arg-type]
        topics=new.topics or before.topics,
        decisions=_added(before.decisions, new.decisions),
        commitments=_added(tuple(commitments), new.commitments),
        uncertainties=_added(before.uncertainties, new.uncertainties),
        tools=_newest((*before.tools, *tools), cap // _TOOLS),
        strands=_added(before.strands, new.strands),
        pointers=before.pointers,
        state=new.state or before.state,
    )
    return fitted(outline, render, cap)


def unsaid(before: Outline, start: int, stop: int, render: Render, cap: int) -> Outline:
    """Return the summary that only points at a piece of which none could be made."""
    return fitted(_pointing(before, [(start, stop - 1)], cap), render, cap)


def fitted(outline: Outline, render: Render, cap: int) -> Outline:
    """Return as much of a summary as fits; what is carried over goes last, the oldest first."""
    while len(render(outline)) > cap:
        smaller = _smaller(outline, cap)
        if smaller is None:
            return Outline(pointers=_bounded(outline.pointers, 0))
        outline = smaller
    return outline


def _smaller(outline: Outline, cap: int) -> Outline | None:
    floor = cap // _FLOOR
    if outline.tools:
        return replace(outline, tools=outline.tools[1:])
    if outline.topics:
        return replace(outline, topics=outline.topics[1:])
    if outline.strands:
        return _demoted(outline, "strands", 0, cap)
    if len(outline.state) > floor:
        return replace(outline, state=shortened(outline.state, floor))
    if sum(map(len, outline.guide)) > floor:
        short = tuple(shortened(line, floor // len(GUIDE)) for line in outline.guide)
        return replace(outline, guide=short)  # type: ignore[arg-type]
    closed = [n for n, item in enumerate(outline.commitments) if item.closed is not None]
    if closed:
        return _demoted(outline, "commitments", min(closed, key=lambda n: outline.commitments[n].pointer), cap)
    left = [
        (item.pointer, rank, name, n)
        for rank, name in enumerate(("decisions", "uncertainties", "commitments"))
        for n, item in enumerate(getattr(outline, name))
    ]
    if left:
        *_, name, n = min(left)
        return _demoted(outline, name, n, cap)
    return None


def _demoted(outline: Outline, name: str, n: int, cap: int) -> Outline:
    """Return a summary in which an item is only pointed at."""
    items: tuple[Item, ...] = getattr(outline, name)
    without: dict[str, tuple[Item, ...]] = {name: items[:n] + items[n + 1 :]}
    return _pointing(replace(outline, **without), [items[n].pointer], cap)  # type: ignore[arg-type]


def _pointing(outline: Outline, more: Iterable[tuple[int, int]], cap: int) -> Outline:
    return replace(outline, pointers=_bounded(united((*outline.pointers, *more)), cap // _POINTERS))


def united(pointers: Iterable[tuple[int, int]]) -> Pointers:
    """Return pointers in order, those that meet made one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(pointers):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


def pointed(pointers: Pointers) -> str:
    """Return pointers as they are shown."""
    return " ".join(f"[#{first}]" if first == last else f"[#{first}–#{last}]" for first, last in pointers)


def _bounded(pointers: Pointers, limit: int) -> Pointers:
    """Return pointers that take so many characters at most: those that stand nearest are made one, the oldest first."""
    while len(pointers) > 1 and len(pointed(pointers)) > limit:
        n = min(range(len(pointers) - 1), key=lambda n: (pointers[n + 1][0] - pointers[n][1], n))
        pointers = (*pointers[:n], (pointers[n][0], pointers[n + 1][1]), *pointers[n + 2 :])
    return pointers


def _added(before: tuple[Item, ...], new: Sequence[Item]) -> tuple[Item, ...]:
    """Return items with new ones behind them; what is there already is not added again."""
    found = list(before)
    known = {_same(item.text) for item in before}
    for item in new:
        if _same(item.text) not in known:
            known.add(_same(item.text))
            found.append(item)
    return tuple(found)


def _same(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _newest(lines: tuple[str, ...], limit: int) -> tuple[str, ...]:
    size, n = 0, len(lines)
    while n and size + len(lines[n - 1]) + 3 <= limit:
        n -= 1
        size += len(lines[n]) + 3
    return lines[n:]


def shortened(text: str, chars: int) -> str:
    """Return text in at most so many characters, cut between words where it can be."""
    if len(text) <= chars:
        return text
    head = text[: max(0, chars - 2)]
    words = head.rpartition(" ")[0]
    return f"{words if len(words) * 2 > len(head) else head} …"[: max(0, chars)]
