"""SQLite: one writer thread with group commit (`writer.py`), a few readers, and survival of `fork()` (`fork.py`).

Reads run on connections of their own, each unit in one snapshot, beside the writer. Another process on the same file
waits for the write lock by polling, 10 s at most. A database in memory has one connection, so there all units are run
by the writer.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from everlog.errors import StoreUnavailable
from everlog.store.engine import THREADS, Answer, Connection, Params
from everlog.store.files import DRIVER_ERRORS, connect, translated
from everlog.store.fork import WAIT_S, Gate, survive
from everlog.store.readonly import Changed, Still
from everlog.store.statements import Compiled, Compiler, compiler, flat
from everlog.store.writer import Writer

T = TypeVar("T")

IDLE_READERS = 8
CHANGED_TRIES = 2
_inherited: list[object] = []


class SQLiteConnection:
    """A unit's view of one open transaction."""

    alone = True
    pipelined = False

    def __init__(self, raw: sqlite3.Connection, compiler: Compiler) -> None:
        self.compiler = compiler
        self._raw = raw

    def enter(self, tenant: str) -> None:
        """SQLite has no second wall: statements are scoped, and that is checked when they are compiled."""

    def ask(self, compiled: Compiled, params: Params) -> Answer:
        rows = self.execute(compiled, params).fetchall()
        return lambda: rows

    def run(self, compiled: Compiled, params: Sequence[Params]) -> None:
        if len(params) == 1:
            self.execute(compiled, params[0])
        else:
            self._raw.executemany(compiled.sql, [bound(compiled, one) for one in params])

    def count(self, compiled: Compiled, params: Params) -> int:
        return self.execute(compiled, params).rowcount

    def touch(self) -> None:
        (version,) = self._raw.execute("PRAGMA user_version").fetchone()
        self._raw.execute(f"PRAGMA user_version = {version}")

    def execute(self, compiled: Compiled, params: Params) -> sqlite3.Cursor:
        return self._raw.execute(compiled.sql, bound(compiled, params))


class SQLiteEngine:
    """One SQLite file, or a database in memory (`path` None)."""

    dialect = "sqlite"

    def __init__(self, path: Path | None, *, synchronous: str = "NORMAL") -> None:
        self.path = path
        self.synchronous = synchronous
        self._compiler = compiler("sqlite")
        self._memory = connect(None) if path is None else None
        self._closed = False
        self._start()
        survive(self)

    def _start(self) -> None:
        self._gate = Gate()
        self._writer = Writer(self.path, self._connect)
        self._paused = False
        self._idle: deque[sqlite3.Connection] = deque()
        self._threads: ThreadPoolExecutor | None = None

    def _connect(self) -> sqlite3.Connection:
        return self._memory or connect(self.path, synchronous=self.synchronous)

    def write(self, name: str, act: Callable[[Connection], T]) -> T:
        """Run a unit in the writer thread and wait for its commit."""
        return self._writer.run(name, lambda raw: act(SQLiteConnection(raw, self._compiler)))

    def submit(self, name: str, act: Callable[[Connection], T]) -> "Future[T]":
        """Queue a unit; the future is done when it is committed, or has failed and left nothing."""
        return self._writer.submit(name, lambda raw: act(SQLiteConnection(raw, self._compiler)))

    def read(self, act: Callable[[Connection], T]) -> T:
        """Run a reading unit in one snapshot."""
        if self._memory is not None:
            return self.write("read", act)
        for _ in range(CHANGED_TRIES):
            with suppress(Changed):
                return self._read_once(act)
        return self._read_once(act)

    def _read_once(self, act: Callable[[Connection], T]) -> T:
        with self._gate, translated(self.path):
            raw = self._reader()
            try:
                raw.execute("BEGIN")
                found = act(SQLiteConnection(raw, self._compiler))
            except DRIVER_ERRORS:
                raw.close()  # what it has seen of a file that was damaged then, it would see for ever
                if isinstance(raw, Still):
                    raw.confirm()
                raise
            except BaseException:
                self._keep(raw)
                raise
            self._keep(raw)
            return found

    def submit_read(self, act: Callable[[Connection], T]) -> "Future[T]":
        """Run a reading unit in a thread of the engine's own."""
        if self._memory is not None:
            return self.submit("read", act)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="everlog-reader")
        return self._threads.submit(self.read, act)

    def maintain(self, act: Callable[[sqlite3.Connection], T], *, wal: bool = True) -> T:
        """Run engine work outside any transaction (checkpoint, vacuum, backup) on a connection of its own.

        Args:
            act: the work.
            wal: put the file in write-ahead mode first, which changes it.
        """
        if self._memory is not None:
            self._stop()
            try:
                return act(self._memory)
            finally:
                self._go_on()
        with self._gate, translated(self.path):
            raw = connect(self.path, synchronous=self.synchronous, wal=wal)
            try:
                return act(raw)
            finally:
                raw.close()
                if isinstance(raw, Still):
                    raw.confirm()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self) -> None:
        """Finish what is queued and close every connection."""
        if self._closed:
            return
        self._closed = True
        self._writer.close()
        if self._threads is not None:
            self._threads.shutdown()
        self._close_idle()
        if self._memory is not None:
            self._memory.close()

    def before_fork(self) -> None:
        """Close every file, so that none is inherited; a database in memory is copied as it is."""
        if self._stop():
            self._writer.disconnect()
            self._close_idle()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._go_on()

    def after_fork_in_child(self) -> None:
        """Begin with a queue and threads of its own; what the parent's would still touch is never freed here."""
        _inherited.append((self._gate, self._writer, self._idle, self._threads))
        self._start()
        if self._closed:
            self._writer.close()

    def _stop(self) -> bool:
        """Wait until nobody is inside, but not for ever; return whether nobody is."""
        self._paused = self._writer.pause(WAIT_S)
        return self._gate.shut() and self._paused

    def _go_on(self) -> None:
        self._gate.open()
        if self._paused:
            self._paused = False
            self._writer.resume()

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable("this store is closed")
        try:
            return self._idle.pop()
        except IndexError:
            return connect(self.path, query_only=True)

    def _keep(self, raw: sqlite3.Connection) -> None:
        raw.rollback()
        if isinstance(raw, Still):
            raw.close()
            raw.confirm()
        elif len(self._idle) < IDLE_READERS:
            self._idle.append(raw)
        else:
            raw.close()
        if self._closed:
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


def bound(compiled: Compiled, params: Params) -> Params:
    """Return parameters as SQLite takes them."""
    return {**params, **{name: flat(params[name]) for name in compiled.lists}} if compiled.lists else params
