"""`everlog doctor`: what is wrong, what is pending, and what would mend it."""

import os
import stat
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from everlog import Damaged, Everlog, EverlogError, Mistake
from everlog.conversation.database import unless_erased
from everlog.store.migrate import HEAD
from everlog.surfaces import opening
from everlog.surfaces.checks import Check
from everlog.surfaces.cli import compactors, health, session
from everlog.surfaces.cli.output import count, document, money, table
from everlog.surfaces.cli.session import Session
from everlog.surfaces.cli.tree import pumped


def doctor(
    context: typer.Context,
    thread: Annotated[
        str | None,
        typer.Argument(metavar="THREAD", help="Look at this thread alone.", show_default=False),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Finish what is pending: erasures, and the trees.")] = False,
) -> int:
    """Check database, keys and pending work, or the memory of one thread.

    Of a thread it says why it has no memory in its prompts, or what its next epoch waits for.

    The exit code is 1 if a check fails; pending work is no failure. What was said is not read: whether it is all there,
    `everlog verify` proves.

    Examples:
      everlog doctor
      everlog doctor --fix
      everlog doctor holiday
    """
    here = session.of(context)
    if thread is not None and fix:
        raise Mistake("--fix finishes what is pending in all threads; leave out the thread, or --fix")
    checks = list(_checks(here, fix=fix)) if thread is None else _thread(here, thread)
    if here.json:
        document({"checks": [{"name": one.name, "state": one.state, "said": one.said} for one in checks]})
    else:
        table(("CHECK", "STATE", ""), [(one.name, one.state, one.said) for one in checks])
    return 1 if any(one.state == "fail" for one in checks) else 0


def _checks(here: Session, *, fix: bool) -> Iterator[Check]:
    settings = here.settings
    yield Check("database", "ok", f"{settings.shown} ({settings.named_by})")
    yield from _key_file(here)
    yield _compactor(here)
    try:
        with here.open() as memory:
            for check in (_engine, _encryption, _threads, _words, _erasures, _trees, _cost):
                try:
                    yield check(here, memory, fix)
                except Damaged as error:
                    yield Check(check.__name__.removeprefix("_"), "fail", _pointing(error))
    except Damaged as error:
        yield Check("open", "fail", _pointing(error))
    except EverlogError as error:
        yield Check("open", "fail", str(error))


def _thread(here: Session, named: str) -> list[Check]:
    """Return what can be told of one thread.

    Raises:
        Mistake: the proxy, whose settings it looks at, is not installed.
    """
    if find_spec("msgspec") is None:
        raise Mistake("`everlog doctor THREAD` needs more: pip install 'everlog[server]', or from a clone '.[server]'")
    found: list[Check] = import_module("everlog.surfaces.cli.examine").checks(here, named)
    return found


def _pointing(error: Damaged) -> str:
    """Return what an error says, and where the rest of the damage is told."""
    return str(error) if "everlog verify" in str(error) else f"{error}; `everlog verify` looks at everything"


def _key_file(here: Session) -> Iterator[Check]:
    settings = here.settings
    if settings.keys_named_by is None:
        return
    yield Check("keys", "ok", f"from {settings.keys_named_by}")
    path = settings.key_file
    if path is not None and path.exists() and os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield Check("key file", "todo", f"others may read {path}; chmod 600 it")


def _compactor(here: Session) -> Check:
    try:
        found, made = compactors.configured(here), compactors.asked(here)
    except Mistake as error:
        return Check("compactor", "fail", str(error))
    spoken = getattr(made, "protocol", None)
    how = f", in {spoken}" if spoken else ""
    only = f"; {found.required_protocol} is required" if found.required_protocol else ""
    return Check("compactor", "ok", f"{made.model}{how} ({found.named_by}){only}")


def _engine(here: Session, memory: Everlog, fix: bool) -> Check:  # noqa: ARG001 -- all checks are called alike
    sizes = ", ".join(f"{name} {size:,} bytes" for name, size in health.files(here.settings).items())
    return Check("tables", "ok", f"{memory.store.engine_version()}, schema {HEAD}{f'; {sizes}' if sizes else ''}")


def _encryption(here: Session, memory: Everlog, fix: bool) -> Check:  # noqa: ARG001 -- all checks are called alike
    state = health.encryption(memory)
    if state == "off":
        return Check("encryption", "ok", "off; `everlog encrypt` turns it on")
    if state != "on":
        return Check("encryption", "todo", f"{state}; `everlog encrypt` goes on")
    given = opening.keys(here.settings)
    old = memory.store.wrappers() - ({given.name} if given is not None else set())
    if old:
        return Check("encryption", "todo", f"on; `everlog keys rotate` changes master key {', '.join(sorted(old))}")
    return Check("encryption", "ok", f"on, master key {given.name if given is not None else ''}")


def _threads(here: Session, memory: Everlog, fix: bool) -> Check:  # noqa: ARG001 -- all checks are called alike
    found = memory.stats()
    said = f"{count(found.threads, 'thread')}, {count(found.entries, 'entry', 'entries')}"
    return Check("tenant", "ok", f"{here.settings.tenant}: {said}")


def _words(here: Session, memory: Everlog, fix: bool) -> Check:  # noqa: ARG001 -- all checks are called alike
    return Check("words", "skip", "not read here; `everlog verify` proves that nothing is missing or changed")


def _erasures(here: Session, memory: Everlog, fix: bool) -> Check:  # noqa: ARG001 -- all checks are called alike
    if fix:
        health.settled(memory)
    receipts = health.receipts(memory)
    waiting = [one for one in receipts if one.state != "done"]
    if not waiting:
        return Check("erasures", "ok", f"{len(receipts):,}, all done")
    holds = "; ".join(sorted({hold for one in waiting for hold in one.holds}))
    why = f"what was erased may be in {holds}" if holds else "--fix goes on with them"
    return Check("erasures", "todo", f"{len(waiting):,} of {len(receipts):,} not done: {why}")


def _trees(here: Session, memory: Everlog, fix: bool) -> Check:
    if fix:
        for one in memory.threads():
            with unless_erased():
                pumped(memory.thread(one.key), one.key, compactors.asked(here))
    due = memory.due()
    if due:
        return Check("trees", "todo", f"{count(due, 'thread')} with lines to build; `everlog pump` builds them")
    return Check("trees", "ok", "up to date")


def _cost(here: Session, memory: Everlog, fix: bool) -> Check:  # noqa: ARG001 -- all checks are called alike
    found = memory.stats().cost
    return Check("cost", "ok", f"talk {money(found.talk)}; memory {money(found.memory)}")
