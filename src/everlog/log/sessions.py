"""What ids of clients name: a session's threads, and where in a thread a response stands.

A session id is a hint for which threads to look at, never proof of who asks: it is looked up under the principal (the
API key and, where given, its end user), and what may be read is decided by alignment. A session may hold several
threads, since clients send their side conversations under the same id.
"""

from collections.abc import Sequence

from everlog.log import rows
from everlog.log.threads import ThreadRow
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import utf8

CANDIDATES = 16
"""Newest threads of a session that are worth aligning with."""


def principal_of(unit: Unit, *parts: str) -> str:
    """Return the name under which the sessions of somebody stand: who it is cannot be read from it."""
    return digest(unit.secret(), b"principal", *map(utf8, parts)).hex()


def join(unit: Unit, thread: ThreadRow, session: str, *, principal: str = "") -> None:
    """Note that a thread belongs to a session, and with it to a principal; the thread is its newest now.

    The session is '' where a request names none.
    """
    unit.run(rows.PUT_SESSION, {"principal": principal, "id": session, "thread": thread.id, "at": unit.now_us})


def members(unit: Unit, session: str, *, principal: str = "") -> list[str]:
    """Return the ids of a session's newest threads, the newest first."""
    found = unit.rows(rows.SESSION_THREADS, principal=principal, id=session, limit=CANDIDATES)
    return [thread for (thread,) in found]


def answered(unit: Unit, thread: ThreadRow, response: str, i: int, *, principal: str = "") -> None:
    """Note that the id of a response, or of an item of one, stands for the thread up to entry `i`, that included."""
    unit.run(
        rows.PUT_RESPONSE,
        {"principal": principal, "id": response, "thread": thread.id, "i": i, "at": unit.now_us},
    )


def answer(unit: Unit, response: str, *, principal: str = "") -> tuple[str, int] | None:
    """Return the thread's id and the position that a response id stands for, or None."""
    found = unit.row(rows.RESPONSE, principal=principal, id=response)
    return None if found is None else (found[0], found[1])


def answers(unit: Unit, ids: Sequence[str], *, principal: str = "") -> dict[str, tuple[str, int]]:
    """Return the thread's id and the position for those of some ids of responses, or of their items, that are known."""
    found = unit.rows(rows.RESPONSES, principal=principal, ids=list(ids)) if ids else []
    return {id_: (thread, i) for id_, thread, i in found}


def threads_of(unit: Unit, *, principal: str) -> list[str]:
    """Return the ids of all threads of a principal."""
    return [thread for (thread,) in unit.rows(rows.THREADS_OF_PRINCIPAL, principal=principal)]
