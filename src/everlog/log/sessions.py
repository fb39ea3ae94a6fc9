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

LOOKED_AT = 256
"""Newest threads of a session among which those are looked for that went on."""

ANSWERED_ONCE = 2
"""Entries of a thread that is a question and its answer."""


def principal_of(unit: Unit, *parts: str) -> str:
    """Return the name under which the sessions of somebody stand: who it is cannot be read from it."""
    return digest(unit.secret(), b"principal", *map(utf8, parts)).hex()


def join(unit: Unit, thread: ThreadRow, session: str, *, principal: str = "") -> None:
    """Note that a thread belongs to a session, and with it to a principal; the thread is its newest now.

    The session is '' where a request names none.
    """
    unit.run(rows.PUT_SESSION, {"principal": principal, "id": session, "thread": thread.id, "at": unit.now_us})


def members(unit: Unit, session: str, *, principal: str = "") -> list[str]:
    """Return the ids of a session's newest threads, the newest first.

    Where there are more than are looked at, and the session has a name, half the places are for those that went on after
    their first answer: what did not is, as far as one can tell afterwards, a question of the client's own.
    """
    limit = LOOKED_AT if session else CANDIDATES
    newest = [thread for thread, _ in unit.rows(rows.SESSION_THREADS, principal=principal, id=session, limit=limit)]
    if len(newest) <= CANDIDATES:
        return newest
    lengths: dict[str, int] = dict(unit.rows(rows.LENGTHS, threads=newest))
    talks = [thread for thread in newest if lengths.get(thread, 0) > ANSWERED_ONCE][: CANDIDATES // 2]
    chosen = set(list(dict.fromkeys([*talks, *newest]))[:CANDIDATES])
    return [thread for thread in newest if thread in chosen]


def beside(unit: Unit, threads: Sequence[str]) -> frozenset[str]:
    """Return those of some threads that were questions beside a talk, as far as one can tell afterwards.

    Such a one was answered once, its answer never came back, and a talk of its session that began before it went on since.
    """
    lengths: dict[str, int] = dict(unit.rows(rows.LENGTHS, threads=list(threads)))
    short = [thread for thread in threads if lengths.get(thread, 0) <= ANSWERED_ONCE]
    talks: dict[tuple[str, str], list[tuple[str, int]]] = {}
    found: set[str] = set()
    for principal, session, thread, at in unit.rows(rows.SESSIONS_OF, threads=short) if short else ():
        if (principal, session) not in talks:
            talks[principal, session] = _talks(unit, principal, session)
        if any(other < thread and since > at for other, since in talks[principal, session]):
            found.add(thread)
    return frozenset(found)


def _talks(unit: Unit, principal: str, session: str) -> list[tuple[str, int]]:
    """Return the threads of a session that went on after their first answer, and when they last did."""
    times: dict[str, int] = dict(unit.rows(rows.SESSION_THREADS, principal=principal, id=session, limit=LOOKED_AT))
    lengths = unit.rows(rows.LENGTHS, threads=list(times))
    return [(thread, times[thread]) for thread, length in lengths if length > ANSWERED_ONCE]


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


def drop_answers(unit: Unit, ids: Sequence[str], *, principal: str = "") -> int:
    """Forget what some ids of responses, or of their items, stand for; return how many were known. No word is erased."""
    return unit.count(rows.DROP_RESPONSES, of_principal=principal, ids=list(ids)) if ids else 0


def threads_of(unit: Unit, *, principal: str) -> list[str]:
    """Return the ids of all threads of a principal."""
    return [thread for (thread,) in unit.rows(rows.THREADS_OF_PRINCIPAL, principal=principal)]
