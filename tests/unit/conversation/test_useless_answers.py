"""A compactor that answers, and never anything of use, or that refuses the key: what is paid for it, and what is said."""

import logging

import pytest

from everlog import Chat
from everlog.memory.interface import Answer as Line
from everlog.testing import EchoModel, EchoSummary, ScriptedModel
from everlog.testing.upstream import Answer, Refused, Upstream
from tests.unit.conversation.remembering import numbered

LONG = "number {n} " + "w" * 900
TURNS = 40


class Nonsense:
    """A model that says the same whatever it is asked, until it is mended."""

    def __init__(self, model, good):
        self.model = model
        self.asked = 0
        self.is_mended = False
        self._good = good

    def __call__(self, request):
        self.asked += 1
        return self._good(request) if self.is_mended else Line(text="", model=self.model)


def nonsense(past):
    return {
        "tree": lambda: Nonsense("echo@1", EchoModel()),
        "rolling": lambda: Nonsense("summary@1", EchoSummary()),
    }[past]()


def talked(made, turns=TURNS, *, again=False):
    for n in range(turns):
        assert made.turn(LONG.format(n=n)).text
        if again:
            made.again()


@pytest.mark.parametrize(
    ("remembering", "again"),
    [("sync", False), ("async", False), ("sync", True)],
    ids=["sync, one process", "async, one process", "attached anew for each turn"],
    indirect=["remembering"],
)
@pytest.mark.parametrize(("past", "tries"), [("tree", 5), ("rolling", 3)])
def test_answers_of_no_use_are_not_paid_for_in_every_turn(remembering, past, tries, again):
    model = nonsense(past)
    made = remembering(numbered, past=past, compactor=model)
    talked(made, again=again)
    most_at_once = 8
    assert tries <= model.asked <= tries * (2 + most_at_once) + 10
    before = model.asked
    talked(made, 2 * TURNS, again=again)
    assert model.asked <= before + 4


@pytest.mark.parametrize("past", ["tree", "rolling"])
def test_the_status_and_the_log_say_which_model_gives_nothing_of_use_and_how_often_in_a_row(remembering, past, caplog):
    model = nonsense(past)
    made = remembering(numbered, past=past, compactor=model)
    with caplog.at_level(logging.WARNING):
        talked(made)
    status = made.do("status")
    assert status.hindrance == (
        f"the answers of {model.model} cannot be used ({model.asked} in a row here); it is asked less often until one can"
    )
    assert status.bad_answers == model.asked
    assert not status.is_well
    said = [one for one in caplog.records if one.message == "the answers of a compactor cannot be used"]
    assert (said[-1].model, said[-1].in_a_row, said[-1].asked_less) == (model.model, model.asked, True)
    assert "number 3" not in caplog.text


@pytest.mark.parametrize("past", ["tree", "rolling"])
def test_a_model_that_is_mended_makes_up_for_all(remembering, past):
    model = nonsense(past)
    made = remembering(numbered, past=past, compactor=model)
    talked(made, 10)
    model.is_mended = True
    talked(made, 70)
    status = made.do("status")
    assert (status.hindrance, status.bad_answers, status.unbuilt, status.behind) == (None, 0, 0, 0)


def test_another_model_is_asked_at_once(remembering):
    made = remembering(numbered, compactor=nonsense("tree"))
    talked(made, 10)
    other = EchoModel("echo@2")
    made.again(compactor=other)
    made.turn(LONG.format(n=10))
    assert made.memory.tree.is_current
    assert made.do("status").hindrance is None


def test_one_line_among_good_ones_slows_nothing_down(remembering):
    echo = EchoModel()
    model = ScriptedModel(when=lambda request: "" if "number 3 " in request.source[0].text else None, model=echo.model)
    made = remembering(numbered, compactor=model)
    talked(made, 12)
    assert made.memory.tree.is_current
    assert made.do("status").hindrance is None


@pytest.mark.parametrize(("status", "said"), [(401, "was refused (401)"), (403, "may not do this (403)")])
def test_a_wrong_key_is_said_as_what_the_provider_refused(remembering, status, said, caplog):
    refused = Refused(status=status, message="number 0 is secret")
    with Upstream(lambda received: refused) as upstream:
        made = remembering(numbered)
        wire = {**made.wire, "config": made.wire["config"].__class__(base_urls={"openai": upstream.url}, environ={})}
        made.again(compactor=Chat("m-2", **wire))
        talked(made, 3)
        found = made.do("status")
    assert found.hindrance == f"the key of provider openai {said}"
    assert found.last_error == {401: "Unauthorized", 403: "Forbidden"}[status]
    events = [one for one in caplog.records if getattr(one, "said", None)]
    assert {(one.said, one.status, one.provider) for one in events} == {(found.hindrance, status, "openai")}
    assert "secret" not in caplog.text + str([vars(one) for one in events])
    assert "Mistake" not in str([vars(one) for one in events])


def test_the_answers_of_a_chat_that_talks_nonsense_are_bounded_too(remembering):
    with Upstream(lambda received: Answer(text="")) as upstream:
        made = remembering(numbered)
        wire = {**made.wire, "config": made.wire["config"].__class__(base_urls={"openai": upstream.url}, environ={})}
        made.again(compactor=Chat("m-2", **wire))
        talked(made, 30)
        assert made.do("status").hindrance.startswith("the answers of openai/m-2 cannot be used")
        assert len(upstream.requests) <= 60
