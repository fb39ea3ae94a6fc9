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
from everlog.surfaces.beginnings import PROPOSED, begun_by

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
    """Return the thread with a key, or else the one whose key begins so, to be read; see `begun_by`.

    Raises:
        UnknownThread: there is none, or there are several.
    """
    thread = memory.thread(word)
    try:
        _ = thread.id
    except UnknownThread:
        key = begun_by([one.key for one in memory.threads()], word)
    else:
        return thread
    if key is None:
        raise unknown(memory, word)
    return memory.thread(key)


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
    return UnknownThread(f"no thread {word!r} here; did you mean {either([repr(key) for key in near[:PROPOSED]])}?")


def either(names: list[str]) -> str:
    """Return names as one of them: `a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
