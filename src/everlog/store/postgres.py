"""PostgreSQL through psycopg 3: a pool, one pipeline per unit, whole units retried.

In the pipeline nothing waits until an answer is used, so BEGIN, the tenant for row-level security and the unit's
first queries travel together, and so do its writes and COMMIT: two round trips. BEGIN and COMMIT are sent as plain
statements, because the driver's own wait for their answers. No session state outlives a transaction, so a pooler in
transaction mode may stand in between.

A connection lost in COMMIT leaves open whether it was done. The transaction's id, which came with the first answer,
tells: the server is asked what became of it, and only what did not happen is run again.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from everlog.errors import Conflict, Damaged, Mistake, StoreUnavailable
from everlog.store.engine import THREADS, Answer, Connection, Params
from everlog.store.failpoints import hit
from everlog.store.fork import survive
from everlog.store.pooled import split
from everlog.store.statements import Compiled, Compiler, compiler
from everlog.store.vault import KeyGone

if TYPE_CHECKING:
    import psycopg
    import psycopg_pool

T = TypeVar("T")

TRIES = 5
UNIQUE_TRIES = 4
CONNECT_S = 10.0
RESOLVE_S = 10.0
"""How long to ask what became of a transaction."""

_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_inherited: list[object] = []


class PostgresConnection:
    """A unit's view of one open transaction in pipeline mode."""

    alone = False
    pipelined = True

    def __init__(self, raw: "psycopg.Connection[Any]", compiler: Compiler, *, writes: bool) -> None:
        self.compiler = compiler
        self.committing: str | None = None
        """The transaction's id, once COMMIT is on its way."""
        self._raw = raw
        self._writes = writes
        self._entered: Answer | None = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Send BEGIN before and COMMIT after what is done inside, and wait for the end."""
        with self._raw.pipeline() as self._pipeline:
            self._raw.execute(_WRITE if self._writes else _READ)
            yield
            if self._writes and self._entered is not None:
                self.committing = self._entered()[0][1]
            commit = self._raw.execute("COMMIT")
        if commit.statusmessage != "COMMIT":
            raise StoreUnavailable("PostgreSQL: the transaction had failed before; nothing of this was stored")

    def enter(self, tenant: str) -> None:
        also = ", pg_current_xact_id()::text" if self._writes else ""
        self._entered = self._raw.execute(f"SELECT set_config('everlog.tenant', %s, true){also}", [tenant]).fetchall

    def ask(self, compiled: Compiled, params: Params) -> Answer:
        return self._raw.execute(compiled.sql, params).fetchall

    def run(self, compiled: Compiled, params: Sequence[Params]) -> None:
        if len(params) == 1:
            self._raw.execute(compiled.sql, params[0])
        else:
            self._raw.cursor().executemany(compiled.sql, params)

    def count(self, compiled: Compiled, params: Params) -> int:
        cursor = self._raw.execute(compiled.sql, params)
        self._pipeline.sync()
        return cursor.rowcount

    def touch(self) -> None:
        self._raw.execute("SELECT pg_current_xact_id()")


@dataclass(slots=True)
class _Attempt(Generic[T]):
    """One try of a unit, as far as it came."""

    connection: PostgresConnection | None = None
    result: Any = None


class PostgresEngine:
    """One PostgreSQL database.

    A unit is run again after a lost connection, a deadlock, a row that is there already (another unit may have stored
    it in the meantime), and a key that is gone or does not fit (it may have been replaced between two statements, and
    that of an erased tenant by one of the same number); damage that is real is found again.
    """

    dialect = "postgresql"
    path = None

    def __init__(self, dsn: str, *, prepared: bool = True) -> None:
        try:
            import psycopg  # noqa: PLC0415 -- an optional extra
            import psycopg_pool  # noqa: PLC0415 -- an optional extra
        except ImportError as error:
            raise Mistake("PostgreSQL needs a driver: pip install 'everlog[postgres]'") from error
        self.dsn, said = split(dsn)
        self._driver = psycopg
        self._pools = psycopg_pool
        self._prepared = prepared if said is None else said
        self._compiler = compiler("postgresql")
        self._closed = False
        self._start()
        survive(self)

    @property
    def shown(self) -> str:
        """The address without its password."""
        parts: dict[str, Any] = {**self._driver.conninfo.conninfo_to_dict(self.dsn), "password": None}
        return self._driver.conninfo.make_conninfo(**parts)

    @property
    def password(self) -> str:
        """The password in the address; empty if there is none."""
        return str(self._driver.conninfo.conninfo_to_dict(self.dsn).get("password") or "")

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._open_pool: psycopg_pool.ConnectionPool[Any] | None = None
        self._open_threads: ThreadPoolExecutor | None = None

    def write(self, name: str, act: Callable[[Connection], T]) -> T:
        """Run a unit and commit it; run again from the start after a lost connection or a conflict."""
        self._refuse_if_closed()
        return self._run(name, act)

    def submit(self, name: str, act: Callable[[Connection], T]) -> "Future[T]":
        """As `write`, in a thread of the engine's own."""
        return self._threads().submit(self._run, name, act)

    def read(self, act: Callable[[Connection], T]) -> T:
        """Run a reading unit in one snapshot."""
        self._refuse_if_closed()
        return self._run(None, act)

    def submit_read(self, act: Callable[[Connection], T]) -> "Future[T]":
        """As `read`, in a thread of the engine's own."""
        return self._threads().submit(self._run, None, act)

    @contextlib.contextmanager
    def maintain(self) -> "Iterator[psycopg.Connection[Any]]":
        """Give a connection of its own in autocommit mode, for work outside units."""
        try:
            with self._driver.connect(self.dsn, autocommit=True, connect_timeout=int(CONNECT_S)) as raw:
                yield raw
        except self._driver.Error as error:
            raise StoreUnavailable(f"PostgreSQL: {_reason(error)}") from error

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self) -> None:
        """Finish what runs and close every connection."""
        with self._lock:
            self._closed = True
            threads, pool = self._open_threads, self._open_pool
        if threads is not None:
            threads.shutdown()
        if pool is not None:
            pool.close()

    def before_fork(self) -> None:
        """Connections are sockets, not locks: the child leaves its copies alone."""

    def after_fork_in_parent(self) -> None:
        """Nothing was stopped."""

    def after_fork_in_child(self) -> None:
        """Begin with connections and threads of its own; the parent's are never freed, which would end its sessions."""
        _inherited.append((self._lock, self._open_pool, self._open_threads))
        self._start()

    def _run(self, name: str | None, act: Callable[[Connection], T]) -> T:
        for tries in count(1):
            attempt = _Attempt[T]()
            try:
                self._run_once(attempt, name, act)
            except Exception as error:  # noqa: BLE001 -- `_try_again` raises what is not worth another try
                if not self._was_committed(attempt, error):
                    self._try_again(error, tries)
                    continue
            if name is not None:
                hit(f"{name}.after_commit")
            return attempt.result  # type: ignore[no-any-return]
        raise AssertionError("unreachable")

    def _run_once(self, attempt: "_Attempt[T]", name: str | None, act: Callable[[Connection], T]) -> None:
        with self._pool().connection(timeout=CONNECT_S) as raw:
            attempt.connection = PostgresConnection(raw, self._compiler, writes=name is not None)
            with attempt.connection.transaction():
                attempt.result = act(attempt.connection)
                if name is not None:
                    hit(f"{name}.before_commit")

    def _try_again(self, error: Exception, tries: int) -> None:
        """Wait before another try, or raise what the caller is to hear."""
        driver = self._driver
        match error:
            case KeyGone() | Damaged() if tries == 1:
                return
            case driver.errors.UniqueViolation() if tries <= UNIQUE_TRIES:
                return
            case driver.OperationalError() if tries < TRIES and not isinstance(error, self._pools.PoolTimeout):
                if self._open_pool is not None and error.sqlstate is None:
                    self._open_pool.check()
                time.sleep(random.uniform(0.01, 0.05) * 2**tries)  # noqa: S311 -- jitter, not a secret
            case driver.Error():
                heard, cause = translation(driver, error)
                raise heard from cause
            case _:
                raise error

    def _was_committed(self, attempt: "_Attempt[T]", error: Exception) -> bool:
        """Ask what became of a transaction whose COMMIT was sent, but not answered."""
        transaction = None if attempt.connection is None else attempt.connection.committing
        if transaction is None or not isinstance(error, self._driver.OperationalError):
            return False
        until = time.monotonic() + RESOLVE_S
        status: str | None = None
        while status not in ("committed", "aborted"):
            if time.monotonic() > until:
                raise StoreUnavailable(f"PostgreSQL: {_reason(error)}; whether this was stored is not known") from error
            with contextlib.suppress(StoreUnavailable, self._driver.Error), self.maintain() as raw:
                found = raw.execute("SELECT pg_xact_status(%s::xid8)", [transaction]).fetchone()
                status = found[0] if found else None
            time.sleep(0.02)
        return status == "committed"

    def _pool(self) -> "psycopg_pool.ConnectionPool[Any]":
        with self._lock:
            if self._open_pool is None:
                self._open_pool = self._pools.ConnectionPool(
                    self.dsn,
                    min_size=1,
                    max_size=THREADS,
                    open=True,
                    kwargs={"autocommit": True, "prepare_threshold": 5 if self._prepared else None},
                    name="everlog",
                )
            return self._open_pool

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            self._refuse_if_closed()
            if self._open_threads is None:
                self._open_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="everlog-postgres")
            return self._open_threads

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("this store is closed")


def translation(driver: Any, error: Any) -> tuple[Exception, Exception | None]:
    """Return what an error of the driver is to a caller, and what may be shown as its cause."""
    match error:
        case driver.errors.UniqueViolation():
            return Conflict(f"there is such a row already: {error.diag.constraint_name}"), None
        case driver.OperationalError():
            return StoreUnavailable(f"PostgreSQL: {_reason(error)}; nothing of this was stored"), error
        case _:
            # A fault of ours. The server's words can quote what was to be stored.
            place = error.diag.constraint_name or error.diag.column_name or "?"
            return type(error)(f"{error.sqlstate or 'the driver'} at {place}"), None


def _reason(error: Exception) -> str:
    # The driver's message can quote a row's values after its first line ("DETAIL: Key (…)=(…)").
    return str(error).splitlines()[0] if str(error) else error.__class__.__name__
