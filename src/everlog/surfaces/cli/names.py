"""What a person types to name a thread, a line or a message, and what was probably meant where there is none.

Commands that only read take the beginning of a key where it can mean one thread alone. Commands that write, and above
all `erase`, take the whole key, and only propose. Titles help to find a thread; they are words of a conversation, so no
proposal shows them.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Annotated

import typer

from everlog import Everlog, Mistake, Thread, UnknownThread

PROPOSED = 3
"""Threads named by a proposal."""

LOOKED_AT = 10_000
"""Threads compared with a key that was not found."""

CONTAINED = 3
"""Characters of a word that is looked for inside of keys and titles."""

_LABEL = re.compile(r"(\d{1,18})(?:\+(\d{1,18}))?\|?")


def as_key(word: str) -> str:
    """Return a thread's key as it was typed, also where the locale is not UTF-8."""
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeDecodeError:
        return word


@dataclass(frozen=True, slots=True)
class Label:
    """The address of a line of a view, as it was typed."""

    first: int
    """Position of its first message."""
    size: int | None
    """How many messages it covers, if that was said."""


def as_label(word: str) -> Label:
    """Return the address that `24` or `24+8` stands for.

    Raises:
        BadParameter: it is neither.
    """
    found = _LABEL.fullmatch(word)
    if found is None:
        raise typer.BadParameter(f"{word!r} is neither a position, such as 24, nor the label of a line, such as 24+8")
    first, size = found.groups()
    return Label(int(first), None if size is None else int(size))


def as_position(word: str) -> int:
    """Return the position of the message that `24` or `24+1` stands for.

    Raises:
        BadParameter: it is neither, or a line of several messages.
    """
    label = as_label(word)
    if label.size not in {None, 1}:
        raise typer.BadParameter(f"{word!r} is a line of {label.size} messages; `everlog zoom` opens it down to one")
    return label.first


Key = Annotated[
    str, typer.Argument(metavar="THREAD", parser=as_key, help="Key of the thread; `everlog threads` lists them.")
]

Named = Annotated[
    str,
    typer.Argument(
        metavar="THREAD", parser=as_key, help="Key of the thread, or how it begins; `everlog threads` lists them."
    ),
]


def thread_named(memory: Everlog, word: str) -> Thread:
    """Return the thread with a key, or else the one whose key begins so, to be read.

    The beginning of what stands after `format:` will do. Other ways that the same conversation went, `key~1` and
    `key#2`, are not meant where the conversation itself fits.

    Raises:
        UnknownThread: there is none, or there are several.
    """
    thread = memory.thread(word)
    try:
        _ = thread.id
    except UnknownThread:
        keys = [one.key for one in memory.threads() if _begins(one.key, word)]
    else:
        return thread
    roots = [key for key in keys if not any(_varies(key, other) for other in keys)]
    if not roots:
        raise unknown(memory, word)
    if len(roots) == 1:
        return memory.thread(roots[0])
    more = f" and {len(roots) - PROPOSED:,} more" if len(roots) > PROPOSED else ""
    names = ", ".join(map(repr, roots[:PROPOSED]))
    raise UnknownThread(f"{word!r} is the beginning of several threads: {names}{more}; give more of the key")


@contextmanager
def proposing(memory: Everlog, key: str | None) -> Iterator[None]:
    """Say what may have been meant where there is no thread with a key; nothing but the key itself is taken for it."""
    try:
        yield
    except UnknownThread:
        if key is None:
            raise
        raise unknown(memory, key) from None


def unknown(memory: Everlog, word: str) -> Mistake:
    """Return the error that says there is no such thread, and names those whose key or title looks alike."""
    threads = list(islice(memory.threads(), LOOKED_AT))
    wanted = word.casefold()
    near = [
        one.key
        for one in threads
        if len(wanted) >= CONTAINED and (wanted in one.key.casefold() or wanted in (one.title or "").casefold())
    ]
    if not near:
        keys = {one.key.casefold(): one.key for one in threads}
        near = [keys[found] for found in get_close_matches(wanted, keys, n=PROPOSED)]
    if not near:
        return UnknownThread(f"no thread {word!r} here; `everlog threads` lists the ones there are")
    return UnknownThread(f"no thread {word!r} here; did you mean {_either([repr(key) for key in near[:PROPOSED]])}?")


def _begins(key: str, word: str) -> bool:
    return key.startswith(word) or key.partition(":")[2].startswith(word)


def _varies(key: str, other: str) -> bool:
    return key.startswith((f"{other}~", f"{other}#"))


def _either(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
