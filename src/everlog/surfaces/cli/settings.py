"""Commands about settings: config show."""

import json
from typing import Annotated, Any

import typer

from everlog.surfaces import config
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import note
from everlog.surfaces.cli.output import array, table


def show(
    context: typer.Context,
    whole: Annotated[bool, typer.Option("--all", help="Also those that act only where facts are learned.")] = False,
) -> None:
    """Print the settings of the proxy, and who says so.

    Of secrets the beginning is shown. With --json all are told.

    Examples:
      everlog config show
      everlog config show --all
      EVERLOG_CONFIG=everlog.yaml everlog config show --json
    """
    here = session.of(context)
    found, path = config.proxy(here.settings)
    if here.json:
        array({"key": one.key, "value": _plain(one.value), "named_by": one.named_by} for one in found.values())
        return
    rows = [
        (one.key, one.named_by, json.dumps(_plain(one.value), ensure_ascii=False))
        for one in found.values()
        if whole or not one.is_waiting or one.key in found.waiting
    ]
    table(("KEY", "SAID BY", "VALUE"), rows)
    if path is None:
        note("there is no file of settings; everlog.example.yaml shows one")
    if found.waiting:
        note(
            f"read and checked, but of no use before facts are learned, which this version does not do: {', '.join(found.waiting)}"
        )


def _plain(value: object) -> Any:
    return list(value) if isinstance(value, tuple) else value
