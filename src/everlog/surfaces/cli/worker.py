"""`everlog worker`: keeps trees current as long as it runs; and what the compactor of a command is named by."""

import signal
import threading
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, cast

import typer

from everlog import Mistake
from everlog.memory.interface import Compactor
from everlog.memory.tree import Extractive, Tree
from everlog.pump import Options, Worker
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import line, note
from everlog.surfaces.cli.output import count, document
from everlog.surfaces.config import DEFAULT_TENANT

EXTRACTIVE = "extractive"

Asked = Annotated[
    str,
    typer.Option(
        "--compactor", metavar="NAME", help="What answers: extractive, or module:name of your own.", show_default=False
    ),
]
AtOnce = Annotated[
    int, typer.Option("--at-once", metavar="N", min=1, help="How many requests are out at once.", show_default=True)
]


def worker(
    context: typer.Context,
    compactor: Asked = EXTRACTIVE,
    at_once: AtOnce = 8,
    places: Annotated[
        int, typer.Option("--places", metavar="N", min=1, help="How many threads are worked on at once.")
    ] = 4,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Stop when nothing is due.")] = False,
) -> int:
    """Keep all trees current until it is stopped.

    It works for every tenant, or for the one that is named: live threads before imports, each tenant in its turn.
    SIGTERM or Ctrl-C stops it, and it lets go of what it holds. There may be any number of workers.

    Examples:
      everlog worker
      everlog worker --compactor mymodels:cheap --until-idle
    """
    here = session.of(context)
    asked = named(compactor)
    stop = threading.Event()
    settings = here.settings
    tenant = settings.tenant if here.tenant or settings.tenant != DEFAULT_TENANT else None
    with here.open() as memory, _until_told(stop):
        at_work = Worker(
            memory.store, [Tree.of(asked)], asked, tenant=tenant, options=Options(at_once=at_once), places=places
        )
        if not until_idle:
            note(f"working on {settings.shown}; SIGTERM or Ctrl-C stops")
        done = at_work.work(stop, until_idle=until_idle)
    if here.json:
        document({"runs": done.runs, "lines": done.steps, "failed": done.failed})
    else:
        failed = f", {count(done.failed, 'run')} failed" if done.failed else ""
        line(f"{count(done.runs, 'run')}, {count(done.steps, 'line')} built{failed}")
    return 0


def named(name: str) -> Compactor:
    """Return the compactor that a name stands for; one that is a class is made without arguments.

    Raises:
        Mistake: there is none.
    """
    if name == EXTRACTIVE:
        return Extractive()
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise Mistake(f"no compactor {name!r}; say extractive, or module:name of one that Python can import")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise Mistake(f"the compactor {name} cannot be imported: {error}") from error
    if isinstance(found, type):
        found = found()
    if not callable(found) or not isinstance(getattr(found, "model", None), str):
        raise Mistake(f"{name} is no compactor: it takes a request, returns a reply, and has a `model`, its name")
    return cast("Compactor", found)


class _until_told:  # noqa: N801 -- reads as what it does
    """While the block runs, the first SIGTERM or SIGINT sets an event; the second does what it always does."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._told)

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _told(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 -- the interface of signals
        self._stop.set()
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
