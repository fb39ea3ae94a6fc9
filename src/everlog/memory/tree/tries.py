"""Tries at nodes that are not built yet, kept so that a crash at the fourth does not pay for the first three again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from everlog.errors import Damaged, expect
from everlog.log import ThreadRow
from everlog.memory.interface import Digest, Try
from everlog.memory.sight import Seen
from everlog.memory.tree import rows
from everlog.memory.tree.nodes import stop_of
from everlog.memory.tree.shelf import owners_of
from everlog.store import Unit
from everlog.tokens import text_of, utf8


@dataclass(frozen=True, slots=True)
class Tried:
    """Answers so far for a node, none of which could be kept."""

    nid: int
    inputs: Digest
    """What they were answers to."""
    tries: tuple[Try, ...]
    seen: Seen | None = None
    """None for tries that are read."""


def load(unit: Unit, thread: ThreadRow, nids: Sequence[int]) -> dict[int, Tried]:
    """Return the tries at some nodes, each with the inputs that they were answers to."""
    if not nids:
        return {}
    column = rows.attempt.c.body
    return {
        nid: Tried(nid, bytes(inputs).hex(), _parse(unit.open(column, (owner, nid), body)))
        for owner, nid, inputs, body in unit.rows(rows.TRIED, owners=owners_of(thread, nids), nids=list(nids))
        if owner == thread.owner(stop_of(nid) - 1)
    }


def check(unit: Unit, thread: str) -> None:
    """Make sure that a thread's own tries can be read.

    Raises:
        Damaged: one cannot.
        Erased: the key of the thread is gone.
    """
    for nid, body in unit.rows(rows.TRIES, thread=thread):
        _parse(unit.open(rows.attempt.c.body, (thread, nid), body))


def keep(unit: Unit, thread: ThreadRow, tried: Sequence[Tried]) -> None:
    """Keep all tries at some nodes, in the place of those that were kept before."""
    made = []
    for one in tried:
        owner = thread.owner(stop_of(one.nid) - 1)
        body = unit.seal(rows.attempt.c.body, (owner, one.nid), _render(one.tries))
        made.append({"thread": owner, "nid": one.nid, "inputs": bytes.fromhex(one.inputs), "body": body})
    unit.run(rows.PUT_TRIED, made)


def forget(unit: Unit, thread: ThreadRow, nids: Sequence[int]) -> None:
    """Drop the tries at nodes that are built."""
    mine: dict[str, list[int]] = {}
    for nid in nids:
        mine.setdefault(thread.owner(stop_of(nid) - 1), []).append(nid)
    for owner, some in mine.items():
        unit.run(rows.DROP_TRIED, {"thread": owner, "nids": some})


def _render(tries: Sequence[Try]) -> bytes:
    return utf8(json.dumps([[one.text, one.size_bytes, one.reason, dict(one.usage)] for one in tries]))


def _parse(plain: bytes) -> tuple[Try, ...]:
    try:
        found = tuple(
            Try(text=text, size_bytes=size, reason=reason, usage=dict(usage))
            for text, size, reason, usage in json.loads(text_of(plain))
        )
        for one in found:
            expect(one.text, str, "an answer is a str")
            expect(one.size_bytes, int, "its size is an int")
            expect(one.reason, str, "its reason is a str")
    except (ValueError, TypeError, RecursionError):
        raise Damaged(f"tries at a line of a tree cannot be read; {rows.MEND}") from None
    return found
