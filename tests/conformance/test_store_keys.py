"""Sealed values in rows, and keys that change while others read and write."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from everlog.errors import Damaged, KeyTrouble, Mistake, StoreUnavailable
from everlog.log.rows import entry
from everlog.store import Store, Unit, open_store, rotation, rows, scoped, state
from everlog.store.keys import MasterKeys, version_of
from everlog.store.rotation import Progress, encrypt, rotate, rotate_owner
from everlog.store.sealed import sealed_tables
from everlog.store.vault import KeyGone
from everlog.testing import failpoints
from tests.conformance.conftest import KEYS, Database
from tests.unit.store.sealed_sample import (
    ENTRIES,
    counts,
    fill,
    owner,
    pieces_in,
    raw,
    read,
    say,
    saying,
    start,
    versions,
    words,
)

OTHER = MasterKeys(keys=[bytes(range(100, 132))])
BOTH = MasterKeys(keys=[*OTHER.keys, *KEYS.keys])
KEY_ROWS = scoped(rows.wrapped_key).select(rows.wrapped_key.c.owner, rows.wrapped_key.c.version)
DROP_KEYS = scoped(rows.wrapped_key).delete()

only_encrypted = pytest.mark.parametrize("database", ["sqlite-encrypted", "postgresql-encrypted"], indirect=True)
only_plain = pytest.mark.parametrize("database", ["sqlite-plain", "postgresql-plain"], indirect=True)


def writing(store: Store, act: Callable[[Unit], Any], tenant: str = "ada") -> Any:
    return store.write(tenant, act, name="test")


def body(unit: Unit, i: int) -> bytes:
    return bytes(next(body for at, body in unit.rows(ENTRIES, thread=owner(0)) if at == i))


# Sealed values


def test_what_was_sealed_opens_in_another_opening_of_the_store(database: Database):
    fill(database.open(), "ada", 3, 4)
    other = database.open()
    assert counts(other, "ada", range(3)) == [4, 4, 4]


def test_text_is_sealed_in_an_encrypted_store_and_only_there(database: Database):
    store = database.open()
    fill(store, "ada", 1, 3)
    stored = store.read("ada", lambda unit: body(unit, 2))
    assert (version_of(stored), words(owner(0), 2) in stored) == ((1, False) if database.encrypted else (0, True))
    store.close()
    if database.engine == "sqlite":
        assert bool(pieces_in(database.folder, 1, 3)) is not database.encrypted


@only_encrypted
@pytest.mark.parametrize("move", ["row", "column", "thread", "tenant"])
def test_a_value_that_was_moved_does_not_open(database: Database, move: str):
    store = database.open()
    for tenant in ("ada", "bob"):
        fill(store, tenant, 2, 2)
    with raw(database.address, "ada") as run:
        stored = run("SELECT body FROM entry WHERE tenant = 'ada' AND thread = ? AND i = 0", owner(0)).fetchone()[0]
    tenant = "bob" if move == "tenant" else "ada"
    with raw(database.address, tenant) as run:
        where = {
            "row": ("UPDATE entry SET body = ? WHERE tenant = 'ada' AND thread = ? AND i = 1", owner(0)),
            "column": ("UPDATE thread SET title = ? WHERE tenant = 'ada' AND thread = ?", owner(0)),
            "thread": ("UPDATE entry SET body = ? WHERE tenant = 'ada' AND thread = ? AND i = 0", owner(1)),
            "tenant": ("UPDATE entry SET body = ? WHERE tenant = 'bob' AND thread = ? AND i = 0", owner(0)),
        }[move]
        run(where[0], stored, where[1])
    with pytest.raises(Damaged, match="changed or moved"):
        store.read(tenant, lambda unit: read(unit, where[1]))


@only_encrypted
def test_a_value_opens_in_its_own_column_only(database: Database):
    def act(unit: Unit) -> None:
        sealed = unit.seal(entry.c.body, (owner(0), 0), b"words")
        assert unit.open(entry.c.body, (owner(0), 0), sealed) == b"words"
        with pytest.raises(Damaged, match="changed or moved"):
            unit.open(entry.c.hash, (owner(0), 0), sealed)

    writing(database.open(), act)


def test_the_place_that_a_value_is_bound_to_tells_tenant_table_column_and_key(store: Store):
    places = {
        store.read(tenant, partial(Unit._place, column=column, key=key))
        for tenant in ("ada", "bob")
        for column in (entry.c.body, entry.c.hash, rows.tenant.c.secret)
        for key in (("a",), ("b",), ("a", 1), ("a", 11), ("a1", 1))
    }
    assert len(places) == 2 * 3 * 5


@only_encrypted
def test_a_plain_value_slipped_into_an_encrypted_store_is_not_taken_for_stored(database: Database):
    store = database.open()
    fill(store, "ada", 1, 1)
    with raw(database.address, "ada") as run:
        run("UPDATE entry SET body = ? WHERE tenant = 'ada'", b"\x00" + words(owner(0), 0))
    with pytest.raises(Damaged, match="unsealed in a database that is encrypted throughout"):
        store.read("ada", lambda unit: read(unit, owner(0)))


@only_encrypted
def test_a_key_of_another_tenant_or_thread_opens_nothing(database: Database):
    store = database.open()
    fill(store, "ada", 2, 1)
    with raw(database.address, "ada") as run:
        one = "SELECT wrapped FROM wrapped_key WHERE tenant = 'ada' AND owner = ?"
        wrapped = run(one, owner(0)).fetchone()[0]
        run("UPDATE wrapped_key SET wrapped = ? WHERE tenant = 'ada' AND owner = ?", wrapped, owner(1))
    with pytest.raises(Damaged, match="does not open under its tenant's key"):
        store.read("ada", lambda unit: read(unit, owner(1)))


@only_encrypted
def test_what_was_sealed_under_a_key_that_is_gone_is_gone(database: Database):
    store = database.open()
    fill(store, "ada", 1, 1)
    assert store.read("ada", lambda unit: read(unit, owner(0))) == 1
    writing(store, lambda unit: unit.count(rows.DROP_KEYS, owner=owner(0)))
    with pytest.raises(KeyGone, match="it was erased"):
        store.read("ada", lambda unit: read(unit, owner(0)))
    with pytest.raises(KeyGone):
        writing(store, lambda unit: read(unit, owner(0)))


# Master keys


@only_encrypted
def test_an_encrypted_store_does_not_open_without_its_master_key(database: Database):
    fill(database.open(), "ada", 1, 1)
    with pytest.raises(KeyTrouble, match=r"this database is encrypted; open it with the master keys .*`keys=`"):
        database.open(keys=None)
    with pytest.raises(KeyTrouble, match=f"written with master key {KEYS.name}, but the one given is {OTHER.name}"):
        database.open(keys=OTHER)
    assert database.open(keys=BOTH).read("ada", lambda unit: read(unit, owner(0))) == 1


@only_plain
def test_a_key_for_a_plain_store_is_refused_since_nothing_would_be_sealed(database: Database):
    database.open()
    with pytest.raises(KeyTrouble, match="is not encrypted, but a master key is given; run `everlog encrypt`"):
        database.open(keys=KEYS)


@only_encrypted
def test_a_store_made_with_keys_is_encrypted_before_it_holds_anything(database: Database):
    if database.engine == "sqlite":
        database.open().close()
    with pytest.raises(KeyTrouble):
        database.open(keys=None)


# Turning encryption on


@only_plain
@pytest.mark.covers("A82", "A83", "A89")
def test_a_plain_store_is_encrypted_and_every_word_comes_back(database: Database):
    plain = database.open()
    for tenant in ("ada", "bob"):
        fill(plain, tenant, 3, 7)
    secret = plain.read("ada", lambda unit: unit.secret())
    plain.close()
    store = database.open(keys=KEYS, encrypting=True)
    steps = list(encrypt(store))
    assert steps[-1] == Progress(tenant="bob", owners=3, of=3, changed=3 * (3 + 7))
    assert (store.encryption(), store.vault.complete) == ("complete", True)
    store.close()
    again = database.open(keys=KEYS)
    for tenant in ("ada", "bob"):
        assert counts(again, tenant, range(3)) == [7, 7, 7]
        assert again.read(tenant, versions) == {1}
    assert again.read("ada", lambda unit: unit.secret()) == secret
    again.close()
    if database.engine == "sqlite":
        assert pieces_in(database.folder, 3, 7) == set()


@only_plain
@pytest.mark.covers("A90")
def test_encrypting_twice_does_not_wrap_twice(database: Database):
    fill(database.open(), "ada", 2, 3)
    store = database.open(keys=KEYS, encrypting=True)
    list(encrypt(store))
    sealed = store.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(0)))
    assert list(encrypt(store)) == []
    assert list(encrypt(database.open(keys=KEYS))) == []
    assert store.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(0))) == sealed
    with raw(database.address, "ada") as run:
        run("UPDATE store_state SET value = ?", state.begun(KEYS, database.clock))
    assert [step.changed for step in encrypt(database.open(keys=KEYS))] == [0, 0]
    assert store.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(0))) == sealed


@only_plain
def test_encrypting_needs_a_key(database: Database):
    with pytest.raises(Mistake, match="a master key is needed to encrypt"):
        list(encrypt(database.open()))
    with pytest.raises(Mistake, match="this database is not encrypted"):
        list(rotate(database.open()))


@only_plain
@pytest.mark.covers("A84", "A85")
def test_a_process_without_the_key_can_store_nothing_once_another_has_turned_encryption_on(database: Database):
    plain = database.open()
    fill(plain, "ada", 1, 1)
    list(encrypt(database.open(keys=KEYS, encrypting=True)))
    with pytest.raises(KeyTrouble, match="this database is encrypted"):
        writing(plain, lambda unit: say(unit, owner(0), 1))
    with pytest.raises(KeyTrouble, match="this database is encrypted"):
        writing(plain, lambda unit: start(unit, owner(1)))
    store = database.open(keys=KEYS)
    assert store.read("ada", lambda unit: (read(unit, owner(0)), versions(unit))) == (1, {1})


@only_plain
def test_others_append_and_read_all_the_while_a_store_is_encrypted(database: Database):
    fill(database.open(), "ada", 4, 20)
    store, other = database.open(keys=KEYS, encrypting=True), database.open(keys=KEYS, encrypting=True)
    count = busy(other, lambda: list(encrypt(store)))
    assert count > 0
    again = database.open(keys=KEYS)
    assert again.read("ada", versions) == {1}
    assert sum(counts(again, "ada", range(4))) == 80 + count


@only_plain
def test_a_unit_that_began_when_the_store_was_plain_ends_before_its_rows_are_sealed(database: Database):
    """It saw that nothing is sealed; if it committed after the last look at its rows, they would stay plain."""
    fill(database.open(), "ada", 1, 1)
    store, other = database.open(keys=KEYS, encrypting=True), database.open(keys=KEYS, encrypting=True)
    inside, go = threading.Event(), threading.Event()

    def slow(unit: Unit) -> None:
        say(unit, owner(0), 1)
        inside.set()
        assert go.wait(20)

    appending = threading.Thread(target=writing, args=(other, slow))
    appending.start()
    assert inside.wait(20)
    encrypting = threading.Thread(target=lambda: list(encrypt(store)))
    encrypting.start()
    encrypting.join(0.3)
    assert encrypting.is_alive()
    go.set()
    appending.join(20)
    encrypting.join(20)
    again = database.open(keys=KEYS)
    assert again.read("ada", lambda unit: (read(unit, owner(0)), versions(unit))) == (2, {1})


def test_a_reader_that_keeps_old_pages_is_named_and_encrypting_again_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rotation, "WAIT_S", 0.2)
    path = tmp_path / "x.db"
    with open_store(path) as plain:
        fill(plain, "ada", 2, 5)
    with open_store(path, keys=KEYS, encrypting=True) as store:

        def while_reading(unit: Unit) -> None:
            read(unit, owner(0))
            with pytest.raises(StoreUnavailable, match="another connection is reading; do the same again"):
                list(encrypt(store))

        with open_store(path, keys=KEYS, encrypting=True) as other:
            other.read("ada", while_reading)
        assert store.encryption() == "on"
        list(encrypt(store))
        assert store.encryption() == "complete"
    assert pieces_in(tmp_path, 2, 5) == set()


# Rotation


@only_encrypted
def test_rotation_gives_every_thread_a_new_key_and_drops_the_old_ones(database: Database):
    store = database.open()
    for tenant in ("ada", "bob"):
        fill(store, tenant, 2, 5)
    secret = store.read("ada", lambda unit: unit.secret())
    for version in (2, 3):
        assert [step.changed for step in rotate(store)] == [8, 16, 8, 16]
        for tenant in ("ada", "bob"):
            assert store.read(tenant, versions) == {version}
            assert set(store.read(tenant, lambda unit: unit.rows(KEY_ROWS))) == {
                (name, version) for name in ("", owner(0), owner(1))
            }
    again = database.open()
    assert counts(again, "bob", range(2)) == [5, 5]
    assert again.read("ada", lambda unit: unit.secret()) == secret


@only_encrypted
def test_a_change_of_master_key_is_a_rotation_with_both(database: Database):
    fill(database.open(), "ada", 2, 2)
    list(rotate(database.open(keys=BOTH)))
    assert database.open(keys=OTHER).read("ada", lambda unit: read(unit, owner(1))) == 2
    with pytest.raises(KeyTrouble, match="the one given is"):
        database.open(keys=KEYS)


@only_encrypted
def test_a_change_of_master_key_is_complete_even_if_an_earlier_rotation_was_killed(database: Database):
    """That one left a second tenant key, wrapped by the old master; using it up would strand the store under it."""
    store = database.open()
    fill(store, "ada", 1, 2)
    with failpoints.raising("rotate.secret.before_commit", ZeroDivisionError()), pytest.raises(ZeroDivisionError):
        list(rotate(store))
    list(rotate(database.open(keys=BOTH)))
    assert database.open(keys=OTHER).read("ada", lambda unit: read(unit, owner(0))) == 2


@only_encrypted
def test_no_row_is_ever_unreadable_while_keys_rotate_and_others_append(database: Database):
    store, other = database.open(), database.open()
    fill(store, "ada", 3, 20)
    count = busy(other, lambda: [list(rotate(store)) for _ in range(2)])
    assert count > 0
    again = database.open()
    assert sum(counts(again, "ada", range(3))) == 60 + count
    assert again.read("ada", lambda unit: len(unit.rows(KEY_ROWS))) == 4
    list(rotate(again))
    assert len(again.read("ada", versions)) == 1


@only_encrypted
def test_a_rotation_ends_though_another_has_made_further_keys_meanwhile(database: Database):
    store, other = database.open(), database.open()
    fill(store, "ada", 3, 4)
    late = rotate(other)
    next(late)
    for _ in range(2):
        list(rotate(store))
    assert len(list(islice(late, 100))) < 100
    again = database.open()
    assert counts(again, "ada", range(3)) == [4, 4, 4]
    assert len(again.read("ada", versions)) == 1


@only_encrypted
def test_two_rotations_at_once_end_and_everything_opens(database: Database):
    stores = database.open(), database.open()
    fill(stores[0], "ada", 3, 4)
    with ThreadPoolExecutor(2) as threads:
        for _ in range(3):
            for done in [threads.submit(lambda store: len(list(islice(rotate(store), 200))), one) for one in stores]:
                assert done.result(60) < 200
    again = database.open()
    assert counts(again, "ada", range(3)) == [4, 4, 4]
    list(rotate(again))
    assert counts(again, "ada", range(3)) == [4, 4, 4]
    assert again.read("ada", lambda unit: len(unit.rows(KEY_ROWS))) == 4  # one each: of three threads and the tenant


@only_encrypted
def test_threads_that_are_made_while_keys_rotate_stay_readable(database: Database):
    store, other = database.open(), database.open()
    fill(store, "ada", 1, 5)
    made: list[int] = []

    def work(stop: threading.Event) -> None:
        n = 10
        while not stop.is_set():
            writing(other, partial(start, owner=owner(n)))
            writing(other, saying(owner(n), 0, 1))
            made.append(n)
            n += 1

    beside(work, lambda: [list(rotate(store)) for _ in range(2)])
    assert made
    again = database.open()
    assert set(counts(again, "ada", made)) == {2}


@pytest.mark.parametrize("database", ["postgresql-encrypted"], indirect=True)
def test_a_unit_that_waits_for_a_key_that_is_being_replaced_seals_with_the_new_one(database: Database):
    """It asked while the rotation held the old key's row, and the answer it waited for is of before.

    Under the old key its entry would be stranded: it commits after the rotation has gone through the entries.
    """
    store, other = database.open(), database.open()
    fill(store, "ada", 1, 1)
    go = threading.Event()

    def slow(unit: Unit) -> None:
        say(unit, owner(0), 1)
        assert go.wait(20)

    waiting = threading.Thread(target=writing, args=(other, slow))

    def start_and_wait_until_it_is_blocked() -> None:
        waiting.start()
        with raw(database.address, "ada") as run:
            while not run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()[0]:
                run("SELECT pg_sleep(0.01)")
                run("SELECT pg_stat_clear_snapshot()")

    names = [table.name for table in sealed_tables()]
    assert names[:3] == ["aside", "blob", "entry"]  # each has rows, and takes one unit for them and one to see the end
    with (
        failpoints.calling("rotate.key.before_commit", start_and_wait_until_it_is_blocked),
        failpoints.calling("rotate.rows.after_commit", go.set, hit=4),
    ):
        rotate_owner(store, "ada", owner(0))
    waiting.join(20)
    assert store.read("ada", lambda unit: (read(unit, owner(0)), versions(unit))) == (2, {2})


@pytest.mark.parametrize("database", ["postgresql-encrypted"], indirect=True)
def test_a_writing_unit_that_loses_a_key_between_two_statements_is_run_again(database: Database):
    """The row it read is sealed under a key that a rotation has dropped since: rotated, not erased."""
    store, other = database.open(), database.open()
    fill(store, "ada", 1, 1)
    tries: list[int] = []

    def act(unit: Unit) -> bytes:
        tries.append(1)
        stored = body(unit, 0)
        if len(tries) == 1:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(rotate_owner, other, "ada", owner(0)).result(20)
        return unit.open(entry.c.body, (owner(0), 0), stored)

    assert (writing(store, act), len(tries)) == (words(owner(0), 0), 2)


@only_encrypted
def test_one_threads_key_can_be_replaced_alone(database: Database):
    store = database.open()
    fill(store, "ada", 2, 3)
    assert rotate_owner(store, "ada", owner(0)) == 6
    assert set(store.read("ada", lambda unit: unit.rows(KEY_ROWS))) == {("", 1), (owner(0), 2), (owner(1), 1)}
    writing(store, lambda unit: unit.count(rows.DROP_KEYS, owner=owner(0)))
    assert rotate_owner(store, "ada", owner(0)) == 0
    assert rotate_owner(store, "ada", owner(9)) == 0
    assert set(store.read("ada", lambda unit: unit.rows(KEY_ROWS))) == {("", 1), (owner(1), 1)}


@only_encrypted
def test_what_is_erased_while_it_is_sealed_anew_stays_erased(database: Database, monkeypatch: pytest.MonkeyPatch):
    """A rotation reads rows, seals, and writes back: in between, nobody may clear them unseen."""
    store, other = database.open(), database.open()
    fill(store, "ada", 1, 30)
    clear = scoped(entry).update().values(body=None)
    clearing = threading.Thread(target=writing, args=(other, lambda unit: unit.count(clear)))
    seal = Unit.seal

    def seal_slowly(unit: Unit, column: Any, key: Any, plain: bytes) -> bytes:
        if column is entry.c.body and not clearing.ident:
            clearing.start()
            clearing.join(0.3)
        return seal(unit, column, key, plain)

    monkeypatch.setattr(Unit, "seal", seal_slowly)
    rotate_owner(store, "ada", owner(0))
    clearing.join(20)
    assert {stored for _, stored in store.read("ada", lambda unit: unit.rows(ENTRIES, thread=owner(0)))} == {None}


def busy(store: Store, act: Callable[[], object]) -> int:
    """Append to and read threads 0 to 2 in another thread while `act` runs; return how many entries were added."""
    added = 0

    def work(stop: threading.Event) -> None:
        nonlocal added
        while not stop.is_set():
            n, i = added % 3, 1000 + added
            writing(store, saying(owner(n), i))
            added += 1
            assert counts(store, "ada", [n])[0] > 0

    beside(work, act)
    return added


def beside(work: Callable[[threading.Event], None], act: Callable[[], object]) -> None:
    stop = threading.Event()
    failed: list[BaseException] = []

    def watched() -> None:
        try:
            work(stop)
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=watched)
    thread.start()
    try:
        act()
    finally:
        stop.set()
        thread.join(60)
    assert failed == []
