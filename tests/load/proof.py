"""What must hold of the log afterwards, whatever happened: proved from its rows and from what the clients know.

Each answer that a client got whole is there once, each dialogue is one thread from its beginning to its end, no thread
holds words of another dialogue, nothing is there that nobody said, and what broke off is marked so.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from everlog import log
from everlog.log import ThreadRow, TurnState, rows
from everlog.messages import Entry
from everlog.store import Store, Unit, open_store
from tests.load.clients import Dialogue, Said, answer_said
from tests.load.tries import MARK, Try

TENANT = "default"
HOLD_S = 0.25
"""How long the proxy lets the end of an answer wait until it is kept; what came sooner was kept before."""

ANSWERS = frozenset({"assistant", "tool_call"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An entry, where it is stored, and the state of its turn."""

    said: Said
    """Its kind and mark; the mark is empty if there is none."""
    text: str
    state: TurnState
    is_last: bool
    """Whether its turn ends with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread as it is read, from its first entry on."""

    key: str
    rows: tuple[Row, ...]
    shared: int
    """How many of them, from the first, are stored under the thread that it is a fork of."""

    @property
    def said(self) -> list[Said]:
        """Its messages."""
        return [row.said for row in self.rows]

    @property
    def own(self) -> tuple[Row, ...]:
        """What is stored under it."""
        return self.rows[self.shared :]


def read(path: Path) -> tuple[list[Thread], list[str]]:
    """Return all threads of a database, and what `verify` finds wrong in it."""
    with open_store(path) as store:
        faults = [fault.what for fault in log.around(store, TENANT)]
        for thread in store.read(TENANT, log.ids):
            faults += [fault.what for part in log.verify(store, TENANT, thread) for fault in part.faults]
        return list(_threads(store)), faults


def _threads(store: Store) -> Iterator[Thread]:
    after = ""
    while some := store.read(TENANT, partial(log.listed, after=after)):
        for thread in some:
            yield store.read(TENANT, partial(_thread, thread=thread))
        after = some[-1].id


def _thread(unit: Unit, thread: ThreadRow) -> Thread:
    entries = log.read(unit, thread)
    states: dict[tuple[str, int], TurnState] = {}
    for owner, _ in thread.segments:
        for row in unit.rows(rows.TURNS, thread=owner, start=0, stop=thread.turns):
            states[owner, row[2]] = TurnState(row[4])
    turns = [one.turn for one in entries]
    found = tuple(
        Row(
            said=(one.kind, _mark(one)),
            text=one.text,
            state=states[thread.owner(one.i), one.turn],
            is_last=one.turn not in turns[n + 1 : n + 2],
        )
        for n, one in enumerate(entries)
    )
    shared = thread.segments[-2][1] if len(thread.segments) > 1 else 0
    return Thread(key=thread.key or "", rows=found, shared=shared)


def _mark(entry: Entry) -> str:
    call = entry.message.call
    found = MARK.search(entry.text if call is None else call.call_id)
    return found[0] if found is not None else ""


def missing(threads: Sequence[Thread], tries: Sequence[Try], life: int) -> list[Try]:
    """Return the answers that were acknowledged before the proxy was killed for that time, and are not there."""
    there = {row.said for thread in threads for row in thread.own}
    return [
        one
        for one in tries
        if one.outcome == "acknowledged" and one.life < life and not there.issuperset(answer_said(one))
    ]


def was_kept_first(one: Try) -> bool:
    """Whether an answer must have been kept before its client had it whole; the proxy waits for that, but not longer."""
    return one.held_s < HOLD_S and not one.degraded


def faults_of(threads: Sequence[Thread], dialogues: Sequence[Dialogue], excused: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with a log in which all should be that is acknowledged; `excused` are marks of lost answers."""
    tries = {one.mark: one for dialogue in dialogues for one in dialogue.tries}
    stored = Counter(row.said for thread in threads for row in thread.own)
    for one in tries.values():
        yield from _of_answer(one, stored, excused)
    yield from _of_messages(dialogues, stored)
    for thread in threads:
        yield from _of_thread(thread, tries)
    by_dialogue: dict[str, list[Thread]] = {}
    for thread in threads:
        by_dialogue.setdefault(_dialogue(thread.said[0][1]) if thread.rows else "", []).append(thread)
    for dialogue in dialogues:
        is_excused = any(one.mark in excused for one in dialogue.tries)
        if not is_excused and not _is_one_thread(dialogue, by_dialogue.get(dialogue.name, [])):
            yield f"{dialogue.name} is no thread from beginning to end"


def _of_answer(one: Try, stored: Mapping[Said, int], excused: frozenset[str]) -> Iterator[str]:
    is_acknowledged = one.outcome == "acknowledged"
    for said in answer_said(one):
        times = stored.get(said, 0)
        if times > 1:
            yield f"{one.mark} is there {times} times"
        if is_acknowledged and not times and one.mark not in excused:
            yield f"{one.mark} was acknowledged and is missing"
        if one.outcome in {"refused", "502", "504"} and times:
            yield f"{one.mark} was refused and is there"


def _of_messages(dialogues: Sequence[Dialogue], stored: Mapping[Said, int]) -> Iterator[str]:
    """A message is there once, and once more, at most, for each time that it was asked and not answered to the end."""
    for dialogue in dialogues:
        marks = Counter(one.mark.rpartition("-")[0] for one in dialogue.tries)
        for kind, mark in dialogue.transcript:
            if kind not in ANSWERS and not 1 <= stored.get((kind, mark), 0) <= marks[mark]:
                yield f"{mark} is there {stored.get((kind, mark), 0)} times, asked {marks[mark]} times"


def _of_thread(thread: Thread, tries: Mapping[str, Try]) -> Iterator[str]:
    names = {_dialogue(mark) for _, mark in thread.said}
    if len(names) != 1 or "" in names:
        yield f"{thread.key} holds words of {sorted(names)}"
    doubled = [said for said, times in Counter(thread.said).items() if times > 1]
    if doubled:
        yield f"{thread.key} holds {doubled} more than once"
    for row in thread.own:
        if row.said[0] in ANSWERS:
            yield from _of_row(thread, row, tries)


def _of_row(thread: Thread, row: Row, tries: Mapping[str, Try]) -> Iterator[str]:
    one = tries.get(row.said[1])
    if one is None:
        yield f"{thread.key} holds an answer that nobody gave"
        return
    is_whole = row.said[0] == "tool_call" or row.text == one.answer.text
    if not is_whole and not one.answer.text.startswith(row.text):
        yield f"{one.mark} has other words"
    if not is_whole and one.outcome == "acknowledged":
        yield f"{one.mark} is there in part"
    if not is_whole and row.state is not TurnState.PARTIAL:
        yield f"{one.mark} broke off, and its turn is {row.state.name}"
    wanted = TurnState.OPEN if row.said[0] == "tool_call" else TurnState.COMPLETE
    if one.outcome == "acknowledged" and row.is_last and row.state is not wanted:
        yield f"{one.mark} was acknowledged, and its turn is {row.state.name}"


def _is_one_thread(dialogue: Dialogue, threads: Sequence[Thread]) -> bool:
    """Whether a thread begins with all that the client knows, and goes on with what it was not answered to the end."""
    known = dialogue.transcript
    spoken = {one.mark for one in dialogue.answered}
    return not known or any(
        thread.said[: len(known)] == known and not spoken.intersection(mark for _, mark in thread.said[len(known) :])
        for thread in threads
    )


def _dialogue(mark: str) -> str:
    return "-".join(mark.split("-")[:2])
