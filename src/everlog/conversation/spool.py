"""What could not be recorded yet: turns that wait in memory, in order, until the database takes them."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from everlog.log import NewTurn
from everlog.messages import Media, Message
from everlog.tokens import size_bytes

LIMIT_BYTES = 16_000_000
"""What may wait before a turn is refused."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn, or the rest of one, that waits."""

    turn: NewTurn
    expected: int | None = None
    """Where the rest of a turn begins: what stands there already is not stored again. None where what is before it waits
    too."""
    number: int | None = None
    """Number of the turn whose rest it is, as far as it is known."""


class Spool:
    """A bounded queue. Thread-safe; only one turn at a time adds to it."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._waiting: list[Waiting] = []

    @property
    def waiting(self) -> Sequence[Waiting]:
        """What waits, oldest first."""
        with self._lock:
            return tuple(self._waiting)

    @property
    def messages(self) -> int:
        """How many messages wait."""
        return sum(len(one.turn.messages) for one in self.waiting)

    @property
    def is_full(self) -> bool:
        """Whether no further turn may begin."""
        return sum(weight(message) for one in self.waiting for message in one.turn.messages) >= self._limit

    def add(self, turn: NewTurn, expected: int | None = None, number: int | None = None) -> None:
        """Have a turn, or the rest of one, wait; what goes on with a rest becomes part of it."""
        with self._lock:
            last = self._waiting[-1] if self._waiting else None
            if turn.more and last is not None and last.turn.more:
                grown = replace(last.turn, messages=last.turn.messages + turn.messages, state=turn.state)
                self._waiting[-1] = replace(last, turn=grown)
            else:
                self._waiting.append(Waiting(turn, expected, number))

    def put_back(self, earlier: Sequence[Waiting]) -> None:
        """Put what waited before in front of all else."""
        with self._lock:
            self._waiting[:0] = earlier

    def clear(self) -> None:
        """Forget all of it: it is kept elsewhere."""
        with self._lock:
            self._waiting.clear()

    def drop_first(self) -> None:
        """Forget the oldest: it is recorded."""
        with self._lock:
            del self._waiting[0]


def weight(message: Message) -> int:
    """Return about how many bytes a message takes."""
    media = sum(len(part.content or b"") for part in message.parts if isinstance(part, Media))
    return size_bytes(message.text) + media + 100
