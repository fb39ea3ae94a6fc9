"""Keys and sealed values, without a store."""

import base64
import os
import stat
from pathlib import Path

import pytest

from everlog.clock import SystemClock
from everlog.errors import Damaged, KeyTrouble
from everlog.store.keys import (
    PLAIN,
    SEALED,
    DataKey,
    MasterKeys,
    digest,
    master_keys,
    new_master_key,
    version_of,
    write_key_file,
)
from everlog.testing import FrozenClock

ONE, TWO = bytes(32), bytes(range(32))


def text(key: bytes) -> str:
    return base64.b64encode(key).decode()


def test_a_value_opens_again_in_its_place_only():
    key, clock = DataKey(3, ONE), FrozenClock()
    sealed = key.seal(b"words", b"here", clock)
    assert (key.open(sealed, b"here"), version_of(sealed), b"words" in sealed) == (b"words", 3, False)
    for place in (b"there", b"", b"here "):
        with pytest.raises(Damaged, match="changed or moved"):
            key.open(sealed, place)
    with pytest.raises(Damaged):
        DataKey(3, TWO).open(sealed, b"here")


def test_two_seals_of_one_value_are_not_alike():
    key, clock = DataKey(1, ONE), SystemClock()
    assert len({key.seal(b"words", b"here", clock) for _ in range(100)}) == 100


def test_no_bit_of_a_sealed_value_can_change_and_none_be_cut_off():
    key = DataKey(1, ONE)
    sealed = key.seal(b"words", b"here", FrozenClock())
    changed = [
        bytes((*sealed[:n], sealed[n] ^ 1 << bit, *sealed[n + 1 :])) for n in range(5, len(sealed)) for bit in range(8)
    ]
    for value in [*changed, *(sealed[:n] for n in range(len(sealed))), sealed + b"x"]:
        with pytest.raises(Damaged):
            key.open(value, b"here")


@pytest.mark.parametrize(
    "value", [b"", b"\x02words", b"words", SEALED, SEALED + b"\x00\x00\x00\x01", SEALED + bytes(16)]
)
def test_what_is_neither_plain_nor_sealed_is_damaged(value: bytes):
    with pytest.raises(Damaged, match="neither plain nor sealed"):
        version_of(value)


def test_a_plain_value_has_version_nought():
    assert (version_of(PLAIN), version_of(PLAIN + b"words")) == (0, 0)


def test_a_master_key_wraps_and_unwraps_in_one_place():
    keys = MasterKeys(keys=[ONE])
    wrapped = keys.wrap(TWO, b"here", bytes(12))
    assert keys.unwrap(keys.name, wrapped, b"here") == TWO
    for broken, place in ((wrapped, b"there"), (wrapped[:-1], b"here"), (b"", b"here"), (wrapped[:5], b"here")):
        with pytest.raises(KeyTrouble, match="does not open under the master key it names"):
            keys.unwrap(keys.name, broken, place)


def test_of_two_master_keys_the_first_wraps_and_both_unwrap():
    old, both = MasterKeys(keys=[ONE]), MasterKeys(keys=[TWO, ONE])
    assert both.name == MasterKeys(keys=[TWO]).name != old.name
    assert both.unwrap(old.name, old.wrap(b"k" * 32, b"here", bytes(12)), b"here") == b"k" * 32
    with pytest.raises(KeyTrouble, match=f"written with master key {both.name}, but the one given is {old.name}"):
        old.unwrap(both.name, both.wrap(b"k" * 32, b"here", bytes(12)), b"here")


def test_a_name_tells_nothing_of_its_key_and_a_key_is_not_shown():
    keys = MasterKeys(keys=[TWO])
    assert len(keys.name) == 12
    assert all(secret not in repr(keys) for secret in (TWO.hex(), text(TWO), str(TWO)))


def test_keys_are_read_from_base64_the_newest_first():
    for form in (f"{text(TWO)} {text(ONE)}", f"\n{text(TWO)},{text(ONE)}\n", f"{text(TWO)}\n{text(ONE)}"):
        assert MasterKeys.parse(form).keys == [TWO, ONE]


@pytest.mark.parametrize(
    "given", ["", " ", "words", text(bytes(31)), text(bytes(33)), text(ONE)[:-1], "ä" * 44, "!" * 44, f"{text(ONE)} x"]
)
def test_what_is_no_master_key_is_refused_with_how_to_make_one(given: str):
    with pytest.raises(KeyTrouble, match="everlog keys new") as caught:
        MasterKeys.parse(given)
    assert not given.strip() or given not in str(caught.value)


def test_a_file_wins_over_the_environment_and_nothing_is_no_key(tmp_path: Path):
    path = tmp_path / "key"
    write_key_file(path, text(TWO))
    found = master_keys(text(ONE), path)
    assert found is not None
    assert found.keys == [TWO]
    assert master_keys(text(ONE), None) == MasterKeys(keys=[ONE])
    assert master_keys(None, None) is master_keys(" ", None) is None


def test_a_key_file_is_its_owners_alone_and_never_overwritten(tmp_path: Path):
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        write_key_file(path, text(ONE))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(KeyTrouble, match="exists already"):
        write_key_file(path, text(TWO))
    assert MasterKeys.read(path).keys == [ONE]


def test_a_key_file_that_cannot_be_read_is_named(tmp_path: Path):
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff" * 44)
    for path in (tmp_path / "none", tmp_path, binary):
        with pytest.raises(KeyTrouble, match=f"the key file {path} (cannot be read|is not text)"):
            MasterKeys.read(path)


def test_a_new_master_key_is_a_key_and_another_one_each_time():
    assert len({MasterKeys.parse(new_master_key(SystemClock())).name for _ in range(50)}) == 50


def test_a_digest_depends_on_the_secret_and_on_where_the_parts_end():
    assert len({digest(ONE, b"ab", b"c"), digest(ONE, b"a", b"bc"), digest(ONE, b"abc"), digest(TWO, b"abc")}) == 4
    assert digest(ONE, b"abc") == digest(ONE, b"abc")
    assert len(digest(ONE)) == 16
