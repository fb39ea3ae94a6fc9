"""What models refused: known to this process, so that the next request goes up without it at once."""

import threading
from collections import OrderedDict

from everlog.surfaces.proxy.remembering.mending import LASTING, OF_THREAD, Reason

MOST = 4096
"""Models and threads that are remembered; the one that was asked for longest ago goes first."""


class Learned:
    """What was refused, by model and by thread; for any thread of the server."""

    def __init__(self, most: int = MOST) -> None:
        """Begin with nothing; `most` is how many models and threads are remembered."""
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, ...], frozenset[Reason]] = OrderedDict()
        self._windows: OrderedDict[tuple[str, str], int] = OrderedDict()

    def of(self, upstream: str, model: str, thread: str) -> frozenset[Reason]:
        """Return what this model refuses, and what it refused of this thread."""
        with self._lock:
            return self._of((upstream, model)) | self._of((upstream, model, thread))

    def note(self, upstream: str, model: str, thread: str, reason: Reason) -> None:
        """Remember that a second try without this went well, if the model will refuse it again."""
        if reason not in LASTING | OF_THREAD:
            return
        key = (upstream, model) if reason in LASTING else (upstream, model, thread)
        with self._lock:
            self._known[key] = self._of(key) | {reason}
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def outgrew(self, upstream: str, model: str, tokens: int) -> None:
        """Remember that a model takes in so many tokens at most, of four bytes each."""
        with self._lock:
            known = self._windows.pop((upstream, model), tokens)
            self._windows[upstream, model] = min(known, tokens)
            while len(self._windows) > self._most:
                self._windows.popitem(last=False)

    def window(self, upstream: str, model: str) -> int | None:
        """Return the most tokens that a model takes in; None where it took all so far."""
        with self._lock:
            return self._windows.get((upstream, model))

    def _of(self, key: tuple[str, ...]) -> frozenset[Reason]:
        found = self._known.get(key)
        if found is None:
            return frozenset()
        self._known.move_to_end(key)
        return found
