"""Commands about the tree of a thread: view, zoom, read, date, search, pump, rebuild."""

from typing import Annotated

import typer

from everlog import Mistake, StoreUnavailable, Thread
from everlog.memory.interface import Compactor
from everlog.pump import Options, Ran
from everlog.surfaces.cli import console, session
from everlog.surfaces.cli.console import line, note, text
from everlog.surfaces.cli.output import count, document
from everlog.surfaces.cli.progress import bar
from everlog.surfaces.cli.threads import Key, as_key
from everlog.surfaces.cli.worker import EXTRACTIVE, AtOnce, Named, named
from everlog.tokens import bytes_for, size_bytes

DEFAULT_BYTES = 8_000

Position = Annotated[int, typer.Argument(metavar="ID", help="Position of the message; positions count from 0.")]


def view(
    context: typer.Context,
    thread: Key,
    budget_bytes: Annotated[
        int | None,
        typer.Option("--bytes", metavar="N", help="Budget in UTF-8 bytes, at least 256.", show_default=False),
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", help="Budget in tokens, at 4 bytes each.", show_default=False)
    ] = None,
    as_is: Annotated[bool, typer.Option("--as-is", help="Do not build what is missing first.")] = False,
) -> None:
    """Print a whole thread within a budget.

    Each line is `id+n|text`: n messages from message id on. The view and nothing else goes to standard output, and never
    more bytes than asked for (8,000 if nothing is said); `everlog zoom THREAD id n` opens a line.

    Examples:
      everlog view holiday --bytes 4000
      everlog view holiday --tokens 20000 > prompt.txt
    """
    here = session.of(context)
    if budget_bytes is not None and budget_tokens is not None:
        raise Mistake("--bytes and --tokens are two ways to say the same; give one")
    budget = (
        bytes_for(budget_tokens)
        if budget_tokens is not None
        else DEFAULT_BYTES
        if budget_bytes is None
        else budget_bytes
    )
    with here.open() as memory:
        found = memory.thread(thread)
        if not as_is:
            _build(found)
        shown = found.tree.shown(budget)
    if here.json:
        document(
            {
                "thread": thread,
                "budget_bytes": budget,
                "size_bytes": size_bytes(shown.text),
                "entries": shown.count,
                "left_out": shown.hidden,
                "view": shown.text,
            }
        )
    else:
        text(shown.text + ("\n" if console.is_terminal() else ""))


def zoom(
    context: typer.Context,
    thread: Key,
    first: Position,
    size: Annotated[int, typer.Argument(metavar="N", help="How many messages the line covers.")] = 1,
) -> None:
    """Open a line of a view: its two halves, or the message.

    Examples:
      everlog zoom holiday 64 32     opens the line 64+32
      everlog zoom holiday 71        prints message 71
    """
    here = session.of(context)
    with here.open() as memory:
        opened = memory.thread(thread).tree.zoom(first, size)
    if here.json:
        document({"thread": thread, "id": first, "n": size, "text": opened})
    else:
        line(opened)


def read(
    context: typer.Context,
    thread: Key,
    position: Position,
    page: Annotated[int, typer.Option("--page", metavar="P", min=0, help="Which page; pages count from 0.")] = 0,
) -> None:
    """Print one message, page by page.

    A page is 25,000 characters; joined, the pages are the message, word for word. A terminal also shows what an
    agent is told of the next one.

    Example:
      everlog read holiday 71 --page 1
    """
    here = session.of(context)
    with here.open() as memory:
        tree = memory.thread(thread).tree
        found, said = tree.page(position, page), tree.date(position)
    if here.json:
        document(
            {"thread": thread, "id": position, "page": page, "pages": found.pages, "date": said, "text": found.words}
        )
    else:
        text(found.words)
        if console.is_terminal():  # a pipe gets the page and nothing else, so that pages can be joined
            line(f"\n{found.note}" if found.note else "")


def date(context: typer.Context, thread: Key, position: Position) -> None:
    """Print when a message was said.

    Example:
      everlog date holiday 71
    """
    here = session.of(context)
    with here.open() as memory:
        said = memory.thread(thread).tree.date(position)
    if here.json:
        document({"thread": thread, "id": position, "date": said})
    else:
        line(said)


def search(
    context: typer.Context,
    thread: Key,
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", parser=as_key, help="At most eight are used.")],
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="ID", help="Only messages before this one.", show_default=False),
    ] = None,
    budget_bytes: Annotated[
        int | None,
        typer.Option("--bytes", metavar="N", help="Name lines of the view of so many bytes.", show_default=False),
    ] = None,
) -> None:
    """Find messages by their words: numbers and dates, no text.

    A word of five letters or more also matches the beginning of a longer one; one with a digit or a symbol is looked for
    between spaces. Messages with all the words come first, then those with most of them, the newest first, at most 10.

    Examples:
      everlog search holiday ferry timetable
      everlog search holiday ferry --before 640
    """
    here = session.of(context)
    with here.open() as memory:
        tree = memory.thread(thread).tree
        view = None if budget_bytes is None else tree.shown(budget_bytes)
        found = tree.search(" ".join(words), before, view=view)
    if here.json:
        document(
            {
                "thread": thread,
                "words": found.words,
                "hits": [{"id": hit.i, "words": hit.words, "date": hit.date, "line": hit.line} for hit in found.hits],
                "searched": {"from": found.start, "to": found.stop - 1, "stopped": found.stopped},
                "text": found.text,
            }
        )
    else:
        line(found.text)


def pump(
    context: typer.Context,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", parser=as_key, help="Only this thread.", show_default=False)
    ] = None,
    compactor: Named = EXTRACTIVE,
    at_once: AtOnce = 8,
) -> int:
    """Build what is still missing of the trees.

    It needs no model, unless --compactor names one. It can be stopped at any time, and goes on where it was; `view`
    does the same for its thread.

    Examples:
      everlog pump
      everlog pump holiday --compactor mymodels:cheap
    """
    here = session.of(context)
    asked = named(compactor)
    built = left = 0
    unfinished: list[tuple[str, Ran]] = []
    with here.open() as memory:
        names = [one.key for one in memory.threads()] if thread is None else [thread]
        for name in names:
            ran = pumped(memory.thread(name), name, asked, at_once=at_once)
            built, left = built + ran.steps, left + ran.remaining
            if not ran.done:
                unfinished.append((name, ran))
    if here.json:
        document(
            {
                "threads": len(names),
                "lines": built,
                "remaining": left,
                "unfinished": [name for name, _ in unfinished],
            }
        )
    else:
        line(f"{count(len(names), 'thread')}, {count(built, 'line')} built")
        for name, ran in unfinished:
            line(f"{name}: {_why(ran)}")
    return 1 if unfinished else 0


def rebuild(context: typer.Context, thread: Key) -> int:
    """Drop the tree of a thread and build it again.

    The words and the saved views stay. It can be stopped at any time; `pump` goes on where it was.

    Example:
      everlog rebuild holiday
    """
    here = session.of(context)
    with here.open() as memory:
        found = memory.thread(thread)
        dropped = found.tree.rebuild()
        ran = pumped(found, thread)
    if here.json:
        document({"thread": thread, "dropped": dropped, "lines": ran.steps, "done": ran.done})
    else:
        line(f"{count(dropped, 'line')} dropped, {count(ran.steps, 'line')} built")
        if not ran.done:
            line(f"{thread}: {_why(ran)}")
    return 0 if ran.done else 1


def pumped(thread: Thread, label: str, compactor: Compactor | None = None, *, at_once: int = 8) -> Ran:
    """Bring a thread's tree up to date, with a bar for people."""
    with bar(label) as shown:
        return thread.pump(
            compactor,
            options=Options(at_once=at_once),
            on_progress=lambda done, left: shown.to(done, done + left),
        )


def _why(ran: Ran) -> str:
    """Return why a run is not done."""
    left = f"; {count(ran.remaining, 'line')} left" if ran.remaining else ""
    return f"{ran.reason or 'another process is at it'}{left}"


def _build(thread: Thread) -> None:
    """Bring the tree up to date; where that cannot be written, what is there is shown."""
    try:
        pumped(thread, "folding")
    except StoreUnavailable as error:
        note(f"the tree could not be brought up to date: {error}")
