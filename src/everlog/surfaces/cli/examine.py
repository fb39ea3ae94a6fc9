"""`everlog doctor THREAD`: one thread as the proxy sees it, with the settings that hold here."""

from everlog.pump.compactors import EXTRACTIVE
from everlog.surfaces import examining
from everlog.surfaces.checks import Check
from everlog.surfaces.cli.names import thread_named
from everlog.surfaces.cli.session import Session
from everlog.surfaces.examining import Usual
from everlog.surfaces.models import compactor_settings
from everlog.surfaces.proxy.running import asked


def checks(here: Session, named: str) -> list[Check]:
    """Return what can be told of a thread, by its key or the beginning of it.

    Raises:
        Mistake: there is no such thread, or the settings are wrong.
    """
    settings = here.settings
    found, _ = asked(settings)
    keys = ("memory.enabled",) if not found.proxy.memory.enabled else ("memory.mode", "memory.budget_tokens")
    by = dict.fromkeys(found.named_by.get(key, "the default") for key in keys)
    usual = Usual(
        mode=found.mode,
        budget_tokens=found.proxy.memory.budget_tokens,
        named_by=", ".join(by),
        summarises=compactor_settings(settings).name != EXTRACTIVE,
    )
    with here.open() as memory:
        thread = thread_named(memory, named)
        return examining.checks(memory.store, memory.name, thread.id, usual)
