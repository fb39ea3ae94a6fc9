"""Who comes first with a prefix goes alone, so that a provider writes it into its cache once and the others read it.

A cache that is being written cannot be read: eight requests that begin alike, sent at once, would each pay for writing.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_S = 30.0
"""How long the others wait for the first; then they go all the same."""
KNOWN = 32
"""How many prefixes are remembered."""


class Priming:
    """Which prefixes are on their way for the first time. Thread-safe."""

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._begun: OrderedDict[int, threading.Event] = OrderedDict()

    @contextmanager
    def of(self, prefix: tuple[str, ...]) -> Iterator[None]:
        """Do a request that begins so; where another is the first to, wait for its end."""
        if not prefix:
            yield
            return
        name = hash(prefix)
        with self._lock:
            first = name not in self._begun
            over = self._begun.setdefault(name, threading.Event())
            self._begun.move_to_end(name)
            while len(self._begun) > KNOWN:
                self._begun.popitem(last=False)
        if not first:
            over.wait(self._wait_s)
            yield
            return
        try:
            yield
        except BaseException:
            with self._lock:
                self._begun.pop(name, None)  # nothing was written, so somebody else is the first
            raise
        finally:
            over.set()
