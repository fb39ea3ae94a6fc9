"""Trouble that a chat goes on in spite of: where it was met, how often, and what it was last. Counts, never text."""

import logging
import threading
from collections.abc import Mapping
from typing import Literal, TypeAlias

from everlog.errors import Damaged, StoreUnavailable

Where: TypeAlias = Literal["prepare", "record", "derive"]
"""Reading what a prompt is made of; keeping what was said; building memory."""

PASSES = (StoreUnavailable, Damaged)
"""Errors in spite of which a chat goes on: the database is away, or damaged. All else is a mistake, or a matter of identity."""

_logger = logging.getLogger(__name__)


class Trouble:
    """Counts of one memory. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {"prepare": 0, "record": 0, "derive": 0}
        self._last: str | None = None

    def note(self, where: Where, error: BaseException, **facts: object) -> None:
        """Count trouble, and say so in the log."""
        self.count(where, type(error).__name__, **facts)

    def count(self, where: Where, name: str, **facts: object) -> None:
        """Count trouble by the name of its class."""
        with self._lock:
            self._counts[where] += 1
            self._last = name
        about = f"{model}: {name}" if (model := facts.get("model")) else name
        _logger.warning(
            "a conversation goes on without its memory: %s (%s)", where, about, extra={"error": name, **facts}
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """How often it was met, by place."""
        with self._lock:
            return dict(self._counts)

    @property
    def last(self) -> str | None:
        """The class of the last error; None if there was none."""
        with self._lock:
            return self._last
