"""Asking: who goes first, how many are out, and what a provider that is down is spared."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

import pytest

from everlog.memory.interface import Answer, Failure, Reply, Request, Step, Subject
from everlog.messages import Message
from everlog.pump.calls import Calls, Heard
from everlog.testing import FrozenClock

WAIT_S = 30


def step(name: str) -> Step:
    request = Request(source=(Message(kind="user", text=name),))
    return Step(subject=Subject(tenant="t", memory="m", key="k"), name=name, span=None, request=request, inputs=name)


class Model:
    """Waits, at each request, until it is let go on; told what to say of each."""

    model = "model"

    def __init__(self, said: Callable[[str], Reply | BaseException] | None = None) -> None:
        self.began: SimpleQueue[str] = SimpleQueue()
        self.order: list[str] = []
        self.go_on = threading.Semaphore(0)
        self._said = said or (lambda name: Answer(text=name, model="model"))

    def __call__(self, request: Request) -> Reply:
        name = request.source[0].text
        self.order.append(name)
        self.began.put(name)
        assert self.go_on.acquire(timeout=WAIT_S)
        said = self._said(name)
        if isinstance(said, BaseException):
            raise said
        return said


def heard(queue: "SimpleQueue[Heard]", number: int) -> dict[str, Any]:
    found = [queue.get(timeout=WAIT_S) for _ in range(number)]
    return {one.step.name: one.reply for one in found}


@contextmanager
def let_go(model: Model) -> Iterator[None]:
    """See to it that no thread is left waiting."""
    try:
        yield
    finally:
        model.go_on.release(100)


def test_what_is_live_is_asked_before_what_is_not_and_otherwise_in_order():
    model, queue = Model(), SimpleQueue[Heard]()
    calls = Calls(model, FrozenClock(), at_once=1)
    with let_go(model):
        for name, live in (
            ("first", False),
            ("import 1", False),
            ("import 2", False),
            ("live 1", True),
            ("live 2", True),
        ):
            calls.ask(step(name), queue, live=live)
        model.go_on.release(5)
        heard(queue, 5)
    assert model.order == ["first", "live 1", "live 2", "import 1", "import 2"]


def test_as_many_as_are_allowed_are_out_and_the_next_follows_when_one_is_back():
    model, queue = Model(), SimpleQueue[Heard]()
    calls = Calls(model, FrozenClock(), at_once=3)
    with let_go(model):
        for n in range(5):
            calls.ask(step(str(n)), queue, live=True)
        assert {model.began.get(timeout=WAIT_S) for _ in range(3)} == {"0", "1", "2"}
        assert model.began.empty()
        model.go_on.release()
        heard(queue, 1)
        assert model.began.get(timeout=WAIT_S) == "3"


def test_what_a_compactor_raises_is_heard_as_it_is():
    error = KeyboardInterrupt()
    model, queue = Model(lambda name: error), SimpleQueue[Heard]()
    calls = Calls(model, FrozenClock())
    with let_go(model):
        model.go_on.release()
        calls.ask(step("x"), queue, live=True)
        assert heard(queue, 1) == {"x": error}


def test_a_call_that_is_abandoned_gives_its_place_to_the_next_and_is_never_heard():
    model, queue = Model(), SimpleQueue[Heard]()
    calls = Calls(model, FrozenClock(), at_once=1)
    with let_go(model):
        stuck = calls.ask(step("stuck"), queue, live=True)
        waiting = calls.ask(step("waiting"), queue, live=True)
        assert model.began.get(timeout=WAIT_S) == "stuck"
        (place,) = calls.abandon([stuck])
        assert "threading.py:" in place
        assert model.began.get(timeout=WAIT_S) == "waiting"
        assert calls.abandon([stuck]) == []
        model.go_on.release(2)
        assert heard(queue, 1).keys() == {"waiting"}
        assert calls.withdraw([stuck, waiting]) == [stuck, waiting]
    assert queue.empty()


def test_what_has_not_begun_can_be_taken_back():
    model, queue = Model(), SimpleQueue[Heard]()
    calls = Calls(model, FrozenClock(), at_once=1)
    with let_go(model):
        asked = [calls.ask(step(str(n)), queue, live=True) for n in range(3)]
        assert model.began.get(timeout=WAIT_S) == "0"
        assert calls.withdraw(asked) == asked[:1]
        model.go_on.release()
        assert heard(queue, 1).keys() == {"0"}
    assert model.order == ["0"]


@pytest.mark.parametrize("says_when", [True, False])
def test_while_the_provider_is_down_nobody_is_sent_and_then_one_alone(says_when: bool):
    clock, down = FrozenClock(), True
    until = clock.now() + timedelta(seconds=90 if says_when else 10)

    def said(name: str) -> Reply:
        if not down:
            return Answer(text=name, model="model")
        return Failure(kind="unavailable", retry_at=until if says_when else None)

    model, queue = Model(said), SimpleQueue[Heard]()
    model.go_on.release()
    calls = Calls(model, clock)
    calls.ask(step("first"), queue, live=True)
    heard(queue, 1)
    assert model.began.get(timeout=WAIT_S) == "first"
    for n in range(5):
        calls.ask(step(str(n)), queue, live=True)
    assert set(heard(queue, 5).values()) == {Failure(kind="unavailable", retry_at=until)}
    assert model.order == ["first"]
    clock.set(until)
    down = False
    for n in range(5):
        calls.ask(step(f"later {n}"), queue, live=True)
    with let_go(model):
        assert model.began.get(timeout=WAIT_S) == "later 0"
        assert model.began.empty(), "the others wait for what becomes of it"
    assert all(isinstance(reply, Answer) for reply in heard(queue, 5).values())


def test_after_doubt_the_others_wait_for_what_becomes_of_the_first():
    model, queue = Model(lambda name: Failure(kind="unavailable")), SimpleQueue[Heard]()
    calls = Calls(model, FrozenClock())
    calls.doubt()
    with let_go(model):
        for n in range(6):
            calls.ask(step(str(n)), queue, live=True)
        assert model.began.get(timeout=WAIT_S) == "0"
        assert model.began.empty()
        model.go_on.release()
        assert len(heard(queue, 6)) == 6
    assert model.order == ["0"]
