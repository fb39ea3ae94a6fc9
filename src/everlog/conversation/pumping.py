"""Building memory after a turn, in the background: one thread for each memory, while there is something to build."""

import logging
import os
import threading

from everlog.conversation.recorder import Recorder
from everlog.conversation.trouble import Trouble
from everlog.memory.interface import Compactor
from everlog.memory.tree import Tree
from everlog.pump import Ran, run

CLOSE_S = 10.0
"""How long a memory that is closed waits for what is being built."""

_logger = logging.getLogger(__name__)


class Pump:
    """Builds the lines of one thread. Thread-safe."""

    def __init__(self, recorder: Recorder, compactor: Compactor, trouble: Trouble) -> None:
        self._recorder = recorder
        self._compactor = compactor
        self._memory = Tree.of(compactor)
        self._trouble = trouble
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._is_due = False
        self._closing = threading.Event()
        self.left = 0
        """About how many lines the last run left to build."""

    def run(self) -> None:
        """Build what is missing, here."""
        thread = self._recorder.thread
        if thread is None:
            return
        try:
            ran: Ran = run(
                self._recorder.store,
                self._recorder.tenant,
                thread,
                self._memory,
                self._compactor,
                stop=self._closing.is_set,
            )
        except Exception as error:  # noqa: BLE001 -- memory trouble never breaks a chat; it is counted
            self._trouble.note("derive", error)
            return
        self.left = ran.remaining
        if ran.reason is not None and ran.reason != "erased":
            self._trouble.count("derive", ran.reason)

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

    def close(self) -> None:
        """Build nothing more, and wait for what is being built."""
        self._closing.set()
        self.wait(CLOSE_S)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._is_due or self._closing.is_set():
                    self._thread = None
                    return
                self._is_due = False
            self.run()
