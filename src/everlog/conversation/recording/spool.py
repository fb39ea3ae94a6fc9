"""What could not be recorded yet: pieces of turns that wait in memory, in order, until the database takes them.

Each stays as it was when it was first tried, so that it can be told whether that try was stored unseen.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from everlog.chat.ledger import Attempt
from everlog.log import NewTurn, TurnState
from everlog.messages import Media, Message
from everlog.tokens import size_bytes

LIMIT_BYTES = 16_000_000
"""What may wait before a turn is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a turn begins with, or a piece of the rest of it, that waits."""

    turn: NewTurn
    """A piece has a client key too, in case it becomes a turn of its own, and the origin of its turn."""
    of: str
    """Name of the turn, the same for all pieces of it."""
    number: int | None = None
    """Number of the turn; None where its beginning waits too."""
    after: int | None = None
    """Position before which no part of the piece can stand; None while what is before it in its turn waits too."""
    unpaid: tuple[Attempt, ...] = ()
    """What is to be paid with it."""


class Spool:
    """A bounded queue. Thread-safe; only one turn at a time adds to it."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._waiting: deque[Waiting] = deque()

    @property
    def waiting(self) -> Sequence[Waiting]:
        """What waits, oldest first."""
        with self._lock:
            return tuple(self._waiting)

    @property
    def first(self) -> Waiting | None:
        """The oldest that waits."""
        with self._lock:
            return self._waiting[0] if self._waiting else None

    @property
    def messages(self) -> int:
        """How many messages wait."""
        return sum(len(one.turn.messages) for one in self.waiting)

    @property
    def is_full(self) -> bool:
        """Whether no further turn may begin."""
        return sum(weight(message) for one in self.waiting for message in one.turn.messages) >= self._limit

    def has(self, name: str) -> bool:
        """Whether anything of a turn waits."""
        return any(one.of == name for one in self.waiting)

    def add(self, one: Waiting) -> None:
        """Have something wait behind all else."""
        with self._lock:
            self._waiting.append(one)

    def put_back(self, earlier: Sequence[Waiting]) -> None:
        """Put what waited before in front of all else."""
        with self._lock:
            self._waiting.extendleft(reversed(earlier))

    def abort(self, name: str) -> None:
        """Have the beginning of a turn that waits stand for a turn that was given up."""
        with self._lock:
            for n, one in enumerate(self._waiting):
                if one.of == name and not one.turn.more:
                    self._waiting[n] = replace(one, turn=replace(one.turn, state=TurnState.ABORTED))

    def clear(self) -> list[Waiting]:
        """Forget all of it, and return it."""
        with self._lock:
            dropped, self._waiting = list(self._waiting), deque()
        return dropped

    def drop(self, which: Callable[[Waiting], bool]) -> list[Waiting]:
        """Forget some of it, and return that."""
        with self._lock:
            dropped = [one for one in self._waiting if which(one)]
            self._waiting = deque(one for one in self._waiting if not which(one))
        return dropped

    def drop_first(self, done: Waiting, *, number: int, stop: int) -> None:
        """Forget the oldest, which is recorded up to a position, in a turn; what goes on with that turn goes on from there."""
        with self._lock:
            if not self._waiting or self._waiting[0] is not done:
                return  # it was erased meanwhile
            self._waiting.popleft()
            if self._waiting and self._waiting[0].of == done.of and self._waiting[0].turn.more:
                self._waiting[0] = replace(self._waiting[0], number=number, after=stop)


def weight(message: Message) -> int:
    """Return about how many bytes a message takes."""
    media = sum(len(part.content or b"") for part in message.parts if isinstance(part, Media))
    return size_bytes(message.text) + media + 100
