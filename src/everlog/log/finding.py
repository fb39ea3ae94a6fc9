"""Finding threads by what a history says: by its chain, a hash over all of it up to a message.

Equal chains are equal histories, so whoever sends one has shown the whole of it. They are looked for among the threads of
one principal only: what is common to two people must not lead one of them to the other's conversation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from everlog.log import rows
from everlog.log.threads import ThreadRow
from everlog.store import Unit

LIMIT = 32
"""Places that are worth looking at: where many threads say the same, the newest."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a history stands in the log."""

    thread: str
    """Id of the thread under which the entry is stored; forks may show it too."""
    i: int
    """Position of its last message that is not quiet."""
    chain: bytes


def holding(unit: Unit, chains: Sequence[bytes], *, principal: str) -> list[Place]:
    """Return where histories with some chains stand in a principal's threads, the longest first, of equals the newest."""
    if not chains:
        return []
    found = unit.rows(rows.HOLDING, chains=list(chains), principal=principal, limit=LIMIT)
    return [Place(thread, i, bytes(chain)) for thread, i, chain in found]


def is_answered(unit: Unit, thread: ThreadRow, stop: int) -> bool:
    """Return whether an entry below `stop` is known to be a model's answer.

    What a client puts into its histories in a model's name, such as "Got it.", is the same in all of them. The newest
    entries are looked at first: a long past that came from elsewhere has no answer that is known.
    """
    spans = reversed([*thread.spans(0, stop)])
    return any(unit.row(rows.LAST_ANSWER, thread=owner, start=begin, stop=end) for owner, begin, end in spans)
