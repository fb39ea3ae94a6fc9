"""The short form of the load test, and that the proof finds each kind of fault; `python -m tests.load` is the long form."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from everlog import log
from everlog.log import NewTurn, TurnState
from everlog.messages import Call, Message
from everlog.store import Store, open_store
from tests.load.__main__ import table
from tests.load.clients import Dialogue, answer_said
from tests.load.proof import faults_of, missing, read, was_kept_first
from tests.load.run import run
from tests.load.tries import Try, make

SECONDS = 40
CLIENTS = 24
KILLS = 2


@pytest.mark.timeout(300)
def test_under_load_and_after_kills_each_answer_that_a_client_got_is_in_the_log_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    outcome = asyncio.run(run(tmp_path, seconds=SECONDS, clients=CLIENTS, kills=KILLS, seed=1, say=print))
    assert outcome.faults == [], "\n".join(table(outcome))
    seen = {one.outcome for one in outcome.tries}
    assert {"acknowledged", "refused", "broke off", "left", "502", "broken"} <= seen
    assert {one.protocol for one in outcome.tries if one.outcome == "acknowledged"} == {
        "anthropic",
        "chat_completions",
        "responses",
    }
    assert len({sample.life for sample in outcome.samples}) == KILLS + 1


def answered(mark: str, *, calls: bool = False, outcome: str = "acknowledged", life: int = 0) -> Try:
    one = make(mark, "chat_completions", Random(4), 1, calls=calls, fate="whole")
    one.outcome, one.life, one.ending_at, one.acknowledged_at = outcome, life, 10.0, 10.1
    return one


def talk(name: str) -> Dialogue:
    """A dialogue in which an answer broke off and was asked for again."""
    called, broken, last = (
        answered(f"{name}-m0-t0", calls=True),
        answered(f"{name}-m1-t0", outcome="broke off"),
        answered(f"{name}-m1-t1"),
    )
    transcript = [("user", f"{name}-m0"), *answer_said(called), ("tool_result", f"{name}-m1"), *answer_said(last)]
    tries = [called, broken, last]
    return Dialogue(name=name, protocol="chat_completions", headers={}, tries=tries, transcript=transcript)


def messages(dialogue: Dialogue) -> list[Message]:
    answers = {one.mark: one.answer for one in dialogue.tries}
    found = []
    for kind, mark in dialogue.transcript:
        text = answers[mark].text if kind == "assistant" else f"{mark} words"
        call = Call(call_id=f"call_{mark}", name="read", arguments="{}")
        found.append(Message(kind=kind, text=text, parts=(call,) if kind == "tool_call" else ()))  # type: ignore[arg-type]
    return found


def turn(said: list[Message], state: TurnState = TurnState.COMPLETE) -> NewTurn:
    return NewTurn(messages=tuple(said), state=state)


def half(dialogue: Dialogue, state: TurnState) -> NewTurn:
    """What came of the answer that broke off, in the turn that is open."""
    text = dialogue.tries[1].answer.text[:12]
    return NewTurn(messages=(Message(kind="assistant", text=text),), state=state, more=True)


def keep(store: Store, key: str, *turns: NewTurn) -> None:
    store.write("default", lambda unit: log.append(unit, log.ensure(unit, key), turns), name="test")


def test_a_log_in_which_all_is_as_it_should_be_has_no_fault(tmp_path: Path):
    """What broke off is in a thread, and what was said instead in a fork of it."""
    dialogues = talk("c00-d0"), talk("c01-d0")
    with open_store(tmp_path / "everlog.db") as store:
        for dialogue in dialogues:
            *said, last = messages(dialogue)
            keep(store, dialogue.name, turn(said, TurnState.OPEN), half(dialogue, TurnState.PARTIAL))
            thread = store.read("default", partial(log.find, key=dialogue.name))
            fork = partial(log.fork, parent=thread.id, at=len(said), key=f"{dialogue.name}~1")
            store.write("default", fork, name="test")
            keep(store, f"{dialogue.name}~1", turn([last]))
    assert proved(tmp_path, *dialogues) == []


Threads = dict[str, list[NewTurn]]

FAULTS: dict[str, tuple[Callable[[Dialogue, Dialogue], Threads], str]] = {
    "a missing answer": (lambda one, _: {"x": [turn(messages(one)[:-1])]}, "is missing"),
    "an answer that is there twice": (
        lambda one, _: {"x": [turn(messages(one))], "y": [turn(messages(one))]},
        "is there 2 times",
    ),
    "words of another": (lambda one, two: {"x": [turn(messages(one)), turn(messages(two))]}, "holds words of"),
    "a message that is there twice": (
        lambda one, _: {"x": [turn(messages(one)), turn(messages(one)[:1])]},
        "more than once",
    ),
    "an answer that nobody gave": (
        lambda one, _: {"x": [turn([*messages(one), Message(kind="assistant", text="c00-d0-m7-t0")])]},
        "nobody gave",
    ),
    "an answer in part that is not marked": (
        lambda one, _: {"x": [turn(messages(one)[:-1], TurnState.OPEN), half(one, TurnState.COMPLETE)]},
        "broke off, and its turn is COMPLETE",
    ),
    "a whole answer that is marked as one in part": (
        lambda one, _: {"x": [turn(messages(one), TurnState.PARTIAL)]},
        "was acknowledged, and its turn is PARTIAL",
    ),
    "a dialogue in pieces": (
        lambda one, _: {"x": [turn(messages(one)[:3])], "y": [turn(messages(one)[3:])]},
        "is no thread from beginning to end",
    ),
}


def proved(home: Path, *dialogues: Dialogue) -> list[str]:
    threads, broken = read(home / "everlog.db")
    return [*broken, *faults_of(threads, dialogues, frozenset())]


@pytest.mark.parametrize("name", FAULTS)
def test_the_proof_finds(tmp_path: Path, name: str):
    dialogues = talk("c00-d0"), talk("c01-d0")
    act, words = FAULTS[name]
    with open_store(tmp_path / "everlog.db") as store:
        for key, turns in act(*dialogues).items():
            keep(store, key, *turns)
    assert [fault for fault in proved(tmp_path, *dialogues) if words in fault]


def test_an_answer_that_is_missing_after_a_kill_is_found_and_one_that_came_late_or_degraded_was_not_promised():
    sure, later, own = (
        answered("c00-d0-m0-t0"),
        answered("c00-d0-m1-t0", life=1),
        answered("c00-d0-m2-t0", outcome="left"),
    )
    assert missing([], [sure, later, own], 1) == [sure]
    assert missing([], [sure, later, own], 2) == [sure, later]
    assert was_kept_first(sure)
    assert not was_kept_first(replace(sure, acknowledged_at=10.3))
    assert not was_kept_first(replace(sure, degraded=True))
