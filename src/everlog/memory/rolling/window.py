"""What of a conversation is shown as it is, and what a summary stands for: the check at every new message. Pure.

total tokens > threshold?  no: all of it is shown as it is.
Else the newest summary is reused if the gap between it and the newest messages is small, and with both it fits.
Else more is to be compressed; until that is done the best summary there is stands in, or nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from everlog.memory.rolling.settings import Settings
from everlog.memory.rolling.weights import Weight, boundaries, tokens, torn


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands:
    """A summary that there is: what it stands for, and its size."""

    upto: int
    """It stands for entries `[0, upto)`."""
    chars: int
    """Characters of the text that is put in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plaintext:
    """What to show."""

    start: int
    """Entries from here on are shown as they are; what comes before is in the summary over `[0, start)`."""
    act: Literal["none", "reuse", "compress"]
    """Whether nothing is to be done, a summary is good enough, or one that reaches further is wanted."""
    upto: int = 0
    """How far a summary may reach now: everything from here on is always shown as it is."""
    kept: tuple[int, ...] = ()
    """System messages before `start`, which no summary touches."""


def window(
    weights: Sequence[Weight], settings: Settings, summaries: Sequence[Stands], *, chars_before: int = 0
) -> Plaintext:
    """Decide what of a conversation is shown.

    Args:
        weights: its messages, oldest first; those that the shortest of the summaries stands for may be left out.
        settings: of the thread.
        summaries: the ones there are.
        chars_before: characters of the messages that are left out.
    """
    total = chars_before + sum(weight.chars for weight in weights)
    if not weights or tokens(total) <= settings.threshold_tokens:
        return Plaintext(start=0, act="none")
    upto = _reach(weights, settings)
    best = _best(weights, [one for one in summaries if one.upto <= upto], chars_before)
    if best is None:
        return Plaintext(start=0, act="compress" if upto > weights[0].i else "none", upto=upto)
    kept = tuple(weight.i for weight in weights if weight.i < best.upto and weight.kind == "system")
    rest = sum(weight.chars for weight in weights if weight.i >= best.upto)
    gap = sum(best.upto <= weight.i < upto for weight in weights)
    good = gap <= settings.min_recent and tokens(best.chars + rest) <= settings.threshold_tokens
    return Plaintext(start=best.upto, act="reuse" if good or not gap else "compress", upto=upto, kept=kept)


def _reach(weights: Sequence[Weight], settings: Settings) -> int:
    """Return where the part begins that is always shown: so many messages, the user's newest, and no half of a pair."""
    end = weights[-1].i + 1
    newest = max((weight.i for weight in weights if weight.kind == "user"), default=end)
    limit = min(end - settings.min_recent, newest)
    parted = torn(weights)
    return max((at for at in boundaries(weights) if at <= limit and at not in parted), default=weights[0].i)


def _best(weights: Sequence[Weight], summaries: Sequence[Stands], chars_before: int) -> Stands | None:
    """Return the summary that reaches furthest, of those that part no pair and are smaller than what they stand for."""
    parted = torn(weights)
    for one in sorted(summaries, key=lambda one: one.upto, reverse=True):
        hidden = chars_before + sum(weight.chars for weight in weights if weight.i < one.upto)
        if one.upto not in parted and one.chars < hidden:
            return one
    return None
