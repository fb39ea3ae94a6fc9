"""Law 7 at the proxy as a table: each dependency of it broken in turn, below a proxy that runs.

The client gets its answer, and a header that says that it is not kept, or not yet; the failure is counted, `/readyz`
tells it, and all is well again by itself when the dependency is back. Identity that nobody can look up lets in nobody
new. Nothing that is lost is told as kept: the list of requests has just those that were.

Of the places of law 7, `prepare` is not there in this mode, since nothing is put into prompts, and `derive` is done by
`everlog worker`, in a process of its own, after the answer.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog import access
from everlog.store import files, postgres
from everlog.store.migrate import upgrade
from everlog.store.postgres import PostgresEngine
from everlog.surfaces.proxy.recording.recorder import Recorder
from everlog.surfaces.proxy.recording.threads import Threads
from everlog.testing.upstream import Answer, Received
from tests.acceptance.keeping import Keeper, Said
from tests.acceptance.proxies import Stage
from tests.acceptance.test_turn_trouble import no_file_grows, nobody_is_let_in

Break = Callable[[Keeper, Path], AbstractContextManager[None]]


@contextmanager
def disk_is_full(keeper: Keeper, path: Path) -> Iterator[None]:
    with no_file_grows():
        yield


@contextmanager
def written_by_another(keeper: Keeper, path: Path) -> Iterator[None]:
    """Another process holds the write lock for longer than anybody waits."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


@contextmanager
def deleted(keeper: Keeper, path: Path) -> Iterator[None]:
    """Its file is gone, and comes back."""
    away = path.with_name("away")
    path.rename(away)
    try:
        yield
    finally:
        away.rename(path)


@contextmanager
def damaged(keeper: Keeper, path: Path) -> Iterator[None]:
    """A table is not there any more."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("ALTER TABLE session RENAME TO elsewhere")
    try:
        yield
    finally:
        other.execute("ALTER TABLE elsewhere RENAME TO session")
        other.close()


@contextmanager
def overwritten(keeper: Keeper, path: Path) -> Iterator[None]:
    """Another program writes rubbish over the pages of the file; a copy of it is put back."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    good = path.read_bytes()
    with path.open("r+b") as file:
        file.write(b"\xff" * len(good))
    try:
        yield
    finally:
        with path.open("r+b") as file:
            file.write(good)


@contextmanager
def server_stopped(keeper: Keeper, path: Path) -> Iterator[None]:
    """The server of the database lets nobody in, and ends all connections."""
    with nobody_is_let_in(keeper.home.store.engine.dsn):  # type: ignore[union-attr]
        yield
    while True:  # the pool looks for it with growing pauses
        with suppress(everlog.StoreUnavailable):
            keeper.home.store.prove()
            return


@contextmanager
def clock_fails(keeper: Keeper, path: Path) -> Iterator[None]:
    """The clock of the machine cannot be read."""

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise OSError("no clock")

    clock = keeper.home.store.clock
    keeper.home.store.clock = Broken()
    try:
        yield
    finally:
        keeper.home.store.clock = clock


@contextmanager
def recorder_is_full(keeper: Keeper, path: Path) -> Iterator[None]:
    """As many exchanges wait as may."""
    go_on = threading.Event()
    waiting = [Threads.begin(keeper.recorder.threads, partial(go_on.wait, 60)) for _ in range(keeper.recorder._most)]
    try:
        yield
    finally:
        go_on.set()
        for one in waiting:
            one.result()


@contextmanager
def redaction_fails(keeper: Keeper, path: Path) -> Iterator[None]:
    """What is asked to leave words out of messages raises: nothing may be kept."""
    redact = keeper.recorder.redact

    def fail(message: Any) -> Any:
        raise LookupError("a fault of somebody's own")

    keeper.recorder.redact = fail
    try:
        yield
    finally:
        keeper.recorder.redact = redact


FAULTS: dict[str, tuple[Break, bool]] = {
    "the disk is full": (disk_is_full, True),
    "another process writes for long": (written_by_another, True),
    "its file is deleted": (deleted, True),
    "its file is overwritten": (overwritten, True),
    "its server is stopped": (server_stopped, True),
    "one of its tables is gone": (damaged, False),
    "the clock fails": (clock_fails, False),
    "the recorder is full": (recorder_is_full, False),
    "the hook for redaction fails": (redaction_fails, False),
}
"""How things break, and whether that concerns all that the database does, so that `/readyz` tells it."""


def chat(keeper: Keeper, words: str, *, stream: bool = False, token: str | None = None) -> Said:
    """Say something, in a session of its own."""
    asked = {"model": "m", "messages": [{"role": "user", "content": words}], "stream": stream}
    return keeper.ask("/v1/chat/completions", token, asked, x_everlog_session_id=words.replace(" ", "-"))


def counted(keeper: Keeper) -> float:
    """Return how often it was counted that something could not be kept."""
    lines = keeper.ask("/metrics", None).body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("everlog_degraded_total{"))


def ready(keeper: Keeper) -> tuple[int, list[str]]:
    said = keeper.ask("/readyz", None)
    return said.status, said.json["missing"]


def kept(keeper: Keeper) -> list[str]:
    """Return what users said, as it stands in the log."""
    return sorted(
        one.message.text
        for thread in keeper.home.threads()
        for one in keeper.home.thread(thread.key).entries()
        if one.message.kind == "user"
    )


class Patient:
    """A provider that answers when the proxy has looked at the request: those of the world take longer."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.begun: list[Future[Any]] = []

    def attend(self, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
        begin = recorder.threads.begin

        def begun(act: Callable[[], Any]) -> Future[Any]:
            self.begun.append(begin(act))
            return self.begun[-1]

        monkeypatch.setattr(recorder.threads, "begin", begun)
        self.stage.play(self.answer)

    def answer(self, received: Received) -> Answer:
        wait(self.begun, timeout=20)
        return Answer(text="Milk.")


@pytest.fixture
def provider() -> Iterator[Patient]:
    provider = Patient()
    with provider.stage.upstream:
        yield provider


@pytest.fixture
def keeper(
    request: pytest.FixtureRequest, provider: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Keeper]:
    """A proxy on a file; for a fault of a server, on one."""
    address = str(tmp_path / "everlog.db")
    monkeypatch.setattr(files, "BUSY_S", 0.4)  # of 10
    if getattr(request, "param", None) == "its server is stopped":
        address = request.getfixturevalue("postgres_url")
        monkeypatch.setattr(postgres, "CONNECT_S", 1.0)  # of 10
        upgrade(PostgresEngine(address), encrypted=False)
    keeper = Keeper(everlog.open(address), provider.stage.upstream, waiting=8, hold_s=20)
    provider.attend(keeper.recorder, monkeypatch)
    yield keeper
    keeper.close()


def degraded(said: Said) -> str | None:
    """Return what an answer, which must be whole, says of itself."""
    assert (said.status, b"Milk." in said.body) == (200, True)
    return said.headers.get("x-everlog-degraded")


@pytest.mark.parametrize(("keeper", "name"), [(name, name) for name in FAULTS], indirect=["keeper"], ids=[*FAULTS])
def test_whatever_breaks_the_client_is_answered_and_told_and_all_is_well_again_by_itself(
    keeper: Keeper, tmp_path: Path, name: str
):
    fault, is_general = FAULTS[name]
    orders = ((True, False), (False, True))
    for order in orders[: 1 if fault is server_stopped else 2]:  # a pool finds its server again after seconds
        assert degraded(chat(keeper, f"well {order}")) is None
        before = counted(keeper)
        keeper.recorder.standing._proved_at = 0.0  # as if a moment had passed
        with fault(keeper, tmp_path / "everlog.db"):
            for stream in order:
                assert degraded(chat(keeper, "in trouble", stream=stream)) == "record"
            assert counted(keeper) > before
            assert ready(keeper) == ((503, ["database"]) if is_general else (200, []))
            assert keeper.ask("/livez", None).status == 200
        assert ready(keeper) == (200, [])
    assert degraded(chat(keeper, "well again")) is None
    told = [one for one in keeper.ask("/everlog/v1/requests", None).json["requests"] if one["first"] is not None]
    well = sorted(f"well {order}" for order in orders)
    assert kept(keeper) == [*(well[1:] if fault is server_stopped else well), "well again"]
    assert [one["decision"] for one in told] == ["new"] * len(kept(keeper))


READABLE = {disk_is_full, written_by_another, deleted}
"""What leaves the database to be read, so that keys are looked up as ever."""


@pytest.mark.parametrize(
    ("keeper", "name"),
    [(name, name) for name, (_, is_general) in FAULTS.items() if is_general],
    indirect=["keeper"],
)
def test_identity_lets_in_whom_it_knows_and_nobody_new(keeper: Keeper, tmp_path: Path, name: str):
    """A key that was recognised within the hour still opens. Of another nothing can be known: 503, and no key is 401."""
    fault, _ = FAULTS[name]
    keeper.door._local = None
    known, fresh, revoked = keeper.key(), keeper.key(), keeper.key(name="old")
    keeper.home.store.write("default", partial(access.revoke, named="old"), name="keys.revoke")
    assert degraded(chat(keeper, "well", token=known)) is None
    asked = len(keeper.upstream.requests)
    with fault(keeper, tmp_path / "everlog.db"):
        keeper.door._clock = lambda: time.monotonic() + 60  # as if a minute had passed
        assert degraded(chat(keeper, "in trouble", token=known)) == "record"
        assert len(keeper.upstream.requests) == asked + 1
        opened = [chat(keeper, "in trouble", token=token) for token in (fresh, revoked, f"{fresh}x", None)]
        assert len(keeper.upstream.requests) == asked + 1 + (fault in READABLE)
    codes = [(one.status, "" if one.status == 200 else one.json["error"]["code"]) for one in opened]
    away, none = (503, "everlog_keys_unavailable"), (401, "everlog_key_missing")
    unknown = (401, "everlog_key_unknown")
    if fault in READABLE:
        assert codes == [(200, ""), (401, "everlog_key_revoked"), unknown, none]
    else:
        assert codes == [away, away, unknown, none]
    keeper.door._clock = lambda: time.monotonic() + 120
    assert chat(keeper, "well again", token=fresh).status == 200
    assert chat(keeper, "well again", token=revoked).status == 401


ODD: list[tuple[str, bytes]] = [
    ("/v1/chat/completions", body)
    for body in (
        b'{"model":"m","messages":[{"role":"user","content":"\\ud800 alone"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"a\\u0000b"}],"seed":1e999}',
        b'{"model":"m","messages":[{"role":"user","content":' + b"[" * 900 + b"]" * 900 + b"}]}",
        b'{"model":"m","messages":[{"role":"user","content":{"text":"an object"}}]}',
        b'{"model":"m","messages":[{"role":"wizard","content":"who?"},{"content":7},null,7,[]]}',
        b'{"model":7,"messages":{"0":{"role":"user","content":"a mapping"}}}',
        b'{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":{"a":1}}},null,{}]}]}',
        b'{"model":"m","messages":[{"role":"tool","tool_call_id":{},"content":null}],"metadata":"text"}',
        b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * 9_000_000 + b'"}]}',
        b'{"model":"' + b"m" * 9000 + b'","messages":[{"role":"user","content":"a long name"}],"user":{"id":1}}',
        b'\xef\xbb\xbf{"model":"m","messages":[]}',
        b'{"model":"m","messages":[{"role":"user","content":"big","n":' + b"9" * 5000 + b"}]}",
        b"NaN",
        b"",
    )
]


@pytest.mark.parametrize("number", range(len(ODD)))
def test_a_body_that_only_its_upstream_understands_is_answered_and_kept_or_told_that_it_is_not(
    keeper: Keeper, number: int
):
    path, body = ODD[number]
    said = keeper.ask(path, None, body)
    assert (said.status, b"Milk." in said.body) == (200, True)
    [row] = keeper.ask("/everlog/v1/requests", None).json["requests"] or [{"decision": "none"}]
    is_kept = row["decision"] not in {"none", "nothing"}
    assert is_kept == bool([*keeper.home.threads()])
    assert is_kept or said.headers.get("x-everlog-degraded") == "record" or is_no_conversation(body)
    assert ready(keeper) == (200, [])
    assert degraded(chat(keeper, "well again")) is None


def is_no_conversation(body: bytes) -> bool:
    """Whether there is no list of messages in a body, or none that has any."""
    try:
        return not json.loads(body)["messages"][0]
    except (ValueError, RecursionError, LookupError, TypeError):
        return True
