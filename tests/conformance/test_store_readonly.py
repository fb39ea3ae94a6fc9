"""Users of one machine at one SQLite file: who may only read it makes nothing that locks its owner out.

Run by root, the tests use other users. Run by anybody else, they take away their own rights by `chmod`, which comes to
the same for all but what belongs to whom.
"""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.store import Unit, open_store, readonly
from everlog.store.readonly import Changed, hindrance
from everlog.store.sqlite import SQLiteEngine
from tests.conformance.test_store_sqlite import program
from tests.unit.store.sample import ALL, names, put

NOBODY, OTHER, GROUP = 65534, 65533, 65532
ROOT = os.geteuid() == 0

AS_ANOTHER = """
    def become(user, group):
        if os.getuid() == 0:
            os.setgroups([group])
            os.setgid(user)
            os.setuid(user)
"""

READ = f"""{AS_ANOTHER}
    become({NOBODY}, {NOBODY})
    try:
        with open_store(sys.argv[1]) as store:
            print(names(store, "ada"), sorted(os.listdir(os.path.dirname(sys.argv[1]))))
            put(store, "ada", "theirs")
    except EverlogError as error:
        print(type(error).__name__, str(error))
"""

WRITE = f"""{AS_ANOTHER}
    become(int(sys.argv[3]), {GROUP})
    try:
        store = open_store(sys.argv[1])
        put(store, "ada", sys.argv[2])
        print(names(store, "ada"))
    except EverlogError as error:
        print(type(error).__name__, str(error))
    sys.stdout.flush()
    if len(sys.argv) > 4:
        os._exit(0)
    store.close()
"""


@pytest.fixture
def path() -> Iterator[Path]:
    """A database with one row in a folder that other users may enter, under /tmp itself: they may not enter the test's."""
    with tempfile.TemporaryDirectory(prefix="everlog-users-", dir="/tmp") as name:
        path = Path(name, "x.db")
        with open_store(path) as store:
            put(store, "ada", "1")
        yield path
        path.parent.chmod(0o755)


def files_of(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def give(path: Path, user: int, group: int = -1) -> None:
    if ROOT:
        os.chown(path, user, group)


@pytest.mark.parametrize("folder_mode", [0o777, 0o755, 0o555])
def test_who_may_only_read_a_database_leaves_nothing_beside_it_and_is_told_who_may_write(path: Path, folder_mode: int):
    path.chmod(0o444)
    path.parent.chmod(folder_mode)
    first, second = program(READ, path).splitlines()
    assert first == "['1'] ['x.db']"
    assert second.startswith("StoreUnavailable ")
    assert "you may read it, but not write" in second
    assert files_of(path) == ["x.db"]
    path.chmod(0o644)
    path.parent.chmod(0o755)
    with open_store(path) as store:
        put(store, "ada", "2")
        assert names(store, "ada") == ["1", "2"]


def test_a_folder_that_may_only_be_read_is_said(path: Path):
    path.chmod(0o666)
    path.parent.chmod(0o555)
    first, second = program(READ, path).splitlines()
    assert (first, files_of(path)) == ("['1'] ['x.db']", ["x.db"])
    assert f"you may not write in the folder {path.parent}" in second


def test_a_reader_sees_what_a_writer_has_stored_that_has_it_open(path: Path):
    with open_store(path) as store:
        put(store, "ada", "2")
        path.chmod(0o444)
        path.parent.chmod(0o777)
        first, second = program(READ, path).splitlines()
        path.chmod(0o644)
        assert first == "['1', '2'] ['x.db', 'x.db-shm', 'x.db-wal']"
        assert "you may read it, but not write" in second
        put(store, "ada", "3")
        assert names(store, "ada") == ["1", "2", "3"]
    assert files_of(path) == ["x.db"]


@pytest.mark.parametrize("index", [True, False])
def test_what_a_writer_left_that_was_killed_is_read_or_said_to_be_missing(path: Path, index: bool):
    program(WRITE, path, "2", os.geteuid(), "killed")
    assert path.with_name("x.db-wal").stat().st_size
    if not index:
        path.with_name("x.db-shm").unlink()
    path.chmod(0o444)
    path.parent.chmod(0o777)
    before = files_of(path)
    said = program(READ, path)
    assert files_of(path) == before
    if index:
        assert said.startswith("['1', '2']")
    else:
        assert said.startswith(f"StoreUnavailable {path}: its newest rows are in {path}-wal, and you may not write")
    path.chmod(0o644)
    with open_store(path) as store:
        assert names(store, "ada") == ["1", "2"]


def test_what_was_written_while_a_file_was_read_as_one_that_nobody_writes_is_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    tries: list[int] = []

    def write() -> None:
        raw = sqlite3.connect(path)
        raw.execute("UPDATE receipt SET id = id || '!'")
        raw.commit()
        raw.close()

    def overtaken(unit: Unit, times: int) -> list[str]:
        found = [str(name) for name, _ in unit.rows(ALL)]
        tries.append(1)
        if len(tries) <= times:
            write()
        return found

    monkeypatch.setattr(readonly, "_only_readable", lambda _: True)
    with open_store(path) as store:
        assert (store.read("ada", lambda unit: overtaken(unit, 1)), len(tries)) == (["1!"], 2)
        with pytest.raises(Changed, match="is being written at this moment; do the same again"):
            store.read("ada", lambda unit: overtaken(unit, 99))
        assert isinstance(store.engine, SQLiteEngine)
        with pytest.raises(Changed):
            store.engine.maintain(lambda _: write())
        assert len(names(store, "ada")) == 1


@pytest.mark.parametrize("rows", [False, True])
def test_a_log_of_another_user_that_locks_the_owner_out_is_named_with_what_to_do(path: Path, rows: bool):
    if rows:
        program(WRITE, path, "2", os.geteuid(), "killed")
    logs = [path.with_name(f"x.db{ending}") for ending in ("-wal", "-shm")]
    for log in logs:
        log.touch()
        log.chmod(0o444)
    give(path, NOBODY)
    give(path.parent, NOBODY)
    # An empty log that is one's own is made writable again by SQLite, so there nothing would fail.
    said = program(WRITE, path, "3", NOBODY, "killed") if ROOT or rows else f"StoreUnavailable {hindrance(path)}"
    assert said.startswith("StoreUnavailable ")
    assert f"{logs[0]} and {logs[1]}: made by user " in said
    if rows:
        assert "let an administrator give them to user " in said
        for log in logs:
            log.chmod(0o644)
            give(log, NOBODY)
    else:
        assert "remove them: they are empty" in said
        for log in logs:
            log.unlink()
    assert program(WRITE, path, "3", NOBODY) == f"{['1', *(['2'] if rows else []), '3']}\n"


def test_what_somebody_of_the_owners_group_leaves_the_owner_can_write(path: Path):
    path.chmod(0o660)
    path.parent.chmod(0o770)
    give(path, NOBODY, GROUP)
    give(path.parent, NOBODY, GROUP)
    assert program(WRITE, path, "2", OTHER, "killed") == "['1', '2']\n"
    assert path.with_name("x.db-wal").stat().st_gid == path.stat().st_gid
    assert program(WRITE, path, "3", NOBODY) == "['1', '2', '3']\n"


def test_what_root_makes_belongs_to_the_owner_of_the_database(path: Path):
    give(path, NOBODY, GROUP)
    with open_store(path) as store:
        put(store, "ada", "2")
        owners = {(one.stat().st_uid, one.stat().st_gid) for one in path.parent.iterdir()}
        assert (len(owners), len(files_of(path))) == (1, 3)
