"""Commands about settings: config show."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from everlog.surfaces import config_file
from everlog.surfaces.cli import session
from everlog.surfaces.cli.console import note
from everlog.surfaces.cli.output import array, table
from everlog.surfaces.cli.session import Session
from everlog.surfaces.proxy.configured import Configured, configured


def of_proxy(
    here: Session, given: Mapping[str, Any] | None = None, *, file: Path | None = None
) -> tuple[Configured, Path | None]:
    """Return what options, environment and file say of the proxy, and the file.

    Args:
        here: the command's session.
        given: options by key, such as `server.port`.
        file: the file, where an option names it.

    Raises:
        Mistake: something is unknown, or not of its kind.
    """
    beside = here.settings.path
    path = file or config_file.find(None if beside is None else beside.parent, os.environ)
    held = {} if path is None else config_file.read(path, os.environ)
    return configured(file=held, path=str(path), environment=os.environ, given=given), path


def show(context: typer.Context) -> None:
    """Print all settings of the proxy, and who says so.

    Of secrets the beginning is shown.

    Examples:
      everlog config show
      EVERLOG_CONFIG=everlog.yaml everlog config show --json
    """
    here = session.of(context)
    found, path = of_proxy(here)
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
