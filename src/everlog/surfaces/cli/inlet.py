"""Standard input as a file, since an import reads what it is given more than once."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile

from everlog.errors import BadImport

STANDARD_INPUT = Path("-")
CALLED = Path("standard input")

_OPEN_FILES = Path("/proc/self/fd")
"""Where Linux lets a file be opened again that has no name any more."""


@contextmanager
def readable(path: Path) -> Iterator[tuple[Path, Path]]:
    """Give the file to read for a path, and what to call it: for `-` a copy of standard input, for the time of the block.

    Nobody else may read the copy, and where the system allows it has no name, so that it is gone whatever happens.

    Raises:
        BadImport: standard input is closed, or is a terminal.
    """
    if path != STANDARD_INPUT:
        yield path, path
        return
    if sys.stdin is None or sys.stdin.closed:
        raise BadImport("standard input is closed; name a file, or pipe one in")
    if sys.stdin.isatty():
        raise BadImport("standard input is a terminal; name a file, or pipe one in")
    nameless = _OPEN_FILES.is_dir()
    with TemporaryFile() if nameless else NamedTemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield _OPEN_FILES / str(copy.fileno()) if nameless else Path(copy.name), CALLED
