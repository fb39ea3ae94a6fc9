"""`everlog erase`: gone for good, with a receipt."""

import sys
from dataclasses import asdict
from typing import Annotated, cast

import typer

from everlog import Everlog, Mistake, Receipt
from everlog.messages import JSON
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import line, note
from everlog.surfaces.cli.names import as_key, proposing
from everlog.surfaces.cli.output import count, document, facts

_STATES = {
    "done": "done: no piece of it was found in the files",
    "pending": "pending: rows and keys are gone; `everlog doctor --fix` finishes the files",
}


def erase(
    context: typer.Context,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="KEY", parser=as_key, help="A thread. Forks keep what they share.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", parser=as_key, help="All turns of an end user.")
    ] = None,
    whole_tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="ID", help="Everything of a tenant; only receipts stay.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Erase a thread, a person or a tenant, and print the receipt.

    What is erased does not come back. A tombstone of each entry stays: position, kind and time. To erase a thread or a
    user of another tenant than the default, put --tenant before `erase`.

    Examples:
      everlog erase --thread holiday --yes
      everlog --tenant acme erase --user u-17
    """
    here = session.of(context)
    named = [value for value in (thread, user, whole_tenant) if value is not None]
    if len(named) != 1:
        raise Mistake(
            "name one of --thread, --user and --tenant to erase; --tenant before `erase` says whose thread or user it is"
        )
    with here.open() as memory, proposing(memory, thread):
        if not yes and not _agreed(memory, thread, user, whole_tenant):
            note("nothing was erased")
            raise typer.Exit(2)
        receipt = (
            memory.tenant(whole_tenant).erase_tenant()
            if whole_tenant is not None
            else memory.erase(thread=thread, user=user)
        )
    if here.json:
        document(cast("dict[str, JSON]", asdict(receipt)))
    else:
        _print(receipt, _named(thread, user, whole_tenant))


def _agreed(memory: Everlog, thread: str | None, user: str | None, tenant: str | None) -> bool:
    """Ask a person.

    Raises:
        Mistake: nobody is there to ask.
    """
    what = _named(thread, user, tenant)
    if thread is not None:
        what += f" with {count(memory.thread(thread).row().next, 'entry', 'entries')}"
    else:
        what = f"every turn of {what}" if user is not None else f"everything of {what}"
    if not sys.stdin or not sys.stdin.isatty():
        raise Mistake(f"this would erase {what} for good; say that you mean it with --yes")
    try:
        return typer.confirm(f"Erase {what} for good?", default=False, err=True)
    except typer.Abort:
        note("\nnothing was erased")
        raise KeyboardInterrupt from None


def _named(thread: str | None, user: str | None, tenant: str | None) -> str:
    kind, name = next((k, n) for k, n in (("thread", thread), ("user", user), ("tenant", tenant)) if n is not None)
    return f"{kind} {name!r}"


def _print(receipt: Receipt, target: str) -> None:
    facts(
        [
            ("receipt", receipt.id),
            ("target", target),
            ("state", _STATES.get(receipt.state, receipt.state)),
            ("threads", len(receipt.threads)),
            ("entries", receipt.entries),
            ("other rows", receipt.rows),
            ("handed over to forks", receipt.handed_over),
        ]
    )
    for hold in receipt.holds:
        line(f"may still be in: {hold}")
