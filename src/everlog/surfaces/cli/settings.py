"""Commands about settings: config show."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import note
from everlog.surfaces.cli.output import array, table
from everlog.surfaces.config import Settings
from everlog.surfaces.proxy.running import asked
from everlog.surfaces.proxy.settings.configured import Configured, Value


def show(
    context: typer.Context,
    whole: Annotated[bool, typer.Option("--all", help="Also those that act only where facts are learned.")] = False,
) -> None:
    """Print all settings, and who says so.

    That is an option, a variable, the file of settings, or nobody. Database and tenant are those of every command, all else is
    about the proxy. Of secrets the beginning is shown. With --json all are told.

    Examples:
      everlog config show
      everlog config show --all
      EVERLOG_CONFIG=everlog.yaml everlog config show --json
    """
    here = session.of(context)
    settings = here.settings
    found, path = asked(settings)
    values = list(_values(found, settings))
    if here.json:
        array({"key": one.key, "value": _plain(one.value), "named_by": one.named_by} for one in values)
        return
    rows = [
        (one.key, one.named_by, json.dumps(_plain(one.value), ensure_ascii=False))
        for one in values
        if whole or not one.is_waiting or one.key in found.waiting
    ]
    table(("KEY", "SAID BY", "VALUE"), rows)
    if path is None:
        note("there is no file of settings; everlog.example.yaml shows one")
    if found.waiting:
        note(
            f"read and checked, but of no use before facts are learned, which this version does not do: {', '.join(found.waiting)}"
        )


def _values(found: Configured, settings: Settings) -> Iterator[Value]:
    """Yield all keys, with the database and the tenant that are meant, whoever names them."""
    meant = {
        "memory.database_path": (settings.shown, settings.named_by),
        "memory.tenant": (settings.tenant, settings.tenant_named_by),
    }
    for one in found.values():
        value, named_by = meant.get(one.key, (one.value, one.named_by))
        yield replace(one, value=value, named_by=named_by)


def _plain(value: object) -> Any:
    return list(value) if isinstance(value, tuple) else value
