"""Where the lines of `everlog chat` come from: a terminal, with editing, or a pipe."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from everlog.errors import Mistake
from everlog.surfaces.cli.chat_commands import is_command
from everlog.surfaces.cli.console import is_terminal

PROMPT, MORE = "> ", ". "

PASTE_S = 0.03
"""A line that comes so soon after another was pasted with it."""


def is_live() -> bool:
    """Return whether a person types, and sees what is answered."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty() and is_terminal()


def lines(*, is_live: bool) -> Iterator[str]:
    """Yield what is said, until there is no more; of a pipe, each line.

    Raises:
        Mistake: there is no standard input.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise Mistake("standard input is closed; pipe lines in, or say one by --once TEXT")
    found = _typed() if is_live else (line.decode("utf-8", "replace") for line in sys.stdin.buffer)
    for words in found:
        if words.strip():
            yield words.rstrip("\r\n")


def _typed() -> Iterator[str]:
    """Yield what is typed, until Ctrl-D, or Ctrl-C at the prompt."""
    with suppress(ImportError):  # editing, where Python has it; a paste is then one text, whatever lines it has
        is_dumb = os.environ.get("TERM", "dumb") == "dumb"
        import_module("readline").parse_and_bind(f"set enable-bracketed-paste {'off' if is_dumb else 'on'}")
    while True:
        try:
            words = input(PROMPT)
            while words.endswith("\\") or (not is_command(words) and _more_comes()):
                words = f"{words.removesuffix(chr(92))}\n{input(MORE)}"
        except (EOFError, KeyboardInterrupt):
            sys.stdout.write("\n")
            return
        # A locale that is not UTF-8 leaves halves of surrogate pairs for bytes that it does not know.
        yield words.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _more_comes() -> bool:
    return bool(select.select([sys.stdin], [], [], PASTE_S)[0])
