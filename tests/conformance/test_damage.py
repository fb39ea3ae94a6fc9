"""Damage that is not in the words: whatever one value becomes, or if a row is lost, it is said as an error of ours.

Each case is a database in which one value of one row is another one, or one row is gone, and people who do with it all
there is to do. The short form takes a few cases of each table, every other one encrypted; the long form takes all.
"""

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, LargeBinary

import everlog
from everlog import Damaged, EverlogError, log
from everlog.log import rows as log_rows
from everlog.store import Store, Unit, metadata
from everlog.store.keys import MasterKeys
from tests.conformance.damaged import SECRET, Damage, apply, damages, no_text, run_command, sample, troubles

KEYS = MasterKeys(keys=[bytes(range(32))])
TABLES = [table.name for table in metadata.sorted_tables]
OFTEN = ("thread", "segment", "entry", "turn", "node")
"""Tables that each operation reads."""

Damaging = Callable[[Damage, bool], Path | None]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What is logged of all the trouble is looked at elsewhere."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Return a plain database and an encrypted one."""
    made = {encrypted: tmp_path_factory.mktemp("sample") / "everlog.db" for encrypted in (False, True)}
    for encrypted, path in made.items():
        sample(path, KEYS if encrypted else None)
    return made


@pytest.fixture
def damaged(samples: dict[bool, Path], tmp_path: Path) -> Damaging:
    """Return what gives a damaged copy in a folder of its own, or None if the damage is none."""
    numbers = count()

    def copy(damage: Damage, encrypted: bool) -> Path | None:
        path = tmp_path / str(next(numbers)) / "everlog.db"
        path.parent.mkdir()
        shutil.copy(samples[encrypted], path)
        return path if apply(path, damage) else None

    return copy


def cases(table: str) -> list[Damage]:
    return [damage for damage in damages() if damage.table == table]


def run(damaged: Damaging, chosen: list[Damage], *, encrypted: bool) -> dict[str, list[str]]:
    """Return the troubles of each case that has any."""
    found: dict[str, list[str]] = {}
    for damage in chosen:
        if (path := damaged(damage, encrypted)) is not None:
            wrong = troubles(path, KEYS if encrypted else None, path.parent)
            if wrong:
                found[str(damage)] = wrong
            shutil.rmtree(path.parent)
    return found


def test_nothing_that_people_do_with_a_whole_database_fails(samples: dict[bool, Path], tmp_path: Path):
    """So that what is done with a damaged one is not in vain."""
    for encrypted, path in samples.items():
        keys = KEYS if encrypted else None
        folder = tmp_path / ("encrypted" if encrypted else "plain")
        folder.mkdir()
        whole = Path(shutil.copy(path, folder))
        assert [run_command(whole, keys, name, folder)[0] for name in ("verify", "doctor")] == [0, 0]
        assert troubles(whole, keys, folder, expected=()) == []


@pytest.mark.parametrize("table", TABLES)
def test_some_damage_in_each_table_is_an_error_of_ours_and_nothing_hangs(damaged: Damaging, table: str):
    some = random.Random(table)
    for encrypted in (False, True) if table in OFTEN else (table == "wrapped_key",):
        assert run(damaged, some.sample(cases(table), 1), encrypted=encrypted) == {}


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", ["plain", "encrypted"])
@pytest.mark.parametrize("table", TABLES)
def test_any_damage_in_each_table_is_an_error_of_ours_and_nothing_hangs(damaged: Damaging, table: str, form: str):
    chosen = cases(table)
    assert run(damaged, chosen if form == "plain" else chosen[::3], encrypted=form == "encrypted") == {}


def _impossible(column: "Column[object]") -> object:
    return 1.5 if isinstance(column.type, Integer) else 7 if isinstance(column.type, LargeBinary) else b"\xff\xfe"


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(name, marks=() if name in ("entry", "node", "instruction") else pytest.mark.long)
        for name in TABLES
        if name not in ("store_state", "wrapped_key")
    ],
)
def test_verification_finds_a_value_that_no_column_of_its_kind_can_hold(damaged: Damaging, table: str):
    missed = []
    for column in metadata.tables[table].c:
        damage = Damage(table, column.name, _impossible(column))
        if column.name in ("tenant", "thread") or (path := damaged(damage, False)) is None:
            continue  # a row that is nobody's
        with everlog.open(path) as memory:
            found = [fault for part in memory.verify() for fault in part.faults]
        if not found or any(SECRET in fault.what for fault in found):
            missed.append(column.name)
    assert missed == []


def test_a_number_that_no_thread_can_have_is_damage_in_every_store(store: Store):
    with everlog.Everlog(store) as memory:
        thread = memory.thread("talk")
        thread.append("user", "hello")
        wrong = {"thread": thread.id, "new_next": -1, "new_turns": 1, "new_head": None}
        store.write("default", lambda unit: unit.run(log_rows.GROW, wrong), name="test.damage")
        for act in (thread.row, lambda: thread.append("user", "more"), lambda: thread.tree.view(1000)):
            with pytest.raises(Damaged, match="'next' holds a number that is out of its range"):
                act()
        faults = [fault for part in memory.verify() for fault in part.faults]
        assert [(fault.thread, "'next'" in fault.what) for fault in faults] == [(thread.id, True)]


def test_a_column_that_is_no_text_is_damage_and_is_not_quoted(damaged: Damaging):
    path = damaged(Damage("entry", "model", no_text), False)
    assert path is not None
    with everlog.open(path) as memory:
        with pytest.raises(Damaged, match="holds a text that is no text") as raised:
            list(memory.thread("talk").entries())
        with pytest.raises(Damaged, match="holds a text that is no text") as in_writer:
            memory.store.write("default", partial(_all, thread=memory.thread("talk").id), name="test.read")
    for error in (raised.value, in_writer.value):
        assert SECRET not in f"{error} {error.__cause__}"


def _all(unit: Unit, thread: str) -> None:
    log.read(unit, log.load(unit, thread))


def test_a_flipped_byte_in_the_schema_is_an_error_of_ours(samples: dict[bool, Path], tmp_path: Path):
    raw = samples[False].read_bytes()
    path = tmp_path / "flipped.db"
    places = [at for word in (b"CREATE ", b"table", b"index") for at in _found(raw, word)]
    said = set()
    for at in places[:: max(1, len(places) // 40)]:
        path.write_bytes(raw[: at + 2] + b"\xee" + raw[at + 3 :])
        try:
            with everlog.open(path) as memory:
                memory.stats()
        except EverlogError as error:
            said.add(type(error))
    assert Damaged in said


def _found(raw: bytes, word: bytes) -> Iterator[int]:
    at = raw.find(word)
    while at >= 0:
        yield at
        at = raw.find(word, at + 1)


@pytest.mark.long
def test_any_flipped_byte_in_a_file_is_an_error_of_ours(samples: dict[bool, Path], tmp_path: Path):
    raw = samples[False].read_bytes()
    path = tmp_path / "flipped.db"
    some = random.Random(0)
    for _ in range(300):
        at = some.randrange(len(raw))
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << some.randrange(8)]) + raw[at + 1 :])
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        with suppress(EverlogError), everlog.open(path) as memory:
            list(memory.verify())
            memory.thread("talk").tree.view(1500)


def test_doctor_and_verify_name_what_mends_a_damaged_tree_and_a_damaged_log(
    damaged: Damaging,
):
    line = damaged(Damage("node", "body", b"\x00no line"), False)
    kind = damaged(Damage("entry", "kind", 77), False)
    assert line is not None
    assert kind is not None
    status, said = run_command(line, None, "verify", line.parent)
    assert (status, "`everlog rebuild` makes" in said) == (1, True), said
    assert run_command(line, None, "rebuild talk", line.parent)[0] == 0
    assert run_command(line, None, "verify", line.parent)[0] == 0
    status, said = run_command(kind, None, "doctor", kind.parent)
    assert (status, "`everlog verify`" in said) == (1, True), said
    status, said = run_command(kind, None, "verify", kind.parent)
    assert (status, "'kind' holds a number that is out of its range" in said) == (1, True), said
