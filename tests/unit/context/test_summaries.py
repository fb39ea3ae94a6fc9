"""Prompts whose past is a summary, or nothing: what stands for what, and what is said of the rest."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog import log
from everlog.context import Context
from everlog.context.codec import weigh_message
from everlog.context.keepers import Folded, Seen, keeper
from everlog.context.opening import Room
from everlog.context.rounds import rounds
from everlog.conversation.summaries import settings_for
from everlog.memory import rolling
from everlog.memory.rolling import Rolling, Settings, Summary
from everlog.pump import run
from everlog.store import Unit
from everlog.testing import EchoSummary, ScriptedModel
from tests.unit.context.talking import TENANT, Talk, words

NOTE = "of this conversation are not shown]"


def summarised(talk: Talk, some: Settings) -> None:
    model = EchoSummary()
    run(talk.memory.store, TENANT, talk.thread.id, Rolling.of(model, settings=some), model)


@pytest.mark.covers("B11", "B12")
def test_a_summary_stands_before_the_words_as_a_pair_and_stays_until_the_epoch_turns():
    some = Settings(threshold_tokens=1_000, min_recent=4, cap_chars=1_000)
    talk = Talk(consumer={"mode": "rolling"}, options={"recent": 4})
    made = None
    for n in range(30):
        made = talk.turn(f"question {n} " + "q" * 200, "a" * 200)
        assert made.memory_bytes <= talk.budget
        summarised(talk, some)
    assert made is not None
    shown = made.said[1]
    assert shown.messages[0].text.startswith("[Context Summary — compressed history of this conversation]")
    assert made.said[2].messages[0].text == "[Context loaded]"
    assert NOTE not in words(made)
    kept = [entry for entry in talk.thread.entries() if entry.i >= made.epoch.cut]
    assert len(kept) >= 4


@pytest.mark.covers("B31", "B43")
def test_without_a_summary_the_words_pass_as_they_are_and_what_does_not_fit_is_named():
    talk = Talk(consumer={"mode": "rolling"})
    first = talk.turn("hello", "hi")
    assert NOTE not in words(first)
    made = talk.until("full")
    assert made.memory_bytes <= talk.budget
    assert f"[messages 0 to {made.epoch.cut - 1} {NOTE}" in words(made)
    assert made.hidden == made.epoch.cut


def test_a_summary_that_comes_late_is_shown_from_the_next_turn_on():
    talk = Talk(consumer={"mode": "rolling"})
    talk.until("full")
    summarised(talk, Settings(threshold_tokens=400, min_recent=2))
    assert talk.turn("now?", "yes").turned == "landed"


def test_a_summary_that_is_gone_opens_an_epoch():
    some = Settings(threshold_tokens=1_000, min_recent=4, cap_chars=1_000)
    talk = Talk(consumer={"mode": "rolling"}, options={"recent": 4})
    for n in range(30):
        talk.turn(f"question {n} " + "q" * 200, "a" * 200)
        summarised(talk, some)
    thread = talk.thread.id
    talk.memory.store.write(TENANT, partial(rolling.drop, thread=thread), name="test.drop")
    assert talk.turn("on", "yes").turned == "rebuilt"


def test_with_no_memory_the_newest_words_are_all():
    talk = Talk(consumer={"mode": "none"})
    made = talk.until("full")
    assert made.shown is None
    assert NOTE in words(made)
    assert [item.kind for item in made.items].count("left out") == 1
    count = talk.memory.store.read(TENANT, lambda unit: log.load(unit, talk.thread.id).next)
    assert 0 < made.epoch.cut < count


def test_a_summary_that_is_larger_than_the_budget_is_not_shown_and_an_older_one_that_fits_is():
    talk = Talk(budget=1_200, consumer={"mode": "rolling"})
    kinds = set()
    for n in range(40):
        made = talk.turn(f"question {n} " + "q" * 200, "a" * 100)
        assert made.memory_bytes <= 1_200
        kinds |= {item.kind for item in made.items}
        summarised(talk, Settings(threshold_tokens=100, min_recent=2))
    newest = talk.memory.store.read(TENANT, lambda unit: rolling.latest(unit, log.load(unit, talk.thread.id), 1 << 20))
    assert newest is not None
    assert len(rolling.injection(newest)[0]) > 1_200
    assert {"summary", "left out"} <= kinds


def test_where_no_summary_ends_before_the_tail_one_that_ends_in_it_is_shown_rather_than_a_hole():
    talk = Talk(consumer={"mode": "rolling"})
    for n in range(8):
        talk.turn(f"question {n} " + "q" * 300, "a" * 300)
    summarised(talk, Settings(threshold_tokens=1_000, min_recent=4, cap_chars=500))

    def folded(unit: Unit) -> tuple[Folded, Seen | None, Summary | None]:
        row = log.load(unit, talk.thread.id)
        cut_into = rounds(log.read(unit, row), lambda entry: weigh_message(entry.message))
        tail = sum(one.size for one in cut_into if one.start >= 2)
        kept = keeper("rolling", unit, row)
        made = kept.fold("", Room(cut=2, tail=tail, budget=tail + 400, target=0, cap=0), cut_into)
        return made, kept.show(made.past), rolling.latest(unit, row)

    with talk.memory as home:
        made, seen, newest = home.store.read(TENANT, folded)
    assert newest is not None
    assert seen is not None
    assert made.cut == newest.upto > 2
    assert seen.hidden == 0
    assert seen.text == rolling.injection(newest)[0]


SIZES = (0, 1, 20, 300, 2_000, 5_000, 20_000)


@st.composite
def said(draw: st.DrawFn) -> list[tuple[str, list[str], str]]:
    """Turns: what the user says, what tools that are called at once bring, and the reply, of any size and script."""
    text = st.builds(str.__mul__, st.sampled_from("qé語😀"), st.sampled_from(SIZES))
    turn = st.tuples(text, st.lists(text, max_size=3), text)
    some = draw(st.lists(turn, min_size=1, max_size=6))
    return [draw(st.sampled_from(some)) for _ in range(draw(st.integers(5, 30)))]


@given(said(), st.integers(4_000, 40_000))
@settings(max_examples=settings().max_examples * 2 // 5, deadline=None)
def test_whatever_is_said_the_summary_stands_for_all_that_the_next_prompt_does_not_show(turns, budget):
    talk = Talk(budget=budget, consumer={"mode": "rolling"})
    model = EchoSummary()
    memory = Rolling.of(model, settings=settings_for(budget // 4, budget))
    with talk.memory as home:
        for user, results, reply in turns:
            talk.ask(user)
            made = talk.request()
            assert made.memory_bytes <= budget
            assert made.hidden == 0, made.items
            talk.together(results)
            talk.reply(reply)
            assert run(home.store, TENANT, talk.thread.id, memory, model).done


@given(said(), st.integers(4_000, 40_000), st.lists(st.booleans(), max_size=30))
@settings(max_examples=settings().max_examples * 2 // 5, deadline=None)
def test_where_pieces_could_not_be_summarised_a_prompt_has_no_hole_that_a_later_summary_fills(turns, budget, answers):
    talk = Talk(budget=budget, consumer={"mode": "rolling"})
    model = ScriptedModel([None if good else "" for good in answers], otherwise=EchoSummary(), model="summary@1")
    memory = Rolling.of(model, settings=settings_for(budget // 4, budget))
    newest = None
    with talk.memory as home:
        for user, results, reply in turns:
            talk.ask(user)
            made = talk.request()
            assert made.memory_bytes <= budget
            assert newest is None or not made.hidden or newest.upto <= left_out(made)
            talk.together(results)
            talk.reply(reply)
            run(home.store, TENANT, talk.thread.id, memory, model)
            newest = talk.thread.rolling.summary()


def left_out(made: Context) -> int:
    """Return the first message that nothing stands for."""
    return int(next(item.ref for item in made.items if item.kind == "left out").partition("-")[0])
