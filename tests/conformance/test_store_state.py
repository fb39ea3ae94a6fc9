"""Whether a database is encrypted is said by a row, which anybody can change who can write: what must not come of that."""

import base64
from itertools import islice

import pytest

from everlog.errors import Damaged, KeyTrouble, Mistake
from everlog.log.rows import thread
from everlog.store import Store, state
from everlog.store.keys import MasterKeys
from everlog.store.rotation import encrypt, rotate
from everlog.testing import failpoints
from tests.conformance.conftest import KEYS, Database
from tests.unit.store.sealed_sample import TITLE, counts, fill, owner, raw, read, saying, versions

OTHER = MasterKeys(keys=[bytes(range(100, 132))])
BOTH = MasterKeys(keys=[*OTHER.keys, *KEYS.keys])

only_encrypted = pytest.mark.parametrize("database", ["sqlite-encrypted", "postgresql-encrypted"], indirect=True)
only_plain = pytest.mark.parametrize("database", ["sqlite-plain", "postgresql-plain"], indirect=True)


def say_of(database: Database, value: str) -> None:
    """Change what the database says of its encryption, as anybody can who can write it."""
    with raw(database.address, "ada") as run:
        run("UPDATE store_state SET value = ?", value)


def said_of(database: Database) -> str:
    with raw(database.address, "ada") as run:
        return str(run("SELECT value FROM store_state").fetchone()[0])


def forge_a_title(database: Database) -> None:
    with raw(database.address, "ada") as run:
        run("UPDATE thread SET title = ? WHERE tenant = 'ada' AND thread = ?", b"\x00forged", owner(0))


def title(store: Store) -> bytes:
    return store.read(
        "ada",
        lambda unit: unit.open(thread.c.title, (owner(0),), (unit.row(TITLE, thread=owner(0)) or (b"",))[0]),
    )


def begun(database: Database) -> None:
    """Begin to encrypt a database with two threads, and be killed in the first."""
    fill(database.open(), "ada", 2, 3)
    list(islice(encrypt(database.open(keys=KEYS, encrypting=True)), 1))


# Forged states


@only_encrypted
@pytest.mark.parametrize(
    "value",
    [
        "on",
        "on ",
        f"on {base64.b64encode(bytes(60)).decode()} {KEYS.name}",
        f"on {base64.b64encode(bytes(60)).decode()} ffffffffffff",
        f"on !!! {KEYS.name}",
        f"on  {KEYS.name}",
        "on x",
        "",
        "of",
        "ON",
        "complete ",
        "off ",
        "off",
    ],
)
def test_an_encrypted_database_that_is_marked_as_less_does_not_open(database: Database, value: str):
    fill(database.open(), "ada", 2, 2)
    say_of(database, value)
    for keys in (KEYS, BOTH):
        for encrypting in (False, True):
            with pytest.raises(Damaged, match="restore a backup"):
                database.open(keys=keys, encrypting=encrypting)


@only_encrypted
def test_a_mark_that_is_missing_is_not_guessed(database: Database):
    fill(database.open(), "ada", 1, 1)
    with raw(database.address, "ada") as run:
        run("DELETE FROM store_state")
    with pytest.raises(Damaged, match="restore a backup"):
        database.open()
    with raw(database.address, "ada") as run:
        run("INSERT INTO store_state VALUES ('encryption', 'complete')")


@only_encrypted
def test_neither_an_open_store_takes_the_mark_for_true_when_it_was_complete(database: Database):
    store = database.open()
    fill(store, "ada", 1, 1)
    for value in ("off", "on", state.begun(KEYS, database.clock)):
        say_of(database, value)
        forge_a_title(database)
        with pytest.raises(Damaged):
            title(store)
        with pytest.raises(Damaged, match="marked as encrypted less than it was"):
            store.write("ada", saying(owner(0), 1), name="say")
        with pytest.raises(Damaged, match="marked as encrypted less than it was"):
            store.encryption()
        with pytest.raises(Damaged, match="marked as encrypted less than it was"):
            list(encrypt(store))


@only_encrypted
def test_a_wrapped_key_of_a_tenant_is_no_proof_that_encryption_had_begun(database: Database):
    fill(database.open(), "ada", 1, 1)
    with raw(database.address, "ada") as run:
        wrapper, wrapped = run(
            "SELECT wrapper, wrapped FROM wrapped_key WHERE tenant = 'ada' AND owner = ''"
        ).fetchone()
    say_of(database, f"on {base64.b64encode(bytes(wrapped)).decode()} {wrapper}")
    with pytest.raises(Damaged, match="restore a backup"):
        database.open()


@only_encrypted
def test_an_encrypted_database_marked_as_plain_is_not_opened_without_keys_either(database: Database):
    """What was stored next would be plain."""
    fill(database.open(), "ada", 1, 1)
    say_of(database, "off")
    with pytest.raises(Damaged, match="marked as encrypted less than it was"):
        database.open(keys=None)
    with raw(database.address, "ada") as run:
        run("DELETE FROM wrapped_key")
    for keys in (None, KEYS):
        with pytest.raises(Damaged, match="marked as encrypted less than it was"):
            database.open(keys=keys, encrypting=True)


@only_plain
def test_a_plain_value_is_believed_only_until_encryption_is_complete_in_stores_that_are_open_as_well(
    database: Database,
):
    begun(database)
    other = database.open(keys=KEYS)
    assert counts(other, "ada", range(2)) == [3, 3]
    list(encrypt(database.open(keys=KEYS)))
    forge_a_title(database)
    with pytest.raises(Damaged, match="unsealed in a database that is encrypted throughout"):
        title(other)


@only_plain
def test_a_store_that_is_open_while_encryption_goes_on_does_not_go_back_to_plain(database: Database):
    begun(database)
    store = database.open(keys=KEYS)
    say_of(database, "off")
    with pytest.raises(Damaged, match="marked as encrypted less than it was"):
        store.write("ada", saying(owner(0), 3), name="say")


# Encryption that has begun


@only_plain
@pytest.mark.covers("A90")
def test_what_has_begun_is_believed_with_its_key_and_goes_on(database: Database):
    begun(database)
    assert said_of(database).startswith("on ")
    store = database.open(keys=BOTH)
    assert (store.encryption(), counts(store, "ada", range(2))) == ("on", [3, 3])
    assert store.read("ada", versions) == {0, 1}
    proof = said_of(database)
    with failpoints.raising("encrypt.rows.before_commit", ZeroDivisionError()), pytest.raises(ZeroDivisionError):
        list(encrypt(store))
    assert said_of(database) == proof
    list(encrypt(database.open(keys=KEYS)))
    assert (said_of(database), database.open(keys=KEYS).read("ada", versions)) == ("complete", {1})


@only_plain
def test_what_has_begun_does_not_go_on_with_another_master_key(database: Database):
    """Whether a tenant's key is made by then or not: half of it would open with one, half with the other."""
    fill(database.open(), "ada", 1, 1)
    early = database.open(keys=OTHER, encrypting=True)
    with failpoints.raising("encrypt.secret.before_commit", ZeroDivisionError()), pytest.raises(ZeroDivisionError):
        list(encrypt(database.open(keys=KEYS, encrypting=True)))
    for open_it in (lambda: database.open(keys=OTHER, encrypting=True), lambda: list(encrypt(early))):
        with pytest.raises(Damaged, match=f"names '{KEYS.name}' as the one that began: give that one too"):
            open_it()
    list(islice(encrypt(database.open(keys=KEYS)), 1))
    with pytest.raises(KeyTrouble, match=f"written with master key {KEYS.name}"):
        database.open(keys=OTHER)
    list(encrypt(database.open(keys=BOTH)))
    list(rotate(database.open(keys=BOTH)))
    assert database.open(keys=OTHER).read("ada", lambda unit: read(unit, owner(0))) == 1


@only_plain
def test_keys_are_not_rotated_before_encryption_is_finished(database: Database):
    """The proof that it has begun would stay under the old master key, and be lost with it."""
    begun(database)
    with pytest.raises(Mistake, match="not finished; run `everlog encrypt`, then change keys"):
        list(rotate(database.open(keys=BOTH)))
    with pytest.raises(KeyTrouble, match="this database is encrypted"):
        database.open(keys=None)


@only_plain
def test_keys_of_a_plain_database_are_not_rotated(database: Database):
    fill(database.open(), "ada", 1, 1)
    with pytest.raises(Mistake, match="this database is not encrypted"):
        list(rotate(database.open(keys=KEYS, encrypting=True)))


class Wide:
    """A key-management service: what it wraps is long, and its names are not like ours."""

    name = "projects/one two/keys/3"

    def wrap(self, key: bytes, place: bytes, nonce: bytes) -> bytes:
        return KEYS.wrap(key, place, nonce) + bytes(2000)

    def unwrap(self, name: str, wrapped: bytes, place: bytes) -> bytes:
        if name != self.name:
            raise KeyTrouble("not mine")
        return KEYS.unwrap(KEYS.name, wrapped[:-2000], place)


@only_plain
def test_a_key_provider_of_ones_own_may_wrap_to_any_length(database: Database):
    fill(database.open(), "ada", 2, 3)
    list(islice(encrypt(database.open(keys=Wide(), encrypting=True)), 1))
    store = database.open(keys=Wide())
    list(encrypt(store))
    assert (store.encryption(), counts(store, "ada", range(2))) == ("complete", [3, 3])
