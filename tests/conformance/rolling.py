"""Threads to summarise, shared by the tests of the rolling summary."""

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

from everlog import log
from everlog.conversation.rolling import Rolling as PublicRolling
from everlog.log import NewTurn
from everlog.memory.interface import Subject
from everlog.memory.rolling import Rolling, Settings, Summary, latest, rows
from everlog.messages import Call, Message, Origin, Result
from everlog.pump import Ran, mark_rolling, run
from everlog.store import Store, Unit
from everlog.testing import EchoSummary, MemoryCase

TENANT = "ada"
SMALL = Settings(threshold_tokens=600, min_recent=2, cap_chars=2_000, piece_bytes=1_200)
_names = count()


def words(n: int, size: int = 500) -> str:
    return f"message {n} " + f"word{n} " * (size // 7)


def talk(n: int, *, user: str = "ada", size: int = 500) -> NewTurn:
    """A turn with a call and its result in it."""
    call = Message(
        kind="tool_call", text='look {"n": 1}', parts=(Call(call_id=f"c{n}", name="look", arguments='{"n": 1}'),)
    )
    return NewTurn(
        messages=(
            Message(kind="user", text=words(n, size)),
            Message(kind="assistant", text=f"let me look {n}"),
            call,
            Message(kind="tool_result", text=words(n, size), parts=(Result(call_id=f"c{n}", name="look"),)),
            Message(kind="assistant", text=words(n, size)),
        ),
        origin=Origin(user=user),
    )


def made(store: Store, turns: Sequence[NewTurn], *, thread: str | None = None, tenant: str = TENANT) -> str:
    """Append turns, to a new thread if none is given, and mark its summary; return the thread's id."""

    def act(unit: Unit) -> str:
        row = log.create(unit, f"summarised-{next(_names)}") if thread is None else log.load(unit, thread)
        upto = log.append(unit, row, turns).stop if turns else row.next
        mark_rolling(unit, row.id, upto=upto)
        return row.id

    return store.write(tenant, act, name="test.fill")


def memory(model: Any, settings: Settings = SMALL, **more: Any) -> Rolling:
    return Rolling(model=model.model, settings=settings, **more)


def pumped(store: Store, thread: str, model: Any, settings: Settings = SMALL, *, tenant: str = TENANT) -> Ran:
    return run(store, tenant, thread, memory(model, settings), model)


def newest(store: Store, thread: str, upto: int | None = None, *, tenant: str = TENANT) -> Summary | None:
    return store.read(tenant, lambda unit: latest(unit, log.load(unit, thread), upto))


def stored(store: Store, thread: str, *, tenant: str = TENANT) -> list[tuple[Any, ...]]:
    """Return all rows that lie under a thread, their bodies opened, the oldest first."""

    def act(unit: Unit) -> list[tuple[Any, ...]]:
        found = unit.rows(rows.BELOW, thread=thread, above=0, limit=1 << 40, count=1000)
        column = rows.summary.c.body
        return [(*map(plain, row[1:-1]), unit.open(column, (thread, row[1]), row[-1])) for row in reversed(found)]

    return store.read(tenant, act)


def plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def dropped(store: Store, thread: str) -> int:
    return PublicRolling(store, TENANT, thread).rebuild()


def case(store: Store) -> MemoryCase:
    thread = made(store, [])
    said = count()
    model = EchoSummary()

    def say(more: int) -> None:
        turns = [talk(n, user="eve" if n % 5 == 4 else "ada", size=700) for n in [next(said) for _ in range(more)]]
        made(store, turns, thread=thread)

    return MemoryCase(
        store=store,
        tenant=TENANT,
        subject=Subject(tenant=TENANT, memory="rolling", key=thread),
        memory=memory(model),
        model=model,
        say=say,
        drop=lambda: dropped(store, thread),
        erase=partial(log.erase_user, store, TENANT, "eve"),
        stored=lambda: stored(store, thread),
    )
