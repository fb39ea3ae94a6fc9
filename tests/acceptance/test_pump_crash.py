"""Law 6 of the pump: killed at every commit and every request in turn, the next run finishes with the same bytes."""

import time
from functools import cache
from pathlib import Path
from typing import Any

import everlog
from everlog import Message, NewTurn
from everlog.memory.interface import Request
from everlog.memory.tree.nodes import nodes_in
from everlog.pump import Options, run
from everlog.testing import Bad, EchoModel, ScriptedModel, failpoints
from everlog.testing.failpoints import Death
from tests.acceptance.pump_script import MODEL, memory
from tests.conformance.log_model import dump

COUNT = 20
TENANT = "default"
OPTIONS = Options(lease_s=0.3)
ECHO = EchoModel(MODEL, line_bytes=300)


def opened(folder: Path) -> everlog.Everlog:
    return everlog.open(folder / "everlog.db")


def prepare(folder: Path) -> None:
    with opened(folder) as log:
        texts = [f"message {n} " + f"word{n} " * (n % 4 * 60) for n in range(COUNT)]
        log.thread("talk").extend([NewTurn(messages=(Message(kind="user", text=text),)) for text in texts])


def rule(request: Request) -> Bad | None:
    """A model whose first answer about one message cannot be used."""
    first = len(request.messages) == 3 and request.source[0].text.startswith("message 2 ")
    return Bad.EMPTY if first else None


def model() -> ScriptedModel:
    return ScriptedModel(otherwise=ECHO, model=MODEL, when=rule)


def script(folder: Path) -> None:
    """A day of the pump: an answer that cannot be used, a slow one, an outage, and the rest."""

    def when(request: Request) -> Any:
        if request.source[0].text.startswith("message 3 "):
            time.sleep(0.4)  # longer than the lease
        return rule(request)

    day = ScriptedModel([*[None] * 10, Bad.UNAVAILABLE], otherwise=ECHO, model=MODEL, when=when)
    with opened(folder) as log:
        for _ in range(3):
            run(log.store, TENANT, log.thread("talk").id, memory(day), day, options=OPTIONS)


def lines(folder: Path) -> list[tuple[Any, ...]]:
    with opened(folder) as log:
        return sorted((row["nid"], row["size"], row["model"], row["body"]) for row in dump(log.store, TENANT)["node"])


@cache
def healthy(folder: Path) -> list[tuple[Any, ...]]:
    """Return the lines of a run to which nothing happened."""
    prepare(folder)
    with opened(folder) as log:
        assert run(log.store, TENANT, log.thread("talk").id, memory(ECHO), model()).done
    return lines(folder)


def test_a_pump_killed_at_every_commit_and_request_is_finished_by_the_next_run(tmp_path: Path):
    wanted = healthy(tmp_path)
    assert len(wanted) == nodes_in(COUNT)

    def check(folder: Path, death: Death) -> None:
        with opened(folder) as log:
            ran = run(log.store, TENANT, log.thread("talk").id, memory(ECHO), model())
            assert ran.done, f"{death}: the lease of a process that is gone is free at once"
        found = lines(folder)
        assert found == wanted, death

    # How often a point is met depends on which answers come together, so only its first time is one to be killed at.
    report = failpoints.run(script, check, hits=1, only="pump.", prepare=prepare)
    units = {"pump.claim", "pump.ask", "pump.try", "pump.write", "pump.renew", "pump.release", "pump.finish"}
    assert {death.point.rpartition(".")[0] for death in report.deaths} == units
