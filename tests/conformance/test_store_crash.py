"""Killed at every failpoint of the store's own long works, nothing is lost and the same work, begun again, ends."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everlog.store import Store, Unit, open_store, rows, scoped
from everlog.store.backup import backup, restore
from everlog.store.keys import MasterKeys
from everlog.store.rotation import encrypt, rotate
from everlog.testing.failpoints import Death, run
from tests.conformance.conftest import KEYS
from tests.unit.store.sealed_sample import counts, fill, owner, pieces_in, saying, versions

OWNERS, ENTRIES = 2, 3
KEY_ROWS = scoped(rows.wrapped_key).select(rows.wrapped_key.c.owner)
ADDRESS = "address"


def address(folder: Path) -> str:
    """Return where the database of a run is; on PostgreSQL the folder holds its address only."""
    named = folder / ADDRESS
    return named.read_text() if named.exists() else str(folder / "everlog.db")


def write_sealed(folder: Path) -> None:
    with open_store(address(folder), keys=KEYS) as store:
        fill(store, "ada", OWNERS, ENTRIES)
        for n in range(OWNERS):
            store.write("ada", saying(owner(n), ENTRIES), name="say")


def encrypt_it(folder: Path) -> None:
    with open_store(address(folder), keys=KEYS, encrypting=True) as store:
        list(encrypt(store))


def rotate_it(folder: Path) -> None:
    with open_store(address(folder), keys=KEYS) as store:
        list(rotate(store))


def back_up(folder: Path) -> None:
    with open_store(address(folder), keys=KEYS) as store:
        backup(store, folder / "copy")


def restore_it(folder: Path) -> None:
    restore(folder / "copy", str(folder / "restored.db"))


Place = Callable[..., Callable[[Path], None]]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Return what makes a way to prepare the folder of a run: a filled database, plain or encrypted."""
    with contextlib.ExitStack() as stack:

        def preparing(keys: MasterKeys | None) -> Callable[[Path], None]:
            def prepare(folder: Path) -> None:
                if request.param == "postgresql":
                    taken = stack.enter_context(request.getfixturevalue("postgresql")(keys))
                    (folder / ADDRESS).write_text(taken.address)
                with open_store(address(folder), keys=keys) as store:
                    fill(store, "ada", OWNERS, ENTRIES)

            return prepare

        yield preparing


@pytest.fixture
def hits(request: pytest.FixtureRequest) -> int:
    """How often to kill at each point: on a server, which takes long, at its first and last hit in a long run only."""
    is_long = request.config.getoption("--hypothesis-profile") == "long"
    return 1 if "postgresql" in request.node.name and not is_long else 2


def all_there(store: Store) -> None:
    assert counts(store, "ada", range(OWNERS)) == [ENTRIES] * OWNERS


def one_key_each(unit: Unit) -> bool:
    return sorted(unit.rows(KEY_ROWS)) == sorted((name,) for name in ("", *(owner(n) for n in range(OWNERS))))


def test_no_piece_of_a_word_is_in_a_file_at_any_failpoint_of_a_sealed_write():
    def check(folder: Path, death: Death) -> None:
        assert pieces_in(folder, OWNERS, ENTRIES + 1) == set()
        with open_store(address(folder), keys=KEYS) as store:
            for n in range(OWNERS):
                with contextlib.suppress(AssertionError):
                    assert counts(store, "ada", [n])[0] in (ENTRIES, ENTRIES + 1)

    report = run(write_sealed, check)
    sys.stdout.write(f"sealed writes: {report}\n")
    assert report.points == 6


def test_encrypting_is_resumed_after_a_death_at_any_point_and_every_word_is_readable_at_once(place: Place, hits: int):
    def check(folder: Path, death: Death) -> None:
        with open_store(address(folder), keys=KEYS, encrypting=True) as store:
            all_there(store)
            list(encrypt(store))
            all_there(store)
            assert (store.read("ada", versions), store.encryption()) == ({1}, "complete")
            assert store.read("ada", one_key_each)
        assert pieces_in(folder, OWNERS, ENTRIES) == set()

    report = run(encrypt_it, check, hits=hits, only="encrypt", prepare=place(None))
    sys.stdout.write(f"encrypt: {report}\n")
    assert report.points == 6


def test_rotating_is_resumed_after_a_death_at_any_point_and_every_word_is_readable_at_once(place: Place, hits: int):
    def check(folder: Path, death: Death) -> None:
        with open_store(address(folder), keys=KEYS) as store:
            all_there(store)
            list(rotate(store))
            all_there(store)
            assert store.read("ada", one_key_each)

    report = run(rotate_it, check, hits=hits, only="rotate", prepare=place(KEYS))
    sys.stdout.write(f"rotate: {report}\n")
    assert report.points == 14


def filled(folder: Path) -> None:
    with open_store(address(folder), keys=KEYS) as store:
        fill(store, "ada", OWNERS, ENTRIES)


def test_a_backup_is_whole_or_not_there_and_can_be_made_again():
    def check(folder: Path, death: Death) -> None:
        copied = (folder / "copy").exists()
        assert copied is (death.point == "backup.after_naming")
        if not copied:
            back_up(folder)
        restore_it(folder)
        with open_store(folder / "restored.db", keys=KEYS) as store:
            all_there(store)

    report = run(back_up, check, only="backup", prepare=filled)
    assert report.points == 3


def test_a_restored_database_is_whole_or_not_there_and_can_be_made_again():
    def prepare(folder: Path) -> None:
        filled(folder)
        back_up(folder)

    def check(folder: Path, death: Death) -> None:
        assert not (folder / "restored.db").exists()
        restore_it(folder)
        with open_store(folder / "restored.db", keys=KEYS) as store:
            all_there(store)

    report = run(restore_it, check, only="restore", prepare=prepare)
    assert report.points == 1


def test_the_making_of_a_database_is_all_or_nothing(tmp_path: Path):
    def check(folder: Path, death: Death) -> None:
        with open_store(folder / "everlog.db", keys=KEYS) as store:
            fill(store, "ada", 1, 1)
            assert (counts(store, "ada", [0]), store.encryption()) == ([1], "complete")

    run(write_sealed, check, only="upgrade")
