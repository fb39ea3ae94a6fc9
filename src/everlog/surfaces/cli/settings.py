"""Commands about settings: config show."""

import json
from typing import Any

import typer

from everlog.surfaces import config
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import note
from everlog.surfaces.cli.output import array, table


def show(context: typer.Context) -> None:
    """Print all settings of the proxy, and who says so.

    Of secrets the beginning is shown.

    Examples:
      everlog config show
      EVERLOG_CONFIG=everlog.yaml everlog config show --json
    """
    here = session.of(context)
    found, path = config.proxy(here.settings)
    if here.json:
        array({"key": one.key, "value": _plain(one.value), "named_by": one.named_by} for one in found.values())
        return
    rows = [(one.key, one.named_by, json.dumps(_plain(one.value), ensure_ascii=False)) for one in found.values()]
    table(("KEY", "SAID BY", "VALUE"), rows)
    if path is None:
        note("there is no file of settings; everlog.example.yaml shows one")
    for name in found.waiting:
        note(f"{name} is read and checked; it acts where facts are learned, which this version does not do")


def _plain(value: object) -> Any:
    return list(value) if isinstance(value, tuple) else value
