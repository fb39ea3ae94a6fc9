"""The tally as the pump sees it."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Literal, Self

from everlog import log
from everlog.clock import moment
from everlog.errors import Erased
from everlog.log import ThreadRow
from everlog.memory.interface import (
    Accept,
    Again,
    Answer,
    Failure,
    Mark,
    Plan,
    Reject,
    Reply,
    Request,
    Span,
    Stale,
    Step,
    Subject,
    Try,
    Verdict,
)
from everlog.messages import Entry
from everlog.pump.due import mark
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.testing.tally import rows
from everlog.tokens import size_bytes, text_of, utf8

LINE_BYTES = 512
TRIES = 2
TURNS = 8
"""Turns that one snapshot takes in."""
ENTRIES = 200
"""Entries of a turn that count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned from one turn."""

    thread: str
    first: int
    """The turn's first entry."""
    outcome: Literal["learned", "nothing"]
    model: str | None
    inputs: str
    counts: tuple[tuple[str, int], ...]
    """Who said how many messages."""
    line: str
    """What the model said of it."""
    generation: int = field(default=0, compare=False)
    """The thread's, when the turn was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn that nothing was learned from yet."""

    thread: str
    number: int
    first: int
    at: datetime
    generation: int
    inputs: str
    entries: tuple[Entry, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """Name of its step."""
        return f"turn {self.thread} {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """A snapshot: the next few turns of one user."""

    subject: Subject
    turns: tuple[Turn, ...]
    waiting: int
    """How many there are in all."""

    def after(self, verdicts: Sequence[Verdict]) -> Self:
        """Return the snapshot without the turns that were learned from."""
        done = {(row.thread, row.first) for one in verdicts if isinstance(one, Accept) for row in one.rows}
        left = tuple(turn for turn in self.turns if (turn.thread, turn.first) not in done)
        return replace(self, turns=left, waiting=self.waiting - (len(self.turns) - len(left)))


class TallyMemory:
    """Who said how much, per user."""

    name = "tally"

    def __init__(
        self,
        model: str,
        *,
        quiet: timedelta = timedelta(0),
        max_wait: timedelta = timedelta(minutes=10),
        enough: int = 20,
    ) -> None:
        """Learn with a model.

        Args:
            model: what answers.
            quiet: how long after a user's last turn to wait for another one, …
            max_wait: … but not longer than this after the first.
            enough: so many turns are not waited with.
        """
        self.model = model
        self._quiet = quiet
        self._max_wait = max_wait
        self._enough = enough

    def mark(self, unit: Unit, user: str) -> None:
        """Note, in the unit that completes a turn of a user, that there is something to learn."""
        waiting, first = unit.rows(rows.WAITING, of_user=user)[0]
        due_at = unit.now + self._quiet
        if waiting:
            due_at = unit.now if waiting >= self._enough else min(due_at, moment(first) + self._max_wait)
        mark(unit, Mark(subject=Subject(tenant=unit.tenant, memory=self.name, key=user), due_at=due_at, upto=waiting))

    def read(self, unit: Unit, subject: Subject) -> Turns:
        """Take in the oldest turns of the user."""
        found = unit.rows(rows.PENDING, of_user=subject.key, limit=TURNS)
        waiting = unit.rows(rows.WAITING, of_user=subject.key)[0][0] if len(found) == TURNS else len(found)
        secret = unit.secret()
        threads = {thread: log.load(unit, thread) for thread, *_ in found}
        turns = []
        for thread, number, first, at, generation in found:
            entries = _entries(unit, threads[thread], first, number)
            said = [utf8(f"{entry.i}\0{_speaker(entry)}\0{entry.text}") for entry in entries]
            inputs = digest(secret, b"tally", utf8(self.model), *said).hex()
            turns.append(
                Turn(
                    thread=thread,
                    number=number,
                    first=first,
                    at=moment(at),
                    generation=generation,
                    inputs=inputs,
                    entries=entries,
                )
            )
        return Turns(subject=subject, turns=tuple(turns), waiting=waiting)

    def plan(self, state: Turns, now: datetime, room: int) -> Plan:
        """Return a step for each turn, once the user has been quiet, or waited long, or there are enough."""
        if not state.turns:
            return Plan(steps=(), remaining=0)
        due = min(state.turns[-1].at + self._quiet, state.turns[0].at + self._max_wait)
        if state.waiting < self._enough and now < due:
            return Plan(steps=(), next_due=due, remaining=state.waiting)
        return Plan(steps=tuple(_step(state, turn) for turn in state.turns[:room]), remaining=state.waiting)

    def judge(self, state: Turns, step: Step, reply: Reply | None) -> Verdict:
        """Take a line that fits; after two that do not, that there is nothing."""
        turn = next((turn for turn in state.turns if turn.name == step.name), None)
        if turn is None or turn.inputs != step.inputs:
            return Stale()
        if isinstance(reply, Failure) and reply.kind == "unavailable":
            return Reject(reason="unavailable", retry_at=reply.retry_at)
        if isinstance(reply, Answer) and reply.finish == "stop" and 0 < size_bytes(reply.text) <= LINE_BYTES:
            return Accept(rows=(_learned(turn, reply.text, reply.model),), outcome="learned")
        said = reply.text if isinstance(reply, Answer) else ""
        attempt = Try(text=said, size_bytes=size_bytes(said), reason="it cannot be used")
        tries = (*step.tries, attempt)
        if len(tries) < TRIES:
            return Again(step=replace(step, tries=tries))
        return Accept(rows=(_learned(turn, "", None),), outcome="nothing")

    def write(self, unit: Unit, subject: Subject, verdicts: Sequence[Accept | Again]) -> None:
        """Keep what was learned; a turn that was learned from before stays as it is."""
        learned: list[Learned] = [row for verdict in verdicts for row in verdict.rows]
        for thread in sorted({one.thread for one in learned}):
            now = log.load(unit, thread).generation
            if any(one.generation != now for one in learned if one.thread == thread):
                raise Erased("something was erased while it was learned from; it was dropped")
        unit.run(rows.PUT, [_row(unit, subject.key, one) for one in learned])

    def learned(self, unit: Unit, user: str) -> list[Learned]:
        """Return what was learned of a user's turns."""
        found = []
        for thread, first, outcome, model, inputs, body in unit.rows(rows.OF_USER, of_user=user):
            said = json.loads(text_of(unit.open(rows.tally.c.body, (thread, first), body)))
            counts = tuple(sorted(said["counts"].items()))
            found.append(
                Learned(
                    thread=thread,
                    first=first,
                    outcome=outcome,
                    model=model,
                    inputs=bytes(inputs).hex(),
                    counts=counts,
                    line=said["line"],
                )
            )
        return found

    def counts(self, unit: Unit, user: str) -> dict[str, int]:
        """Return how many messages everybody said in the turns of a user."""
        total: Counter[str] = Counter()
        for one in self.learned(unit, user):
            total.update(dict(one.counts))
        return dict(total)

    def drop(self, unit: Unit, user: str) -> int:
        """Drop what was learned of a user, so that it is learned again; return how many turns that is."""
        dropped = unit.count(rows.DROP, of_user=user)
        self.mark(unit, user)
        return dropped


def _entries(unit: Unit, thread: ThreadRow, first: int, number: int) -> tuple[Entry, ...]:
    found = log.read(unit, thread, first, first + ENTRIES)
    return tuple(takewhile(lambda entry: entry.turn == number, found))


def _speaker(entry: Entry) -> str:
    return entry.author or entry.kind


def _step(state: Turns, turn: Turn) -> Step:
    source = tuple(entry.message for entry in turn.entries)
    return Step(
        subject=state.subject,
        name=turn.name,
        span=Span(thread=turn.thread, start=turn.first, stop=turn.first + len(turn.entries)),
        request=Request(source=source, messages=source, limit_bytes=LINE_BYTES),
        inputs=turn.inputs,
    )


def _learned(turn: Turn, line: str, model: str | None) -> Learned:
    return Learned(
        thread=turn.thread,
        first=turn.first,
        outcome="learned" if line else "nothing",
        model=model,
        inputs=turn.inputs,
        counts=tuple(sorted(Counter(map(_speaker, turn.entries)).items())),
        line=line,
        generation=turn.generation,
    )


def _row(unit: Unit, user: str, one: Learned) -> dict[str, object]:
    body = utf8(json.dumps({"counts": dict(one.counts), "line": one.line}))
    return {
        "thread": one.thread,
        "first": one.first,
        "user": user,
        "outcome": one.outcome,
        "model": one.model,
        "inputs": bytes.fromhex(one.inputs),
        "body": unit.seal(rows.tally.c.body, (one.thread, one.first), body),
    }
