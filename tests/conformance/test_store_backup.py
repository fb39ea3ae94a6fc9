"""A backup made while the store is in use, restored in a new place, is the store of that moment."""

import base64
import json
import os
import re
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

import psycopg
import pytest

from everlog.errors import Damaged, EverlogError, KeyTrouble, Mistake, SchemaMismatch, StoreUnavailable
from everlog.store import Store, dump, open_store
from everlog.store import backup as backup_module
from everlog.store.backup import BackupReport, backup, restore
from everlog.store.postgres import PostgresEngine
from everlog.store.rotation import encrypt
from tests.conformance.conftest import KEYS, Database
from tests.postgres import PostgresDatabase, PostgresServer
from tests.unit.store.sample import names, put
from tests.unit.store.sealed_sample import counts, fill, owner, pieces_in, saying, versions


@pytest.fixture
def source(database: Database, postgres_server: PostgresServer) -> Store:
    """A filled store, opened by a role that may dump it."""
    address = database.address
    if database.engine == "postgresql":
        address = address.replace("//app:", "//postgres:")
    store = database.open_at(address)
    for tenant in ("ada", "bob"):
        fill(store, tenant, 2, 3)
        put(store, tenant, "1")
    return store


@pytest.fixture
def place(database: Database, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address where nothing is."""
    if database.engine == "sqlite":
        return str(tmp_path / "restored.db")
    empty: PostgresDatabase = request.getfixturevalue("postgres_database")
    return empty.url


def check(store: Store) -> None:
    for tenant in ("ada", "bob"):
        assert counts(store, tenant, range(2)) == [3, 3]
        assert names(store, tenant) == ["1"]


def test_what_was_backed_up_is_restored(source: Store, database: Database, place: str, tmp_path: Path):
    secret = source.read("ada", lambda unit: unit.secret())
    seen: list[tuple[int, int | None]] = []
    report = backup(source, tmp_path / "copy", lambda *at: seen.append(at))
    keys = tmp_path / "copy.keys"
    assert report == BackupReport(
        path=tmp_path / "copy",
        size_bytes=(tmp_path / "copy").stat().st_size,
        keys=keys if database.encrypted else None,
        tenants=2,
    )
    assert keys.exists() is database.encrypted
    assert seen[-1][0] == seen[-1][1]
    restored = restore(tmp_path / "copy", place)
    assert (restored.tenants, restored.encrypted) == (2, database.encrypted)
    with open_store(place, keys=database.keys) as store:
        check(store)
        assert store.tenants() == ["ada", "bob"]
        assert store.read("ada", lambda unit: unit.secret()) == secret
        store.write("ada", saying(owner(0), 3), name="say")
        assert counts(store, "ada", [0]) == [4]
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy", "copy.keys"][: 1 + database.encrypted]


def test_keys_are_apart_and_still_wrapped(source: Store, database: Database, place: str, tmp_path: Path):
    backup(source, tmp_path / "copy")
    if not database.encrypted:
        return
    keys = tmp_path / "copy.keys"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    document = json.loads(keys.read_text())
    assert {(row["tenant"], row["owner"]) for row in document["keys"]} == {
        (tenant, name) for tenant in ("ada", "bob") for name in ("", owner(0), owner(1))
    }
    moved = keys.rename(tmp_path / "elsewhere.json")
    with pytest.raises(KeyTrouble, match="is a backup of an encrypted database; name the file of its keys"):
        restore(tmp_path / "copy", place)
    restore(tmp_path / "copy", place, moved)
    with open_store(place, keys=KEYS) as store:
        check(store)


@pytest.mark.parametrize("database", ["sqlite-plain", "postgresql-plain"], indirect=True)
def test_a_backup_of_what_is_half_encrypted_is_put_back_and_goes_on(
    source: Store, database: Database, place: str, tmp_path: Path
):
    address = source.engine.dsn if isinstance(source.engine, PostgresEngine) else database.address
    list(islice(encrypt(database.open_at(address, keys=KEYS, encrypting=True)), 1))
    backup(database.open_at(address, keys=KEYS), tmp_path / "copy")
    assert restore(tmp_path / "copy", place).encrypted
    with pytest.raises(KeyTrouble, match="this database is encrypted"):
        open_store(place)
    with open_store(place, keys=KEYS) as store:
        assert (store.encryption(), store.read("ada", versions)) == ("on", {0, 1})
        check(store)
        list(encrypt(store))
        assert (store.encryption(), store.read("ada", versions)) == ("complete", {1})
        check(store)


@pytest.mark.parametrize("database", ["sqlite-encrypted"], indirect=True)
def test_a_copy_holds_no_wrapped_key_and_no_word(source: Store, tmp_path: Path):
    target = tmp_path / "apart" / "copy"
    target.parent.mkdir()
    backup(source, target)
    wrapped = [json.loads((target.parent / "copy.keys").read_text())["keys"][n]["wrapped"] for n in range(6)]
    content = target.read_bytes()
    assert wrapped
    assert [one for one in wrapped if base64.b64decode(one)[:12] in content] == []
    assert pieces_in(target.parent, 2, 3) == set()
    raw = sqlite3.connect(target)
    assert raw.execute("SELECT count(*) FROM wrapped_key").fetchone() == (0,)
    raw.close()


def test_a_backup_is_of_one_moment_though_others_write(source: Store, database: Database, place: str, tmp_path: Path):
    """Entries are appended one after the other; a copy that holds one holds all before it."""
    stop = threading.Event()
    last = 3

    def work() -> None:
        nonlocal last
        while not stop.is_set():
            source.write("ada", saying(owner(0), last), name="say")
            source.write("ada", saying(owner(1), last), name="say")
            last += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        backup(source, tmp_path / "copy", lambda *_: None)
    finally:
        stop.set()
        thread.join()
    restore(tmp_path / "copy", place)
    with open_store(place, keys=database.keys) as store:
        first, second = counts(store, "ada", range(2))
        assert 3 <= second <= first <= second + 1
        assert first <= last


@pytest.mark.parametrize("database", ["sqlite-plain", "sqlite-encrypted"], indirect=True)
def test_what_is_written_while_pages_are_copied_is_not_in_the_copy(
    source: Store, database: Database, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without a snapshot each write would begin the copy anew, and a busy store were never backed up."""
    monkeypatch.setattr(backup_module, "PAGES", 1)
    written = count(3)

    def write(*_: object) -> None:
        source.write("ada", saying(owner(0), next(written)), name="say")

    backup(source, tmp_path / "copy", write)
    assert next(written) > 20
    restore(tmp_path / "copy", place)
    with open_store(place, keys=database.keys) as store:
        check(store)


def test_nothing_is_overwritten(source: Store, place: str, tmp_path: Path):
    for name in ("copy", "other.keys"):
        (tmp_path / name).write_text("mine")
    for name, named in (("copy", "copy"), ("other", "other.keys")):
        with pytest.raises(Mistake, match=f"{named} exists already; a backup is never overwritten"):
            backup(source, tmp_path / name)
    assert (tmp_path / "copy").read_text() == "mine"
    backup(source, tmp_path / "good")
    restore(tmp_path / "good", place)
    with pytest.raises(Mistake, match=r"name a path where nothing is|is not empty; restore into a new one"):
        restore(tmp_path / "good", place)


def test_what_an_interrupted_backup_left_is_in_nobodys_way(source: Store, place: str, tmp_path: Path):
    for name in ("copy.partial", "copy.partial-wal", "copy.keys.partial"):
        (tmp_path / name).write_text("half")
    backup(source, tmp_path / "copy")
    restore(tmp_path / "copy", place)
    assert [path.name for path in tmp_path.glob("*.partial*")] == []


def test_what_is_no_backup_is_refused(database: Database, place: str, tmp_path: Path):
    letter = tmp_path / "letter"
    letter.write_text("Dear Ada,\n" * 1000)
    for path in (tmp_path / "none", tmp_path, letter):
        with pytest.raises(EverlogError, match=re.escape(str(path))):
            restore(path, place)
    if database.engine == "sqlite":
        assert not Path(place).exists()


@pytest.mark.parametrize("database", ["sqlite-encrypted", "postgresql-encrypted"], indirect=True)
@pytest.mark.parametrize(
    "keys", ["", "[]", "{}", '{"everlog": "wrapped keys"}', '{"everlog": "wrapped keys", "keys": [{"wrapped": "!"}]}']
)
def test_a_file_that_holds_no_keys_is_refused(source: Store, place: str, tmp_path: Path, keys: str):
    backup(source, tmp_path / "copy")
    wrong = tmp_path / "wrong"
    wrong.write_text(keys)
    with pytest.raises(KeyTrouble, match="is no file of wrapped keys"):
        restore(tmp_path / "copy", place, wrong)


def test_a_backup_of_a_newer_version_is_refused_before_anything_is_made(
    source: Store, database: Database, place: str, tmp_path: Path
):
    with raw_version(database) as set_version:
        set_version("9999")
        backup(source, tmp_path / "copy")
    with pytest.raises(SchemaMismatch, match="has schema 9999"):
        restore(tmp_path / "copy", place)
    if database.engine == "sqlite":
        assert not Path(place).exists()
    else:
        with psycopg.connect(place) as raw:
            assert raw.execute("SELECT to_regclass('thread')").fetchone() == (None,)


@contextmanager
def raw_version(database: Database) -> Iterator[Any]:
    if database.engine == "sqlite":
        raw: Any = sqlite3.connect(database.address, isolation_level=None)
        yield lambda found: raw.execute("UPDATE everlog_version SET version_num = ?", [found])
        raw.close()
    else:
        with psycopg.connect(database.address, autocommit=True) as raw:
            yield lambda found: raw.execute("UPDATE everlog_version SET version_num = %s", [found])


@pytest.mark.parametrize("database", ["sqlite-plain"], indirect=True)
def test_a_damaged_backup_is_refused_and_leaves_nothing(source: Store, place: str, tmp_path: Path):
    put(source, "ada", *(f"{n:05}" for n in range(5000)))
    backup(source, tmp_path / "copy")
    content = bytearray((tmp_path / "copy").read_bytes())
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    (tmp_path / "copy").write_bytes(content)
    with pytest.raises(Damaged, match=r"damaged; restore another|damaged; restore a backup"):
        restore(tmp_path / "copy", place)
    assert not Path(place).exists()


@pytest.mark.parametrize("database", ["sqlite-plain"], indirect=True)
def test_a_target_that_cannot_be_written_is_a_clear_error(source: Store, tmp_path: Path):
    with pytest.raises(StoreUnavailable, match=r"copy\.partial: No such file or directory; does the folder exist"):
        backup(source, tmp_path / "none" / "copy")


@pytest.mark.parametrize("database", ["sqlite-plain"], indirect=True)
def test_a_database_in_memory_can_be_saved(database: Database, tmp_path: Path):
    with open_store(":memory:") as store:
        fill(store, "ada", 1, 2)
        backup(store, tmp_path / "copy")
        with pytest.raises(Mistake, match="name a path where nothing is"):
            restore(tmp_path / "copy", ":memory:")
    restore(tmp_path / "copy", str(tmp_path / "x.db"))
    with open_store(tmp_path / "x.db") as store:
        assert counts(store, "ada", [0]) == [2]


on_postgresql = pytest.mark.parametrize("database", ["postgresql-plain"], indirect=True)


@on_postgresql
def test_a_role_that_sees_one_tenant_at_a_time_is_told_what_it_needs(database: Database, tmp_path: Path):
    with pytest.raises(Mistake, match=r"the role app sees one tenant at a time.*BYPASSRLS"):
        backup(database.open(), tmp_path / "copy")
    assert list(tmp_path.glob("copy*")) == []


@on_postgresql
def test_a_tool_that_is_missing_or_too_old_is_named(source: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dump, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        Mistake, match=r"pg_dump of PostgreSQL \d+ or newer is needed, but there is no pg_dump on the PATH"
    ):
        backup(source, tmp_path / "copy")
    (tmp_path / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6'\n")
    (tmp_path / "pg_dump").chmod(0o755)
    with pytest.raises(Mistake, match="pg_dump is version 9"):
        backup(source, tmp_path / "copy")


@on_postgresql
def test_the_password_is_on_no_command_line(source: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[list[str]] = []
    original = subprocess.Popen

    def popen(command: Any, **options: Any) -> Any:
        seen.append([str(word) for word in command])
        return original(command, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    backup(source, tmp_path / "copy")
    password = source.engine.password  # type: ignore[union-attr]
    assert len(password) > 8
    assert [word for command in seen for word in command if password in word] == []
    assert any("dbname=" in word for command in seen for word in command)
    assert os.environ.get("PGPASSWORD") is None
