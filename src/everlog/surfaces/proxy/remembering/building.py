"""Lines and summaries of threads that near their threshold, built beside the requests, in a thread of the server.

One thread for all: what it does for one conversation waits for nobody, and nobody waits for it.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from everlog.clock import monotonic
from everlog.context import Mode
from everlog.conversation.pumping import WARM_S, memory_of
from everlog.memory.interface import Compactor
from everlog.pump import Options, run
from everlog.store import Store
from everlog.surfaces.proxy.remembering.totals import Totals

log = logging.getLogger(__name__)

CLOSE_S = 5.0
"""How long the end waits for what is being built, in seconds."""

SPARING = Options(sparing=True)


@dataclass(frozen=True, slots=True)
class Due:
    """Something to build."""

    tenant: str
    thread: str
    mode: Mode
    budget_tokens: int


class Builder:
    """Builds what prompts need. Thread-safe."""

    def __init__(self, store: Store, compactor: Compactor | None, totals: Totals) -> None:
        """Build with a compactor; with None somebody else does it. What fails is counted in `totals`."""
        self._store = store
        self._compactor = compactor
        self._due: dict[Due, None] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._totals = totals

    @property
    def summarises(self) -> bool:
        """Whether a model is there that writes summaries."""
        return self._compactor is not None and not getattr(self._compactor, "inline", False)

    def kick(self, due: Due) -> None:
        """Have something built, soon."""
        if self._compactor is None or (due.mode == "rolling" and not self.summarises):
            return
        with self._changed:
            if self._is_closing:
                return
            self._due[due] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="everlog-lines", daemon=True)
                self._thread.start()
            self._changed.notify()

    def warm(self, due: Due) -> None:
        """Build something here, for a while, if code does it: a past that was there before its memory."""
        if self._compactor is not None and not self.summarises:
            until = monotonic() + WARM_S
            self._run(due, lambda: monotonic() > until)

    def close(self) -> None:
        """Build nothing more."""
        with self._changed:
            self._is_closing = True
            self._due.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._due or self._is_closing):
                    self._changed.wait()
                if self._is_closing:
                    return
                due = next(iter(self._due))
                del self._due[due]
            self._run(due, lambda: self._is_closing)

    def _run(self, due: Due, stop: Callable[[], bool]) -> None:
        assert self._compactor is not None
        memory = memory_of(due.mode, self._compactor, due.budget_tokens, lambda: None)
        if memory is None:
            return
        try:
            run(self._store, due.tenant, due.thread, memory, self._compactor, options=SPARING, stop=stop)
        except Exception as error:  # noqa: BLE001 -- memory trouble never breaks a chat; it is counted
            self._totals.degraded(due.tenant, "derive")
            log.warning("lines could not be built", extra={"error": type(error).__name__})
