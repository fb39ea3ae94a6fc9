"""Threads to pump, and compactors that wait for a sign: shared by the tests of the pump."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from sqlalchemy import bindparam

from everlog import log
from everlog.log import NewTurn
from everlog.memory.interface import Reply, Request, Subject
from everlog.memory.tree import Tree, questions, rows
from everlog.memory.tree.nodes import pack
from everlog.messages import Message
from everlog.pump import Ran, mark_tree, run
from everlog.pump import rows as pump_rows
from everlog.store import Store, Unit, failpoints, scoped
from everlog.testing import EchoModel

TENANT = "ada"
WAIT_S = 30
PROMPTS = questions.prompts()
DUE_COLUMNS = (*("fence", "due_at", "upto", "lease_owner", "lease_until", "failures", "error_code", "live", "marked"),)
MAKERS = (
    scoped(rows.node)
    .select(rows.node.c.nid, rows.node.c.model, rows.node.c.fallback)
    .where(rows.node.c.thread == bindparam("thread"))
)
_names = count()


def long(n: int) -> str:
    return f"message {n} " + f"word{n} " * 120


def filled(
    store: Store, texts: list[str], *, tenant: str = TENANT, thread: str | None = None, live: bool = True
) -> str:
    """Append messages, to a new thread if none is given, and mark its tree; return the thread's id."""

    def act(unit: Unit) -> str:
        row = log.create(unit, f"pumped-{next(_names)}") if thread is None else log.load(unit, thread)
        messages = [Message(kind="user", text=text) for text in texts]
        appended = log.append(unit, row, [NewTurn(messages=tuple(messages))])
        mark_tree(unit, row.id, upto=appended.stop, live=live)
        return row.id

    return store.write(tenant, act, name="test.fill")


def tree(model: Any) -> Tree:
    return Tree(model=model.model, prompts=PROMPTS, context_bytes=2_000)


def pumped(store: Store, thread: str, model: Any, *, tenant: str = TENANT, **more: Any) -> Ran:
    return run(store, tenant, thread, tree(model), model, **more)


def due(store: Store, thread: str, *, tenant: str = TENANT, memory: str = "tree") -> dict[str, Any]:
    row = store.read(tenant, lambda unit: unit.row(pump_rows.DUE, memory=memory, subject=thread))
    assert row is not None
    return dict(zip(DUE_COLUMNS, row, strict=True))


def built(store: Store, thread: str, *, tenant: str = TENANT) -> dict[int, tuple[str | None, int]]:
    """Return the nodes that are there: what made each, and whether it stands in."""
    found = store.read(tenant, lambda unit: unit.rows(MAKERS, thread=thread))
    return {nid: (model, fallback) for nid, model, fallback in found}


def bodies(store: Store, thread: str, total: int, *, tenant: str = TENANT) -> dict[int, bytes]:
    """Return every line."""
    nids = [pack(level, index) for level in range(20) for index in range(total >> level)]

    def act(unit: Unit) -> dict[int, bytes]:
        found = unit.rows(rows.NODES, owners=[thread], nids=nids)
        return {nid: unit.open(rows.node.c.body, (owner, nid), body) for owner, nid, _, body in found}

    return store.read(tenant, act)


def tries(store: Store, thread: str, *, tenant: str = TENANT) -> int:
    """Return how many nodes have tries."""
    return len(store.read(tenant, lambda unit: unit.rows(rows.TRIED, owners=[thread], nids=list(range(200)))))


def subject(thread: str, tenant: str = TENANT) -> Subject:
    return Subject(tenant=tenant, memory="tree", key=thread)


class Gate:
    """A compactor that waits, at each request, until it is let go on."""

    def __init__(self, answer: Callable[[Request], Reply] | None = None) -> None:
        self.model = "gate@1"
        self.inside = threading.Semaphore(0)
        """Released once for each request that has come."""
        self.go_on = threading.Event()
        self.threads: set[int] = set()
        self.asked: list[Request] = []
        self.most = 0
        """The most requests that were there at once."""
        self._now = 0
        self._answer = answer or EchoModel(self.model)
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.threads.add(threading.get_ident())
            self.asked.append(request)
        self.inside.release()
        assert self.go_on.wait(WAIT_S)
        with self._lock:
            self._now -= 1
        return self._answer(request)

    def has(self, number: int) -> None:
        """Wait until so many more requests are inside."""
        for _ in range(number):
            assert self.inside.acquire(timeout=WAIT_S)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    failpoints.listen(listener)
    try:
        yield
    finally:
        failpoints.listen(None)


@contextmanager
def beside(act: Callable[[], Any]) -> Iterator[list[Any]]:
    """Do something in another thread while the block runs; what it returned, or raised, is in the list at the end."""
    ended: list[Any] = []

    def work() -> None:
        try:
            ended.append(act())
        except BaseException as error:  # noqa: BLE001 -- the test looks at it
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        thread.join(WAIT_S)
        assert not thread.is_alive()
