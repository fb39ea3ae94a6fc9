"""`everlog doctor`: what is wrong, what is pending, and what would mend it."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from everlog import Damaged, Everlog, EverlogError, Mistake
from everlog.conversation.database import unless_erased
from everlog.store.migrate import HEAD
from everlog.surfaces import opening
from everlog.surfaces.cli import compactors, health, session
from everlog.surfaces.cli.output import count, document, money, table
from everlog.surfaces.cli.session import Session
from everlog.surfaces.cli.tree import pumped


@dataclass(frozen=True, slots=True)
class _Check:
    name: str
    state: Literal["ok", "todo", "fail", "skip"]
    said: str


def doctor(
    context: typer.Context,
    fix: Annotated[bool, typer.Option("--fix", help="Finish what is pending: erasures, and the trees.")] = False,
) -> int:
    """Check database, keys and pending work; --fix finishes what is pending.

    The exit code is 1 if a check fails; pending work is no failure. What was said is not read: whether it is all there,
    `everlog verify` proves.

    Examples:
      everlog doctor
      everlog doctor --fix
    """
    here = session.of(context)
    checks = list(_checks(here, fix=fix))
    if here.json:
        document({"checks": [{"name": one.name, "state": one.state, "said": one.said} for one in checks]})
    else:
        table(("CHECK", "STATE", ""), [(one.name, one.state, one.said) for one in checks])
    return 1 if any(one.state == "fail" for one in checks) else 0


def _checks(here: Session, *, fix: bool) -> Iterator[_Check]:
    settings = here.settings
    yield _Check("database", "ok", f"{settings.shown} ({settings.named_by})")
    yield from _key_file(here)
    yield _compactor(here)
    try:
        with here.open() as memory:
            for check in (_engine, _encryption, _threads, _words, _erasures, _trees, _cost):
                try:
                    yield check(here, memory, fix)
                except Damaged as error:
                    yield _Check(check.__name__.removeprefix("_"), "fail", _pointing(error))
    except Damaged as error:
        yield _Check("open", "fail", _pointing(error))
    except EverlogError as error:
        yield _Check("open", "fail", str(error))


def _pointing(error: Damaged) -> str:
    """Return what an error says, and where the rest of the damage is told."""
    return str(error) if "everlog verify" in str(error) else f"{error}; `everlog verify` looks at everything"


def _key_file(here: Session) -> Iterator[_Check]:
    settings = here.settings
    if settings.keys_named_by is None:
        return
    yield _Check("keys", "ok", f"from {settings.keys_named_by}")
    path = settings.key_file
    if path is not None and path.exists() and os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield _Check("key file", "todo", f"others may read {path}; chmod 600 it")


def _compactor(here: Session) -> _Check:
    try:
        found, made = compactors.configured(here), compactors.asked(here)
    except Mistake as error:
        return _Check("compactor", "fail", str(error))
    spoken = getattr(made, "protocol", None)
    how = f", in {spoken}" if spoken else ""
    only = f"; {found.required_protocol} is required" if found.required_protocol else ""
    return _Check("compactor", "ok", f"{made.model}{how} ({found.named_by}){only}")


def _engine(here: Session, memory: Everlog, fix: bool) -> _Check:  # noqa: ARG001 -- all checks are called alike
    sizes = ", ".join(f"{name} {size:,} bytes" for name, size in health.files(here.settings).items())
    return _Check("tables", "ok", f"{memory.store.engine_version()}, schema {HEAD}{f'; {sizes}' if sizes else ''}")


def _encryption(here: Session, memory: Everlog, fix: bool) -> _Check:  # noqa: ARG001 -- all checks are called alike
    state = health.encryption(memory)
    if state == "off":
        return _Check("encryption", "ok", "off; `everlog encrypt` turns it on")
    if state != "on":
        return _Check("encryption", "todo", f"{state}; `everlog encrypt` goes on")
    given = opening.keys(here.settings)
    old = memory.store.wrappers() - ({given.name} if given is not None else set())
    if old:
        return _Check("encryption", "todo", f"on; `everlog keys rotate` changes master key {', '.join(sorted(old))}")
    return _Check("encryption", "ok", f"on, master key {given.name if given is not None else ''}")


def _threads(here: Session, memory: Everlog, fix: bool) -> _Check:  # noqa: ARG001 -- all checks are called alike
    found = memory.stats()
    said = f"{count(found.threads, 'thread')}, {count(found.entries, 'entry', 'entries')}"
    return _Check("tenant", "ok", f"{here.settings.tenant}: {said}")


def _words(here: Session, memory: Everlog, fix: bool) -> _Check:  # noqa: ARG001 -- all checks are called alike
    return _Check("words", "skip", "not read here; `everlog verify` proves that nothing is missing or changed")


def _erasures(here: Session, memory: Everlog, fix: bool) -> _Check:  # noqa: ARG001 -- all checks are called alike
    if fix:
        health.settled(memory)
    receipts = health.receipts(memory)
    waiting = [one for one in receipts if one.state != "done"]
    if not waiting:
        return _Check("erasures", "ok", f"{len(receipts):,}, all done")
    holds = "; ".join(sorted({hold for one in waiting for hold in one.holds}))
    why = f"what was erased may be in {holds}" if holds else "--fix goes on with them"
    return _Check("erasures", "todo", f"{len(waiting):,} of {len(receipts):,} not done: {why}")


def _trees(here: Session, memory: Everlog, fix: bool) -> _Check:
    if fix:
        for one in memory.threads():
            with unless_erased():
                pumped(memory.thread(one.key), one.key, compactors.asked(here))
    due = memory.due()
    if due:
        return _Check("trees", "todo", f"{count(due, 'thread')} with lines to build; `everlog pump` builds them")
    return _Check("trees", "ok", "up to date")


def _cost(here: Session, memory: Everlog, fix: bool) -> _Check:  # noqa: ARG001 -- all checks are called alike
    found = memory.stats().cost
    return _Check("cost", "ok", f"talk {money(found.talk)}; memory {money(found.memory)}")
