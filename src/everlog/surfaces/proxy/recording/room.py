"""How much of requests and answers is held in memory so that it can be kept: bounded, however many send how much."""

from typing import Protocol
from weakref import WeakSet

MOST_HELD = 256 * 2**20
"""Bytes of requests and answers that are held at a time; what comes while there is no room is not kept."""

SMALL = 64 * 1024
"""Up to how many bytes something is always held: the number of such is bounded elsewhere."""

STEP = 2**20
"""After how many more bytes of one answer it is looked again whether there is room."""

MOST_SAID = 20_000
"""Messages and parts of messages in one request; one of more was made to be long, and nothing of it is kept."""


class Holder(Protocol):
    """What holds something, for as long as it is there."""

    @property
    def held_bytes(self) -> int:
        """How much that is now."""
        ...


class Room:
    """Room for what is held. It belongs to one thread."""

    def __init__(self, most_bytes: int) -> None:
        """Begin empty."""
        self._most = most_bytes
        self._holders: WeakSet[Holder] = WeakSet()

    def enter(self, holder: Holder) -> None:
        """Count what somebody holds from here on, until it is gone."""
        self._holders.add(holder)

    def has(self, size_bytes: int) -> bool:
        """Return whether so much more can be held."""
        return size_bytes <= SMALL or sum(one.held_bytes for one in self._holders) + size_bytes <= self._most
