"""How a conversation is summarised for prompts of a budget: when, how far, and how large a summary may be.

Measured by `benchmarks/summaries` (`docs/decisions/0012-rolling.md`): tokens that the compactor reads for each message, and
what prompts show. Everything but the room follows from the budget that was asked for, so that the same summaries come
again; how much room a prompt really has is learned from the provider, and only decides when a piece is due.
"""

from collections.abc import Callable

from everlog import context
from everlog.memory.interface import Subject
from everlog.memory.rolling import Settings
from everlog.memory.rolling.settings import CAP_CHARS
from everlog.store import Unit

LEAST_THRESHOLD, RECENT = 100, 20
"""Tokens from which on a conversation is summarised, at least, and half of the budget where that is more and there is room;
its newest messages, which are not, if there is room."""

LEAST_CAP = 500
"""Characters that a summary may have at least; a quarter of the budget where that is more."""

ROOM = 4
"""What is not summarised may take one part in so many of the budget, as much as an epoch keeps of it when it opens."""

Known = Callable[[], int | None]
"""Gives the bytes that memory may take in the newest prompt; None before the first."""


def settings_for(budget_tokens: int, budget_bytes: int | None = None) -> Settings:
    """Return how a conversation is summarised.

    Args:
        budget_tokens: what memory may take of a prompt, as it was asked for.
        budget_bytes: what that comes to; four bytes a token if None.
    """
    cap = max(LEAST_CAP, min(CAP_CHARS, budget_tokens))
    return Settings(
        threshold_tokens=max(LEAST_THRESHOLD, budget_tokens // 2),
        min_recent=RECENT,
        cap_chars=cap,
        cap_bytes=max(LEAST_CAP, budget_tokens),
        room_bytes=max(1, (budget_bytes or budget_tokens * 4) // ROOM),
    )


def settings_in_use(unit: Unit, subject: Subject) -> Settings:
    """Return how a thread is summarised by somebody else than who talks: for the prompts that were last made of it."""
    found = context.in_use(unit, subject.key, "rolling")
    if found is None:
        return Settings()
    budget, of, epoch = found
    return settings_for(budget if of == "tokens" else budget // 4, epoch.budget)
