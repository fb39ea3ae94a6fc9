"""Files beside a database for what it could not take in: as readable as the database itself, and no more.

Beside an encrypted database they are sealed under a key of their own, which the master key wraps. A database on a server,
or in memory, has no files beside it.
"""

import base64
import json
from pathlib import Path

from everlog.clock import new_id
from everlog.errors import Damaged, KeyTrouble
from everlog.store.keys import KEY_BYTES, NONCE_BYTES, PLAIN, SEALED, DataKey
from everlog.store.newfile import contents, held, place, unwritable
from everlog.store.sqlite import SQLiteEngine
from everlog.store.store import Store

LIMIT_BYTES = 1 << 30


def files(store: Store, name: str) -> list[Path]:
    """Return the files of a name, or of all names that go on from it, beside a database; oldest first of each name."""
    where = _beside(store, name)
    return [] if where is None else sorted(where.parent.glob(f"{_plain(where.name)}-*[0-9a-f]"))


def remnants(store: Store, name: str) -> list[Path]:
    """Return what programs that were killed left of files that they were writing."""
    where = _beside(store, name)
    return [] if where is None else sorted(where.parent.glob(f"{_plain(where.name)}-*.part"))


def write(store: Store, name: str, plain: bytes) -> Path | None:
    """Write a new file; None where there is no place for one.

    Raises:
        Mistake, StoreUnavailable: it cannot be written.
        KeyTrouble: the provider of the keys does not seal it.
    """
    where = _beside(store, name)
    if where is None:
        return None
    path = where.with_name(f"{where.name}-{new_id(store.clock)}")
    part = path.with_name(f"{path.name}.part")
    sealed = _sealed(store, name, plain)
    try:
        with held(part):
            part.write_bytes(sealed)
            place(part, path)
    except OSError as error:
        raise unwritable(path, error) from error
    return path


def read(store: Store, path: Path) -> bytes:
    """Return what a file holds, if it is the one that was written under its name.

    Raises:
        Damaged: it cannot be read.
        KeyTrouble: it is sealed under another master key.
    """
    try:
        return _opened(store, name_of(store, path), contents(path, LIMIT_BYTES))
    except KeyTrouble:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} cannot be read; what it holds is not in the database") from error


def name_of(store: Store, path: Path) -> str:
    """Return the name under which a file was written."""
    assert isinstance(store.engine, SQLiteEngine)
    assert store.engine.path is not None
    return path.name.removeprefix(f"{store.engine.path.name}.").rpartition("-")[0]


def _beside(store: Store, name: str) -> Path | None:
    engine = store.engine
    if not isinstance(engine, SQLiteEngine) or engine.path is None:
        return None
    return engine.path.with_name(f"{engine.path.name}.{name}")


def _plain(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _sealed(store: Store, name: str, plain: bytes) -> bytes:
    provider = store.vault.provider
    if provider is None:
        return PLAIN + plain
    secret, bound = store.clock.random(KEY_BYTES), name.encode()
    wrapped = provider.wrap(secret, bound, store.clock.random(NONCE_BYTES))
    head = json.dumps({"wrapper": provider.name, "wrapped": base64.b64encode(wrapped).decode("ascii")}).encode()
    return SEALED + len(head).to_bytes(4, "big") + head + DataKey(1, secret).seal(plain, bound, store.clock)


def _opened(store: Store, name: str, content: bytes) -> bytes:
    provider = store.vault.provider
    if content[:1] == PLAIN and provider is None:
        return content[1:]
    if content[:1] != SEALED or provider is None:
        raise ValueError("a file beside a database is sealed exactly where the database is")
    size = int.from_bytes(content[1:5], "big")
    head = json.loads(content[5 : 5 + size])
    bound = name.encode()
    secret = provider.unwrap(head["wrapper"], base64.b64decode(head["wrapped"]), bound)
    return DataKey(1, secret).open(content[5 + size :], bound)
