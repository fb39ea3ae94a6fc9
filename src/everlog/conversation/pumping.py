"""Building memory after a turn, in the background: one thread for each memory, while there is something to build."""

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, assert_never

from everlog.clock import monotonic
from everlog.context import Mode
from everlog.conversation.recording.recorder import Recorder
from everlog.conversation.recording.trouble import Trouble
from everlog.conversation.summaries import Known, settings_for
from everlog.errors import Forbidden, Mistake, ProviderTrouble, Unauthorized
from everlog.memory.interface import Compactor
from everlog.memory.interface import Memory as Derived
from everlog.memory.rolling import Rolling
from everlog.memory.tree import Tree, echoes
from everlog.pump import Options as RunOptions
from everlog.pump import Ran, run
from everlog.pump.usefulness import UNUSABLE, name_of

CLOSE_S = 10.0
"""How long a memory that is closed, or a program that ends, waits for what is being built."""

WARM_S = 0.5
"""How long the first turn of a memory waits for lines that code builds; about 1,000 messages' (`python -m benchmarks nodes`)."""

NO_SUMMARY = "past='rolling' needs a model as its compactor; until then older words are left out"
"""What hinders a summary without a model: it stays inactive, and says so."""

_logger = logging.getLogger(__name__)


class Pump:
    """Builds the lines of one thread. Thread-safe."""

    def __init__(
        self, recorder: Recorder, compactor: Compactor, trouble: Trouble, memory: "Derived[Any] | None"
    ) -> None:
        """Build one memory, or none."""
        self._recorder = recorder
        self._compactor = compactor
        self._memory = memory
        self._trouble = trouble
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._is_due = False
        self._closing = threading.Event()
        self.left = 0
        """About how many lines the last run left to build."""
        self.bad_answers = 0
        """Answers of the compactor in a row that could not be used."""
        self.hindrance: str | None = self._lack
        """What kept the last run from building all, in words; None if nothing did."""

    @property
    def summarises(self) -> bool:
        """Whether a model is to write a summary."""
        return isinstance(self._memory, Rolling) and self._memory.model is not None

    def warm(self, thread: str | None) -> None:
        """Build what is missing before the first request, for a while, if code builds it: a past that was brought in."""
        until = monotonic() + WARM_S
        if thread is not None and getattr(self._compactor, "inline", False):
            self._run(thread, lambda: self._closing.is_set() or monotonic() > until)

    @property
    def _lack(self) -> str | None:
        """What is missing for anything to be built."""
        return NO_SUMMARY if isinstance(self._memory, Rolling) and self._memory.model is None else None

    def run(self) -> None:
        """Build what is missing, here."""
        if self._recorder.thread is not None:
            self._run(self._recorder.thread, self._closing.is_set)

    def _run(self, thread: str, stop: Callable[[], bool]) -> None:
        recorder = self._recorder
        if self._memory is None:
            return
        try:
            ran = run(
                recorder.store,
                recorder.tenant,
                thread,
                self._memory,
                self._compactor,
                options=_SPARING,
                stop=stop,
            )
        except Exception as error:  # noqa: BLE001 -- memory trouble never breaks a chat; it is counted
            self._failed(error)
            return
        self._take_in(ran)

    def _failed(self, error: Exception) -> None:
        refusal = error.__cause__ if isinstance(error, Mistake) else None
        if isinstance(refusal, ProviderTrouble):
            self.hindrance = _refused(refusal)
            self._trouble.count("derive", name_of(error), **refusal.facts(), said=self.hindrance)
        else:
            self.hindrance = f"building memory failed: {type(error).__name__}"
            self._trouble.note("derive", error)

    def _take_in(self, ran: Ran) -> None:
        self.left = ran.remaining
        self.bad_answers = ran.bad + (0 if ran.useful else self.bad_answers)
        self.hindrance = self._lack
        model = self._compactor.model
        if ran.bad or ran.reason == UNUSABLE:
            often = "; it is asked less often until one can" if ran.reason == UNUSABLE else ""
            self.hindrance = f"the answers of {model} cannot be used ({self.bad_answers} in a row here){often}"
            facts = {"model": model, "in_a_row": self.bad_answers, "asked_less": ran.reason == UNUSABLE}
            _logger.warning("the answers of a compactor cannot be used", extra=facts)
        elif ran.reason is not None and ran.reason != "erased":
            self.hindrance = f"the compactor {model} gives no answer: {ran.reason}"
        if ran.reason is not None and ran.reason != "erased":
            self._trouble.count("derive", ran.reason, model=model)

    def kick(self) -> None:
        """Build what is missing, in the background."""
        with self._lock:
            if self._closing.is_set():
                return
            self._is_due = True
            is_here = self._process == os.getpid()  # a fork has none of its parent's threads
            if is_here and self._thread is not None and self._thread.is_alive():
                return
            self._process = os.getpid()
            _closed_at_exit(self)
            self._thread = threading.Thread(target=self._work, name="everlog-memory", daemon=True)
            self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is being built; say whether that is so."""
        with self._lock:
            thread = self._thread
        if thread is not None and self._process == os.getpid():
            thread.join(timeout_s)
            return not thread.is_alive()
        return True

    def stop(self) -> None:
        """Build nothing more."""
        self._closing.set()

    def close(self) -> None:
        """Build nothing more, and wait for what is being built."""
        self.stop()
        self.wait(CLOSE_S)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._is_due or self._closing.is_set():
                    self._thread = None
                    return
                self._is_due = False
            self.run()


_SPARING = RunOptions(sparing=True)
"""Each turn starts a run of its own: answers that cannot be used must not be paid for in each."""


def _refused(trouble: ProviderTrouble) -> str:
    """Say that a provider takes no request of ours, without a word of its own."""
    match trouble:
        case Unauthorized():
            return f"the key of provider {trouble.provider} was refused ({trouble.status})"
        case Forbidden():
            return f"the key of provider {trouble.provider} may not do this ({trouble.status})"
        case _:
            return f"the provider {trouble.provider} refuses what {trouble.model} is asked ({trouble.status})"


_at_exit: "weakref.WeakSet[Pump]" = weakref.WeakSet()


def _closed_at_exit(pump: Pump) -> None:
    """See to it that nothing is cut off in the middle where the program ends."""
    if not _at_exit:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _at_exit.add(pump)


def _close_all() -> None:
    pumps, until = list(_at_exit), monotonic() + CLOSE_S
    for pump in pumps:
        pump.stop()
    for pump in pumps:
        pump.wait(max(0.0, until - monotonic()))


def memory_of(mode: Mode, compactor: Compactor, budget_tokens: int, known: Known) -> "Derived[Any] | None":
    """Return what is built for prompts of a mode."""
    match mode:
        case "tree":
            return Tree.of(compactor)
        case "rolling":
            memory = Rolling.of(
                compactor, settings=lambda _unit, _subject: settings_for(budget_tokens, known()), recalled=echoes
            )
            if memory.model is None:
                _logger.warning(NO_SUMMARY)
            return memory
        case "none":
            return None
        case _:
            assert_never(mode)
