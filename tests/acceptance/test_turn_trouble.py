"""Law 7 with real trouble: a disk that is full, a server that takes no writes; the chat goes on, and nothing is lost."""

import multiprocessing
import resource
from pathlib import Path
from typing import Any

import psycopg
import psycopg.conninfo
import pytest

import everlog
from everlog.store import postgres
from everlog.store.migrate import upgrade
from everlog.store.postgres import PostgresEngine
from everlog.testing.upstream import Upstream
from tests.acceptance.turn_script import answer, attached


def said(memory: "everlog.Memory") -> list[str]:
    return [one.text for one in memory.thread.entries() if one.kind == "user"]


def without_room(path: str, told: Any) -> None:
    """Turns of a program whose files may not grow for a while."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Upstream(answer) as upstream, everlog.open(path) as log:
        memory = attached(log, upstream)
        memory.turn("before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, most))
        replies = [memory.turn(f"during {n}").text for n in range(2)]
        status = memory.status()
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        memory.turn("after")
        told.put(
            (replies, status.waiting, dict(status.trouble), status.last_error, said(memory), memory.status().waiting)
        )
        memory.close()


def test_a_full_disk_stops_no_turn_and_later_everything_is_there(tmp_path: Path):
    spawn = multiprocessing.get_context("spawn")
    told: Any = spawn.Queue()
    process = spawn.Process(target=without_room, args=(str(tmp_path / "everlog.db"), told))
    process.start()
    replies, waiting, trouble, last, entries, left = told.get(timeout=60)
    process.join(20)
    assert [reply.split(" with")[0] for reply in replies] == ["answer to during 0", "answer to during 1"]
    assert waiting == 4
    assert trouble["record"] >= 4
    assert trouble["prepare"] + trouble["derive"] >= 2
    assert last == "StoreUnavailable"
    assert entries == ["before", "during 0", "during 1", "after"]
    assert left == 0
    assert process.exitcode == 0


def test_a_server_that_lets_nobody_in_for_a_while_stops_no_turn(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgres, "CONNECT_S", 1.5)
    upgrade(PostgresEngine(postgres_url), encrypted=False)
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    with (
        psycopg.connect(postgres_url, dbname="postgres", autocommit=True) as own,
        Upstream(answer) as upstream,
        everlog.open(postgres_url) as log,
    ):
        memory = attached(log, upstream, pump="none")
        memory.turn("before")
        own.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        own.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [name])
        assert memory.turn("during").text.startswith("answer to during")
        assert memory.status().waiting == 2
        own.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        memory._recorder.database.rests_until = 0.0  # as if a while had passed
        memory.turn("after")
        assert said(memory) == ["before", "during", "after"]
        assert memory.status().waiting == 0
        memory.close()
