"""Commands that count and prove: stats, verify."""

from itertools import groupby
from operator import attrgetter
from typing import Annotated

import typer

from everlog import Damaged, Everlog
from everlog.messages import JSON
from everlog.surfaces.cli import health, session
from everlog.surfaces.cli.console import line
from everlog.surfaces.cli.names import as_key, proposing
from everlog.surfaces.cli.output import account, count, document, facts, money
from everlog.surfaces.cli.progress import bar


def stats(context: typer.Context) -> None:
    """Count what is in the database.

    Examples:
      everlog stats
      everlog stats --json
    """
    here = session.of(context)
    with here.open() as memory:
        found, encryption = memory.stats(), health.encryption(memory)
        files = health.files(here.settings)
    if here.json:
        document(
            {
                "database": here.settings.shown,
                "named_by": here.settings.named_by,
                "tenant": here.settings.tenant,
                "encryption": encryption,
                "files": dict(files),
                "threads": found.threads,
                "entries": found.entries,
                "erased": found.erased,
                "text_bytes": found.text_bytes,
                "kinds": dict(found.kinds),
                "media": found.media,
                "media_bytes": found.media_bytes,
                "cost": {"talk": account(found.cost.talk), "memory": account(found.cost.memory)},
            }
        )
        return
    facts(
        [
            ("database", f"{here.settings.shown} ({here.settings.named_by})"),
            ("files", ", ".join(f"{name} {size:,} bytes" for name, size in files.items()) or "on the server"),
            ("encryption", encryption),
            ("tenant", here.settings.tenant),
            ("threads", f"{found.threads:,}"),
            ("entries", f"{found.entries:,}, {found.text_bytes:,} bytes of text"),
            *((f"  {kind}", f"{number:,}") for kind, number in found.kinds.items()),
            ("erased", f"{found.erased:,}{', of which tombstones stay' if found.erased else ''}"),
            ("media", f"{found.media:,}, {found.media_bytes:,} bytes"),
            ("talk", money(found.cost.talk)),
            ("memory", money(found.cost.memory)),
        ]
    )


def verify(
    context: typer.Context,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", parser=as_key, help="Only this thread.", show_default=False)
    ] = None,
) -> int:
    """Prove that nothing is missing or changed.

    Reads every row again: positions without gaps, each entry equal to its hash, turns and media where they belong, and
    lines of trees that open; those that do not, `everlog rebuild` makes again.
    The exit code is 1 if anything is wrong. Entries that forks share are counted once, as `stats` does.

    Example:
      everlog verify
    """
    here = session.of(context)
    entries = erased = threads = 0
    faults: list[tuple[str, int | None, str]] = []
    with here.open() as memory, proposing(memory, thread):
        names = _names(memory)
        for found, parts in groupby(memory.verify(thread), key=attrgetter("thread")):
            name = thread or names.get(found, "the database")
            with bar(name) as shown:
                counted = 0
                for checked in parts:
                    counted = max(counted, checked.shared if thread is None else 0)
                    faults += [(name, fault.i, fault.what) for fault in checked.faults]
                    if checked.stop > counted:
                        entries += checked.stop - counted - checked.erased
                        erased += checked.erased
                        counted = checked.stop
                    shown.to(checked.stop, checked.of)
            threads += bool(found)
    if here.json:
        said: list[JSON] = [{"thread": name, "i": i, "what": what} for name, i, what in faults]
        document({"threads": threads, "entries": entries, "erased": erased, "faults": said})
    else:
        for name, i, what in faults:
            line(f"{name}{'' if i is None else f' {i}'}: {what}")
        result = count(len(faults), "fault") if faults else "all as it was stored"
        stones = f", {count(erased, 'tombstone')}" if erased else ""
        line(f"{count(threads, 'thread')}, {count(entries, 'entry', 'entries')}{stones}: {result}")
    return 1 if faults else 0


def _names(memory: Everlog) -> dict[str, str]:
    """Return the keys of threads by their ids; none where not even these can be read, which verification says."""
    try:
        return memory.keys()
    except Damaged:
        return {}
