"""How fast requests may come under a key: at most so many in any sixty seconds, counted by each process for itself."""

from collections import deque

WINDOW_S = 60.0


class Pace:
    """The requests of the last minute, by key."""

    def __init__(self) -> None:
        self._at: dict[str, deque[float]] = {}

    def admit(self, key: str, most: int, now: float) -> float | None:
        """Count a request and return None; or return in how many seconds the next one may come, and count nothing.

        Args:
            key: id of the key.
            most: requests that may come in a minute.
            now: seconds of a clock that only goes forward.
        """
        at = self._at.setdefault(key, deque())
        while at and at[0] <= now - WINDOW_S:
            at.popleft()
        if len(at) >= most:
            return at[len(at) - most] + WINDOW_S - now
        at.append(now)
        return None

    def forget(self, now: float) -> None:
        """Drop keys without a request in the last minute."""
        for key in [key for key, at in self._at.items() if not at or at[-1] <= now - WINDOW_S]:
            del self._at[key]
