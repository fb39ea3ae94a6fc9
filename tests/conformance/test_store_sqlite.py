"""SQLite: the writer thread, forks, other processes on the same file, and disks that refuse."""

import gc
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from everlog.errors import Conflict, Damaged, Mistake, StoreUnavailable
from everlog.store import Store, Unit, files, open_store, writer
from tests.unit.store.sample import ALL, PUT, names, put, putting, row

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "everlog.db") as store:
        yield store


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_unit_was_given_is_let_go_when_it_is_over(store, fails):
    class Large:
        """Something that a unit writes."""

    def unit(unit: Unit, large: Large) -> None:
        if fails:
            raise Conflict(f"{unit.tenant} is taken by {large is None}")

    def written() -> None:
        large = Large()
        weakref.finalize(large, gone.set)
        with suppress(Conflict):
            store.write("ada", partial(unit, large=large), name="put")

    gone = threading.Event()
    gc.disable()
    try:
        written()
        assert gone.wait(10)
    finally:
        gc.enable()


@pytest.mark.parametrize("ending", ["deleted", "replaced"])
def test_a_file_that_was_deleted_or_replaced_takes_nothing_more_until_it_is_back(store, tmp_path, ending):
    path, aside = tmp_path / "everlog.db", tmp_path / "aside.db"
    put(store, "ada", "1")
    path.rename(aside)
    if ending == "replaced":
        path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="was deleted, or another file took its place"):
        put(store, "ada", "2")
    aside.rename(path)
    put(store, "ada", "3")
    assert len(names(store, "ada")) == 2


class Held:
    """Holds the writer thread inside a unit, so that what is submitted meanwhile waits in the queue."""

    def __init__(self, store: Store) -> None:
        self.commits: list[str] = []
        self._store = store
        self._inside, self._go = threading.Event(), threading.Event()
        self.futures: list[Future[Any]] = [self.submit(self._hold)]
        assert self._inside.wait(20)

    def submit(self, act: Callable[[Unit], Any]) -> "Future[Any]":
        return self._store.engine.submit("put", self._store._unit("ada", act, writes=True))

    def add(self, *acts: Callable[[Unit], Any]) -> None:
        self.futures += [self.submit(act) for act in acts]

    def release(self) -> list[Any]:
        """Let it go on; return the results and errors of all units, the holding one left out."""
        self._go.set()
        return [one.exception(20) or one.result() for one in self.futures][1:]

    def _hold(self, unit: Unit) -> None:
        raw: sqlite3.Connection = unit._connection._raw  # type: ignore[attr-defined]
        raw.set_trace_callback(lambda sql: self.commits.append(sql) if sql == "COMMIT" else None)
        self._inside.set()
        assert self._go.wait(20)


def test_units_that_wait_are_committed_together(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writer, "GROUP_S", 20)
    held = Held(store)
    held.add(*(putting(f"{n:03}") for n in range(2 * writer.GROUP)))
    assert held.release() == [None] * (2 * writer.GROUP)
    assert len(held.commits) == 3
    assert names(store, "ada") == [f"{n:03}" for n in range(2 * writer.GROUP)]


def test_a_group_that_takes_long_is_committed_before_the_others_begin(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writer, "GROUP_S", 0)
    held = Held(store)
    held.add(*(putting(f"{n}") for n in range(5)))
    held.release()
    assert len(held.commits) == 6


def test_a_unit_that_fails_in_a_group_leaves_the_others_whole(store: Store):
    def fail(unit: Unit) -> None:
        unit.run(PUT, row("failed"))
        raise LookupError("mine")

    held = Held(store)
    held.add(putting("1"), fail, putting("2"), putting("1"), putting("3"))
    first, failed, second, conflict, third = held.release()
    assert (first, second, third) == (None, None, None)
    assert isinstance(failed, LookupError)
    assert isinstance(conflict, Conflict)
    assert len(held.commits) == 1
    assert names(store, "ada") == ["1", "2", "3"]


def test_when_a_whole_group_is_lost_each_unit_gets_its_own_answer(store: Store):
    """What a full disk does in the middle of a group: SQLite undoes all of the transaction."""

    def lose(unit: Unit) -> None:
        unit._connection._raw.rollback()  # type: ignore[attr-defined]
        raise sqlite3.OperationalError("database or disk is full")

    held = Held(store)
    held.add(putting("1"), lose, putting("2"))
    first, lost, second = held.release()
    assert (first, second) == (None, None)
    assert isinstance(lost, StoreUnavailable)
    assert names(store, "ada") == ["1", "2"]


def test_the_writer_lives_on_after_any_error_of_a_unit(store: Store):
    for error in (KeyboardInterrupt(), SystemExit(), MemoryError(), sqlite3.OperationalError("x"), GeneratorExit()):

        def fail(_: Unit, error: BaseException = error) -> None:
            raise error

        with pytest.raises((type(error), StoreUnavailable)):
            store.write("ada", fail, name="fail")
        put(store, "ada", type(error).__name__)
    assert len(names(store, "ada")) == 5


def test_an_interrupt_of_the_caller_leaves_the_store_in_order(store: Store):
    go = threading.Event()
    interrupts = count()

    def interrupt(*_: object) -> None:
        if next(interrupts) == 0:
            raise KeyboardInterrupt

    def slow(unit: Unit) -> None:
        """Signal until the caller hears: one that comes just before it begins to wait does not wake it."""
        unit.run(PUT, row("slow"))
        for _ in range(1000):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            if go.wait(0.02):
                return

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            store.write("ada", slow, name="slow")
        go.set()
        put(store, "ada", "after")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert names(store, "ada") == ["after", "slow"]

    def interrupted(unit: Unit) -> None:
        unit.rows(ALL)
        signal.raise_signal(signal.SIGINT)

    for _ in range(20):
        with pytest.raises(KeyboardInterrupt):
            store.read("ada", interrupted)
    assert names(store, "ada") == ["after", "slow"]


def test_a_database_in_memory_does_all_the_same_and_is_gone_afterwards():
    with open_store(":memory:") as one, open_store(":memory:") as other:
        put(one, "ada", "1")
        assert (names(one, "ada"), names(other, "ada")) == (["1"], [])
        with pytest.raises(RuntimeError, match="a reading unit cannot write"):
            one.read("ada", putting("2"))
        with pytest.raises(Conflict):
            put(one, "ada", "2", "1")
        one.write("ada", lambda unit: unit.rows(ALL), name="x")
        assert names(one, "ada") == ["1"]


def test_every_connection_overwrites_what_it_deletes_and_the_file_is_in_write_ahead_mode(store: Store):
    def pragmas(unit: Unit) -> list[Any]:
        raw = unit._connection._raw  # type: ignore[attr-defined]
        return [
            raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("secure_delete", "journal_mode", "synchronous")
        ]

    assert store.write("ada", pragmas, name="x") == [1, "wal", 1]
    assert store.read("ada", pragmas)[:2] == [1, "wal"]


def test_full_durability_can_be_chosen(tmp_path: Path):
    with open_store(tmp_path / "x.db", synchronous="full") as store:

        def level(unit: Unit) -> int:
            return int(unit._connection._raw.execute("PRAGMA synchronous").fetchone()[0])  # type: ignore[attr-defined]

        assert store.write("ada", level, name="x") == 2
    with pytest.raises(Mistake, match="NORMAL or FULL"):
        open_store(tmp_path / "x.db", synchronous="off")


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite:////{}"])
def test_an_address_is_a_path_or_a_url(tmp_path: Path, form: str):
    path = str(tmp_path / "x.db")
    address = form.format(path if "////" not in form else path.removeprefix("/"))
    with open_store(address) as store:
        put(store, "ada", "1")
    assert (tmp_path / "x.db").stat().st_size > 0


def test_addresses_that_lead_nowhere_are_refused(tmp_path: Path):
    with pytest.raises(Mistake, match="is a folder; name a file in it"):
        open_store(tmp_path)
    with pytest.raises(Mistake, match="cannot open mysql://"):
        open_store("mysql://root@localhost/x")
    with pytest.raises(StoreUnavailable, match="does the folder exist"):
        open_store(tmp_path / "none" / "x.db")


# Other processes


def program(source: str, *arguments: object, timeout_s: float = 60) -> str:
    """Run a program in a process of its own and return what it printed."""
    text = PREAMBLE + textwrap.dedent(source)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    ended = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
        env=environment,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


PREAMBLE = """
import os, resource, signal, sys, threading, time
from everlog.errors import *
from everlog.store import open_store
from tests.unit.store.sample import ALL, PUT, names, put, putting, row
"""


def test_two_processes_write_one_file(tmp_path: Path):
    path = tmp_path / "x.db"
    source = """
        with open_store(sys.argv[1]) as store:
            for n in range(100):
                put(store, "ada", f"{sys.argv[2]}{n:03}")
            print(len(names(store, "ada")))
    """
    threads = [threading.Thread(target=program, args=(source, path, name)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_store(path) as store:
        assert names(store, "ada") == [f"{name}{n:03}" for name in "abc" for n in range(100)]


def test_many_processes_open_a_new_file_at_once(tmp_path: Path):
    """One makes the tables; none fails, sees half of them, or finds the file locked."""
    path = tmp_path / "x.db"
    source = "with open_store(sys.argv[1]) as store: put(store, 'ada', sys.argv[2])"
    threads = [threading.Thread(target=program, args=(source, path, n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_store(path) as store:
        assert names(store, "ada") == [str(n) for n in range(4)]


def test_a_lock_that_another_process_holds_too_long_fails_all_who_wait_and_then_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files, "BUSY_S", 0.5)
    with open_store(tmp_path / "x.db") as store:
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        futures = [store.engine.submit("put", store._unit("ada", putting(str(n)), writes=True)) for n in range(20)]
        errors = [future.exception(20) for future in futures]
        assert time.monotonic() - begun < 5
        assert {type(error) for error in errors} == {StoreUnavailable}
        assert "another process has held the write lock for too long" in str(errors[0])
        assert names(store, "ada") == []
        other.execute("COMMIT")
        other.close()
        put(store, "ada", "after")
        assert names(store, "ada") == ["after"]


def test_a_lock_that_is_let_go_in_time_is_waited_for(tmp_path: Path):
    with open_store(tmp_path / "x.db") as store:
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        timer.start()
        put(store, "ada", "1")
        timer.join()
        other.close()
        assert names(store, "ada") == ["1"]


FORKING = """
    store = open_store(sys.argv[1])
    put(store, "ada", "before")
    names(store, "ada")
    stop = threading.Event()

    def hammer(k):
        n = 0
        while not stop.is_set():
            put(store, "ada", f"parent-{k}-{n:05}")
            names(store, "bob")
            n += 1

    threads = [threading.Thread(target=hammer, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    children, codes = [], []

    def bear(n):
        child = os.fork()
        if child == 0:
            assert "before" in names(store, "ada")
            put(store, "ada", f"child-{n}")
            assert f"child-{n}" in names(store, "ada")
            if n % 2 and n < int(sys.argv[2]):
                sys.exit(0)
            store.close()
            os._exit(0)
        children.append(child)

    for n in range(int(sys.argv[2])):
        bear(n)
    bearing = [threading.Thread(target=bear, args=(n,)) for n in range(int(sys.argv[2]), int(sys.argv[2]) + 4)]
    for thread in bearing:
        thread.start()
    for thread in bearing:
        thread.join()
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.set()
    for thread in threads:
        thread.join()
    put(store, "ada", "last")
    found = names(store, "ada")
    store.close()
    print(codes, [name for name in found if not name.startswith("parent")])
"""


def test_parent_and_children_go_on_after_a_fork_in_the_midst_of_work(tmp_path: Path):
    """Without care the child inherits a lock that is never let go, or reads without one."""
    said = program(FORKING, tmp_path / "x.db", 6)
    children = [f"child-{n}" for n in range(10)]
    assert said == f"{[0] * 10} {['before', *children, 'last']}\n"
    raw = sqlite3.connect(tmp_path / "x.db")
    assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()


def test_a_child_holds_locks_of_its_own_so_that_nobody_removes_its_log(tmp_path: Path):
    """Who closes a file as the last one folds the log in and deletes it; a child without a lock is not counted."""
    said = program(
        """
        store = open_store(sys.argv[1])
        put(store, "ada", "before")
        names(store, "ada")
        told, tell = os.pipe()
        go, wait = os.pipe()
        if (child := os.fork()) == 0:
            put(store, "ada", "child-1")
            os.write(tell, b".")
            os.read(go, 1)
            put(store, "ada", "child-2")
            assert names(store, "ada") == ["before", "child-1", "child-2"]
            os._exit(0)
        os.read(told, 1)
        store.close()
        os.write(wait, b".")
        print(os.waitpid(child, 0)[1])
        with open_store(sys.argv[1]) as store:
            print(names(store, "ada"))
    """,
        tmp_path / "x.db",
    )
    assert said == "0\n['before', 'child-1', 'child-2']\n"


def test_a_fork_waits_for_the_unit_that_runs_and_for_no_other(store: Store):
    held = Held(store)
    order: list[str] = []
    held.futures[0].add_done_callback(lambda _: order.append("unit"))

    def fork() -> None:
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        order.append("fork")

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join(0.3)
    assert order == []
    held.release()
    thread.join(20)
    assert order == ["unit", "fork"]
    put(store, "ada", "after")


def test_the_end_of_a_fork_that_stopped_nothing_here_lets_go_of_nothing(store: Store):
    """Hooks of a fork that fail on another engine leave this one as it is, with its writer inside a unit."""
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    held = Held(store)
    store.engine.after_fork_in_parent()
    assert held.release() == []
    assert store.engine.submit("put", store._unit("ada", putting("after"), writes=True)).result(20) is None


def test_a_fork_inside_a_unit_does_not_break_that_unit(store: Store):
    def act(unit: Unit) -> None:
        unit.run(PUT, row("1"))
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        unit.run(PUT, row("2"))

    store.write("ada", act, name="put")
    store.read("ada", lambda unit: (unit.rows(ALL), os.waitpid(os.fork() or os._exit(0), 0)))
    put(store, "ada", "3")
    assert names(store, "ada") == ["1", "2", "3"]


def test_a_database_in_memory_is_copied_by_a_fork(tmp_path: Path):
    said = program("""
        store = open_store(":memory:")
        put(store, "ada", "before")
        if (child := os.fork()) == 0:
            put(store, "ada", "child")
            os._exit(0 if names(store, "ada") == ["before", "child"] else 1)
        print(os.waitpid(child, 0)[1])
        put(store, "ada", "parent")
        print(names(store, "ada"))
    """)
    assert said == "0\n['before', 'parent']\n"


def test_a_closed_store_stays_closed_in_a_child(tmp_path: Path):
    said = program(
        """
        store = open_store(sys.argv[1])
        put(store, "ada", "1")
        store.close()
        if (child := os.fork()) == 0:
            for act in (lambda: names(store, "ada"), lambda: put(store, "ada", "2")):
                try:
                    act()
                except StoreUnavailable as error:
                    continue
                os._exit(1)
            os._exit(0)
        print(os.waitpid(child, 0)[1])
    """,
        tmp_path / "x.db",
    )
    assert said == "0\n"


def test_a_full_disk_is_a_clear_error_nothing_is_half_done_and_later_it_works_again(tmp_path: Path):
    said = program(
        """
        path = sys.argv[1]
        store = open_store(path)
        put(store, "ada", "before")
        limit = lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        limit(300_000)
        stored, refused = [], []
        from everlog.store import Unit
        def pair(n):
            return lambda unit: unit.run(PUT, [row(f"{n}-a", "x" * 5000), row(f"{n}-b", "y" * 5000)])
        for n in range(100):
            try:
                store.write("ada", pair(n), name="put")
                stored.append(n)
            except StoreUnavailable as error:
                refused.append(str(error))
        print(len(refused) > 20, 5 < len(stored) < 80, refused[0].removeprefix(path))
        assert names(store, "ada") == sorted(["before", *(f"{n}-{x}" for n in stored for x in "ab")])
        limit(resource.RLIM_INFINITY)
        put(store, "ada", "after")
        store.close()
        with open_store(path) as store:
            assert names(store, "ada") == sorted(["before", "after", *(f"{n}-{x}" for n in stored for x in "ab")])
    """,
        tmp_path / "x.db",
    )
    assert said.startswith("True True : ")
    assert "nothing of this was stored" in said


def test_a_disk_that_fills_up_in_a_group_fails_only_what_does_not_fit(tmp_path: Path):
    said = program(
        """
        store = open_store(sys.argv[1])
        put(store, "ada", "before")
        go = threading.Event()
        submit = lambda act: store.engine.submit("put", store._unit("ada", act, writes=True))
        first = submit(lambda unit: go.wait(20))
        small = [submit(putting(f"small-{n}")) for n in range(5)]
        large = submit(lambda unit: unit.run(PUT, row("large", "x" * 5_000_000)))
        more = [submit(putting(f"more-{n}")) for n in range(5)]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
        go.set()
        print([one.exception() for one in small + more], type(large.exception()).__name__)
        print(names(store, "ada"))
    """,
        tmp_path / "x.db",
    )
    kept = ["before", *(f"more-{n}" for n in range(5)), *(f"small-{n}" for n in range(5))]
    assert said == f"{[None] * 10} StoreUnavailable\n{kept}\n"


AS_NOBODY = """
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        with open_store(sys.argv[1]) as store:
            print(names(store, "ada"))
            put(store, "ada", "2")
    except EverlogError as error:
        print(type(error).__name__, str(error).replace(sys.argv[1], "x.db"))
"""


@pytest.mark.parametrize(
    ("made", "folder_mode", "file_mode", "says"),
    [
        (False, 0o555, None, "StoreUnavailable x.db: unable to open database file; you may not write in the folder"),
        (True, 0o555, 0o444, "StoreUnavailable x.db: "),
        (True, 0o555, 0o000, "StoreUnavailable x.db: unable to open database file"),
    ],
)
def test_a_folder_that_is_read_only_is_a_clear_error(made: bool, folder_mode: int, file_mode: int | None, says: str):
    """Under /tmp itself, since the user whom the program becomes may not enter the folder of the test."""
    with tempfile.TemporaryDirectory(prefix="everlog-ro-") as name:
        folder = Path(name)
        path = folder / "x.db"
        if made:
            with open_store(path) as store:
                put(store, "ada", "1")
        if file_mode is not None:
            path.chmod(file_mode)
        folder.chmod(folder_mode)
        said = program(AS_NOBODY, path)
        folder.chmod(0o755)
        if made:
            path.chmod(0o644)
            with open_store(path) as store:
                assert names(store, "ada") == ["1"]
    assert said.splitlines()[-1].startswith(says)


# Files that are no database of ours


def test_a_database_of_something_else_is_refused_and_not_touched(tmp_path: Path):
    path = tmp_path / "other.db"
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE theirs (x)")
    raw.commit()
    raw.close()
    before = path.read_bytes()
    with pytest.raises(Mistake, match="is a SQLite database of something else; name another file"):
        open_store(path)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path: Path):
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ada,\n" * 1000)
    with pytest.raises(Mistake, match="file is not a database; name an Everlog database"):
        open_store(path)
    assert path.read_text() == "Dear Ada,\n" * 1000


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_truncated_file_is_damaged(tmp_path: Path, part: float):
    path = tmp_path / "x.db"
    with open_store(path) as store:
        put(store, "ada", *map(str, range(2000)))
    os.truncate(path, int(path.stat().st_size * part))
    with pytest.raises(Damaged, match="the file is damaged; restore a backup"), open_store(path) as store:
        names(store, "ada")


def test_an_empty_file_becomes_a_database(tmp_path: Path):
    path = tmp_path / "x.db"
    path.touch()
    with open_store(path) as store:
        put(store, "ada", "1")
        assert names(store, "ada") == ["1"]


def test_damage_in_the_middle_of_a_file_is_named_to_who_reads_there(tmp_path: Path):
    path = tmp_path / "x.db"
    with open_store(path) as store:
        put(store, "ada", *(f"{n:05}" for n in range(20_000)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 20_000] = b"\xff" * 20_000
    path.write_bytes(content)
    with pytest.raises(Damaged, match="the file is damaged"), open_store(path) as store:
        names(store, "ada")
