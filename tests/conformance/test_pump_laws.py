"""Law 2 with any number of workers that die anywhere: the tree comes to the bytes that one undisturbed run makes."""

import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlog.conversation.tree import Tree as PublicTree
from everlog.memory.interface import Request
from everlog.memory.tree.nodes import nodes_in
from everlog.pump import Options, Worker
from everlog.store import Store
from everlog.testing import Bad, EchoModel, ScriptedModel
from tests.conformance.pumping import bodies, built, due, filled, listening, pumped, tree, tries

SIZES = (3, 120, 130, 5, 100, 2, 140, 90)
ECHO = EchoModel(line_bytes=300)
POINTS = [
    f"{unit}.{moment}"
    for unit in ("pump.claim", "pump.try", "pump.write", "pump.release", "pump.finish")
    for moment in ("before_commit", "after_commit")
]


class Died(BaseException):
    """The worker is gone: nothing that comes after is done."""


def text(n: int) -> str:
    return f"message {n} " + f"word{n} " * SIZES[n % len(SIZES)]


def rule(request: Request) -> Bad | None:
    """A model whose first answer about every ninth message cannot be used."""
    n = int(request.source[0].text.split()[1])
    return Bad.TOO_LONG if len(request.messages) == 3 and len(request.source) == 1 and n % 9 == 2 else None


def model(script: list[Any] | None = None) -> ScriptedModel:
    return ScriptedModel(script or [], otherwise=ECHO, model=ECHO.model, when=rule)


def dying(store: Store, tenant: str, thread: str, point: str, hit: int) -> None:
    """Run a worker that dies at a commit, and does not even let go."""
    hits = 0
    dead = False

    def listener(name: str) -> None:
        nonlocal hits, dead
        hits += name == point
        dead = dead or hits == hit
        if dead:
            raise Died

    asked = model([Bad.UNAVAILABLE] if point.startswith("pump.release") else None)
    with listening(listener), contextlib.suppress(Died):
        pumped(store, thread, asked, tenant=tenant)


ACTS = st.one_of(
    st.tuples(st.just("say"), st.integers(1, 12)),
    st.tuples(st.just("die"), st.sampled_from(POINTS), st.integers(1, 3)),
    st.tuples(st.just("outage"), st.integers(0, 6)),
    st.tuples(st.just("workers"), st.integers(1, 3)),
    st.tuples(st.just("drop")),
    st.tuples(st.just("wait")),
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(ACTS, min_size=2, max_size=12))
def test_whatever_happens_to_the_workers_the_same_bytes_come_of_it(
    database: Any, store: Store, tenants: Iterator[str], acts: list[tuple[Any, ...]]
):
    tenant = next(tenants)
    thread, total = filled(store, [text(0)], tenant=tenant), 1
    for act, *how in acts:
        match act:
            case "say":
                filled(store, [text(total + n) for n in range(how[0])], tenant=tenant, thread=thread)
                total += how[0]
            case "die":
                dying(store, tenant, thread, *how)
            case "outage":
                pumped(store, thread, model([*[None] * how[0], Bad.UNAVAILABLE]), tenant=tenant)
            case "workers":
                crowd(store, tenant, how[0])
            case "drop":
                PublicTree(store, tenant, thread).rebuild()
            case _:
                database.clock.advance(timedelta(seconds=31))
    database.clock.advance(timedelta(minutes=2))
    crowd(store, tenant, 1)
    found = built(store, thread, tenant=tenant)
    assert len(found) == nodes_in(total)
    assert {fallback for _, fallback in found.values()} == {0}
    assert tries(store, thread, tenant=tenant) == 0
    row = due(store, thread, tenant=tenant)
    assert (row["due_at"], row["lease_until"], row["failures"]) == (None, None, 0)
    twin = filled(store, [text(n) for n in range(total)], tenant=tenant)
    assert pumped(store, twin, model(), tenant=tenant).done
    assert bodies(store, thread, total, tenant=tenant) == bodies(store, twin, total, tenant=tenant)


def crowd(store: Store, tenant: str, number: int) -> None:
    """Let some workers run at once until nothing is due."""
    crew = [
        Worker(store, [tree(ECHO)], model(), tenant=tenant, options=Options(at_once=3), poll_s=0.01)
        for _ in range(number)
    ]
    threads = [
        threading.Thread(target=one.work, args=(threading.Event(),), kwargs={"until_idle": True}) for one in crew
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
