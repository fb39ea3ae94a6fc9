"""The parser: finds a command by its name, loads its module, and gives it the options that all commands share."""

import inspect
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from everlog.errors import Mistake
from everlog.surfaces.cli import session
from everlog.surfaces.cli.catalogue import COMMANDS, SHARED_HELP, SUBGROUPS, Command, page
from everlog.surfaces.cli.session import Session
from everlog.surfaces.cli.wording import mistake

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

_TYPE = re.compile(r" <[^>]*>$")
_CHECKED = re.compile(r"(?:; )?(?:required|x>=\d+)|  \[(?:x>=\d+)?(?:; )?(?:required)?\]$")

_texts = list(SHARED_HELP.values())


def _shared(
    context: typer.Context,
    db: Annotated[str | None, typer.Option("--db", metavar="DATABASE", help=_texts[0])] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help=_texts[1])] = None,
    key_file: Annotated[Path | None, typer.Option("--key-file", metavar="FILE", help=_texts[2])] = None,
    json: Annotated[bool, typer.Option("--json", help=_texts[3])] = False,
    debug: Annotated[bool, typer.Option("--debug", help=_texts[4])] = False,  # noqa: ARG001 -- read by the entry
) -> None:
    context.obj = Session(db=db, tenant=tenant, key_file=key_file, json=json)


def _made(function: Any, name: str, kind: type[TyperCommand]) -> TyperCommand:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=kind, context_settings=_SETTINGS)(function)
    return cast("TyperCommand", typer.main.get_command(app))


SHARED = _made(_shared, "shared", TyperCommand).params
"""The shared options, as the parser knows them."""


class Leaf(TyperCommand):
    """One command."""

    @property
    def shared(self) -> list[Any]:
        """The shared options that it has no option of its own for."""
        own = {opt for param in self.params if param not in SHARED for opt in param.opts}
        return [param for param in SHARED if own.isdisjoint(param.opts)]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its own parameters, then the shared options."""
        found = super().get_params(ctx)
        return found + self.shared

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 -- the interface of the parser
        """Return what it does, for the page of its group: all of the first line."""
        return inspect.cleandoc(self.help or "").partition("\n")[0]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return its arguments as they are written in the usage line."""
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Run it, in a session that knows the shared options given after its name."""
        ctx.obj = session.of(ctx).over(
            **{param.name: ctx.params.pop(param.name) for param in self.shared if param.name != "debug"}
        )
        ctx.params.pop("debug", None)
        return super().invoke(ctx)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 -- the interface of the parser
        """Write what the command does, wrapped."""
        about, _ = self._about()
        formatter.write_paragraph()
        for paragraph in about:
            formatter.write_text(" ".join(paragraph.split()))
            formatter.write_paragraph()
        formatter.buffer.pop()

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 -- the interface of the parser
        """Write the examples as they are."""
        _, examples = self._about()
        formatter.write(f"\n{examples}\n" if examples else "")

    def _about(self) -> tuple[list[str], str]:
        """Return what the docstring says: paragraphs, and the examples at its end."""
        *about, last = inspect.cleandoc(self.help or "").split("\n\n")
        return (about, last) if last.startswith("Example") else ([*about, last], "")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write its own arguments and options first, then the shared options."""
        params = self.get_params(ctx)
        shared = {param.name for param in self.shared}
        for title, wanted in (
            ("Arguments", [param for param in params if param.param_type_name == "argument"]),
            ("Options", [param for param in params if param.param_type_name == "option" and param.name not in shared]),
            ("Options of every command", self.shared),
        ):
            records = [record for param in wanted if (record := param.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl([(_TYPE.sub("", name), _CHECKED.sub("", about)) for name, about in records])


class Branch(TyperGroup):
    """A group of commands that are loaded when they are asked for."""

    prefix = ""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 -- the interface of the parser
        """Return the names of its commands."""
        words = [name.removeprefix(self.prefix).split(" ") for name in COMMANDS if name.startswith(self.prefix)]
        return list(dict.fromkeys(first for first, *_ in words))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, loaded now; None where there is none."""
        if not self.prefix and cmd_name in SUBGROUPS:
            return _branch(f"{cmd_name} ", SUBGROUPS[cmd_name])
        found = COMMANDS.get(f"{self.prefix}{cmd_name}")
        if found is None:
            # The parser proposes names that look alike out of this.
            self.commands = dict.fromkeys(self.list_commands(ctx), cast("Any", None))
            return None
        return _made(_function(found), cmd_name, Leaf)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page of a group; that of the whole program is a fixed one."""
        if not self.prefix:
            formatter.write(page())
            return
        super().format_help(ctx, formatter)


def _function(command: Command) -> Any:
    """Return the function of a command; its module is loaded now."""
    module, _, function = command.where.partition(":")
    try:
        return getattr(import_module(f"everlog.surfaces.cli.{module}"), function)
    except ModuleNotFoundError as error:
        if command.extra is None or (error.name or "everlog").startswith("everlog"):
            raise
        raise Mistake(
            f"`everlog {command.name}` needs more: pip install 'everlog[{command.extra}]', or from a clone '.[{command.extra}]'"
        ) from error


def run(arguments: Sequence[str]) -> int:
    """Parse and run one command, and return its exit code.

    Raises:
        Mistake: there is no such command or option, or a value is not of its kind.
    """
    try:
        with _branch("", "").make_context("everlog", list(arguments)) as context:
            status: int | None = context.command.invoke(context)
            return status or 0
    except typer.Exit as ending:
        return ending.exit_code
    except typer.Abort:
        return 1
    except typer.TyperException as error:
        raise mistake(error, arguments) from error


def _branch(prefix: str, about: str) -> Branch:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.callback(cls=Branch, help=about, context_settings=_SETTINGS)(_nothing if prefix else _shared)
    made = cast("Branch", typer.main.get_group(app))
    made.name, made.prefix = prefix.strip() or "everlog", prefix
    return made


def _nothing() -> None:
    """Leave everything to the command."""
