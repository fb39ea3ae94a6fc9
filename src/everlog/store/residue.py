"""What a deletion leaves on disk, and getting rid of it.

Deleted rows are overwritten (`secure_delete`), but old pages stand in the write-ahead log until it is truncated, and a
page that was moved can leave a copy behind, which no search for a few pieces would surely find. So after an erasure the
log is folded in and cut to nothing, and the whole file is written anew from its live rows.

The files are never opened here: closing any descriptor of a file drops all locks that the process has on it (POSIX),
and SQLite's with them.

On PostgreSQL nothing of this is in our hands: dead rows, its log, replicas and backups keep what was stored. There the
promise is made for encrypted stores, by the key that is gone, and is final once the master key that wrapped it is
retired.
"""

import sqlite3
from dataclasses import dataclass

from everlog.clock import monotonic
from everlog.store import rows
from everlog.store.sqlite import SQLiteEngine
from everlog.store.store import Store

WAIT_S = 1.0
"""How long an erasure waits for others to let it truncate the log."""
POLL_MS = 50

WAITING = "the write-ahead log beside the database, until other connections stop reading"
POSTGRES_PLAIN = "dead rows until VACUUM, the server's write-ahead log, replicas and backups; encrypt to promise more"
POSTGRES_SEALED = "ciphertext in dead rows, log, replicas and backups; unreadable once the master key {} is retired"


@dataclass(frozen=True, slots=True)
class Residue:
    """What the database may still hold."""

    clean: bool
    holds: tuple[str, ...] = ()


def residue(store: Store, *, wrapper: str = "") -> Residue:
    """Clean up after an erasure and say what is left.

    Args:
        store: the store.
        wrapper: name of the master key that could still unwrap what was erased.
    """
    engine = store.engine
    if not isinstance(engine, SQLiteEngine):
        return _postgres(store, wrapper)
    if engine.path is None:
        return Residue(clean=True)
    if not truncate(engine, wait_s=WAIT_S):
        return Residue(clean=False, holds=(WAITING,))
    if not rewrite(engine, wait_s=WAIT_S):
        return Residue(clean=False, holds=(WAITING,))
    return Residue(clean=True)


def truncate(engine: SQLiteEngine, *, wait_s: float) -> bool:
    """Fold the write-ahead log into the file and cut it to nothing; return False if others are in the way too long."""

    def act(raw: sqlite3.Connection) -> bool:
        raw.execute(f"PRAGMA busy_timeout = {POLL_MS}")
        until = monotonic() + wait_s
        while raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if monotonic() > until:
                return False
        return True

    return engine.maintain(act)


def rewrite(engine: SQLiteEngine, *, wait_s: float) -> bool:
    """Write the whole file anew from its live rows; return False if a reader still needs the log of the old one.

    Raises:
        StoreUnavailable: another process writes all the time, or the disk is full.
    """

    def act(raw: sqlite3.Connection) -> None:
        raw.execute("PRAGMA temp_store = FILE")  # the copy is as large as the database: not in memory
        raw.execute("VACUUM")

    engine.maintain(act)
    return truncate(engine, wait_s=wait_s)


def _postgres(store: Store, wrapper: str) -> Residue:
    if store.vault.provider is None or not wrapper:
        return Residue(clean=False, holds=(POSTGRES_PLAIN,))
    in_use = {name for (name,) in store.everywhere(lambda unit: unit.rows(rows.WRAPPERS))}
    retired = wrapper != store.vault.provider.name and wrapper not in in_use
    return Residue(clean=retired, holds=() if retired else (POSTGRES_SEALED.format(wrapper),))
