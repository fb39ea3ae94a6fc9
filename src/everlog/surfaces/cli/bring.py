"""`everlog import`: conversations from files into the log."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from everlog import Added, BadImport, Conversation, Erased, Everlog, KeyTrouble, Mistake, read
from everlog.importers import FORMATS, Problem, Reading, fitted
from everlog.log import checked_key
from everlog.messages import JSON
from everlog.store.store import checked
from everlog.surfaces import opening
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import failure, line, note
from everlog.surfaces.cli.inlet import CALLED, STANDARD_INPUT, readable
from everlog.surfaces.cli.output import count, document, facts
from everlog.surfaces.cli.progress import Bar, bar
from everlog.surfaces.config import Settings

LONG = 2_000
"""Messages of a conversation that takes long enough to show how far it is stored."""

OWN_FILES = ("", "-wal", "-shm", "-journal", ".keys")
"""What the names of a database's files end in."""

SHOWN_PROBLEMS = 20
"""How many of a file's problems are printed; --json has them all."""


@dataclass(slots=True)
class _Outcome:
    """What became of one file."""

    path: Path
    format: str = ""
    added: list[Added] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    error: BadImport | None = None
    unknown: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    assumed: Counter[str] = field(default_factory=Counter)

    @property
    def new(self) -> int:
        return sum(one.entries for one in self.added)

    @property
    def known(self) -> int:
        return sum(one.known for one in self.added)

    @property
    def forks(self) -> int:
        return sum(one.forked_at is not None for one in self.added)

    @property
    def instructions(self) -> int:
        return sum(one.instructions for one in self.added)


def import_files(
    context: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Exports; zip archives as they are; - is standard input.")
    ],
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="KEY", help="Put the conversation of the file into this thread.")
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help=f"Instead of what is detected: {', '.join(FORMATS)}."),
    ] = None,
) -> int:
    """Bring in conversations that other programs exported.

    The form of a file is seen by its content. What is in the log already is recognised and not stored again, so a newer
    export can be imported over an older one, and an import that was stopped is resumed by running it again. What was
    edited since becomes a fork. Without --thread the keys of threads come from the files.

    Examples:
      everlog import chatgpt-export.zip
      everlog import ~/.claude/projects/*/*.jsonl
      everlog import messages.jsonl --thread holiday
      my-program | everlog import - --thread holiday
    """
    here = session.of(context)
    outcomes = []
    _check_names(here.settings, thread)
    with ExitStack() as closing:
        opened = cache(lambda: closing.enter_context(here.open(create=True)))
        if opening.is_there(here.settings):
            opened()
        else:
            opening.keys(here.settings)  # what cannot be read is said before long files are
        for path in files:
            try:
                outcomes.append(_import(opened, here.settings, path, thread, format_name))
            except KeyboardInterrupt:
                note(f"stopped in {path}; run the same command again to go on, what is in already is recognised")
                raise
            if (error := outcomes[-1].error) is not None:
                failure(str(error), kind=type(error).__name__, status=2, as_json=here.json)
    if here.json:
        document({"files": [_report(one) for one in outcomes], "total": _totals(outcomes)})
    else:
        _print(outcomes)
    if any(one.error is not None for one in outcomes):
        return 2
    return 0 if any(one.added for one in outcomes) else 1


def _check_names(settings: Settings, thread: str | None) -> None:
    """See that what the caller named can be a tenant and a thread, which is no fault of any conversation.

    Raises:
        Mistake: it cannot.
    """
    checked(settings.tenant)
    if thread is not None:
        checked_key(thread)


def _import(
    opened: Callable[[], Everlog], settings: Settings, path: Path, thread: str | None, format_name: str | None
) -> _Outcome:
    """Bring in a file; a database that is not there is made by its first conversation."""
    outcome = _Outcome(CALLED if path == STANDARD_INPUT else path)
    try:
        _refuse_own(path, settings)
        with (
            readable(path) as (file, called),
            read(file, format_name, called=called) as reading,
            bar(called.name) as shown,
        ):
            outcome.format = reading.format
            outcome.unknown, outcome.skipped = reading.tally.unknown, reading.tally.skipped
            outcome.assumed = reading.tally.assumed
            named = _named(reading, called, thread) if thread is not None else reading
            for found in named:
                shown.to(reading.done_bytes, reading.size_bytes)
                if isinstance(found, Problem):
                    outcome.problems.append(found)
                else:
                    _take(opened(), found, reading, outcome, shown)
            shown.to(reading.size_bytes, reading.size_bytes)
    except BadImport as error:
        outcome.error = error
    return outcome


def _refuse_own(path: Path, settings: Settings) -> None:
    """Refuse the files of the open database, which no import may even open: closing one drops SQLite's locks on it.

    Raises:
        BadImport: it is one of them, under whatever name.
    """
    own = [settings.path.with_name(settings.path.name + ending) for ending in OWN_FILES] if settings.path else []
    if settings.key_file is not None:
        own.append(settings.key_file.expanduser())
    given = _inode(path)
    if given is not None and given in map(_inode, own):
        raise BadImport(
            f"{path} belongs to the database itself; import what `everlog export` wrote, or another program"
        )


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _take(memory: Everlog, found: Conversation, reading: Reading, outcome: _Outcome, shown: Bar) -> None:
    """Store a conversation; one that cannot be stored is a problem, and the next ones follow."""
    if is_long := len(found.messages) >= LONG:
        shown.busy(f"storing {len(found.messages):,} messages")
    try:
        outcome.added.append(memory.add(found, on_progress=shown.to if is_long else None))
    except KeyTrouble:
        raise
    except (Mistake, Erased) as error:
        where, position = reading.place
        outcome.problems.append(Problem(where=where, position=position, reason=f"thread {found.key!r}: {error}"))


def _named(reading: Reading, path: Path, thread: str) -> list[Conversation | Problem]:
    """Give the one conversation of a file, and its branches, a key of the caller's.

    Raises:
        BadImport: there are several; none was stored.
    """
    found: list[Conversation | Problem] = []
    names: dict[str, str] = {}
    for one in reading:
        if isinstance(one, Problem):
            found.append(one)
            continue
        root = next(iter(names), one.key)
        if names and one.parent not in names and not one.key.startswith(f"{root}#"):
            raise BadImport(f"{path} holds several conversations; without --thread each gets a key of its own")
        names[one.key] = fitted(thread + one.key[len(root) :] if one.key.startswith(root) else f"{thread}#{one.key}")
        found.append(replace(one, key=names[one.key], parent=None if one.parent is None else names.get(one.parent)))
    return found


def _report(one: _Outcome) -> dict[str, JSON]:
    return {
        "file": str(one.path),
        "format": one.format or None,
        **_totals([one]),
        "threads": list(dict.fromkeys(added.key for added in one.added)),
        "problems": [
            {"where": problem.where, "position": problem.position, "reason": problem.reason} for problem in one.problems
        ],
        "unknown": dict(one.unknown),
        "left_out": dict(one.skipped),
        "assumed": dict(one.assumed),
        "error": None if one.error is None else str(one.error),
    }


def _totals(outcomes: list[_Outcome]) -> dict[str, JSON]:
    return {
        "conversations": sum(len(one.added) for one in outcomes),
        "entries": sum(one.new for one in outcomes),
        "known": sum(one.known for one in outcomes),
        "forks": sum(one.forks for one in outcomes),
        "instructions": sum(one.instructions for one in outcomes),
        "skipped": sum(len(one.problems) for one in outcomes),
    }


def _print(outcomes: list[_Outcome]) -> None:
    for one in outcomes:
        if one.format:
            line(f"{one.path} ({one.format})")
            facts(_lines(one))
        for problem in one.problems[:SHOWN_PROBLEMS]:
            where = f"{one.path}{problem.where.removeprefix(one.path.name)}"
            line(f"  {where}{f' #{problem.position}' if problem.position else ''}: {problem.reason}")
        if len(one.problems) > SHOWN_PROBLEMS:
            line(f"  and {len(one.problems) - SHOWN_PROBLEMS:,} more; --json lists them all")


def _lines(one: _Outcome) -> list[tuple[str, str]]:
    keys = list(dict.fromkeys(added.key for added in one.added))
    lines = [
        ("  conversations", f"{len(one.added):,}" + (f", in thread {keys[0]}" if len(keys) == 1 else "")),
        ("  entries", f"{one.new:,} new, {one.known:,} known"),
    ]
    if one.forks:
        lines.append(("  forks", f"{one.forks:,}"))
    if one.instructions:
        lines.append(("  instructions", f"{one.instructions:,}, kept beside the log"))
    for name, tally in (("  unknown", one.unknown), ("  left out", one.skipped), ("  assumed", one.assumed)):
        if tally:
            lines.append((name, ", ".join(f"{number:,} {what}" for what, number in tally.most_common())))
    if one.problems:
        lines.append(("  skipped", count(len(one.problems), "problem") + ":"))
    return lines
