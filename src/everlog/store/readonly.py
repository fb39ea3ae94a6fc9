"""Reading a database that one may not write, and what is said where a file of another user is in the way.

SQLite makes a log and its index (`-wal`, `-shm`) beside a database as soon as somebody reads it. They belong to whoever
made them (root alone gives them to the owner of the database), and a reader who may not write the database cannot remove
them: they stay, and lock its owner out. So such a reader makes none. Where the log and its index are there, it uses
them; where there is no log, nothing but the file counts, and it is read as one that nobody writes (`immutable`). Whether
that was so is seen afterwards: who begins to write makes a log first.
"""

import os
import sqlite3
import sys
from pathlib import Path

from everlog.errors import StoreUnavailable
from everlog.store.newfile import ENDINGS

if sys.platform != "win32":
    import pwd

_EFFECTIVE = os.access in os.supports_effective_ids


class Changed(StoreUnavailable):
    """The file was written to while it was read as one that nobody writes."""


class Still(sqlite3.Connection):
    """A connection to a file that nobody writes while it is open, for one unit."""

    path: Path
    seen: tuple[int, ...] | None

    def confirm(self) -> None:
        """Make sure that nobody wrote it.

        Raises:
            Changed: what was read may be of two moments.
        """
        if self.seen != _seen(self.path):
            raise Changed(f"{self.path} is being written at this moment; do the same again")


def opened(path: Path, timeout_s: float) -> sqlite3.Connection | None:
    """Open a file for reading if this user may not write it; None if they may, or there is none.

    Raises:
        StoreUnavailable: somebody who may write it has to open it first.
    """
    if not path.exists() or not _only_readable(path):
        return None
    about = f"{path.absolute().as_uri()}?mode=ro"
    if _beside(path, "-wal").exists() and _beside(path, "-shm").exists():
        return sqlite3.connect(about, uri=True, isolation_level=None, check_same_thread=False, timeout=timeout_s)
    for ending in ("-wal", "-journal"):
        log = _beside(path, ending)
        if log.exists() and log.stat().st_size:
            raise StoreUnavailable(
                f"{path}: its newest rows are in {log}, and you may not write the database, which is needed to read them;"
                " let a user open it who may"
            )
    seen = _seen(path)
    raw = sqlite3.connect(
        f"{about}&immutable=1", uri=True, isolation_level=None, check_same_thread=False, factory=Still
    )
    raw.path, raw.seen = path, seen
    return raw


def hindrance(path: Path | None) -> str | None:
    """Say which of a database's files this user may not use, and what to do; None if they may use all that are there."""
    if path is None:
        return None
    if path.exists() and not _may(path, os.R_OK):
        return f"it belongs to {_owner(path)}, and you may not read it"
    if path.exists() and not _may(path, os.W_OK):
        return f"it belongs to {_owner(path)}; you may read it, but not write"
    logs = [log for ending in ENDINGS[1:] if (log := _beside(path, ending)).exists()]
    foreign = [log for log in logs if not _may(log, os.R_OK | os.W_OK)]
    if foreign:
        holds = any(log.stat().st_size for log in logs if not log.name.endswith("-shm"))
        what = f"let an administrator give them to {_owner(path)} (chown): there are rows in them"
        return (
            f"{' and '.join(map(str, foreign))}: made by {_owner(foreign[0])}, who opened the database, and you may not"
            f" write there; when no program has it open, {what if holds else 'remove them: they are empty'}"
        )
    if path.parent.exists() and not _may(path.parent, os.W_OK | os.X_OK):
        return f"you may not write in the folder {path.parent}"
    return None


def share(path: Path) -> None:
    """Let the owner's group write the log that this user has made, as it may write the database."""
    if sys.platform == "win32":
        return
    try:
        about = path.stat()
        if about.st_uid == os.geteuid():
            return
        for log in (_beside(path, "-wal"), _beside(path, "-shm")):
            made = log.stat()
            if made.st_uid == os.geteuid() and made.st_gid != about.st_gid:
                os.chown(log, -1, about.st_gid)
    except OSError:
        return  # it is gone again, or they are of no common group, and then the file is for everybody


def _only_readable(path: Path) -> bool:
    if not _may(path, os.R_OK):
        return False
    if not _may(path, os.W_OK):
        return True
    return not _may(path.parent, os.W_OK | os.X_OK) and not _beside(path, "-wal").exists()


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=_EFFECTIVE)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _seen(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is written, or somebody is about to; None if it is gone."""
    try:
        about = path.stat()
        logs = [
            _beside(path, ending).stat().st_size for ending in ("-wal", "-journal") if _beside(path, ending).exists()
        ]
    except OSError:
        return None
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, sum(logs)


def _owner(path: Path) -> str:
    number = path.stat().st_uid
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except (KeyError, NameError):
        return f"user {number}"
