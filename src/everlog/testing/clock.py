"""A clock that moves only when told to, and random bytes that are the same in every run."""

import hashlib
import threading
from datetime import UTC, datetime, timedelta

from everlog.clock import micros

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class FrozenClock:
    """A `Clock` for tests: ids, keys and times are a function of its arguments. Thread-safe.

    Not for a test of several processes: a copy of it draws the same "random" bytes again.
    """

    def __init__(self, now: datetime = START, *, step: timedelta = timedelta(0), seed: int = 0) -> None:
        """Stand at `now`.

        Args:
            now: an aware datetime.
            step: how far each reading moves the clock on; nothing, by default.
            seed: chooses the random bytes.

        Raises:
            ValueError: `now` has no zone.
        """
        micros(now)
        self._now = now.astimezone(UTC)
        self._step = step
        self._seed = seed
        self._drawn = 0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the time, and step on."""
        with self._lock:
            now = self._now
            self._now += self._step
        return now

    def random(self, size: int) -> bytes:
        """Return the next `size` bytes (SHAKE-256 over seed and number of the draw)."""
        with self._lock:
            number, self._drawn = self._drawn, self._drawn + 1
        return hashlib.shake_256(b"%d %d" % (self._seed, number)).digest(size)

    def advance(self, by: timedelta) -> None:
        """Move on, or back where `by` is negative."""
        with self._lock:
            self._now += by

    def set(self, now: datetime) -> None:
        """Stand at another time.

        Raises:
            ValueError: `now` has no zone.
        """
        micros(now)
        with self._lock:
            self._now = now.astimezone(UTC)
