"""Threads with sealed words in them, written row by row: what encryption and rotation work on."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import BigInteger, Integer, LargeBinary, SmallInteger, Table, bindparam

from everlog.log.rows import blob, entry, thread, turn
from everlog.store import Store, Unit, scoped
from everlog.store.keys import version_of

LOCK = scoped(thread).select(thread.c.thread).where(thread.c.thread == bindparam("thread")).with_for_update()
ENTRIES = scoped(entry).select(entry.c.i, entry.c.body).where(entry.c.thread == bindparam("thread")).order_by(entry.c.i)
TITLE = scoped(thread).select(thread.c.title).where(thread.c.thread == bindparam("thread"))
BLOBS = scoped(blob).select(blob.c.name, blob.c.body).where(blob.c.thread == bindparam("thread"))
TURNS = scoped(turn).select(turn.c.n, turn.c.body).where(turn.c.thread == bindparam("thread"))
THREADS = scoped(thread).select(thread.c.thread).order_by(thread.c.thread)
PUT = {table.name: scoped(table).insert(ignore=True) for table in (thread, entry, blob, turn)}


def owner(n: int) -> str:
    return f"{n:032x}"


def words(*place: object) -> bytes:
    """Return bytes that occur nowhere else: a function of their place, 200 of them."""
    return hashlib.shake_256(repr(place).encode()).hexdigest(100).encode()


def put(unit: Unit, table: Table, **values: Any) -> None:
    unit.run(PUT[table.name], {column.name: filler(column) for column in table.c} | values)


def filler(column: Any) -> Any:
    if column.nullable:
        return None
    match column.type:
        case BigInteger() | Integer() | SmallInteger():
            return 0
        case LargeBinary():
            return b""
        case _:
            return ""


def start(unit: Unit, owner: str) -> None:
    """Make a thread with sealed values in four tables."""
    unit.secret()
    put(unit, thread, thread=owner, key=owner, title=unit.seal(thread.c.title, (owner,), words(owner, "title")))
    put(unit, blob, thread=owner, name="b", body=unit.seal(blob.c.body, (owner, "b"), words(owner, "blob")))
    put(unit, turn, thread=owner, n=0, body=unit.seal(turn.c.body, (owner, 0), words(owner, "turn")))


def say(unit: Unit, owner: str, *positions: int) -> None:
    """Append entries, as a unit of the log does: under the thread's lock."""
    unit.rows(LOCK, thread=owner)
    unit.expect(owner)
    for i in positions:
        put(unit, entry, thread=owner, i=i, body=unit.seal(entry.c.body, (owner, i), words(owner, i)))


def saying(owner: str, *positions: int) -> Callable[[Unit], None]:
    return lambda unit: say(unit, owner, *positions)


def fill(store: Store, tenant: str, owners: int, entries: int) -> None:
    for n in range(owners):
        store.write(tenant, partial(start, owner=owner(n)), name="start")
        store.write(tenant, saying(owner(n), *range(entries)), name="say")


def counts(store: Store, tenant: str, owners: Iterable[int]) -> list[int]:
    """Return how many entries each of some threads has, each read and compared."""
    return [store.read(tenant, partial(read, owner=owner(n))) for n in owners]


def read(unit: Unit, owner: str) -> int:
    """Open everything a thread has, compare it with what was said, and return how many entries there are."""
    title = unit.row(TITLE, thread=owner)
    assert title is not None
    assert unit.open(thread.c.title, (owner,), title[0]) == words(owner, "title")
    for name, body in unit.rows(BLOBS, thread=owner):
        assert unit.open(blob.c.body, (owner, name), body) == words(owner, "blob")
    for n, body in unit.rows(TURNS, thread=owner):
        assert unit.open(turn.c.body, (owner, n), body) == words(owner, "turn")
    found = unit.rows(ENTRIES, thread=owner)
    for i, body in found:
        assert unit.open(entry.c.body, (owner, i), body) == words(owner, i)
    assert len(unit.secret()) == 32
    return len(found)


def versions(unit: Unit) -> set[int]:
    """Return the key versions that the tenant's entries are sealed with; 0 is plain."""
    return {version_of(bytes(body)) for (owner,) in unit.rows(THREADS) for _, body in unit.rows(ENTRIES, thread=owner)}


def pieces_in(folder: Path, owners: int, entries: int) -> set[bytes]:
    """Return which 8-byte pieces of any stored words stand in any file of a folder."""
    texts = [words(owner(n), i) for n in range(owners) for i in (*range(entries), "title", "blob", "turn")]
    pieces = {text[at : at + 8] for text in texts for at in range(len(text) - 7)}
    found: set[bytes] = set()
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        found |= pieces & {content[at : at + 8] for at in range(len(content) - 7)}
    return found


@contextmanager
def raw(address: str, tenant: str) -> Iterator[Any]:
    """Give a session of the driver's own, to break things with; `?` marks a parameter."""
    if address.startswith("postgresql"):
        with psycopg.connect(address) as session:
            session.execute("SELECT set_config('everlog.tenant', %s, false)", [tenant])
            yield lambda sql, *values: session.execute(sql.replace("?", "%s").encode(), values)
    else:
        file = sqlite3.connect(address)
        with file:
            yield lambda sql, *values: file.execute(sql, values)
        file.close()
