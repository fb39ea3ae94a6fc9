"""Files of people's own beside the database: key files that are read, backups and exports that are written.

What is read is a regular file of a sensible size, so that nobody waits for a pipe that no one writes to. What is written
appears under its name when all of it is there, and never in the place of a file that the database needs: those are told
by device and inode, and never opened, since closing any descriptor of a file drops SQLite's locks on it (POSIX).
"""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from everlog.errors import Mistake, StoreUnavailable

if sys.platform != "win32":
    import fcntl

ENDINGS = ("", "-wal", "-shm", "-journal")
"""What SQLite puts behind the name of a database for the files that belong to it."""


def expanded(path: Path) -> Path:
    """Return a path with `~` and `~name` replaced by a home folder.

    Raises:
        Mistake: there is no such user.
    """
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise Mistake(f"{path}: there is no home folder of that name; write the folder out") from error


def contents(path: Path, limit: int) -> bytes:
    """Return what a regular file holds.

    Raises:
        OSError: it cannot be read.
        Mistake: it is a folder, a pipe or a device, or holds more than `limit` bytes.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise Mistake(f"{path} is no regular file; write what it gives to one first, and name that")
        if about.st_size > limit:
            raise Mistake(f"{path} is larger than {limit:,} bytes; is it the right file?")
        return file.read(limit)


def refuse_own(path: Path, own: Sequence[Path]) -> None:
    """Make sure that a file may be written, as far as the database is concerned.

    Args:
        path: the file to write.
        own: the database and its keys; what SQLite keeps beside a database counts as well.

    Raises:
        Mistake: the database, or whoever opens it, needs what is there.
    """
    here, there = _identity(path), path.resolve()
    for file in (one.with_name(f"{one.name}{ending}") for one in own if one.name for ending in ENDINGS):
        if there == file.resolve() or (here is not None and here == _identity(file)):
            raise Mistake(f"{path} is, or belongs to, the database or its keys; name another file")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Make an empty file that only its owner can read, and keep others from doing the same while the block runs.

    What an earlier try left is dropped, and so is the file itself if the block fails.

    Raises:
        Mistake: another process, or thread, is at it, or there is something that is no file.
        StoreUnavailable: it cannot be made.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise unwritable(path, error) from error
        with os.fdopen(descriptor, "rb"):
            if sys.platform != "win32":
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    if error.errno in {errno.EAGAIN, errno.EACCES}:
                        raise Mistake(f"{path} is being written at this moment; wait, or name another file") from error
                    # Some network file systems have no locks; the name is still given once only.
            if _identity(path) != (os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino):
                continue  # whoever held it before has just given it its name
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise taken(path)
            os.truncate(descriptor, 0)
            _drop(path, ENDINGS[1:])
            try:
                yield
            except BaseException:
                _drop(path, ENDINGS)
                raise
            return


def _drop(path: Path, endings: Sequence[str]) -> None:
    for ending in endings:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def place(part: Path, path: Path) -> None:
    """Give a whole file its name, which must be free.

    Raises:
        Mistake: there is a file of that name by now.
    """
    try:
        os.link(part, path)
    except FileExistsError as error:
        raise taken(path) from error
    except OSError:  # a file system without links
        if path.exists():
            raise taken(path) from None
        part.rename(path)
    else:
        part.unlink()


def taken(path: Path) -> Mistake:
    """Return what is said where nothing may be overwritten."""
    return Mistake(f"{path} exists already; nothing is overwritten, name another file")


def unwritable(path: Path, error: OSError) -> StoreUnavailable:
    """Return what is said where a file cannot be made."""
    return StoreUnavailable(f"{path}: {error.strerror}; does the folder exist, and may you write there?")
