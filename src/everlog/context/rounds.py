"""A stretch of the log cut where a prompt may be cut: at turns, and inside them at rounds whose calls are all answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from everlog.messages import Entry
from everlog.protocols.exchange import MODEL


@dataclass(frozen=True, slots=True)
class Round:
    """Entries that stay together."""

    start: int
    stop: int
    turn: int
    begins: bool
    """Whether a turn begins with it."""
    size: int
    """Bytes that it would count for."""


def rounds(entries: Sequence[Entry], weigh: Callable[[Entry], int]) -> list[Round]:
    """Cut entries that follow each other, oldest first."""
    found: list[Round] = []
    begun: list[int] = []
    waiting: set[str] = set()
    for n, entry in enumerate(entries):
        before = entries[n - 1] if n else None
        is_turn = before is None or before.turn != entry.turn
        answered = before is not None and before.kind == "tool_result" and not waiting
        if is_turn or (answered and entry.kind in MODEL):
            begun.append(n)
        if is_turn:
            waiting = set()
        message = entry.message
        if message.call is not None:
            waiting.add(message.call.call_id)
        if message.result is not None:
            waiting.discard(message.result.call_id)
    for start, stop in pairwise([*begun, len(entries)]):
        first = entries[start]
        begins = start > 0 and entries[start - 1].turn != first.turn
        size = sum(weigh(entry) for entry in entries[start:stop])
        found.append(Round(first.i, entries[stop - 1].i + 1, first.turn, begins or first.kind == "user", size))
    return found
