"""What is left in the files after rows are deleted, and how it is got rid of."""

import threading
from pathlib import Path

import pytest

from everlog.log.rows import entry
from everlog.store import Store, Unit, open_store, residue, scoped
from everlog.store.keys import MasterKeys
from everlog.store.residue import POSTGRES_PLAIN, POSTGRES_SEALED, WAITING, Residue
from everlog.store.rotation import rotate
from tests.conformance.conftest import KEYS, Database
from tests.unit.store.sealed_sample import ENTRIES, fill, owner, words

CLEAR = scoped(entry).delete().where(entry.c.thread == owner(1))
LEFT = words(owner(1), 0)[:24]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A plain store on a file, with two threads of 200 entries."""
    store = open_store(tmp_path / "x.db")
    fill(store, "ada", 2, 200)
    return store


def files_hold(folder: Path, owner_: str) -> bool:
    pieces = [words(owner_, i)[at : at + 8] for i in range(200) for at in range(0, 192, 8)]
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    return any(one in content for one in pieces)


def test_deleted_words_are_in_no_file_afterwards_and_others_stay(store: Store, tmp_path: Path):
    assert files_hold(tmp_path, owner(1))
    store.write("ada", lambda unit: unit.count(CLEAR), name="clear")
    assert residue.residue(store) == Residue(clean=True)
    assert not files_hold(tmp_path, owner(1))
    assert (tmp_path / "x.db-wal").stat().st_size == 0
    assert len(store.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(0)))) == 200
    store.close()


def test_what_a_moved_page_left_behind_is_gone_since_the_file_is_written_anew(store: Store, tmp_path: Path):
    store.write("ada", lambda unit: unit.count(CLEAR), name="clear")
    store.close()
    path = tmp_path / "x.db"
    content = bytearray(path.read_bytes())
    free = content.rindex(bytes(500))
    content[free + 100 : free + 100 + len(LEFT)] = LEFT
    path.write_bytes(content)
    with open_store(path) as again:
        assert residue.residue(again) == Residue(clean=True)
        assert LEFT not in path.read_bytes()
        assert len(again.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(0)))) == 200


def test_while_another_reads_it_is_pending_and_done_when_that_one_ends(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(residue, "WAIT_S", 0.1)
    inside, go = threading.Event(), threading.Event()

    def read(unit: Unit) -> int:
        before = len(unit.rows(ENTRIES, thread=owner(1)))
        inside.set()
        assert go.wait(20)
        return before + len(unit.rows(ENTRIES, thread=owner(1)))

    with open_store(tmp_path / "x.db") as other:
        reader = threading.Thread(target=other.read, args=("ada", read))
        reader.start()
        assert inside.wait(20)
        store.write("ada", lambda unit: unit.count(CLEAR), name="clear")
        assert residue.residue(store) == Residue(clean=False, holds=(WAITING,))
        assert files_hold(tmp_path, owner(1))
        go.set()
        reader.join()
        assert residue.residue(store) == Residue(clean=True)
        assert not files_hold(tmp_path, owner(1))
    store.close()


def test_a_database_in_memory_leaves_nothing():
    with open_store(":memory:") as store:
        assert residue.residue(store) == Residue(clean=True)


@pytest.mark.parametrize("database", ["postgresql-plain"], indirect=True)
def test_a_plain_database_of_a_server_is_never_said_to_be_clean(database: Database):
    assert residue.residue(database.open()) == Residue(clean=False, holds=(POSTGRES_PLAIN,))


@pytest.mark.parametrize("database", ["postgresql-encrypted"], indirect=True)
def test_an_encrypted_one_is_clean_when_the_master_key_that_wrapped_is_retired(database: Database):
    store = database.open()
    fill(store, "ada", 1, 1)
    waiting = Residue(clean=False, holds=(POSTGRES_SEALED.format(KEYS.name),))
    assert residue.residue(store, wrapper=KEYS.name) == waiting
    new = MasterKeys(keys=[bytes(range(50, 82)), *KEYS.keys])
    both = database.open(keys=new)
    assert residue.residue(both, wrapper=KEYS.name) == waiting
    list(rotate(both))
    assert residue.residue(both, wrapper=KEYS.name) == Residue(clean=True)
