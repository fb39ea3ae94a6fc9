"""What benchmarks work on: made-up words, files to import, databases to fill, and the plainest rival there is."""

import json
import os
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import everlog
from everlog import Everlog, MasterKeys, Message, NewTurn, Thread

WORDS = """
anchor account bearing boat bridge budget cabin captain chart compass deck decision draft engine estimate evening
ferry forecast galley harbour hull invoice journey keel lantern ledger letter license lighthouse mast meeting morning
mooring number oar order paint paper passage pilot port quay question rain receipt reef repair river rope rudder sail
schedule season signal sketch spar stern storm survey tide timber tug varnish voyage weather winch
"""
PAGE = 500
"""Turns stored by one unit when a thread is filled."""

_text = " ".join(random.Random(7).choices(WORDS.split(), k=200_000))


def words(i: int, size: int) -> str:
    """Return text of exactly `size` ASCII characters that is different for each `i`."""
    start = i * 7919 % (len(_text) - size)
    return f"{i} {_text[start : start + size]}"[:size]


def turn(i: int, size: int) -> tuple[Message, Message]:
    """Return a question and its answer, of `size` bytes each."""
    return (
        Message(kind="user", text=words(2 * i, size)),
        Message(kind="assistant", text=words(2 * i + 1, size)),
    )


def write_everlog(path: Path, count: int, size: int) -> None:
    """Write a thread in Everlog's own form: `count` messages of `size` bytes."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            kind, time = ("user", "assistant")[i % 2], f"2026-01-05T09:12:{i % 60:02}.000000Z"
            line = {"i": i, "kind": kind, "author": None, "text": words(i, size), "time": time, "turn": i // 2}
            file.write(json.dumps(line) + "\n")


def write_openai(path: Path, count: int, size: int) -> None:
    """Write one conversation as programs dump it for OpenAI's API, a message a line."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            file.write(json.dumps({"role": ("user", "assistant")[i % 2], "content": words(i, size)}) + "\n")


@contextmanager
def folder() -> Iterator[Path]:
    """Give a folder on the disk of the machine's temporary files, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as name:
        yield Path(name)


def opened(path: Path, *, encrypted: bool = False, synchronous: str = "NORMAL") -> Everlog:
    """Open a new database, with a new master key if it is to be encrypted."""
    return everlog.open(path, keys=MasterKeys(keys=[os.urandom(32)]) if encrypted else None, synchronous=synchronous)


def engine(*, encrypted: bool = False, synchronous: str = "NORMAL") -> str:
    """Return how the engine is called in a row."""
    return f"SQLite {synchronous}" + (", encrypted" if encrypted else "")


def grow(thread: Thread, count: int, size: int, *, start: int = 0) -> None:
    """Append entries `start` up to `count` in large units."""
    for page in range(start // 2, count // 2, PAGE):
        thread.extend([NewTurn(messages=turn(i, size)) for i in range(page, min(page + PAGE, count // 2))])


class Naive:
    """What one would write first: a connection, a transaction of two rows, and SQLite's own waiting for its turn."""

    def __init__(self, path: Path, *, synchronous: str) -> None:
        self._raw = sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)
        self._raw.execute("PRAGMA journal_mode = WAL")
        self._raw.execute(f"PRAGMA synchronous = {synchronous}")
        self._raw.execute(
            "CREATE TABLE IF NOT EXISTS message (thread TEXT, i INTEGER, role TEXT, body TEXT, at INTEGER, "
            "PRIMARY KEY (thread, i)) WITHOUT ROWID"
        )

    def append(self, thread: str, i: int, said: tuple[Message, Message]) -> None:
        """Store a turn."""
        self._raw.execute("BEGIN IMMEDIATE")
        self._raw.executemany(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?)",
            [(thread, 2 * i + n, message.kind, message.text, i) for n, message in enumerate(said)],
        )
        self._raw.execute("COMMIT")

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


@contextmanager
def connecting(kind: type[sqlite3.Connection]) -> Iterator[None]:
    """Let every SQLite connection of this process be of one kind, for as long as the block lasts."""
    plain = sqlite3.connect
    sqlite3.connect = partial(plain, factory=kind)  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect = plain
