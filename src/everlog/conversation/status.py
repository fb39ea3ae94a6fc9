"""How a memory is: what it could not do, what waits, and what its next prompt depends on. Counts, never text."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus:
    """A memory at one moment."""

    trouble: Mapping[str, int]
    """How often a turn went on in spite of trouble: `prepare`, `record`, `derive`."""
    last_error: str | None
    """The class of the last of it."""
    waiting: int
    """Messages that could not be recorded yet."""
    refused: int
    """Messages that the database will never take, such as an id of 300 characters; kept in a file beside it, where there
    may be one."""
    is_open: bool
    """Whether a turn waits for somebody to approve a call."""
    can_resume: bool
    """Whether `resume()` goes on with the last turn: it failed, broke off, was left by its process, waits for approvals,
    or is under way."""
    epoch: int | None
    """Number of the epoch that the last prompt was in; None before the first, or where it was made without the database."""
    reason: str | None
    """Why that epoch opened."""
    turns_when: str | None
    """What would open the next one."""
    memory_bytes: int
    """What memory took in the last prompt."""
    hidden: int
    """How many messages nothing in it stood for."""
    behind: int
    """How many of these a summary is to stand for, and does not yet: the compactor is behind, or gives nothing of use."""
    placeholders: int
    """Lines in it whose words were not built yet."""
    unbuilt: int
    """About how many lines are left to build, as the last run in this process left them."""
    hindrance: str | None
    """What kept the last run in this process from building all, in words, such as a key that was refused; None if nothing
    did."""
    bad_answers: int
    """How many answers of the compactor in a row could not be used, in this process."""

    @property
    def is_well(self) -> bool:
        """Whether nothing is missing."""
        missing = self.waiting or self.refused or self.behind or self.hindrance
        return not missing and not any(self.trouble.values())
