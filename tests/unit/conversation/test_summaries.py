"""A conversation with a rolling summary: what its prompts show, and what is said where the summary is behind."""

import pytest

from everlog.conversation.summaries import settings_for, settings_in_use
from everlog.memory.interface import Failure, Subject
from everlog.testing import EchoSummary
from everlog.testing.upstream import Answer
from tests.unit.conversation.remembering import numbered
from tests.unit.conversation.test_turns import prompts

NOTE = "of this conversation are not shown]"


class OffAndOn:
    """A model for summaries that is down at times."""

    def __init__(self):
        self.model = "summary@1"
        self.is_down = False
        self.asked = 0

    def __call__(self, request):
        self.asked += 1
        return Failure(kind="unavailable") if self.is_down else EchoSummary()(request)


def lengthy(received):
    return Answer(text="b " * 1_000)


@pytest.mark.parametrize("size", [10, 500, 3_000, 30_000])
def test_large_messages_are_summarised_before_they_fall_out_of_the_prompt(remembering, size):
    made = remembering(lengthy, past="rolling", budget=12_000, compactor=EchoSummary())
    for n in range(16):
        made.turn(f"number {n} " + "w" * size)
        assert made.do("status").hidden == 0
        assert NOTE not in str(prompts(made)[-1])
    assert made.do("status").epoch >= 2
    assert made.do("status").is_well


def test_trouble_of_a_compactor_names_it_in_the_log(remembering, caplog):
    model = OffAndOn()
    made = remembering(lengthy, past="rolling", budget=6_000, compactor=model)
    model.is_down = True
    for n in range(8):
        made.turn(f"number {n} " + "w" * 1_000)
    assert f"goes on without its memory: derive ({model.model}: unavailable)" in caplog.text
    assert "number 7" not in caplog.text


def test_while_the_summary_is_behind_the_prompt_and_the_status_say_so_and_the_next_turn_after_that_it_is_not(
    remembering,
):
    model = OffAndOn()
    made = remembering(lengthy, past="rolling", budget=6_000, compactor=model)
    model.is_down = True
    for n in range(8):
        made.turn(f"number {n} " + "w" * 1_000)
    status = made.do("status")
    assert status.behind == status.hidden > 0
    assert f"[messages 0 to {status.behind - 1} {NOTE}" in str(prompts(made)[-1])
    assert not status.is_well
    model.is_down = False
    made.turn("and now?")
    made.turn("and now?")
    assert made.do("status").behind == 0
    assert NOTE not in str(prompts(made)[-1])


def test_where_no_summary_is_to_be_it_cannot_be_behind(remembering):
    made = remembering(lengthy, past="none", budget=4_000)
    for n in range(6):
        made.turn(f"number {n} " + "w" * 1_000)
    assert made.do("status").hidden > 0
    assert made.do("status").behind == 0


@pytest.mark.parametrize("budget", [{"budget": 6_000}, {"budget": None, "tokens": 1_500}])
def test_a_worker_summarises_for_the_prompts_that_were_last_made(remembering, budget):
    made = remembering(numbered, past="rolling", pump="worker", compactor=EchoSummary(), **budget)
    made.turn("one")
    store, name = made.home.store, made.home.name
    subject = Subject(tenant=name, memory="rolling", key=made.memory.thread.id)
    found = store.read(name, lambda unit: settings_in_use(unit, subject))
    assert found == settings_for(1_500, 6_000)
    assert found.room_bytes == 1_500


def test_a_summary_without_a_model_is_inactive_and_the_status_says_so(remembering):
    made = remembering(lengthy, past="rolling", budget=6_000)
    for status in (made.do("status"), made.turn("one") and made.do("status")):
        assert status.hindrance == "past='rolling' needs a model as its compactor; until then older words are left out"
        assert not status.is_well
    assert made.turn("two").text


@pytest.mark.parametrize(("past", "count"), [("tree", 1), ("rolling", 0), ("none", 0)])
def test_a_thread_whose_prompts_show_no_lines_has_none_to_build(remembering, past, count):
    made = remembering(lengthy, past=past, pump="none")
    made.turn("one " * 200)
    assert made.home.due() == count
