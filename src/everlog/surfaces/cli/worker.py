"""`everlog worker`: keeps trees current as long as it runs."""

import signal
import threading
from types import FrameType
from typing import Annotated, Any

import typer

from everlog.conversation.summaries import settings_in_use
from everlog.memory.interface import Memory
from everlog.memory.rolling import Rolling
from everlog.memory.tree import Tree, echoes
from everlog.pump import Options, Worker
from everlog.surfaces.cli import compactors, session
from everlog.surfaces.cli.compactors import Asked, Assume, AtOnce, BaseUrl, Protocol, Provider
from everlog.surfaces.cli.console import line, note
from everlog.surfaces.cli.output import count, document
from everlog.surfaces.config import NOBODY


def worker(
    context: typer.Context,
    compactor: Asked = None,
    provider: Provider = None,
    protocol: Protocol = None,
    base_url: BaseUrl = None,
    assume_model_exists: Assume = False,
    at_once: AtOnce = None,
    places: Annotated[
        int, typer.Option("--places", metavar="N", min=1, help="How many threads are worked on at once.")
    ] = 4,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Stop when nothing is due.")] = False,
) -> int:
    """Keep all trees current until it is stopped.

    With a model it also keeps the summaries that conversations with past="rolling" ask for. It works for every
    tenant, or for the one that is named: live threads before imports, each tenant in its turn. SIGTERM or Ctrl-C
    stops it, and it lets go of what it holds. There may be any number of workers.

    Examples:
      everlog worker
      everlog worker --compactor anthropic/claude-haiku-4-5
      everlog worker --compactor mymodels:cheap --until-idle
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
    stop = threading.Event()
    settings = here.settings
    tenant = None if settings.tenant_named_by == NOBODY else settings.tenant
    with here.open() as memory, _until_told(stop):
        memories: list[Memory[Any]] = [Tree.of(asked), Rolling.of(asked, settings=settings_in_use, recalled=echoes)]
        at_work = Worker(memory.store, memories, asked, tenant=tenant, options=options, places=places)
        if not until_idle:
            note(f"working on {settings.shown}; SIGTERM or Ctrl-C stops")
        done = at_work.work(stop, until_idle=until_idle)
    if here.json:
        document({"runs": done.runs, "lines": done.steps, "failed": done.failed})
    else:
        failed = f", {count(done.failed, 'run')} failed" if done.failed else ""
        line(f"{count(done.runs, 'run')}, {count(done.steps, 'line')} built{failed}")
    return 0


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
