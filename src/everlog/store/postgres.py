"""PostgreSQL through psycopg 3: a pool, one pipeline per unit, whole units retried.

In the pipeline nothing waits until an answer is used, so BEGIN, the tenant for row-level security and the unit's
first queries travel together, and so do its writes and COMMIT. No session state outlives a transaction, so a pooler in
transaction mode may stand in between.
"""

import contextlib
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from everlog.errors import StoreUnavailable
from everlog.store.failpoints import hit
from everlog.store.statements import Compiled, Compiler
from everlog.store.unit import Answer, Connection, Params

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

T = TypeVar("T")

TRIES = 5
POOL = 8
CONNECT_S = 10.0

_inherited: list[object] = []
_engines: "weakref.WeakSet[PostgresEngine]" = weakref.WeakSet()


class PostgresConnection:
    """A unit's view of one open transaction in pipeline mode."""

    def __init__(self, raw: "psycopg.Connection[tuple[Any, ...]]", compiler: Compiler) -> None:
        self.raw = raw
        self.compiler = compiler

    def enter(self, tenant: str) -> None:
        self.raw.execute("SELECT set_config('everlog.tenant', %s, true)", [tenant])

    def ask(self, compiled: Compiled, params: Params) -> Answer:
        cursor = self.raw.execute(compiled.sql, params)
        return cursor.fetchall

    def run(self, compiled: Compiled, params: Sequence[Params]) -> None:
        if len(params) == 1:
            self.raw.execute(compiled.sql, params[0])
        else:
            self.raw.cursor().executemany(compiled.sql, params)

    def count(self, compiled: Compiled, params: Params) -> int:
        cursor = self.raw.execute(compiled.sql, params)
        cursor.fetchone() if cursor.description else None
        return cursor.rowcount


class PostgresEngine:
    """One PostgreSQL database."""

    dialect = "postgresql"
    path = None

    def __init__(self, dsn: str, *, prepare: bool = True) -> None:
        self.dsn = dsn
        self.prepare = prepare
        self.compiler = Compiler("postgresql")
        self._start()
        _engines.add(self)

    def _start(self) -> None:
        self._closed = False
        self._lock = threading.Lock()
        self._open_pool: ConnectionPool[Any] | None = None
        self._threads: ThreadPoolExecutor | None = None

    def write(self, name: str, act: Callable[[Connection], T]) -> T:
        """Run a unit and commit it; run again from the start after a lost connection or a conflict."""
        return self._run(act, name)

    def submit(self, name: str, act: Callable[[Connection], T]) -> "Future[T]":
        """Run a unit in a thread of the engine's own."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(POOL, thread_name_prefix="everlog-postgres")
        return self._threads.submit(self._run, act, name)

    def read(self, act: Callable[[Connection], T]) -> T:
        """Run a reading unit in one snapshot."""
        return self._run(act, None)

    def close(self) -> None:
        """Finish what runs and close every connection."""
        self._closed = True
        if self._threads is not None:
            self._threads.shutdown()
        if self._open_pool is not None:
            self._open_pool.close()

    def _run(self, act: Callable[[Connection], T], name: str | None) -> T:
        import psycopg  # noqa: PLC0415 -- an optional extra

        for attempt in range(TRIES):
            try:
                return self._run_once(act, name)
            except (psycopg.OperationalError, psycopg.errors.UniqueViolation) as error:
                if attempt == TRIES - 1:
                    raise StoreUnavailable(f"PostgreSQL: {_reason(error)}; nothing of this was stored") from error
                time.sleep(random.uniform(0.01, 0.05) * 2**attempt)  # noqa: S311 -- jitter, not a secret
        raise AssertionError("unreachable")

    def _run_once(self, act: Callable[[Connection], T], name: str | None) -> T:
        with self._pool().connection(timeout=CONNECT_S) as raw:
            with raw.pipeline():
                if name is None:
                    raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                result = act(PostgresConnection(raw, self.compiler))
                if name is not None:
                    hit(f"{name}.before_commit")
                raw.commit()
            if name is not None:
                hit(f"{name}.after_commit")
            return result

    def _pool(self) -> "ConnectionPool[Any]":
        with self._lock:
            if self._closed:
                raise StoreUnavailable("this store is closed")
            if self._open_pool is None:
                from psycopg_pool import ConnectionPool  # noqa: PLC0415 -- an optional extra

                self._open_pool = ConnectionPool(
                    self.dsn,
                    min_size=1,
                    max_size=POOL,
                    open=True,
                    kwargs={"prepare_threshold": 5 if self.prepare else None},
                    name="everlog",
                )
            return self._open_pool

    @contextlib.contextmanager
    def maintain(self) -> "Iterator[psycopg.Connection[Any]]":
        """Give a connection of its own in autocommit mode, for work outside units."""
        import psycopg  # noqa: PLC0415 -- an optional extra

        try:
            raw = psycopg.connect(self.dsn, autocommit=True)
        except psycopg.OperationalError as error:
            raise StoreUnavailable(f"PostgreSQL: {_reason(error)}") from error
        with raw:
            yield raw

    def _after_fork(self) -> None:
        _inherited.append((self._open_pool, self._threads, self._lock))
        closed = self._closed
        self._start()
        self._closed = closed


def _reason(error: Exception) -> str:
    # The driver's message can quote a row's values after its first line ("DETAIL: Key (…)=(…)").
    return str(error).splitlines()[0] if str(error) else error.__class__.__name__


def _reset_after_fork() -> None:
    for engine in list(_engines):
        engine._after_fork()  # noqa: SLF001 -- the engine's own hook


os.register_at_fork(after_in_child=_reset_after_fork)
