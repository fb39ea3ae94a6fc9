"""Answers that are of no use, on every store: how often they are paid for, and what the row of the subject says."""

import threading

from everlog.memory.interface import Answer, Reply, Request
from everlog.pump import Options, Worker
from everlog.store import Store
from everlog.testing import Bad, EchoModel, ScriptedModel
from tests.conformance.pumping import due, filled, pumped, tree

SPARING = Options(sparing=True)
TRIES = 5


class Nonsense:
    """A model that says nothing, until it is mended."""

    model = "echo@1"

    def __init__(self) -> None:
        self.asked = 0
        self.is_mended = False

    def __call__(self, request: Request) -> Reply:
        self.asked += 1
        return EchoModel(self.model)(request) if self.is_mended else Answer(text="", model=self.model)


def long(n: int) -> str:
    return f"message {n} " + "word " * 150


def test_a_run_that_nobody_asked_for_ends_after_three_steps_that_were_paid_in_vain(store: Store):
    thread = filled(store, [long(n) for n in range(20)])
    model = Nonsense()
    ran = pumped(store, thread, model, options=SPARING)
    assert (ran.done, ran.reason, ran.bad) == (False, "unusable", model.asked)
    assert 3 * TRIES <= model.asked <= 8 * TRIES
    row = due(store, thread)
    assert row["failures"] >= 3
    assert row["error_code"].startswith("unusable ")


def test_after_that_one_request_goes_in_the_first_second_fourth_eighth_run_until_one_is_answered(store: Store):
    thread = filled(store, [long(n) for n in range(20)])
    model = Nonsense()
    pumped(store, thread, model, options=SPARING)
    asked = []
    for _ in range(140):
        before = model.asked
        pumped(store, thread, model, options=SPARING)
        asked.append(model.asked - before)
    assert max(asked) == 1
    assert 5 <= sum(asked) <= 9
    assert sum(asked[-70:]) >= 1, "a model that is mended is found out"
    model.is_mended = True
    runs = 0
    while not pumped(store, thread, model, options=SPARING).done:
        runs += 1
        assert runs < 64
    assert (due(store, thread)["failures"], due(store, thread)["error_code"]) == (0, None)


def test_a_run_that_was_asked_for_asks_about_all(store: Store):
    thread = filled(store, [long(n) for n in range(6)])
    model = Nonsense()
    pumped(store, thread, model, options=SPARING)
    assert pumped(store, thread, model).done
    model.is_mended = True
    filled(store, [long(9)], thread=thread)
    assert pumped(store, thread, model).done


def test_one_wasted_step_a_run_adds_up_and_what_needs_no_model_is_still_built(store: Store):
    thread = filled(store, ["hi"])
    model = Nonsense()
    asked = []
    for n in range(8):
        before = model.asked
        filled(store, [long(n)], thread=thread)
        pumped(store, thread, model, options=SPARING)
        asked.append(model.asked - before)
    assert asked[0] == TRIES
    assert max(asked[4:]) <= 1
    other = filled(store, ["a short one"])
    assert pumped(store, other, model, options=SPARING).done


def test_a_refused_message_is_no_sign_of_a_useless_model(store: Store):
    thread = filled(store, [long(n) for n in range(6)])
    assert pumped(store, thread, ScriptedModel(when=lambda request: Bad.REFUSED), options=SPARING).done
    assert due(store, thread)["failures"] == 0


def test_lines_that_are_too_long_are_of_use(store: Store):
    thread = filled(store, [long(n) for n in range(6)])
    assert pumped(store, thread, ScriptedModel(when=lambda request: Bad.TOO_LONG), options=SPARING).done


def test_a_worker_that_found_a_model_of_no_use_does_not_pay_for_each_of_its_subjects(store: Store):
    for n in range(30):
        filled(store, [long(n)])
    model = Nonsense()
    Worker(store, [tree(model)], model, poll_s=0.01, places=1).work(threading.Event(), until_idle=True)
    assert model.asked <= 3 * TRIES + 8
