"""Commands about the tree of a thread: view, zoom, read, date, pump, rebuild."""

import re
import shlex
from typing import Annotated

import typer

from everlog import Erased, Mistake, StoreUnavailable, Thread, UnknownThread
from everlog.memory.interface import Compactor
from everlog.pump import Options, Ran
from everlog.surfaces.cli import compactors, console, session
from everlog.surfaces.cli.compactors import Asked, Assume, AtOnce, BaseUrl, Protocol, Provider
from everlog.surfaces.cli.console import line, note, text
from everlog.surfaces.cli.names import Key, Label, Named, as_key, as_label, as_position, proposing, thread_named
from everlog.surfaces.cli.output import count, document
from everlog.surfaces.cli.progress import bar
from everlog.surfaces.cli.session import Session
from everlog.tokens import bytes_for, size_bytes

DEFAULT_BYTES = 8_000

_LABEL = re.compile(r"(\d+)\+(\d+)\|")

Position = Annotated[
    int,
    typer.Argument(
        metavar="ID", parser=as_position, help="Position of the message, counted from 0; 24+1 is the same as 24."
    ),
]


def view(
    context: typer.Context,
    thread: Named,
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

    Each line is `id+n|text`: n messages from message id on, in one line. `24+1|` is message 24 itself, `16+8|` stands
    for the messages 16 to 23, and `everlog zoom THREAD 16+8` opens it into the two lines it was made of. The view and nothing else goes to standard output, and never
    more bytes than asked for (8,000 if nothing is said). What is missing of the tree is built first, unless a model is set to
    do that: `pump` asks it.

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
        found = thread_named(memory, thread)
        if not as_is:
            _build(found, here)
        shown = found.tree.shown(budget)
    if here.json:
        document(
            {
                "thread": found.key,
                "budget_bytes": budget,
                "size_bytes": size_bytes(shown.text),
                "entries": shown.count,
                "left_out": shown.hidden,
                "view": shown.text,
            }
        )
    else:
        text(shown.text + ("\n" if console.is_terminal() else ""))
        if console.is_terminal() and (hint := _hint(thread, shown.view_lines)):
            note(hint)


def zoom(
    context: typer.Context,
    thread: Named,
    label: Annotated[
        Label,
        typer.Argument(metavar="ID", parser=as_label, help="Label of the line, such as 64+32, or its first message."),
    ],
    n: Annotated[
        int | None, typer.Argument(metavar="N", help="How many messages the line covers; 1 if nothing says so.")
    ] = None,
) -> None:
    """Open a line of a view: its two halves, or the message.

    Examples:
      everlog zoom holiday 64+32     opens the line that begins with 64+32|
      everlog zoom holiday 64 32     the same
      everlog zoom holiday 71        prints message 71
    """
    here = session.of(context)
    first = label.first
    if n is not None and label.size not in {None, n}:
        raise Mistake(f"{first}+{label.size} is the label of {label.size} messages, not of {n}; give one of the two")
    size = next((number for number in (n, label.size) if number is not None), 1)
    with here.open() as memory:
        found = thread_named(memory, thread)
        opened = found.tree.zoom(first, size)
    if here.json:
        document({"thread": found.key, "id": first, "n": size, "text": opened})
    else:
        text(f"{opened}\n")


def read(
    context: typer.Context,
    thread: Named,
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
        named = thread_named(memory, thread)
        found, said = named.tree.page(position, page), named.tree.date(position)
    if here.json:
        document(
            {"thread": named.key, "id": position, "page": page, "pages": found.pages, "date": said, "text": found.words}
        )
    else:
        text(found.words)
        if console.is_terminal():  # a pipe gets the page and nothing else, so that pages can be joined
            line(f"\n{found.note}" if found.note else "")


def date(context: typer.Context, thread: Named, position: Position) -> None:
    """Print when a message was said.

    Example:
      everlog date holiday 71
    """
    here = session.of(context)
    with here.open() as memory:
        found = thread_named(memory, thread)
        said = found.tree.date(position)
    if here.json:
        document({"thread": found.key, "id": position, "date": said})
    else:
        line(said)


def pump(
    context: typer.Context,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", parser=as_key, help="Only this thread.", show_default=False)
    ] = None,
    compactor: Asked = None,
    provider: Provider = None,
    protocol: Protocol = None,
    base_url: BaseUrl = None,
    assume_model_exists: Assume = False,
    at_once: AtOnce = None,
) -> int:
    """Build what is still missing of the trees.

    It needs no model, unless --compactor or the settings name one. It can be stopped at any time, and goes on where it was; `view`
    does the same for its thread.

    Examples:
      everlog pump
      everlog pump holiday --compactor anthropic/claude-haiku-4-5
      everlog pump --compactor qwen3:8b --base-url http://localhost:11434/v1
    """
    here = session.of(context)
    asked = compactors.asked(
        here,
        compactor,
        provider=provider,
        protocol=protocol,
        base_url=base_url,
        assume_model_exists=assume_model_exists,
    )
    options = Options(at_once=compactors.at_once(here, at_once))
    built = left = 0
    unfinished: list[tuple[str, Ran]] = []
    with here.open() as memory, proposing(memory, thread):
        names = [one.key for one in memory.threads()] if thread is None else [thread]
        for name in names:
            try:
                ran = pumped(memory.thread(name), name, asked, options)
            except (UnknownThread, Erased):
                if thread is not None:
                    raise
                continue  # erased since the threads were listed
            built, left = built + ran.steps, left + ran.remaining
            if not ran.done and (thread is not None or ran.reason != "erased"):
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
    asked = compactors.asked(here)
    with here.open() as memory, proposing(memory, thread):
        found = memory.thread(thread)
        dropped = found.tree.rebuild()
        ran = pumped(found, thread, asked, Options(at_once=compactors.at_once(here, None)))
    if here.json:
        document({"thread": thread, "dropped": dropped, "lines": ran.steps, "done": ran.done})
    else:
        line(f"{count(dropped, 'line')} dropped, {count(ran.steps, 'line')} built")
        if not ran.done:
            line(f"{thread}: {_why(ran)}")
    return 0 if ran.done else 1


def pumped(thread: Thread, label: str, compactor: Compactor, options: Options | None = None) -> Ran:
    """Bring a thread's tree up to date, with a bar for people."""
    with bar(label) as shown:
        return thread.pump(
            compactor,
            options=options,
            on_progress=lambda done, left: shown.to(done, done + left),
        )


def _why(ran: Ran) -> str:
    """Return why a run is not done."""
    left = f"; {count(ran.remaining, 'line')} left" if ran.remaining else ""
    return f"{ran.reason or 'another process is at it'}{left}"


def _hint(thread: str, lines: list[str]) -> str | None:
    """Explain the labels of a view by one of its own, the first that covers several messages."""
    labels = [found for shown in lines if (found := _LABEL.match(shown)) is not None]
    if not labels:
        return None
    first, n = next((one for one in labels if one[2] != "1"), labels[0]).groups()
    label = f"{first}+{n}"
    covers = f"message {first}" if n == "1" else f"messages {first} to {int(first) + int(n) - 1}"
    return f"{label}| is {covers}; open any line: everlog zoom {shlex.quote(thread)} {label}"


def _build(thread: Thread, here: Session) -> None:
    """Bring the tree up to date; where that cannot be written, or takes a model, what is there is shown."""
    if thread.tree.is_current:
        return
    if compactors.is_model(compactors.configured(here).name):
        note("lines are missing, and a model makes them: `everlog pump` builds them")
        return
    try:
        pumped(thread, "folding", compactors.asked(here))
    except StoreUnavailable as error:
        note(f"the tree could not be brought up to date: {error}")
