"""A small database with rows in every table that is read, ways to damage one of them, and what people do with a database.

SQLite keeps any value in any column, so a file that was changed, by a hand or a disk, can hold anything anywhere.
"""

import base64
import io
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import everlog
from everlog import Call, Conversation, Everlog, EverlogError, Media, Message, NewTurn, Origin, Result, log
from everlog import context as contexts
from everlog.context import Consumer, Head, Terms
from everlog.memory.interface import Try
from everlog.memory.rolling import Rolling, Settings
from everlog.memory.tree import Extractive, tries
from everlog.memory.tree import Tree as TreeMemory
from everlog.protocols.exchange import Said
from everlog.pump import Options, Ran, Worker, run
from everlog.store import Unit, metadata
from everlog.store.keys import MasterKeys
from everlog.surfaces.cli import entry
from everlog.testing import EchoModel, EchoSummary, FrozenClock

SECRET = "TOPSECRET"
"""In each text of the sample; it must stand in no message of an error."""

SUMMARY = Rolling(model="summary@1", settings=Settings(threshold_tokens=3_000, min_recent=2, piece_bytes=6_000))

PICTURE = Media(media_type="image/png", content=b"\x89PNG" * 50, name="a.png")


def sample(path: Path, keys: MasterKeys | None) -> None:
    """Make the database."""
    clock = FrozenClock(step=timedelta(milliseconds=1))
    with everlog.open(path, keys=keys, clock=clock) as memory:
        said = [Message(kind="system", text=f"You are {SECRET}."), *_talk(3)]
        memory.add(Conversation(key="talk", messages=tuple(said), title=f"{SECRET} talks"))
        thread = memory.thread("talk")
        for n in range(6):
            origin = Origin(request=f"r{n}", session="s", user="eve" if n == 4 else f"u{n}", project="p", cwd="/home")
            thread.turn(_talk(1, mark=f"turn {n}"), client_key=f"k{n}", origin=origin)
        side = thread.fork(11, "side", title=f"{SECRET} aside")
        side.append("user", f"{SECRET} goes another way", origin=Origin(user="u9"))
        deep = side.fork(12, "deep")
        deep.extend([NewTurn(messages=tuple(_talk(2, mark="deep")))])
        for one in (thread, side, deep):
            one.pump(EchoModel())
            one.tree.view(1500)
        thread.append("user", f"{SECRET} at the end " + "and words " * 80)
        with thread.tree.tools(search=True, turn=3) as tools:
            tools.zoom(0, 8), tools.zoom(0, 4), tools.zoom(0, 2), tools.zoom(0, 1)
        assert _summarised(thread).steps
        for n in range(4):
            contexts.prepare(memory.store, "default", thread.id, _terms(n))
        memory.thread("gone").append("user", f"{SECRET} goes")
        memory.erase(thread="gone")
        memory.erase(user="eve")
        memory.store.write("default", partial(_beside, thread=thread.id), name="test.beside")


def _talk(rounds: int, mark: str = "") -> list[Message]:
    said: list[Message] = []
    for n in range(rounds):
        call = Call(call_id=f"c{n}{mark}", name="look", arguments='{"at": 1}')
        said += [
            Message(kind="user", text=f"{SECRET} question {n} {mark}", author="Ada", parts=(PICTURE,)),
            Message(kind="tool_call", text="look", parts=(call,)),
            Message(kind="tool_result", text=f"{SECRET} found " * 60, parts=(Result(call_id=call.call_id),)),
            Message(kind="assistant", text=f"{SECRET} answer {n} {mark}. " * 40, model="m"),
        ]
    return said


def _terms(n: int) -> Terms:
    """Return for whom a prompt is: the instructions of the first two are others than those of the rest."""
    consumer = Consumer(mode="tree", budget=2_000, renderer="r", family="m")
    head = Head(instructions=(Said(messages=(Message(kind="system", text=f"{SECRET} {n // 2}"),)),))
    return Terms(consumer=consumer, head=head)


def _summarised(thread: everlog.Thread) -> Ran:
    return run(thread._store, "default", thread.id, SUMMARY, EchoSummary())


def _beside(unit: Unit, thread: str) -> None:
    """Put in what a proxy and an unfinished run leave."""
    row = log.load(unit, thread)
    log.join(unit, row, "s", principal="p")
    log.answered(unit, row, "response", 5, principal="p")
    attempt = Try(text=f"user: {SECRET}", size_bytes=14, reason="it is over the limit", usage={"input": 3})
    tries.keep(unit, row, [tries.Tried(row.next - 1, "00" * 16, (attempt,))])


@dataclass(frozen=True, slots=True)
class Damage:
    """One value of one row is replaced, or the row is lost."""

    table: str
    column: str | None
    """None: the row is deleted."""
    value: Any = None
    """What stands there instead; a function gets what stood there."""
    last: bool = False
    """Whether it is the last row of the table, not the first."""

    def __str__(self) -> str:
        return f"{self.table}.{self.column or 'row'} {'last' if self.last else 'first'} {_named(self.value)}"


def _named(value: Any) -> str:
    return value.__name__ if callable(value) else ascii(value)


def no_text(_: Any) -> bytes:
    """Put in invalid UTF-8 that is said to be a text."""
    return SECRET.encode() + b"\xff"


def shortened(value: Any) -> Any:
    """Leave off the last byte, or make a number of one."""
    return value[:-1] if isinstance(value, bytes | str) else value - 1 if value else 1


def emptied(value: Any) -> Any:
    """Leave nothing of it."""
    return value[:0] if isinstance(value, bytes | str) else b""


def flipped(value: Any) -> Any:
    """Turn over a bit in the middle."""
    if isinstance(value, bytes) and value:
        at = len(value) // 2
        return value[:at] + bytes([value[at] ^ 0x80]) + value[at + 1 :]
    return f"{value}"[::-1] if isinstance(value, str) else (value or 0) ^ (1 << 20)


VALUES: tuple[Any, ...] = (
    None,
    -1,
    1 << 31,
    1 << 39,
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
    1.5,
    float("inf"),
    "x",
    "[[40, 1]]",
    "[[0, 1000000000000]]",
    "{}",
    b"\xff\xfe",
    bytes(200),
    no_text,
    shortened,
    emptied,
    flipped,
)


def damages() -> Iterator[Damage]:
    """Yield everything that can be wrong with one value, and every row that can be lost."""
    for table in metadata.sorted_tables:
        for last in (False, True):
            yield Damage(table.name, None, last=last)
            for column in table.c:
                yield from (Damage(table.name, column.name, value, last) for value in VALUES)


def apply(path: Path, damage: Damage) -> bool:
    """Damage a database; return whether that changed anything."""
    with _without_not_null(path), closing(sqlite3.connect(path, isolation_level=None)) as raw:
        keys = [column.name for column in metadata.tables[damage.table].primary_key]
        order = ", ".join(f'"{key}"{" DESC" if damage.last else ""}' for key in keys)
        columns = ", ".join(f'"{name}"' for name in (*keys, damage.column or keys[0]))
        found = raw.execute(f'SELECT {columns} FROM "{damage.table}" ORDER BY {order} LIMIT 1').fetchone()
        if found is None:
            return False  # a plain database has no keys
        *row, stood = found
        here = " AND ".join(f'"{key}" = ?' for key in keys)
        if damage.column is None:
            return raw.execute(f'DELETE FROM "{damage.table}" WHERE {here}', row).rowcount > 0
        put = damage.value(stood) if callable(damage.value) else damage.value
        slot = "CAST(? AS TEXT)" if damage.value is no_text else "?"
        try:
            raw.execute(f'UPDATE "{damage.table}" SET "{damage.column}" = {slot} WHERE {here}', (put, *row))
        except sqlite3.IntegrityError:
            return False  # a key that is there already, or a part of a key that nobody can empty
        return bool(put != stood)


@contextmanager
def _without_not_null(path: Path) -> Iterator[None]:
    """Take NOT NULL out of the schema for a while: a flipped byte in the header of a row does not ask for it either."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        schema = raw.execute("SELECT sql, rowid FROM sqlite_schema WHERE sql LIKE '% NOT NULL%'").fetchall()
        _set_schema(raw, [(sql.replace(" NOT NULL", ""), rowid) for sql, rowid in schema])
    yield
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        _set_schema(raw, schema)


def _set_schema(raw: sqlite3.Connection, schema: list[tuple[str, int]]) -> None:
    raw.execute("PRAGMA writable_schema = ON")
    raw.executemany("UPDATE sqlite_schema SET sql = ? WHERE rowid = ?", schema)
    raw.execute("PRAGMA writable_schema = OFF")


Act = Callable[[Everlog], object]


def _explained(memory: Everlog, turn: int | None) -> object:
    thread = memory.thread("talk").id
    return memory.store.read("default", partial(contexts.request, thread=thread, turn=turn))


def acts(folder: Path) -> dict[str, Act]:
    """Return what people do with a database, reading first and erasing last."""

    def of(key: str, act: Callable[[everlog.Thread], object]) -> Act:
        return lambda memory: act(memory.thread(key))

    def known(memory: Everlog) -> object:
        row = memory.store.read("default", partial(log.find, key="talk"))
        return memory.store.read("default", lambda unit: (log.members(unit, "s", principal="p"), log.seen(unit, row)))

    def answered(memory: Everlog) -> object:
        return memory.store.read("default", lambda unit: log.answer(unit, "response", principal="p"))

    reading: dict[str, Act] = {
        "threads": lambda memory: list(memory.threads()),
        "stats": Everlog.stats,
        "due": Everlog.due,
        "receipts": Everlog.receipts,
        "known": known,
        "answered": answered,
        "verify": lambda memory: list(memory.verify()),
        "verify side": of("side", lambda thread: list(thread.verify())),
        "instructions": of("talk", everlog.Thread.instructions),
        "digs": of("talk", lambda thread: (thread.tree.stats.hot_nodes(), thread.tree.stats.digs())),
        "explained": lambda memory: [_explained(memory, turn) for turn in (None, 0)],
        "prepared": of("talk", lambda thread: contexts.prepare(thread._store, "default", thread.id, _terms(4))),
        "stale": of("talk", lambda thread: thread.tree.stale()),
        "summaries": lambda memory: [memory.thread(key).rolling.summary() for key in ("talk", "deep")],
    }
    for key in ("talk", "side", "deep"):
        reading |= {
            f"entries {key}": of(key, lambda thread: list(thread.entries())),
            f"export {key}": of(key, lambda thread: list(thread.export())),
            f"view {key}": of(key, lambda thread: [thread.tree.view(budget) for budget in (400, 1500, 100_000)]),
            f"zoom {key}": of(key, lambda thread: [thread.tree.zoom(0, 1 << n) for n in (3, 2, 1, 0)]),
            f"read {key}": of(key, lambda thread: [(thread.tree.read(i), thread.tree.date(i)) for i in (0, 11)]),
            f"search {key}": of(key, lambda thread: thread.tree.search(f"{SECRET} way look")),
        }
    return (
        reading
        | _writing(of, folder)
        | {"retire": lambda memory: memory.retire_media(datetime(2027, 1, 1, tzinfo=UTC))}
        | {
            "summarise": of("deep", _summarised),
            "rebuild summaries": of("talk", lambda thread: (thread.rolling.rebuild(), _summarised(thread))),
            "rebuild": of("talk", lambda thread: (thread.tree.rebuild(), thread.pump(Extractive()))),
            "erase user": lambda memory: memory.erase(user="u1"),
            "erase talk": lambda memory: memory.erase(thread="talk"),
            "resume": Everlog.resume,
            "after": lambda memory: [list(memory.thread(key).entries()) for key in ("side", "deep")],
            "erase tenant": Everlog.erase_tenant,
        }
    )


def _writing(of: Callable[[str, Callable[[everlog.Thread], object]], Act], folder: Path) -> dict[str, Act]:
    again = (Message(kind="system", text=f"You are not {SECRET}."), *_talk(3), *_talk(1, mark="new"))

    def worked(memory: Everlog) -> object:
        worker = Worker(memory.store, [TreeMemory()], Extractive(), poll_s=0.01, options=Options(grace_s=1))
        stop = threading.Event()
        threading.Timer(2, stop.set).start()
        return worker.work(stop, until_idle=True)

    def dug(memory: Everlog) -> None:
        with memory.thread("talk").tree.tools(search=True, turn=4) as tools:
            tools.zoom(0, 8), tools.zoom(0, 1), tools.search(SECRET)

    return {
        "dig": dug,
        "backup": lambda memory: memory.backup(folder / "backup"),
        "pump model": of("talk", lambda thread: thread.pump(EchoModel("echo@2"))),
        "pump side": of("side", lambda thread: thread.pump(EchoModel("echo@2"))),
        "pump": of("deep", lambda thread: thread.pump()),
        "append": of("talk", lambda thread: thread.append("user", f"{SECRET} more")),
        "append on": of("talk", lambda thread: thread.append("assistant", f"{SECRET} more")),
        "append side": of("side", lambda thread: thread.append("assistant", f"{SECRET} more")),
        "append deep": of("deep", lambda thread: thread.append("user", f"{SECRET} more")),
        "repeat": of("talk", lambda thread: thread.turn(_talk(1, mark="turn 2"), client_key="k2")),
        "fork": of("talk", lambda thread: thread.fork(9, "other").append("assistant", "more")),
        "fork deep": of("deep", lambda thread: thread.fork(12, "deeper").append("assistant", "more")),
        "import": lambda memory: memory.add(Conversation(key="talk", messages=again, title="t")),
        "import edited": lambda memory: memory.add(Conversation(key="side", messages=again[2:], parent="talk")),
        "worker": worked,
    }


def troubles(
    path: Path, keys: MasterKeys | None, folder: Path, *, expected: tuple[type[Exception], ...] = (EverlogError,)
) -> list[str]:
    """Do everything with a damaged database; return what came out that should not have."""
    found: list[str] = []

    def tried(name: str, act: Callable[[], object]) -> None:
        try:
            act()
        except expected as error:
            if SECRET in str(error) or not str(error):
                found.append(f"{name}: the message of {type(error).__name__} says too much, or nothing")
        except Exception as error:  # noqa: BLE001 -- this is what is looked for
            found.append(f"{name}: {type(error).__name__} at {_where(error)}")

    clock = FrozenClock(datetime(2026, 3, 1, tzinfo=UTC), step=timedelta(milliseconds=1), seed=7)
    opened: list[Everlog] = []
    for command in ("verify", "doctor"):
        _, said = run_command(path, keys, command, folder)
        if "unexpected" in said or SECRET in said:
            found.append(f"{command}: {said}")
    tried("open", lambda: opened.append(everlog.open(path, keys=keys, clock=clock)))
    if opened:
        with opened[0] as memory:
            for name, act in acts(folder).items():
                tried(name, partial(act, memory))
    return found


def run_command(path: Path, keys: MasterKeys | None, command: str, folder: Path) -> tuple[int, str]:
    """Run a command of the command line in this process; return its exit code and what it printed."""
    options = []
    if keys is not None:
        key_file = folder / "key"
        if not key_file.exists():
            key_file.write_text(base64.b64encode(keys.keys[0]).decode())
        options = ["--key-file", str(key_file)]
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = entry.run(["--db", str(path), *options, *command.split()])
    out.flush()
    return status, out.buffer.getvalue().decode() + err.getvalue()


def _where(error: BaseException) -> str:
    places = []
    at = error.__traceback__
    while at is not None:
        places.append(f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}")
        at = at.tb_next
    return " > ".join(place for place in places if not place.startswith("damaged.py"))[-160:]
