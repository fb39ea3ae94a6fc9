"""`everlog import`: conversations from files into the log."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from everlog import Added, BadImport, Conversation, Everlog, Mistake, read
from everlog.importers import FORMATS, Problem, Reading
from everlog.messages import JSON
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import failure, line, note
from everlog.surfaces.cli.output import count, document, facts
from everlog.surfaces.cli.progress import Bar, bar

LONG = 2_000
"""Messages of a conversation that takes long enough to say that it is being stored."""

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
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Exports; zip archives as they are.")],
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
    """
    here = session.of(context)
    outcomes = []
    with here.open(create=True) as memory:
        for path in files:
            try:
                outcomes.append(_import(memory, path, thread, format_name))
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


def _import(memory: Everlog, path: Path, thread: str | None, format_name: str | None) -> _Outcome:
    outcome = _Outcome(path)
    try:
        with read(path, format_name) as reading, bar(path.name) as shown:
            outcome.format = reading.format
            outcome.unknown, outcome.skipped = reading.tally.unknown, reading.tally.skipped
            outcome.assumed = reading.tally.assumed
            named = _named(reading, path, thread) if thread is not None else reading
            for found in named:
                shown.to(reading.done_bytes, reading.size_bytes)
                _take(memory, found, outcome, shown)
            shown.to(reading.size_bytes, reading.size_bytes)
    except BadImport as error:
        outcome.error = error
    return outcome


def _take(memory: Everlog, found: Conversation | Problem, outcome: _Outcome, shown: Bar) -> None:
    if isinstance(found, Problem):
        outcome.problems.append(found)
        return
    if len(found.messages) >= LONG:
        shown.busy(f"storing {len(found.messages):,} messages")
    outcome.added.append(memory.add(found))


def _named(reading: Reading, path: Path, thread: str) -> list[Conversation | Problem]:
    """Give the one conversation of a file, and its branches, a key of the caller's."""
    found: list[Conversation | Problem] = []
    names: dict[str, str] = {}
    for one in reading:
        if isinstance(one, Problem):
            found.append(one)
            continue
        root = next(iter(names), one.key)
        if names and one.parent not in names and not one.key.startswith(f"{root}#"):
            raise Mistake(f"{path} holds several conversations; without --thread each gets a key of its own")
        names[one.key] = thread + one.key[len(root) :] if one.key.startswith(root) else f"{thread}#{one.key}"
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
            line(f"  {problem.where}{f' #{problem.position}' if problem.position else ''}: {problem.reason}")
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
