"""`everlog search`: where words were said, when, and by whom; never what was said."""

import shlex
from collections.abc import Mapping
from typing import Annotated

import typer

from everlog import Entry
from everlog.memory.tree import Found
from everlog.surfaces.cli import console, session
from everlog.surfaces.cli.console import line, note
from everlog.surfaces.cli.names import Named, as_key, thread_named
from everlog.surfaces.cli.output import document, speaker, table


def search(
    context: typer.Context,
    thread: Named,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", parser=as_key, help="At most eight are used.")],
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="ID", help="Only messages before this one.", show_default=False),
    ] = None,
    budget_bytes: Annotated[
        int | None,
        typer.Option("--bytes", metavar="N", help="Name lines of the view of so many bytes.", show_default=False),
    ] = None,
) -> None:
    """Find messages by their words: where, when and who, no text.

    It looks in one thread; `everlog threads` lists them, with how they begin. A word of five letters or more also matches the beginning of a longer one; one with a digit or a symbol is looked for
    between spaces. Messages with all the words come first, then those with most of them, the newest first, at most 10.
    An agent's tool tells where and when in one sentence, which --json has as `text`.

    Examples:
      everlog search holiday ferry timetable
      everlog search holiday ferry --before 640
    """
    here = session.of(context)
    with here.open() as memory:
        named = thread_named(memory, thread)
        tree = named.tree
        view = None if budget_bytes is None else tree.shown(budget_bytes)
        found = tree.search(" ".join(words), before, view=view)
        said = {hit.i: next(named.entries(hit.i, hit.i + 1)) for hit in found.hits}
    if here.json:
        document(
            {
                "thread": named.key,
                "words": found.words,
                "hits": [{"id": hit.i, "words": hit.words, "date": hit.date, "line": hit.line} for hit in found.hits],
                "searched": {"from": found.start, "to": found.stop - 1, "stopped": found.stopped},
                "text": found.text,
            }
        )
    else:
        _print_hits(thread, found, said)


def _print_hits(thread: str, found: Found, said: Mapping[int, Entry]) -> None:
    """Print where the words are; what a message says, `zoom` shows."""
    lined = any(hit.line is not None for hit in found.hits)
    rows = [
        (
            str(hit.i),
            "all" if hit.words == found.words else f"{hit.words} of {found.words}",
            hit.date,
            *((hit.line or "",) if lined else ()),
            speaker(said[hit.i]),
        )
        for hit in found.hits
    ]
    if rows:
        table(("ID", "WORDS", "WHEN", *(("LINE",) if lined else ()), "WHO"), rows)
    else:
        line("no message has any of these words")
    if found.stopped:
        line(f"searched messages {found.stop - 1:,} down to {found.start:,} only; go on with --before {found.start}")
    if rows and console.is_terminal():
        note(f"open one: everlog zoom {shlex.quote(thread)} {found.hits[0].i}")
