"""What a server counted since it began of requests of conversations: modes of memory, hidden rounds, prefixes."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from everlog.surfaces.proxy.remembering.prefixes import Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Counts, by name."""

    modes: Mapping[str, int] = field(default_factory=dict)
    """Requests, by the mode of memory that they had."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Those with memory, by what it made of them: `remembered`, or why it made nothing; and what was mended."""
    hidden_rounds: int = 0
    """Rounds of memory's tools that no client saw."""
    prefixes: Mapping[str, int] = field(default_factory=dict)
    """Requests that were compared with the one before, by who broke the prefix."""
    lost_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes that had to be read anew, by who broke the prefix."""
    degraded: Mapping[str, int] = field(default_factory=dict)
    """Trouble of memory that a chat went on without, by where it was: prepare, derive."""


class Totals:
    """Counts of each tenant, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: Counter[tuple[str, str, str]] = Counter()

    def asked(self, tenant: str, mode: str) -> None:
        """Count a request."""
        with self._lock:
            self._sums[tenant, "modes", mode] += 1

    def came(self, tenant: str, outcome: str) -> None:
        """Count a request in a mode with memory by what came of it."""
        with self._lock:
            self._sums[tenant, "outcomes", outcome] += 1

    def hid(self, tenant: str, rounds: int) -> None:
        """Count the rounds of an answer that its client did not see."""
        with self._lock:
            self._sums[tenant, "hidden_rounds", ""] += rounds

    def degraded(self, tenant: str, place: str) -> None:
        """Count trouble that a chat goes on without."""
        with self._lock:
            self._sums[tenant, "degraded", place] += 1

    def judged(self, tenant: str, prefix: Prefix | None) -> None:
        """Count what became of a prefix; None where there was none before."""
        if prefix is not None:
            with self._lock:
                self._sums[tenant, "prefixes", prefix.who] += 1
                self._sums[tenant, "lost_bytes", prefix.who] += prefix.lost_bytes

    def of(self, tenant: str | None) -> Counted:
        """Return what was counted of a tenant; of all together for None."""
        found: dict[str, Counter[str]] = {}
        with self._lock:
            for (whose, kind, name), number in sorted(self._sums.items()):
                if tenant in {None, whose} and number:
                    found.setdefault(kind, Counter())[name] += number
        return Counted(
            modes=dict(found.get("modes", {})),
            outcomes=dict(found.get("outcomes", {})),
            hidden_rounds=sum(found.get("hidden_rounds", Counter()).values()),
            prefixes=dict(found.get("prefixes", {})),
            lost_bytes=dict(found.get("lost_bytes", {})),
            degraded=dict(found.get("degraded", {})),
        )
