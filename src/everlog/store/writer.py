"""The one thread that writes a SQLite file: many units to a commit, each in a savepoint of its own.

SQLite's own waiting for the write lock polls and is unfair (measured: up to four seconds with eight writers). So within
a process all writing units queue to one thread, which runs up to 64 of them in one transaction and commits once. A unit
that fails is rolled back alone. If the whole group is lost (a full disk can undo a transaction), each of its units is
run once more by itself, so that one unit's trouble stays its own.
"""

import itertools
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from everlog.errors import Damaged, StoreUnavailable
from everlog.store.failpoints import hit
from everlog.store.files import DRIVER_ERRORS, translation
from everlog.store.jobs import Awaited, Job, Promised

T = TypeVar("T")

GROUP = 64
"""Most units that one commit takes."""
GROUP_S = 0.05
"""How long a group may run before it is committed."""


_Ran = list[tuple[Job[Any], Any]]


class Writer:
    """A queue of units and the thread that runs them; the thread starts with the first."""

    def __init__(self, path: Path | None, connect: Callable[[], sqlite3.Connection]) -> None:
        """Make a writer.

        Args:
            path: the file; None if the database is in memory, and the connection all there is of it.
            connect: opens the connection; called in the thread, and again after `disconnect`.
        """
        self._path = path
        self._connect = connect
        self._raw: sqlite3.Connection | None = None
        self._inode: int | None = None
        """Of the file that was opened first; None before, and where there is no file."""
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._busy = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = False

    def run(self, name: str, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run a unit and return its result when it is committed; one that fails leaves nothing."""
        job = Awaited(name, act)
        self._put(job)
        return job.wait()

    def submit(self, name: str, act: Callable[[sqlite3.Connection], T]) -> "Future[T]":
        """As `run`, without waiting."""
        job = Promised(name, act)
        self._put(job)
        return job.future

    def _put(self, job: Job[Any]) -> None:
        with self._lock:
            if self._closed:
                raise StoreUnavailable("this store is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="everlog-writer", daemon=True)
                self._thread.start()
            self._jobs.put(job)

    def close(self) -> None:
        """Take no more, finish what is queued, and end the thread."""
        with self._lock:
            self._closed = True
            thread = self._thread
            self._jobs.put(None)
        if thread is not None:
            thread.join()
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection to a file, while no unit runs; the next unit opens another."""
        if self._raw is not None and self._path is not None:
            self._raw.close()
            self._raw = None

    def pause(self, timeout_s: float) -> bool:
        """Wait until no unit runs and let none begin; return whether that came true in time, outside any unit."""
        return threading.current_thread() is not self._thread and self._busy.acquire(timeout=timeout_s)

    def resume(self) -> None:
        """Go on after a pause."""
        self._busy.release()

    def _serve(self) -> None:
        while not self._ended:
            job = self._jobs.get()
            if job is None:
                return
            with self._busy:
                self._run_group(job)
            del job  # until the next comes, what it was given would stay

    def _run_group(self, first: Job[Any]) -> None:
        raw = self._begun([first])
        if raw is None:
            return
        taken: list[Job[Any]] = []
        ran: _Ran = []
        try:
            for job in self._take(first):
                taken.append(job)
                if ran:
                    self._run_in_savepoint(raw, job, ran)
                else:
                    ran.append((job, job.act(raw)))  # needs none: if it fails, nothing else is lost
            _commit(raw, ran)
        except BaseException as error:  # noqa: BLE001 -- every unit of the group gets its own answer
            self._roll_back(raw)
            lost = [job for job in taken if not job.settled]
            if len(lost) == 1:
                self._fail(lost, error)
            else:
                self._run_each(lost)
        else:
            _acknowledge(ran)

    def _begun(self, jobs: Iterable[Job[Any]]) -> sqlite3.Connection | None:
        """Begin a transaction; if that cannot be, fail the jobs and all that wait, for they have the same trouble."""
        if self._inode is not None and self._inode != _inode(self._path):  # nothing is closed: it may be put back
            self._fail(
                (*jobs, *self._waiting()),
                StoreUnavailable(
                    f"{self._path} was deleted, or another file took its place, since it was opened; what is written to it now "
                    "would be lost: put it back, or close the database and open it again"
                ),
            )
            return None
        try:
            if self._raw is None:
                self._raw = self._connect()
                self._inode = self._inode or _inode(self._path)
            self._raw.execute("BEGIN IMMEDIATE")
        except BaseException as error:  # noqa: BLE001 -- the callers get it; the thread must live on
            self.disconnect()
            self._fail((*jobs, *self._waiting()), error)
            return None
        return self._raw

    def _take(self, first: Job[Any]) -> Iterator[Job[Any]]:
        """Yield `first` and what waits behind it, up to the limits of a group; leave out what was cancelled."""
        until = time.monotonic() + GROUP_S
        for job in itertools.islice(itertools.chain((first,), self._waiting()), GROUP):
            if job.begin():
                yield job
            if time.monotonic() > until:
                return

    def _waiting(self) -> Iterator[Job[Any]]:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is None:
                self._ended = True
                return
            yield job

    def _run_in_savepoint(self, raw: sqlite3.Connection, job: Job[Any], ran: _Ran) -> None:
        raw.execute("SAVEPOINT unit")
        try:
            result = job.act(raw)
        except BaseException as error:
            if not raw.in_transaction:
                raise
            raw.execute("ROLLBACK TO unit")
            raw.execute("RELEASE unit")
            self._fail([job], error)
        else:
            raw.execute("RELEASE unit")
            ran.append((job, result))

    def _run_each(self, jobs: list[Job[Any]]) -> None:
        """Run each unit of a lost group by itself."""
        for n, job in enumerate(jobs):
            raw = self._begun(jobs[n:])
            if raw is None:
                return
            try:
                ran: _Ran = [(job, job.act(raw))]
                _commit(raw, ran)
            except BaseException as error:  # noqa: BLE001 -- handed to the caller of this unit
                self._roll_back(raw)
                self._fail([job], error)
            else:
                _acknowledge(ran)

    def _roll_back(self, raw: sqlite3.Connection) -> None:
        try:
            raw.rollback()
        except sqlite3.Error:
            self.disconnect()

    def _fail(self, jobs: Iterable[Job[Any]], error: BaseException) -> None:
        for job in jobs:
            if job.begin():
                job.fail(self._translated(error))

    def _translated(self, error: BaseException) -> BaseException:
        if not isinstance(error, DRIVER_ERRORS):
            return error
        ours = translation(error, self._path)
        if ours is not error and not isinstance(ours, Damaged):
            ours.__cause__ = error
        return ours


def _inode(path: Path | None) -> int | None:
    """Return the number by which SQLite, too, tells whether a file has moved; None if there is none."""
    try:
        return None if path is None else path.stat().st_ino
    except OSError:
        return None


def _commit(raw: sqlite3.Connection, ran: _Ran) -> None:
    for job, _ in ran:
        hit(f"{job.name}.before_commit")
    raw.execute("COMMIT")


def _acknowledge(ran: _Ran) -> None:
    for job, result in ran:
        try:
            hit(f"{job.name}.after_commit")
        except BaseException as error:  # noqa: BLE001 -- it is stored; the caller hears what a test raised
            job.fail(error)
        else:
            job.settle(result)
