"""Whether a compactor's answers are of any use, and how often it is still asked where they are not.

A step that is settled without one usable answer was paid for in vain. After a few of these in a row, runs that nobody asked for
ask the compactor once in a while only, with one request, until an answer can be used. The count is kept in the row of the subject, under a
name that goes with the model, so that a memory that is attached anew for each turn knows it, and another model is asked at
once; and for all subjects of a process in its `Calls`.
"""

from zlib import crc32

from everlog.errors import Mistake, ProviderTrouble
from everlog.memory.interface import Accept, Again, Failure, Reply, Verdict
from everlog.pump.calls import Calls
from everlog.pump.claim import PATIENCE, Lease

UNUSABLE = "unusable"
"""Why a run ends whose compactor gives nothing that can be used."""

LONGEST_REST = 64
"""Of so many runs at least one asks."""


class Usefulness:
    """What is known in one run of what a compactor's answers are worth."""

    def __init__(self, calls: Calls, lease: Lease, *, sparing: bool) -> None:
        """Go on from what earlier runs and other subjects found.

        Args:
            calls: who is asked.
            lease: of the subject, with how the run before ended.
            sparing: whether to ask less, or nothing, where answers are of no use.
        """
        self._calls = calls
        self._code = f"{UNUSABLE} {crc32(calls.compactor.model.encode()):08x}"
        self._is_ours = lease.reason == self._code
        self._known = lease.failures if self._is_ours else 0
        self._failures = lease.failures
        self.bad = 0
        """Answers in a row, at the end, that could not be used."""
        self.found = False
        """Whether an answer could be used."""
        self._wasted = 0
        in_vain = max(self._known, calls.wasted)
        rest = in_vain - PATIENCE
        self._sparing = sparing
        self.most: int | None = None
        """How many steps may be asked about: None for any number."""
        if sparing and rest >= 0:
            is_time = rest & (rest - 1) == 0 or rest % LONGEST_REST == 0
            self.most = 1 if is_time else 0
            calls.passed_over(in_vain)

    @property
    def ends(self) -> bool:
        """Whether enough was paid in vain for now."""
        enough = self.most is not None or self._known + self._wasted >= PATIENCE
        return self._sparing and self.bad > 0 and enough

    def learn(self, verdict: Verdict, reply: Reply) -> None:
        """Take in what a reply was worth; a refusal is about what was asked, and is not paid for."""
        if isinstance(reply, Failure) and reply.kind == "refused":
            return
        match verdict:
            case Again():
                self.bad += 1
            case Accept(fallback=True):
                self.bad += 1
                self._wasted += 1
                self._calls.note(usable=False)
            case Accept():
                self.bad = self._wasted = self._known = 0
                self.found, self.most = True, None
                self._calls.note(usable=True)
            case _:
                pass

    def outcome(self, reason: str | None, *, is_done: bool = False) -> tuple[int, str | None]:
        """Return how many failures in a row a run leaves behind that ended for a reason, and what they are called."""
        in_vain = self._known + self._wasted
        if reason == UNUSABLE:
            return max(in_vain, self._known + 1, PATIENCE if self.most is not None else 0), self._code
        if reason is not None:
            return self._failures + 1, reason
        if in_vain:
            return in_vain, self._code
        return (0 if is_done or self._is_ours else self._failures), None


def name_of(error: BaseException) -> str:
    """Return the class of an error; of a compactor that cannot be asked, the class of what its provider says."""
    cause = error.__cause__
    return type(cause if isinstance(error, Mistake) and isinstance(cause, ProviderTrouble) else error).__name__
