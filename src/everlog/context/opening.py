"""Opening an epoch: where the words that are shown as they were said begin, and how much room is left for the rest. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from everlog.context.past import PAIR_BYTES
from everlog.context.rounds import Round

MIN_BUDGET_BYTES = 512
"""The smallest budget of a prompt's memory: the smallest view, and a little beside it."""

LEAST_BYTES = 256
"""The least that is left to the past: what the smallest view takes."""

INSIDE = 2, 3
"""To this share of the low mark memory is brought down where the cut is inside the open turn, half of it for words as they
were said. There an epoch lasts a dozen rounds, and each sends anew what the one before kept: at the whole mark a quarter
of all that is not read (`docs/caching.md`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How an epoch divides its budget."""

    cut: int
    """The first entry that is shown as it was said."""
    tail: int
    """Bytes that the closed part of what is shown from there takes."""
    budget: int
    """Bytes that memory may take."""
    target: int
    """Bytes that the past is merged down to."""
    cap: int
    """Bytes that the past may take at most."""


def divide(
    rounds: Sequence[Round],
    *,
    cut: int,
    open_at: int | None,
    budget: int,
    low: int,
    past: int | None,
    keep: int | None = None,
    recent: int = 0,
) -> Room:
    """Return where the tail of a new epoch begins: what fits is not folded, else the newest quarter of it stays.

    The newest round stays whatever its size if its turn is open, and the newest closed one if it takes half of the
    budget at most. Where that cuts the open turn, less is kept: a turn of many rounds is folded less often then.

    Args:
        rounds: what was said since the cut of the epoch before, oldest first, with the sizes it would have in a tail.
        cut: the cut of the epoch before.
        open_at: position of the open turn's first message; None if no turn is open.
        budget: bytes that memory may take.
        low: bytes to which memory is brought down.
        past: bytes that the past takes now; None where it is yet to be made.
        keep: bytes of memory up to which nothing is folded; `low` if None.
        recent: how many of the newest entries are shown as they were said if they fit below the low mark.
    """
    is_open = bool(rounds) and open_at is not None and rounds[-1].start >= open_at
    older = rounds[:-1] if is_open else rounds
    if past is not None and past + sum(one.size for one in older) <= (low if keep is None else keep):
        return _room(cut, _closed(rounds, open_at), 0, budget, budget)
    divided = partial(_divided, rounds, older, cut=cut, open_at=open_at, budget=budget, recent=recent)
    room = divided(low=low, share=budget // 4)
    if open_at is None or room.cut <= open_at:
        return room
    low = low * INSIDE[0] // INSIDE[1]
    return divided(low=low, share=min(budget // 4, low // 2))


def _divided(
    rounds: Sequence[Round],
    older: Sequence[Round],
    *,
    cut: int,
    open_at: int | None,
    budget: int,
    low: int,
    share: int,
    recent: int,
) -> Room:
    """Return the room beside the newest of the older rounds that take about `share` bytes at most."""
    most, taken, kept = max(0, budget - LEAST_BYTES - PAIR_BYTES), 0, len(older)
    while kept:
        one = older[kept - 1]
        is_newest = kept == len(older) and _is_closed(one, open_at)
        limit = budget // 2 if is_newest else max(share, low if rounds[-1].stop - one.stop < recent else 0)
        if taken + one.size > min(limit, most):
            break
        taken, kept = taken + one.size, kept - 1
    left = rounds[kept:]
    start = left[0].start if left else rounds[-1].stop if rounds else cut
    return _room(start, _closed(left, open_at), taken, budget, low)


def _is_closed(one: Round, open_at: int | None) -> bool:
    return open_at is None or one.start < open_at


def _closed(rounds: Sequence[Round], open_at: int | None) -> int:
    return sum(one.size for one in rounds if _is_closed(one, open_at))


def _room(cut: int, tail: int, taken: int, budget: int, low: int) -> Room:
    """Return the room beside a tail; `taken` is what of it, and of older rounds of the open turn, is brought down too."""
    most = max(LEAST_BYTES, budget - tail - PAIR_BYTES)
    target = min(most, max(LEAST_BYTES, low - taken))
    return Room(cut=cut, tail=tail, budget=budget, target=target, cap=min(most, max(target, budget * 5 // 8 - taken)))
