"""Appending: one unit for whole turns, at the end of a thread.

Positions are given out under the thread's row lock, so they have no gaps and no two writers share one. An append with
a client key is stored once: repeated with the same content it returns where that stands, with other content it is
refused.

A fork that goes on with a turn of its parent's gets a row for its part of it, so that whose turn it is, and with it the
erasure of that person, covers both parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import NoneType
from typing import Any

from everlog.clock import micros
from everlog.errors import Conflict, Damaged, Erased, Mistake, expect
from everlog.log import blobs, heads, rows, threads
from everlog.log.bodies import KIND_NUMBER, Body, encode
from everlog.log.entries import row_hash
from everlog.log.fingerprints import GENESIS, Fingerprints
from everlog.log.threads import END, KEY_LENGTH, ThreadRow
from everlog.log.turns import NewTurn, TurnState
from everlog.messages import Message, Origin
from everlog.names import is_name, unlike
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import size_bytes, utf8

ZONE_LENGTH = 64
"""Characters of the longest name of a time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where appended turns stand."""

    first: int
    """Position of the first entry."""
    stop: int
    """Position after the last entry."""
    turn: int
    """Number of the last turn."""
    repeated: bool = False
    """Whether they stood there before, by their client key."""


def append(unit: Unit, thread: ThreadRow | str, turns: Sequence[NewTurn]) -> Appended:
    """Append turns to a thread that this unit has loaded, or to one by its id, and return where they stand.

    By its id, all that must be known is asked for at once, so that a server is waited for twice: for that, and for the
    commit. A turn that continues a thread without turns opens the first one.

    Raises:
        Conflict: a client key was used before, with other content.
        Erased: the thread, or the turn to be continued, was erased.
        Mistake: a turn is empty, or has an id that cannot be stored.
        PartTooLarge: a part is above the limit.
    """
    check(turns)
    owner = thread if isinstance(thread, str) else thread.id
    loaded = threads.ask(unit, thread)
    repeats = [_ask_repeat(unit, owner, turn) for turn in turns]
    own_chain = unit.ask(rows.LAST_CHAIN, thread=owner, stop=END)
    own_turn = unit.ask(rows.LAST_TURN, thread=owner) if turns[0].more else None
    unit.expect(owner)
    row = loaded()
    secret = unit.secret()
    found = [None if repeat is None else next(iter(repeat()), None) for repeat in repeats]
    if any(found):
        return _repeated(turns, found, secret)
    chain = own_chain() or _chain_before(unit, row)
    last_turn = _last_turn(unit, row, own_turn()) if own_turn else None
    writer = _Writer(unit, row, secret, bytes(chain[0][0]) if chain else GENESIS, last_turn)
    first = turns[0] if row.turns else replace(turns[0], more=False)
    for turn in (first, *turns[1:]):
        writer.add(turn)
    return writer.finish()


def _last_turn(unit: Unit, thread: ThreadRow, own: list[Any]) -> Any:
    """Return the row of the last turn: the thread's own, or that of the thread it shares its end with."""
    if own and own[0][2] == thread.turns - 1:
        return own[0]
    if not thread.next:
        return None
    owner = thread.owner(thread.next - 1)
    return next(iter(unit.rows(rows.TURNS, thread=owner, start=thread.turns - 1, stop=thread.turns)), None)


def continues(unit: Unit, thread: ThreadRow) -> bool:
    """Return whether the thread has a last turn that can be continued: it has turns, and the last one is not erased."""
    if not thread.turns:
        return False
    owner = thread.owner(thread.next - 1)
    found = unit.row(rows.TURNS, thread=owner, start=thread.turns - 1, stop=thread.turns)
    return found is not None and found[4] != TurnState.ERASED


class _Writer:
    """Collects the rows of one append and hands them to the unit at the end."""

    def __init__(self, unit: Unit, thread: ThreadRow, secret: bytes, chain: bytes, last_turn: Any) -> None:
        self._unit = unit
        self._thread = thread
        self._secret = secret
        self._prints = Fingerprints(secret, chain)
        self._next = thread.next
        self._turns = thread.turns
        self._last_turn = last_turn
        self._entries: list[dict[str, Any]] = []
        self._turn_rows: list[dict[str, Any]] = []
        self._blobs = blobs.Writer(unit, thread.id)

    def add(self, turn: NewTurn) -> None:
        bodies = [encode(message, self._secret) for message in turn.messages]
        if turn.more:
            self._go_on(turn)
        else:
            self._turn_rows.append(self._turn_row(turn, self._turns, bodies))
            self._turns += 1
        number = self._turns - 1
        for n, (message, body) in enumerate(zip(turn.messages, bodies, strict=True)):
            row = self._tombstone(message, number) if n in turn.erased else self._entry_row(message, body, turn, number)
            self._entries.append(row)

    def _go_on(self, turn: NewTurn) -> None:
        """Continue the last turn: one of these, one of the thread's own, or one that began in a thread it shares."""
        number = self._turns - 1
        if number < 0:
            raise Mistake("there is no turn to continue in an empty thread")
        if self._turn_rows:
            self._turn_rows[-1]["state"] = int(turn.state)
            return
        if self._last_turn is None:
            raise Damaged(f"turn {number}, which was to be continued, is missing")
        if self._last_turn[4] == TurnState.ERASED:
            raise Erased(f"turn {number}, which was to be continued, was erased")
        if turn.beside:
            turn = replace(turn, state=TurnState(self._last_turn[4]))
        if self._last_turn[1] == self._thread.id:
            self._unit.run(rows.SET_TURN, {"thread": self._thread.id, "number": number, "new_state": int(turn.state)})
        else:
            self._turn_rows.append(self._shared_turn_row(turn, number))

    def _shared_turn_row(self, turn: NewTurn, number: int) -> dict[str, Any]:
        """Return the row for this thread's part of a turn that began in another one: it is the same person's."""
        _, owner, _, first, _, learn, at, _, _, session, user, project, scope, model, timezone, body = self._last_turn
        cwd = None if body is None else self._unit.open_text(rows.turn.c.body, (owner, number), body)
        part = NewTurn(
            messages=turn.messages,
            state=turn.state,
            learn=bool(learn),
            scope=scope,
            model=model,
            timezone=timezone,
            origin=Origin(session=session, user=user, project=project, cwd=cwd),
        )
        return self._turn_row(part, number, ()) | {"first": first, "at": at}

    def finish(self) -> Appended:
        thread, unit = self._thread, self._unit
        if self._turn_rows:
            unit.run(rows.PUT_TURN, self._turn_rows)
        unit.run(rows.PUT_ENTRY, self._entries)
        self._blobs.finish()
        heads.grow(unit, thread.id, thread.key, self._next, self._turns, thread.segments[:-1])
        return Appended(first=thread.next, stop=self._next, turn=self._turns - 1)

    def _tombstone(self, message: Message, number: int) -> dict[str, Any]:
        i = self._next
        self._next += 1
        return dict.fromkeys(rows.entry.info["clear"]) | {
            "thread": self._thread.id,
            "i": i,
            "kind": KIND_NUMBER[message.kind],
            "turn": number,
            "at": self._unit.now_us if message.at is None else micros(message.at),
            "size": len(message.kind) + 2,
        }

    def _entry_row(self, message: Message, body: Body, turn: NewTurn, number: int) -> dict[str, Any]:
        unit, i = self._unit, self._next
        self._next += 1
        kind = KIND_NUMBER[message.kind]
        when = unit.now_us if message.at is None else micros(message.at)
        print_ = self._prints.add(message)
        for name, content in body.blobs.items():
            self._blobs.add(name, content, i)
        asked = turn.model if message.kind == "assistant" else None
        row = {
            "thread": self._thread.id,
            "i": i,
            "kind": kind,
            "turn": number,
            "at": when,
            "size": len(message.kind) + 2 + size_bytes(message.text),
            "fp": print_.fp,
            "chain": print_.chain,
            "call": print_.call,
            "request": turn.origin.request,
            "model": asked if message.model is None else message.model,
            "body": unit.seal(rows.entry.c.body, (self._thread.id, i), body.plain),
        }
        return row | {"hash": row_hash(self._secret, row, body.plain)}

    def _turn_row(self, turn: NewTurn, number: int, bodies: Sequence[Body]) -> dict[str, Any]:
        first = turn.messages[0]
        cwd = turn.origin.cwd
        sealed = None
        if cwd is not None:
            sealed = self._unit.seal(rows.turn.c.body, (self._thread.id, number), utf8(cwd))
        return {
            "thread": self._thread.id,
            "n": number,
            "first": self._next,
            "state": int(turn.state),
            "learn": int(turn.learn),
            "at": self._unit.now_us if first.at is None else micros(first.at),
            "client_key": turn.client_key,
            "content": None if turn.client_key is None else _content(self._secret, turn, bodies),
            "session": turn.origin.session,
            "user": turn.origin.user,
            "project": turn.origin.project,
            "scope": turn.scope,
            "model": turn.model,
            "timezone": turn.timezone,
            "body": sealed,
        }


def check(turns: Sequence[NewTurn]) -> None:
    """Make sure that turns can be appended, whatever the thread holds.

    Raises:
        Conflict: two of them have the same client key.
        Mistake: a turn is empty, or has an id that cannot be stored.
        PartTooLarge: a part is above the limit.
    """
    if not turns or not all(turn.messages for turn in turns):
        raise Mistake("a turn holds at least one message")
    keys = [turn.client_key for turn in turns if turn.client_key is not None]
    if len(set(keys)) < len(keys):
        raise Conflict("two of these turns have the same client key; it names one turn")
    for turn in turns:
        origin = turn.origin
        ids = (turn.client_key, origin.request, origin.session, origin.user, origin.project, turn.scope, turn.model)
        for value in (*ids, *(message.model for message in turn.messages)):
            check_id(value)
        check_id(turn.timezone, ZONE_LENGTH)
        for message in turn.messages:
            for part in message.parts:
                blobs.check(part)


def check_id(value: str | None, limit: int = KEY_LENGTH) -> None:
    """Refuse an id that not every engine can store: ids stand as they are, since they are looked up by.

    Raises:
        Mistake: it is no text, or no name.
    """
    expect(value, (str, NoneType), "an id, or a client key, is a str")
    if value and not is_name(value, limit):
        raise Mistake(
            f"an id (of a request, session, user, project, scope, model or zone, or a client key) has at most {limit} "
            f"printable characters; one {unlike(value, limit)}"
        )


def _chain_before(unit: Unit, thread: ThreadRow) -> list[Any]:
    """Return the last chain of a thread that has none of its own (it is new, or all erased): one of those it shares."""
    for owner, _, stop in reversed(list(thread.spans(0, thread.next))):
        if owner != thread.id and (found := unit.rows(rows.LAST_CHAIN, thread=owner, stop=stop)):
            return found
    return []


def _ask_repeat(unit: Unit, thread: str, turn: NewTurn) -> Any:
    if turn.client_key is None or turn.more:
        return None
    return unit.ask(rows.TURN_OF_CLIENT, thread=thread, client_key=turn.client_key)


def _repeated(turns: Sequence[NewTurn], found: Sequence[Any], secret: bytes) -> Appended:
    if not all(found):
        raise Conflict("some of these turns were stored before, by their client keys, and some were not")
    for turn, (number, _, content) in zip(turns, found, strict=True):
        if content is None:
            raise Damaged(f"turn {number} has a client key, but not what tells its content; `everlog verify` says more")
        if _content(secret, turn, [encode(message, secret) for message in turn.messages]) != bytes(content):
            raise Conflict(f"client key {turn.client_key!r} was used before, in turn {number}, with other content")
    if any(later[0] != earlier[0] + 1 for earlier, later in pairwise(found)):
        raise Conflict("these turns were stored before, but not in a row")
    first = found[0][1]
    return Appended(first=first, stop=found[-1][1] + len(turns[-1].messages), turn=found[-1][0], repeated=True)


def _content(secret: bytes, turn: NewTurn, bodies: Sequence[Body]) -> bytes:
    """Return the keyed hash of what a turn says, by which a repeated client key is told from a misused one."""
    kinds = b" ".join(b"%d" % KIND_NUMBER[message.kind] for message in turn.messages)
    return digest(secret, b"turn", kinds, *(body.plain for body in bodies))
