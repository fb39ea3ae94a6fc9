"""What answers the pump in a command: options, environment and file of settings lead to one compactor."""

import re
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from everlog.errors import Mistake, UnknownModel
from everlog.memory.interface import Compactor
from everlog.pump import compactor_of
from everlog.pump.calls import AT_ONCE
from everlog.pump.compactors import EXTRACTIVE
from everlog.surfaces import models
from everlog.surfaces.cli.session import Session
from everlog.surfaces.models import CompactorSettings

_OWN = re.compile(r"([^\W\d][\w.]*):([^\W\d][\w.]*)")

Asked = Annotated[
    str | None,
    typer.Option(
        "--compactor",
        metavar="NAME",
        help="What answers: extractive, a model such as anthropic/claude-haiku-4-5, or module:name of your own. "
        "Else EVERLOG_COMPACTOR, else [compactor] in everlog.toml, else extractive.",
        show_default=False,
    ),
]
Provider = Annotated[
    str | None, typer.Option("--provider", metavar="NAME", help="Who serves the model.", show_default=False)
]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="How to talk to it: chat_completions, responses, anthropic.",
        show_default=False,
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Where its server is.", show_default=False)
]
Assume = Annotated[
    bool,
    typer.Option("--assume-model-exists", help="Take a model that nobody knows; --provider says whose it is."),
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        metavar="N",
        min=1,
        help="How many requests are out at once; 8 if nothing is said.",
        show_default=False,
    ),
]


def at_once(here: Session, given: int | None) -> int:
    """Return how many requests are to be out at once."""
    return given or configured(here).at_once or AT_ONCE


def configured(here: Session, name: str | None = None, **wire: Any) -> CompactorSettings:
    """Return what options, environment and file say of the compactor."""
    return models.compactor_settings(here.settings, name=name, **wire)


def is_model(name: str) -> bool:
    """Return whether a name is that of a model, and not of code in this process."""
    return name != EXTRACTIVE and not _is_own(name)


def asked(
    here: Session,
    name: str | None = None,
    *,
    provider: str | None = None,
    protocol: str | None = None,
    base_url: str | None = None,
    assume_model_exists: bool = False,
) -> Compactor:
    """Return the compactor that the options of a command, the environment and the file come to.

    Raises:
        Mistake: there is none.
    """
    wire = {
        "provider": provider,
        "protocol": protocol,
        "base_url": base_url,
        "assume_model_exists": assume_model_exists or None,
    }
    found = configured(here, name, **wire)
    given = {key: value for key, value in wire.items() if value is not None}
    options = found.options if is_model(found.name) else given
    return named(found.name, options=options, required_protocol=found.required_protocol)


def named(name: str, *, options: Mapping[str, Any] | None = None, required_protocol: str | None = None) -> Compactor:
    """Return the compactor that a name stands for.

    Raises:
        Mistake: there is none.
    """
    if not _is_own(name):
        try:
            return compactor_of(name, options=options, required_protocol=required_protocol)
        except UnknownModel as error:
            if (own := _OWN.fullmatch(name)) is None:
                raise
            raise UnknownModel(
                f"{error}; nor does Python find a module {own[1]}: is its folder on PYTHONPATH?"
            ) from None
    try:
        return compactor_of(_own(name), options=options, required_protocol=required_protocol)
    except Mistake as error:
        raise type(error)(f"the compactor {name} cannot be used: {error}") from error


def _is_own(name: str) -> bool:
    """Return whether a name is `module:name`; a model may have a colon too, as `qwen3:8b` has, but is no module."""
    match = _OWN.fullmatch(name)
    if match is None:
        return False
    with suppress(ValueError):  # a module that was made without a file
        return find_spec(match[1].partition(".")[0]) is not None
    return False


def _own(name: str) -> Any:
    """Return what a module has under a name; a class is made without arguments.

    Raises:
        Mistake: there is none.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise Mistake(f"it cannot be imported: {error}") from error
    return found() if isinstance(found, type) else found
