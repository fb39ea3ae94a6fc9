"""How a SQLite file is opened, and what its errors mean to a caller."""

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from everlog.errors import Conflict, Damaged, EverlogError, Mistake, StoreUnavailable
from everlog.store import readonly

DRIVER_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What the driver raises; the second where what it has to say of a damaged file is no text."""

BUSY_S = 10.0
"""How long a statement waits for another process."""

_ADVICE: dict[int, tuple[type[EverlogError], str]] = {
    sqlite3.SQLITE_FULL: (StoreUnavailable, "free some space and try again; nothing of this was stored"),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "is the disk full or read-only? nothing of this was stored"),
    sqlite3.SQLITE_BUSY: (
        StoreUnavailable,
        "another process has held the write lock for too long; one process should write, others go through it",
    ),
    sqlite3.SQLITE_READONLY: (StoreUnavailable, "the file or its folder is read-only"),
    sqlite3.SQLITE_CANTOPEN: (StoreUnavailable, "does the folder exist, and may you write there?"),
    sqlite3.SQLITE_NOTADB: (Mistake, "name an Everlog database"),
    sqlite3.SQLITE_CORRUPT: (Damaged, "the file is damaged; restore a backup"),
}


_OTHER_TABLES = re.compile("no such (table|column)|integer overflow|malformed")
_NO_TEXT = "Could not decode to UTF-8"
_RESTORE = "it is damaged; `everlog verify` says where, and a backup has what was stored"


def connect(
    path: Path | None, *, synchronous: str = "NORMAL", query_only: bool = False, wal: bool = True
) -> sqlite3.Connection:
    """Open a connection with the settings that every connection of Everlog has.

    Args:
        path: the file; None for a database in memory.
        synchronous: NORMAL or FULL.
        query_only: refuse to write.
        wal: put the file in write-ahead mode, which changes it, if this user may.
    """
    if path is not None and (reader := readonly.opened(path, BUSY_S)) is not None:
        return reader
    raw = sqlite3.connect(
        ":memory:" if path is None else path,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_S,
        cached_statements=512,
    )
    try:
        raw.execute("PRAGMA secure_delete = ON")
        raw.execute("PRAGMA temp_store = MEMORY")
        raw.execute(f"PRAGMA synchronous = {synchronous}")
        if wal and path is not None:
            _switch_to_wal(raw)
            readonly.share(path)
        if query_only:
            raw.execute("PRAGMA query_only = ON")
    except BaseException:
        raw.close()
        raise
    return raw


def _switch_to_wal(raw: sqlite3.Connection) -> None:
    # Changing the journal mode does not wait for other connections by itself, unlike everything else.
    until = time.monotonic() + BUSY_S
    while True:
        try:
            if raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


@contextlib.contextmanager
def translated(path: Path | None) -> Iterator[None]:
    """Turn the driver's errors into ours, with what to do."""
    try:
        yield
    except DRIVER_ERRORS as error:
        heard = translation(error, path)
        raise heard from (None if isinstance(heard, Damaged) else error)


def translation(error: sqlite3.DatabaseError | UnicodeDecodeError, path: Path | None) -> Exception:
    """Return what an error of the driver is to a caller; a fault in our own statements stays what it is."""
    place = path or "the database"
    if isinstance(error, UnicodeDecodeError) or str(error).startswith(_NO_TEXT):  # which quotes what it cannot decode
        return Damaged(f"{place} holds a text that is no text: {_RESTORE}")
    if _OTHER_TABLES.match(str(error)):
        return Damaged(f"{place}: {error}: {_RESTORE}")
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
        return Conflict(f"there is such a row already: {error}")
    if code == sqlite3.SQLITE_CONSTRAINT_NOTNULL:
        return Damaged(f"{place} holds nothing where there must be something ({error}): {_RESTORE}")
    known = _ADVICE.get(code & 0xFF)
    if known is None:
        return error if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError) else _unknown(error, path)
    kind, advice = known
    if code & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        advice = readonly.hindrance(path) or advice
    return kind(f"{path or 'the database'}: {error}; {advice}")


def is_busy(error: BaseException) -> bool:
    """Return whether another connection was in the way, so that the same may succeed later."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, sqlite3.OperationalError) and code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _unknown(error: sqlite3.DatabaseError, path: Path | None) -> StoreUnavailable:
    return StoreUnavailable(f"{path or 'the database'}: {error}")
