"""SQLite: one writer thread with group commit, a few readers, and survival of `fork()`.

SQLite's own waiting for the write lock polls and is unfair (measured: up to four seconds with eight writers). So
within a process all writing units queue to one thread, which runs up to 64 of them in one transaction, each in a
savepoint of its own, and commits once. Another process on the same file still waits by polling, 10 s at most.

Reads run on connections of their own, each unit in one snapshot. After `fork()` the child opens everything anew; it
never closes what it inherited, since that would act on the parent's files.
"""

import contextlib
import os
import queue
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from everlog.errors import StoreUnavailable
from everlog.store.failpoints import hit
from everlog.store.statements import Compiled, Compiler
from everlog.store.unit import Answer, Connection, Params, as_json

T = TypeVar("T")

GROUP = 64
GROUP_S = 0.05
BUSY_MS = 10_000
READERS = 8
TRIES = 5

_inherited: list[object] = []
_engines: "weakref.WeakSet[SQLiteEngine]" = weakref.WeakSet()


class SQLiteConnection:
    """A unit's view of one open transaction."""

    def __init__(self, raw: sqlite3.Connection, compiler: Compiler) -> None:
        self.raw = raw
        self.compiler = compiler

    def enter(self, tenant: str) -> None:
        """SQLite has no second wall: statements are scoped, and that is checked when they are compiled."""

    def ask(self, compiled: Compiled, params: Params) -> Answer:
        rows = self.raw.execute(compiled.sql, as_json(params)).fetchall()
        return lambda: rows

    def run(self, compiled: Compiled, params: Sequence[Params]) -> None:
        if len(params) == 1:
            self.raw.execute(compiled.sql, as_json(params[0]))
        else:
            self.raw.executemany(compiled.sql, params)

    def count(self, compiled: Compiled, params: Params) -> int:
        return self.raw.execute(compiled.sql, as_json(params)).rowcount


@dataclass(slots=True)
class _Job(Generic[T]):
    name: str
    act: Callable[[Connection], T]
    future: "Future[T]" = field(default_factory=Future)


class SQLiteEngine:
    """One SQLite file, or a database in memory (`path` None)."""

    dialect = "sqlite"

    def __init__(self, path: Path | None, *, synchronous: str = "NORMAL") -> None:
        self.path = path
        self.synchronous = synchronous
        self.compiler = Compiler("sqlite")
        self._start()
        _engines.add(self)

    def _start(self) -> None:
        self._closed = False
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._readers: queue.LifoQueue[sqlite3.Connection | None] = queue.LifoQueue()
        for _ in range(READERS):
            self._readers.put(None)
        self._open_readers: list[sqlite3.Connection] = []
        self._writer: threading.Thread | None = None
        self._memory = connect(None) if self.path is None else None

    def write(self, name: str, act: Callable[[Connection], T]) -> T:
        """Run a unit in the writer thread and wait for its commit."""
        return self.submit(name, act).result()

    def submit(self, name: str, act: Callable[[Connection], T]) -> "Future[T]":
        """Queue a unit; the future is done when it is committed, or has failed and left nothing."""
        job = _Job(name, act)
        with self._lock:
            if self._closed:
                raise StoreUnavailable("this store is closed")
            if self._writer is None:
                self._writer = threading.Thread(target=self._serve, name="everlog-writer", daemon=True)
                self._writer.start()
            elif self._writer is threading.current_thread():
                raise RuntimeError("a unit of work called another unit; compose them in one function instead")
            self._jobs.put(job)
        return job.future

    def read(self, act: Callable[[Connection], T]) -> T:
        """Run a reading unit in one snapshot."""
        if self._memory is not None:
            return self.write("read", act)
        with self._reader() as raw:
            raw.execute("BEGIN")
            try:
                return act(SQLiteConnection(raw, self.compiler))
            finally:
                raw.rollback()

    def maintain(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run engine work outside any transaction (checkpoint, vacuum, backup) on a connection of its own."""
        if self._memory is not None:
            return act(self._memory)
        with translated(self.path):
            raw = connect(self.path, synchronous=self.synchronous)
        try:
            with translated(self.path):
                return act(raw)
        finally:
            raw.close()

    def close(self) -> None:
        """Finish what is queued and close every connection."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
            writer = self._writer
        if writer is not None:
            writer.join()
        for raw in self._open_readers:
            raw.close()
        if self._memory is not None:
            self._memory.close()

    def _after_fork(self) -> None:
        _inherited.append((self._lock, self._jobs, self._readers, self._open_readers, self._writer, self._memory))
        closed = self._closed
        self._start()
        self._closed = closed

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        raw = self._readers.get()
        try:
            with translated(self.path):
                if raw is None:
                    raw = connect(self.path, query_only=True)
                    self._open_readers.append(raw)
                yield raw
        finally:
            self._readers.put(raw)

    def _serve(self) -> None:
        raw = self._memory
        last = False
        while not last:
            job = self._jobs.get()
            if job is None:
                break
            try:
                if raw is None:
                    with translated(self.path):
                        raw = connect(self.path, synchronous=self.synchronous)
                last = self._run_group(raw, job)
            except BaseException as error:  # noqa: BLE001 -- the caller gets it; the thread must live on
                _fail([job], error)
        if raw is not None and raw is not self._memory:
            raw.close()

    def _run_group(self, raw: sqlite3.Connection, first: _Job[Any]) -> bool:
        """Run `first` and what waits behind it in one transaction; return whether the end of the queue was met."""
        done: list[tuple[_Job[Any], Any]] = []
        job: _Job[Any] | None = first
        until = time.monotonic() + GROUP_S
        try:
            self._begin(raw)
            while job is not None:
                self._run_in_savepoint(raw, job, done)
                if len(done) >= GROUP or time.monotonic() > until:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            self._commit(raw, done)
        except BaseException as error:  # noqa: BLE001 -- every unit of the group gets its own answer below
            _rollback(raw)
            waiting = [one for one, _ in done]
            if job is not None and job not in waiting and not job.future.done():
                waiting.append(job)
            self._run_alone(raw, waiting, error)
            return job is None
        for one, result in done:
            one.future.set_result(result)
        return job is None

    def _run_in_savepoint(self, raw: sqlite3.Connection, job: _Job[Any], done: list[tuple[_Job[Any], Any]]) -> None:
        raw.execute("SAVEPOINT unit")
        try:
            result = job.act(SQLiteConnection(raw, self.compiler))
        except BaseException as error:
            if not raw.in_transaction:
                raise
            raw.execute("ROLLBACK TO unit")
            raw.execute("RELEASE unit")
            _fail([job], error, path=self.path)
        else:
            raw.execute("RELEASE unit")
            done.append((job, result))

    def _run_alone(self, raw: sqlite3.Connection, jobs: list[_Job[Any]], error: BaseException) -> None:
        """After a group was lost, run each of its units by itself, so that one unit's trouble is its own."""
        if len(jobs) == 1 and not _transient(error):
            _fail(jobs, error, path=self.path)
            return
        for job in jobs:
            try:
                self._begin(raw)
                result = job.act(SQLiteConnection(raw, self.compiler))
                self._commit(raw, [(job, result)])
            except BaseException as failure:  # noqa: BLE001 -- handed to the caller of this unit
                _rollback(raw)
                _fail([job], failure, path=self.path)
            else:
                job.future.set_result(result)

    def _begin(self, raw: sqlite3.Connection) -> None:
        for attempt in range(TRIES):
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not _transient(error) or attempt == TRIES - 1:
                    raise
                time.sleep(random.uniform(0.01, 0.05) * 2**attempt)  # noqa: S311 -- jitter, not a secret
            else:
                return

    def _commit(self, raw: sqlite3.Connection, done: list[tuple[_Job[Any], Any]]) -> None:
        for job, _ in done:
            hit(f"{job.name}.before_commit")
        raw.execute("COMMIT")
        for job, _ in done:
            hit(f"{job.name}.after_commit")


def connect(
    path: Path | None, *, synchronous: str = "NORMAL", query_only: bool = False, wal: bool = True
) -> sqlite3.Connection:
    """Open a connection with the settings that every connection of Everlog has."""
    raw = sqlite3.connect(
        ":memory:" if path is None else path,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_MS / 1000,
        cached_statements=512,
    )
    try:
        raw.execute("PRAGMA secure_delete = ON")
        raw.execute("PRAGMA temp_store = MEMORY")
        raw.execute("PRAGMA foreign_keys = ON")
        raw.execute(f"PRAGMA synchronous = {synchronous}")
        if wal and path is not None:
            _switch_to_wal(raw)
        if query_only:
            raw.execute("PRAGMA query_only = ON")
    except BaseException:
        raw.close()
        raise
    return raw


def _switch_to_wal(raw: sqlite3.Connection) -> None:
    # Changing the journal mode does not wait for other connections by itself, unlike everything else.
    for attempt in range(100):
        try:
            if raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _transient(error) or attempt == 99:
                raise
            time.sleep(0.02)
        else:
            return


@contextlib.contextmanager
def translated(path: Path | None) -> Iterator[None]:
    """Turn the driver's errors into ours, with what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _translated(error, path) from error


def _translated(error: sqlite3.DatabaseError, path: Path | None) -> Exception:
    if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
        return error
    reason = str(error)
    for sign, advice in _ADVICE.items():
        if sign in reason:
            return StoreUnavailable(f"{path or 'the database'}: {reason}; {advice}")
    return StoreUnavailable(f"{path or 'the database'}: {reason}")


_ADVICE = {
    "full": "free some space and try again; nothing of this was stored",
    "disk I/O error": "is the disk full or read-only? nothing of this was stored",
    "locked": "another process has held the write lock for too long; one process should write, others go through it",
    "readonly": "the file or its folder is read-only",
    "unable to open": "does the folder exist, and may you write there?",
    "not a database": "this is not an Everlog database, or it is damaged",
    "malformed": "the file is damaged; restore a backup",
}


def _transient(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error))


def _fail(jobs: list[_Job[Any]], error: BaseException, path: Path | None = None) -> None:
    if isinstance(error, sqlite3.DatabaseError):
        translated_error = _translated(error, path)
        if translated_error is not error:
            translated_error.__cause__ = error
            error = translated_error
    for job in jobs:
        job.future.set_exception(error)


def _rollback(raw: sqlite3.Connection) -> None:
    if raw.in_transaction:
        raw.rollback()


def _reset_after_fork() -> None:
    for engine in list(_engines):
        engine._after_fork()  # noqa: SLF001 -- the engine's own hook


os.register_at_fork(after_in_child=_reset_after_fork)
