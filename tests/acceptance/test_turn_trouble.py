"""Law 7 as a table, with real trouble: three faults at three places of a turn. The turn answers, and nothing is lost.

The faults: a PostgreSQL server that lets nobody in, a compactor's server that answers 503, a disk on which no file may
grow. The places: `prepare`, from the moment the user's words are recorded until the model is asked; `record`, from then
until the turn has answered; `derive`, from the moment the answer is recorded until the memory is built.
"""

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import psycopg.conninfo
import pytest

import everlog
from everlog.chat.retries import Retry
from everlog.chat.routes import ChatConfig
from everlog.store import postgres
from everlog.store.migrate import upgrade
from everlog.store.postgres import PostgresEngine
from everlog.testing import failpoints
from everlog.testing.upstream import Answer, Refused, Upstream

LONG = "with words about the harbour of Roscoff " * 20
BEGINS = {"prepare": "turn.begin.after_commit", "record": None, "derive": "turn.record.after_commit"}
"""The commit after which the fault is there; None is when the model is asked."""


@dataclass(kw_only=True)
class Scene:
    """A place to talk in, and a fault that can be turned on."""

    address: str
    fault: Callable[[], AbstractContextManager[None]]
    is_down: bool = False
    """Whether the compactor is."""
    stack: ExitStack = field(default_factory=ExitStack)

    def begin(self) -> None:
        self.stack.enter_context(self.fault())

    def end(self) -> None:
        self.stack.close()


@contextmanager
def no_file_grows() -> Iterator[None]:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@contextmanager
def nobody_is_let_in(url: str) -> Iterator[None]:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url, dbname="postgres", autocommit=True) as own:
        own.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        own.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            yield
        finally:
            own.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    match request.param:
        case "store down":
            monkeypatch.setattr(postgres, "CONNECT_S", 1.0)  # of 10
            url = request.getfixturevalue("postgres_url")
            upgrade(PostgresEngine(url), encrypted=False)
            made = Scene(address=url, fault=lambda: nobody_is_let_in(url))
        case "disk full":
            made = Scene(address=str(tmp_path / "everlog.db"), fault=no_file_grows)
        case _:

            @contextmanager
            def compactor_is_down() -> Iterator[None]:
                made.is_down = True
                yield
                made.is_down = False

            made = Scene(address=str(tmp_path / "everlog.db"), fault=compactor_is_down)
    with made.stack:
        yield made


def recovered(memory: "everlog.Memory") -> None:
    """Wait until the database can be reached again: a pool of connections looks for it with growing pauses."""
    for _ in range(60):
        try:
            memory.cost()
        except everlog.StoreUnavailable:
            continue
        break
    memory._recorder.database.rests_until = 0.0  # as if a while had passed


@contextmanager
def remembering(scene: Scene, place: str) -> Iterator["everlog.Memory"]:
    """A memory whose turn `during` meets the fault at one place."""

    def answer(received: Any) -> Answer:
        newest = next(one["content"] for one in reversed(received.body["messages"]) if one["role"] == "user")
        if newest == "during" and place == "prepare":
            scene.end()
            recovered(memory)
        elif newest == "during" and place == "record":
            scene.begin()
        return Answer(text=f"to {newest}: {LONG}")

    def compact(received: Any) -> Answer | Refused:
        return Refused(status=503) if scene.is_down else Answer(text="assistant: the harbour of Roscoff")

    with Upstream(answer) as upstream, Upstream(compact) as compactor, everlog.open(scene.address) as log:
        retry = Retry(retries=0)
        talking = ChatConfig(base_urls={"openai": upstream.url}, environ={}, retry=retry)
        building = ChatConfig(base_urls={"openai": compactor.url}, environ={}, retry=retry)
        wire: dict[str, Any] = {"provider": "openai", "protocol": "chat_completions", "assume_model_exists": True}
        with log.attach(
            everlog.Chat("m-1", config=talking, **wire),
            key="day",
            budget=2_000,
            pump="inline",
            compactor=everlog.Chat("m-2", config=building, **wire),
        ) as memory:
            yield memory


def met(scene: Scene, memory: "everlog.Memory", place: str) -> str:
    """Say `during` while the fault is met at a place, and return the answer."""
    begun = False

    def listen(name: str) -> None:
        nonlocal begun
        if name == BEGINS[place] and not begun:
            begun = True
            scene.begin()

    with failpoints._listening(listen):
        return memory.turn("during").text


@pytest.mark.covers("tree fault 38", "report 17")
@pytest.mark.parametrize(
    ("scene", "place", "missing"),
    [
        ("store down", "prepare", "prepare"),
        ("store down", "record", "record"),
        ("store down", "derive", "derive"),
        ("disk full", "prepare", "prepare"),
        ("disk full", "record", "record"),
        ("disk full", "derive", "derive"),
        pytest.param("compactor down", "prepare", None, id="compactor down-prepare: it is not asked there"),
        pytest.param("compactor down", "record", "derive", id="compactor down-record: it is asked once that is done"),
        ("compactor down", "derive", "derive"),
    ],
    indirect=["scene"],
)
def test_a_turn_answers_in_spite_of_trouble_says_what_is_missing_and_nothing_is_lost(
    scene: Scene, place: str, missing: str | None
):
    with remembering(scene, place) as memory:
        memory.turn("before")
        assert memory.status().is_well
        assert met(scene, memory, place) == f"to during: {LONG}"
        during = memory.status()
        assert {name for name, count in during.trouble.items() if count} >= ({missing} if missing else set())
        assert during.is_well == (missing is None)
        assert (during.last_error is None) == (missing is None)
        assert bool(during.waiting) == (missing == "record")
        scene.end()
        recovered(memory)
        memory.turn("after")
        assert [(one.kind, one.text) for one in memory.thread.entries()] == [
            pair
            for words in ("before", "during", "after")
            for pair in (("user", words), ("assistant", f"to {words}: {LONG}"))
        ]
        assert memory.status().waiting == 0
        assert memory.tree.is_current
