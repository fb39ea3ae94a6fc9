"""Commands about copies of a whole database: backup, restore."""

from pathlib import Path
from typing import Annotated

import typer

from everlog.store.backup import backup as copy
from everlog.store.backup import restore as put_back
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import line
from everlog.surfaces.cli.output import count, document
from everlog.surfaces.cli.progress import Bar, bar


def backup(
    context: typer.Context, file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; it must not exist.")]
) -> None:
    """Write a copy of the database while it is in use.

    The wrapped keys of an encrypted database go to FILE.keys. Keep them apart from the copies, and only the newest: an
    erasure then reaches older copies too, which do not open without the key that it destroyed. The master key is in
    neither. A server's database is copied by pg_dump, which must be installed.

    Example:
      everlog backup monday.backup
    """
    here = session.of(context)
    with here.open() as memory, bar("backup") as shown:
        made = copy(memory.store, file, lambda done, of: _show(shown, done, of), own=here.own_files)
    if here.json:
        keys = None if made.keys is None else str(file.with_name(made.keys.name))
        document({"file": str(file), "bytes": made.size_bytes, "keys": keys})
        return
    line(f"{file}: {made.size_bytes:,} bytes")
    if made.keys is not None:
        line(f"{file.with_name(made.keys.name)}: its wrapped keys; keep them apart from it, and only the newest")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `everlog backup` wrote.")],
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="FILE", help="Its wrapped keys, if they are not in FILE.keys.")
    ] = None,
) -> None:
    """Make a database from a backup.

    The database that --db names must not exist, or on a server be empty. `everlog verify` proves that it is whole.

    Example:
      everlog --db again.db restore monday.backup
    """
    here = session.of(context)
    with bar("restore") as shown:
        put_back(file, here.settings.database, keys, lambda done, of: _show(shown, done, of))
    with here.open() as memory:
        found = memory.stats()
    if here.json:
        document({"database": here.settings.shown, "threads": found.threads, "entries": found.entries})
    else:
        said = f"{count(found.threads, 'thread')}, {count(found.entries, 'entry', 'entries')}"
        line(f"{here.settings.shown}: {said}; `everlog verify` proves it")


def _show(shown: Bar, done: int, of: int | None) -> None:
    if of is None:
        shown.busy(f"{done:,} bytes")
    else:
        shown.to(done, of)
