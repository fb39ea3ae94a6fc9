"""What the parser finds wrong, in our words: which option or argument it is, what it takes, and what was given."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import typer

from everlog.errors import Mistake
from everlog.surfaces.cli.catalogue import COMMANDS
from everlog.surfaces.cli.names import either

_QUOTED = re.compile(r"'([^']*)'")


def mistake(error: typer.TyperException, arguments: Sequence[str]) -> Mistake:
    """Return the error for what is wrong with a command line."""
    context: typer.Context | None = getattr(error, "ctx", None)
    where = _command(arguments) if context is None else context.command_path
    return Mistake(f"{_said(error, where)} (see `{where} --help`)")


def _command(arguments: Sequence[str]) -> str:
    """Return the command that was asked for, where the parser does not say."""
    words = [word for word in arguments if not word.startswith("-")]
    names = (" ".join(words[n : n + length]) for n in range(len(words)) for length in (2, 1))
    return " ".join(["everlog", *[name for name in names if name in COMMANDS][:1]])


def _said(error: Any, where: str) -> str:
    message = str(error.format_message()).rstrip(".")
    match type(error).__name__:
        case "MissingParameter":
            return f"{where} needs {_name(error.param)}"
        case "BadParameter":
            return _value(error)
        case "NoSuchOption":
            return (
                f"there is no option {error.option_name}{_meant(_near(error.option_name, error.possibilities or ()))}"
            )
        case "BadOptionUsage":
            return f"{error.option_name} {'takes no' if 'does not take' in message else 'needs a'} value"
        case _:
            pass
    if message.startswith("No such command") and (names := _QUOTED.findall(message)):
        return f"there is no command {names[0]!r}{_meant(names[1:])}"
    if message == "Missing command":
        return f"name one of its commands: {', '.join(error.ctx.command.list_commands(error.ctx))}"
    if message.startswith("Got unexpected extra argument"):
        return f"{_takes(error.ctx, where)}; {message.partition(' (')[2].removesuffix(')')!r} is too much"
    return message


def _takes(context: Any, where: str) -> str:
    names = [_name(one) for one in context.command.get_params(context) if one.param_type_name == "argument"]
    return f"{where} takes {' '.join(names) + ' and nothing more' if names else 'no arguments'}"


def _near(name: str, possible: Sequence[str]) -> list[str]:
    """Return the options that may be meant: those that look alike but for a letter or two, else all that the parser found."""
    found = sorted({*possible} - {"--help"})
    return get_close_matches(name, found, cutoff=0.8) or found


def _value(error: Any) -> str:
    """Return what a value should be; a parser of ours says that itself, and numbers are all that is left."""
    cause = error.__cause__
    if error.param is None or not hasattr(cause, "errors"):
        return str(error.message)
    least = "" if error.param.min is None else f", at least {error.param.min}"
    return f"{_name(error.param)} takes a whole number{least}, not {cause.errors()[0]['input']!r}"


def _name(param: Any) -> str:
    return str(param.opts[0] if param.opts[0].startswith("-") else param.metavar.rstrip("."))


def _meant(names: Sequence[str]) -> str:
    return f"; did you mean {either(list(names))}?" if names else ""
