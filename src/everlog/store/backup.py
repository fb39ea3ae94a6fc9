"""Copies of a whole database, made while it is in use, and the way back.

The engine's own way: SQLite's online backup, PostgreSQL's `pg_dump` and `pg_restore` (`dump.py`). The keys are kept
apart: they are left out of the copy and written beside it as `<name>.keys`, still wrapped by the master key. Keep the
two in different places: a key that was destroyed by an erasure must not come back with an old copy.

Nothing is ever overwritten. A copy gets its name when it is whole; one that was interrupted is called `<name>.partial`
and is begun anew, by one at a time.
"""

import base64
import json
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from everlog.errors import Damaged, KeyTrouble, Mistake
from everlog.store import dump, migrate
from everlog.store.failpoints import hit
from everlog.store.files import connect, translated
from everlog.store.newfile import ENDINGS, contents, expanded, held, place, refuse_own
from everlog.store.postgres import PostgresEngine
from everlog.store.sqlite import SQLiteEngine
from everlog.store.store import Store, engine_of

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes written so far, and how many there will be where that is known."""

PAGES = 1024
"""Pages of a SQLite database that are copied in one go."""
KEYS_BYTES = 1 << 30
"""The most that a file of wrapped keys may hold: some millions of keys."""

_KEYS_MARK = re.compile(rb'\s*\{\s*"everlog"\s*:\s*"wrapped keys"')

_KEY_COLUMNS = ("tenant", "owner", "version", "wrapper", "wrapped", "created_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """What was written."""

    path: Path
    size_bytes: int
    keys: Path | None
    """The file of wrapped keys; None where the database is not encrypted."""
    tenants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was read back."""

    address: str
    """Of the new database, without a password."""
    tenants: int
    encrypted: bool


def backup(store: Store, target: Path, progress: Progress | None = None, *, own: Sequence[Path] = ()) -> BackupReport:
    """Copy a database to a new file, as it is at one moment, while others go on using it.

    Args:
        store: the database.
        target: the file to write; its keys go to the same name with `.keys` behind.
        progress: told how far it is.
        own: files beside the database that are needed to open it, such as one of master keys.

    Raises:
        Mistake: there is such a file already, or another backup is being written to it, or the tools or rights to dump
            a PostgreSQL database are missing.
        StoreUnavailable: the disk is full, or the server is away.
    """
    target = expanded(target).absolute()
    keys_file = keys_beside(target)
    needed = [path for path in (store.engine.path, *own) if path is not None]
    for path in (target, keys_file, _partial(target), _partial(keys_file)):
        refuse_own(path, needed)
    interrupted = os.path.lexists(_partial(target))
    _refuse_taken(target, keys_file, interrupted=interrupted)
    with held(_partial(target)):
        _refuse_taken(target, keys_file, interrupted=interrupted)
        encrypted = _write(store, target, progress)
    return BackupReport(
        path=target,
        size_bytes=target.stat().st_size,
        keys=keys_file if encrypted else None,
        tenants=len(store.tenants()),
    )


def _refuse_taken(target: Path, keys_file: Path, *, interrupted: bool) -> None:
    """Make sure that nothing is overwritten, but for the keys of a backup that was interrupted."""
    for path in (target, keys_file):
        if os.path.lexists(path) and not (interrupted and path is keys_file):
            raise Mistake(f"{path} exists already; a backup is never overwritten, name another file")


def _write(store: Store, target: Path, progress: Progress | None) -> bool:
    """Write a backup and its keys; return whether it is of an encrypted database."""
    partial = _partial(target)
    keys = _copied(store, partial, progress)
    _settle(partial)
    hit("backup.copied")
    encrypted = store.encryption() != "off"
    _write_keys(keys_beside(target), keys if encrypted else None)
    hit("backup.before_naming")
    place(partial, target)
    hit("backup.after_naming")
    return encrypted


def restore(
    source: Path, address: str, keys_file: Path | None = None, progress: Progress | None = None
) -> RestoreReport:
    """Make a new database from a backup.

    Args:
        source: a file that `backup` wrote.
        address: a path where nothing is, or `postgresql://…` of an empty database.
        keys_file: the wrapped keys, if they are not beside the backup.
        progress: told how far it is.

    Raises:
        Mistake: there is something at the address, or the file is no backup.
        KeyTrouble: the backup is of an encrypted database and its keys are missing.
        SchemaMismatch: it was made by a newer version.
        Damaged: the file is damaged.
    """
    source = expanded(source).absolute()
    if not source.is_file():
        state = "is no regular file" if source.exists() else "is not there"
        raise Mistake(f"{source} {state}; name a file that `everlog backup` wrote")
    beside = keys_beside(source)
    keys = _read_keys(expanded(keys_file)) if keys_file else _read_keys(beside) if beside.exists() else None
    engine = engine_of(address)
    try:
        if isinstance(engine, PostgresEngine):
            tenants, encrypted = dump.read(engine, source, keys, progress)
            return RestoreReport(address=engine.shown, tenants=tenants, encrypted=encrypted)
        if engine.path is None or engine.path.exists():
            raise Mistake(f"{engine.path or address} is no new file; name a path where nothing is")
        _refuse_left_overs(engine.path)
        refuse_own(_partial(engine.path), [source, *([keys_file] if keys_file else [beside])])
        with held(_partial(engine.path)):
            return _restore_sqlite(source, engine.path, keys, progress)
    finally:
        engine.close()


def _refuse_left_overs(path: Path) -> None:
    """SQLite would replay the log of a database that was here before into the restored one."""
    for ending in ENDINGS[1:]:
        left = path.with_name(path.name + ending)
        if left.exists():
            raise Mistake(f"{left} is left of a database that was here; move it away first, or name another path")


def keys_beside(path: Path) -> Path:
    """Return where a backup's keys are kept."""
    return path.with_name(path.name + ".keys")


def _copied(store: Store, target: Path, progress: Progress | None) -> list[dump.KeyRow]:
    """Copy all but the keys to a new file in the engine's own way, and return those."""
    engine = store.engine
    if isinstance(engine, SQLiteEngine):
        return engine.maintain(lambda raw: _copy_sqlite(raw, target, progress))
    if isinstance(engine, PostgresEngine):
        return dump.write(engine, target, progress)
    raise Mistake("a store on a borrowed connection cannot be backed up; open the database by its address")


def _copy_sqlite(raw: sqlite3.Connection, target: Path, progress: Progress | None) -> list[dump.KeyRow]:
    """Copy all but the keys to a new file, and return those; the transaction keeps all to one moment."""
    raw.execute("BEGIN")
    keys: list[dump.KeyRow] = raw.execute(f"SELECT {', '.join(_KEY_COLUMNS)} FROM wrapped_key").fetchall()
    with closing(connect(target, wal=False)) as copy:
        _copy_pages(raw, copy, progress)
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("DELETE FROM wrapped_key")
        copy.execute("PRAGMA temp_store = FILE")
        copy.execute("VACUUM")
    raw.rollback()
    return keys


def _copy_pages(source: sqlite3.Connection, copy: sqlite3.Connection, progress: Progress | None) -> None:
    (page_bytes,) = source.execute("PRAGMA page_size").fetchone()

    def report(_: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress((total - remaining) * page_bytes, total * page_bytes)

    source.backup(copy, pages=PAGES, progress=report)


def _restore_sqlite(
    source: Path, target: Path, keys: Sequence[dump.KeyRow] | None, progress: Progress | None
) -> RestoreReport:
    partial = _partial(target)
    with translated(source), closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as raw:
        found = migrate.sqlite_version(raw, source)
        if found is None:
            raise Mistake(f"{source} is no backup of a SQLite database")
        migrate.refuse_unknown(found)
        encrypted = raw.execute("SELECT value FROM store_state WHERE name = 'encryption'").fetchone() != ("off",)
        needed = dump.needed_keys(keys, encrypted=encrypted, source=source)
        with translated(partial), closing(connect(partial, wal=False)) as copy:
            _copy_pages(raw, copy, progress)
            copy.execute("PRAGMA journal_mode = DELETE")
            (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise Damaged(f"{source} is damaged; restore another backup")
            copy.execute("BEGIN")
            copy.executemany(f"INSERT INTO wrapped_key ({', '.join(_KEY_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)", needed)
            copy.execute("COMMIT")
            (tenants,) = copy.execute("SELECT count(*) FROM tenant").fetchone()
    _settle(partial)
    hit("restore.before_naming")
    place(partial, target)
    return RestoreReport(address=str(target), tenants=tenants, encrypted=encrypted)


def _write_keys(path: Path, keys: Sequence[dump.KeyRow] | None) -> None:
    if keys is None:
        return
    partial = _partial(path)
    partial.unlink(missing_ok=True)
    rows = [dict(zip(_KEY_COLUMNS, row, strict=True)) for row in keys]
    for row in rows:
        row["wrapped"] = base64.b64encode(row["wrapped"]).decode("ascii")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"everlog": "wrapped keys", "keys": rows}, file, indent=0)
    _settle(partial)
    partial.rename(path)


def _read_keys(path: Path) -> list[dump.KeyRow]:
    try:
        found = contents(path, KEYS_BYTES)
        document: Any = json.loads(found if _KEYS_MARK.match(found) else b"")
        keys: Any = document["keys"] if document["everlog"] == "wrapped keys" else None
        rows = [row | {"wrapped": base64.b64decode(row["wrapped"], validate=True)} for row in keys]
        return [tuple(row[name] for name in _KEY_COLUMNS) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise KeyTrouble(
            f"{path} is no file of wrapped keys; `everlog backup` writes one beside each backup"
        ) from error


def _partial(path: Path) -> Path:
    """Return where a file is written until it is whole."""
    return path.with_name(path.name + ".partial")


def _settle(path: Path) -> None:
    """Make sure that what is in a file is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
