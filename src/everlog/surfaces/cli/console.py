"""Words to the terminal or a pipe: standard output is always UTF-8, whatever the locale.

Words of a conversation are data. Halves of surrogate pairs, which UTF-8 cannot hold, are shown as U+FFFD. On a terminal,
control characters are made visible, so that no message can move the cursor or change a colour; a pipe gets them as
they are. This module is light: what is needed to print help, and to say what went wrong.
"""

import json
import re
import sys

_HALF = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BREAK = re.compile(r"\s+")


def write(data: bytes) -> None:
    """Write bytes to standard output as they are."""
    if sys.stdout is not None:  # closed by the caller: nobody wants to hear it
        sys.stdout.buffer.write(data)


def is_terminal() -> bool:
    """Whether standard output is read by a person as it appears."""
    return sys.stdout is not None and sys.stdout.isatty()


def text(words: str) -> None:
    """Print words that may come from a conversation; nothing is added."""
    words = _HALF.sub("\ufffd", words)
    if is_terminal():
        words = visible(words)
    write(words.encode())


def line(words: str = "") -> None:
    """Print a line."""
    text(f"{words}\n")


def visible(words: str) -> str:
    """Return words with control characters replaced by pictures of them; tabs and line breaks stay."""
    return _CONTROL.sub(lambda found: chr(0x2400 + ord(found[0])) if ord(found[0]) < 0x20 else "\ufffd", words)


def flat(words: str) -> str:
    """Return words on one line, without control characters."""
    return visible(_BREAK.sub(" ", words)).strip()


def note(words: str) -> None:
    """Say something to the person at the terminal that is not part of the output."""
    if sys.stderr is not None:
        sys.stderr.write(f"{flat(words)}\n")


def failure(error: str, *, kind: str, status: int, as_json: bool) -> None:
    """Say on standard error, in one line, what went wrong."""
    if as_json:
        note(json.dumps({"error": flat(error), "type": kind, "exit": status}))
    else:
        note(f"everlog: {error}")
