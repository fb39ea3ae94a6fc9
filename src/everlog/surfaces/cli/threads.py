"""Commands about threads as they were said: list, show, export, fork."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Annotated, BinaryIO

import typer

from everlog import Call, Entry, Everlog, Media, Mistake, Overview, Result, Thread, Unknown, log
from everlog.conversation.database import unless_erased
from everlog.jsonl import ENTRY, render_entry
from everlog.log import TurnState
from everlog.store.newfile import expanded, place, refuse_own, unwritable
from everlog.surfaces.cli import console, session
from everlog.surfaces.cli.console import line, note, text
from everlog.surfaces.cli.names import Key, Named, as_key, proposing, thread_named
from everlog.surfaces.cli.output import array, count, document, speaker, table


def list_threads(context: typer.Context) -> None:
    """List the threads.

    Examples:
      everlog threads
      everlog threads --json | jq -r '.[].key'
    """
    here = session.of(context)
    with here.open() as memory:
        if here.json:
            array(
                {
                    "key": one.key,
                    "title": one.title,
                    "entries": one.entries,
                    "turns": one.turns,
                    "forked_from": one.forked_from,
                }
                for one in memory.threads()
            )
            return
        rows = [(one.key, one.entries, _about(one)) for one in memory.threads()]
    if rows:
        table(("THREAD", "ENTRIES", "TITLE"), rows)
    else:
        note(
            f"no threads of tenant {here.settings.tenant!r} in {here.settings.shown}; `everlog import FILE` brings some in"
        )


def show(
    context: typer.Context,
    thread: Named,
    first: Annotated[
        int, typer.Option("--from", metavar="N", min=0, help="First position; positions count from 0.")
    ] = 0,
    to: Annotated[int | None, typer.Option("--to", metavar="N", min=0, help="Last position, itself included.")] = None,
    last: Annotated[int | None, typer.Option("--last", metavar="N", min=1, help="Only the last N entries.")] = None,
    told: Annotated[
        bool, typer.Option("--instructions", help="What the model was told before the conversation instead.")
    ] = False,
) -> None:
    """Print the entries of a thread.

    System messages before the conversation are instructions: they stand beside the entries, and --instructions prints
    them.

    Examples:
      everlog show holiday --last 10
      everlog show holiday --from 100 --to 119
      everlog show holiday --instructions
      everlog show holiday --json
    """
    here = session.of(context)
    with here.open() as memory:
        found = thread_named(memory, thread)
        if told:
            if first or to is not None or last is not None:
                raise Mistake("--instructions goes without --from, --to and --last")
            _instructions(found, as_json=here.json)
            return
        start, stop = _span(found, first, to, last)
        entries = found.entries(start, stop)
        if here.json:
            array(render_entry(entry) for entry in entries)
        else:
            empty = True
            broken = memory.store.read(memory.name, partial(log.broken_off, thread=found.id, start=start, stop=stop))
            for entry in entries:
                _print(entry, broken.get(entry.i))
                empty = False
            if empty:
                note(f"{found.key} is empty")


def _instructions(thread: Thread, *, as_json: bool) -> None:
    texts = thread.instructions()
    if as_json:
        array(texts)
        return
    for n, words in enumerate(texts, 1):
        line(f"[instructions {n} of {len(texts)}]")
        text(f"{words}\n\n")
    if not texts:
        note(f"{thread.key} has no instructions")


def _span(thread: Thread, first: int, to: int | None, last: int | None) -> tuple[int, int]:
    stop = thread.row().next
    if first and first >= stop:
        raise Mistake(f"there is no entry {first}: {thread.key} {_extent(stop)}")
    if last is not None:
        if first or to is not None:
            raise Mistake("--last goes without --from and --to")
        return max(0, stop - last), stop
    if to is not None and to < first:
        raise Mistake(f"--to {to} is before --from {first}")
    return first, stop if to is None else min(stop, to + 1)


def _extent(entries: int) -> str:
    return f"has the entries 0 to {entries - 1}" if entries else "is empty"


def export(
    context: typer.Context,
    thread: Annotated[
        str | None,
        typer.Argument(
            metavar="THREAD", parser=as_key, help="Key of the thread, or how it begins.", show_default=False
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All threads, one after the other.")] = False,
    format_name: Annotated[str, typer.Option("--format", metavar="jsonl", help="The form; there is one.")] = "jsonl",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to a new file, which appears when it is whole."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over FILE if it is there.")] = False,
) -> None:
    """Write threads as lines of JSON, one entry each.

    Every line has `i kind author text time`, the rest where there is something to say; `everlog import` reads it back
    without a loss. The first line of a thread also has its key, title and instructions, and a thread without entries is
    one line that says so.

    Examples:
      everlog export holiday > holiday.jsonl
      everlog export --all -o everything.jsonl
    """
    here = session.of(context)
    if format_name != "jsonl":
        raise Mistake(f"there is no format {format_name!r}; the one there is, is jsonl")
    if (thread is None) != everything:
        raise Mistake("name a thread to export, or --all; one of the two")
    if force and output is None:
        raise Mistake("--force goes with --output")
    if output is not None:
        output = expanded(output)
        _refuse(output, here.own_files, force=force)
    with here.open() as memory:
        lines = _lines(memory, thread)
        if output is None:
            for data in lines:
                console.write_json(data)
            return
        entries = 0
        with _whole(output, force=force) as write:
            for data in lines:
                write(data)
                entries += data.startswith(ENTRY)
    if here.json:
        document({"file": str(output), "entries": entries})
    else:
        line(f"{output}: {count(entries, 'entry', 'entries')}")


def _lines(memory: Everlog, thread: str | None) -> Iterator[bytes]:
    if thread is not None:
        yield from thread_named(memory, thread).export()
        return
    for key in [one.key for one in memory.threads()]:
        with unless_erased():
            yield from memory.thread(key).export()


def fork(
    context: typer.Context,
    thread: Key,
    at: Annotated[int, typer.Argument(metavar="AT", min=0, help="How many entries it shares; it goes on from there.")],
    key: Annotated[str, typer.Argument(metavar="KEY", parser=as_key, help="Key of the new thread.")],
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Its title.")] = None,
) -> None:
    """Begin a thread that shares the start of another.

    Nothing is copied. The two have the first AT entries in common, and each goes its own way from there.

    Example:
      everlog fork holiday 12 holiday-by-train
    """
    here = session.of(context)
    with here.open() as memory, proposing(memory, thread):
        made = memory.thread(thread).fork(at, key, title=title)
    if here.json:
        document({"key": made.key, "entries": at, "forked_from": thread})
    else:
        line(f"{made.key} shares {count(at, 'entry', 'entries')} with {thread}")


def _about(one: Overview) -> str:
    """Return the title, and what it is a fork of, as far as its own key does not say it."""
    if one.forked_from is None:
        return one.title or ""
    root = re.split("[#~]", one.key, maxsplit=1)[0]
    of = one.forked_from.removeprefix(root) if one.key != root else one.forked_from
    return f"{one.title or ''} (fork{f' of {of}' if of else ''})".strip()


_BROKE = {TurnState.PARTIAL: "(the answer broke off here)", TurnState.ABORTED: "(no answer came)"}


def _print(entry: Entry, state: TurnState | None) -> None:
    line(f"[{entry.i}] {speaker(entry)}, {entry.at:%Y-%m-%d %H:%M:%S} UTC")
    if entry.erased:
        line("(erased)")
    if entry.text:
        text(f"{entry.text}\n")
    for part in entry.message.parts:
        if (said := _part(part)) is not None:
            line(f"({console.flat(said)})")
    if state is not None:
        line(_BROKE[state])
    line()


def _part(part: Media | Call | Result | Unknown) -> str | None:
    match part:
        case Media():
            size = "" if part.content is None else f", {len(part.content):,} bytes"
            return (
                f"{part.media_type}{size}{f', {part.name}' if part.name else ''}{f', {part.url}' if part.url else ''}"
            )
        case Unknown():
            return f"a part of {part.source} that Everlog does not know; --json shows it"
        case Result(failed=True):
            return "the tool reported an error"
        case _:
            return None


def _refuse(path: Path, own: list[Path], *, force: bool) -> None:
    """Make sure that a file may be written; nothing of the database is, whatever is said."""
    if path.is_dir():
        raise Mistake(f"{path} is a folder; name a file in it")
    refuse_own(path, own)
    if path.is_file() and not force:
        raise Mistake(f"{path} exists already; name another file, or write over it with --force")


@contextmanager
def _whole(path: Path, *, force: bool) -> Iterator[Callable[[bytes], object]]:
    """Open a file that appears under its name only when all of it is there; a pipe or device is written at once."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file.write
        return
    path = path.resolve()
    part = path.with_name(f"{path.name[:200]}.{token_hex(4)}.part")
    try:
        with _new(part) as file:
            yield file.write
        if force:
            part.replace(path)
        else:
            place(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _new(path: Path) -> BinaryIO:
    try:
        return path.open("xb")
    except OSError as error:
        raise unwritable(path.parent, error) from error
