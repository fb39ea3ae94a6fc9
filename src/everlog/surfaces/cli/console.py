"""Words to the terminal or a pipe: standard output is always UTF-8, whatever the locale.

Words of a conversation are data. Halves of surrogate pairs, which UTF-8 cannot hold, are shown as U+FFFD. Control
characters, and what turns the direction of a line around, are made visible, so that no message can move the cursor or
change a colour: wherever it goes in lines that are ours, such as tables and reports; of words that are promised as they
are (`text`), on a terminal only, and a pipe gets them exactly. On a terminal they are escaped in JSON as well. This
module is light: what is needed to print help, and to say what went wrong.
"""

import json
import re
import sys

_HALF = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e]")
_BREAK = re.compile(r"\s+")


def write(data: bytes) -> None:
    """Write bytes to standard output as they are."""
    if sys.stdout is not None:  # closed by the caller: nobody wants to hear it
        sys.stdout.buffer.write(data)


def write_json(data: bytes) -> None:
    """Write JSON to standard output; what a terminal would act on is escaped there, which is the same value."""
    if is_terminal():
        data = _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", data.decode()).encode()
    write(data)


def is_terminal() -> bool:
    """Whether standard output is read by a person as it appears."""
    return sys.stdout is not None and sys.stdout.isatty()


def text(words: str) -> None:
    """Print words of a conversation; nothing is added, and to a pipe they go as they are."""
    words = _HALF.sub("\ufffd", words)
    write((visible(words) if is_terminal() else words).encode())


def line(words: str = "") -> None:
    """Print a line of ours, whatever stands in it."""
    write(f"{visible(_HALF.sub(chr(0xFFFD), words))}\n".encode())


def visible(words: str) -> str:
    """Return words with pictures in the place of control characters; tabs and line breaks stay."""
    return _CONTROL.sub(lambda found: chr(0x2400 + ord(found[0])) if ord(found[0]) < 0x20 else "\ufffd", words)


def flat(words: str) -> str:
    """Return words on one line, without control characters."""
    return visible(_BREAK.sub(" ", words)).strip()


def note(words: str) -> None:
    """Say something to the person at the terminal that is not part of the output."""
    if is_terminal():
        sys.stdout.flush()  # what was printed before stands before it
    if sys.stderr is not None:
        sys.stderr.write(f"{flat(words)}\n")


_OPTIONS = (
    (re.compile(r"give provider= and assume_model_exists=True"), "give --provider and --assume-model-exists"),
    (re.compile(r"or give api_key="), "or name another variable by api_key_env in everlog.toml"),
    (re.compile(r"build its chat with protocol='(\w+)'"), r'give --protocol \1, or protocol = "\1" in everlog.toml'),
)
"""What the library tells a program to do, and what a person at the terminal can."""


def in_options(said: str) -> str:
    """Return what an error of the library says, in the words of the command line."""
    for phrase, words in _OPTIONS:
        said = phrase.sub(words, said)
    return said


def failure(error: str, *, kind: str, status: int, as_json: bool) -> None:
    """Say on standard error, in one line, what went wrong."""
    if as_json:
        note(json.dumps({"error": flat(error), "type": kind, "exit": status}))
    else:
        note(f"everlog: {error}")
