"""What a deletion leaves on disk, and getting rid of it.

Deleted rows are overwritten (`secure_delete`), but old pages stand in the write-ahead log until it is truncated, and a
page that was moved can leave a copy behind. So after an erasure the log is folded in and cut to nothing, the files are
searched for pieces of what was erased, and if one is found the whole file is written anew from its live rows.

On PostgreSQL nothing of this is in our hands: dead rows, its log, replicas and backups keep what was stored. There the
promise is made for encrypted stores, by the key that is gone, and is final once the master key that wrapped it is
retired.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from everlog.clock import monotonic
from everlog.store import rows
from everlog.store.sqlite import SQLiteEngine
from everlog.store.store import Store

Probe: TypeAlias = bytes
PROBE_BYTES = 24
CHUNK = 4 * 1024 * 1024
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


def residue(store: Store, probes: Sequence[Probe] | None, *, wrapper: str = "") -> Residue:
    """Clean up after an erasure and say what is left.

    Args:
        store: the store.
        probes: pieces of what was erased, as they stood in rows; None if nobody knows them any more.
        wrapper: name of the master key that could still unwrap what was erased.
    """
    engine = store.engine
    if not isinstance(engine, SQLiteEngine):
        return _postgres(store, wrapper)
    if engine.path is None:
        return Residue(clean=True)
    if not truncate(engine, wait_s=WAIT_S):
        return Residue(clean=False, holds=(WAITING,))
    if (probes is None or found_in(engine.path, probes)) and not rewrite(engine, wait_s=WAIT_S):
        return Residue(clean=False, holds=(WAITING,))
    return Residue(clean=True)


def piece(plain: bytes) -> Probe | None:
    """Return a piece from the middle of a stored value, long enough to be found again; None if it is too short."""
    middle = len(plain) // 2
    found = plain[max(0, middle - PROBE_BYTES // 2) :][:PROBE_BYTES]
    return found if len(found) >= PROBE_BYTES else None


def found_in(path: Path, probes: Sequence[Probe]) -> bool:
    """Return whether one of the pieces stands in a database file or in the log beside it."""
    if not probes:
        return False
    longest = max(map(len, probes))
    for file in (path, path.with_name(path.name + "-wal")):
        if not file.exists():
            continue
        with file.open("rb") as stream:
            tail = b""
            while chunk := stream.read(CHUNK):
                window = tail + chunk
                if any(probe in window for probe in probes):
                    return True
                tail = window[-longest:]
    return False


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
