"""The rolling summary on every store: what is folded and when, forks and erasure, trouble, deaths, and what is logged."""

import contextlib
import logging
import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from everlog import Everlog, log
from everlog.log import NewTurn
from everlog.memory.interface import Request
from everlog.memory.rolling import FOLDED, Rolling, Settings, Weight, console_line, rows, stale, window
from everlog.memory.rolling.questions import RECALLED
from everlog.memory.tree import Extractive
from everlog.messages import Message
from everlog.pump import Ran, Worker, run
from everlog.store import Store, scoped
from everlog.store import rows as store_rows
from everlog.testing import Bad, EchoSummary, ScriptedModel
from tests.conformance.pumping import due, listening
from tests.conformance.rolling import SMALL, TENANT, dropped, made, memory, newest, pumped, stored, talk

POINTS = [
    f"pump.{unit}.{moment}" for unit in ("claim", "write", "finish") for moment in ("before_commit", "after_commit")
]


ONE_STORE = pytest.mark.parametrize("database", ["sqlite-plain"], indirect=True)
"""For what does not depend on where it is stored."""


def scripted(script: Any = (), **more: Any) -> ScriptedModel:
    return ScriptedModel(script, otherwise=EchoSummary(), model="summary@1", **more)


def asked(request: Request) -> str:
    """Return the question of a request, its first try."""
    return request.messages[2].text


@pytest.mark.covers("B3", "B5", "B44")
def test_nothing_is_asked_below_the_threshold_and_above_it_the_piece_that_is_due(store: Store):
    settings = Settings(threshold_tokens=1_200, min_recent=5, piece_bytes=3_000)
    model = scripted()
    turns = [talk(n) for n in range(12)]
    thread = made(store, turns[:3])
    assert pumped(store, thread, model, settings) == Ran(steps=0, done=True)
    assert model.requests == []
    assert newest(store, thread) is None
    made(store, turns[3:], thread=thread)
    ran = pumped(store, thread, model, settings)
    assert ran.done
    assert ran.steps == len(model.requests) == len(stored(store, thread)) > 1
    summary = newest(store, thread)
    assert summary is not None
    assert summary.upto <= 12 * 5 - 5
    assert summary.text.startswith("## Chat Summary\n\n### Guide\n")
    assert newest(store, thread, summary.upto - 1) != summary
    assert pumped(store, thread, model, settings) == Ran(steps=0, done=True)


@ONE_STORE
@pytest.mark.covers("B24", "B25")
def test_each_message_is_read_once_and_the_newest_are_not(store: Store):
    """Report 40: work is bounded by what is new."""
    model = scripted()
    thread = made(store, [talk(n) for n in range(10)])
    assert pumped(store, thread, model).done
    shown = [
        [int(row[2:].split()[0]) for row in asked(one).splitlines() if row.startswith("[#")] for one in model.requests
    ]
    summary = newest(store, thread)
    assert summary is not None
    assert [i for some in shown for i in some] == list(range(summary.upto))
    assert all(len(asked(request).encode()) < SMALL.piece_bytes + 300 for request in model.requests)
    assert summary.said_chars == sum(
        len(entry.message.call.arguments if entry.message.call else entry.text)
        for entry in store.read(TENANT, lambda unit: log.read(unit, log.load(unit, thread), 0, summary.upto))
    )


@ONE_STORE
@pytest.mark.covers("B7")
def test_what_is_always_shown_is_not_folded(store: Store):
    """The newest messages, and all of a turn from the user's newest message on, however long it is."""
    settings = Settings(threshold_tokens=600, min_recent=7, piece_bytes=1_200)
    thread = made(store, [talk(n) for n in range(6)])
    assert pumped(store, thread, EchoSummary(), settings).done
    assert max(row[0] for row in stored(store, thread)) <= 30 - 7
    rounds = [message for n in range(6) for message in talk(n).messages[1:]]
    made(store, [NewTurn(messages=(Message(kind="user", text="go"), *rounds))], thread=thread)
    assert pumped(store, thread, EchoSummary(), settings).done
    assert 25 <= max(row[0] for row in stored(store, thread)) <= 30


def test_when_it_is_pumped_does_not_matter(store: Store):
    """Law 2: after each turn, at the end, and after all was dropped, the same bytes."""
    turns = [talk(n, size=400 + 50 * (n % 4)) for n in range(12)]
    often = made(store, turns[:1])
    for turn in turns[1:]:
        assert pumped(store, often, EchoSummary()).done
        made(store, [turn], thread=often)
    assert pumped(store, often, EchoSummary()).done
    once = made(store, turns)
    assert pumped(store, once, EchoSummary()).done
    assert texts(store, often) == texts(store, once)
    whole = stored(store, often)
    assert len(whole) > 3
    assert dropped(store, often) == len(whole)
    assert newest(store, often) is None
    assert pumped(store, often, EchoSummary()).done
    assert stored(store, often) == whole


def texts(store: Store, thread: str) -> list[Any]:
    return [(row[0], row[1], row[-1]) for row in stored(store, thread)]


def test_each_row_goes_on_from_the_one_before_and_says_how_it_was_made(store: Store):
    thread = made(store, [talk(n) for n in range(8)])
    assert pumped(store, thread, EchoSummary()).done
    found = stored(store, thread)
    assert [prev for _, prev, *_ in found] == [0, *(upto for upto, *_ in found[:-1])]
    prompt = memory(EchoSummary()).prompts.id
    assert {(row[5], row[6], row[8]) for row in found} == {(prompt, "summary@1", 0)}
    count = partial(stale, thread=thread, prompt=prompt)
    assert store.read(TENANT, partial(count, model="summary@1")) == 0
    assert store.read(TENANT, partial(count, model="other")) == len(found)


@ONE_STORE
def test_an_answer_in_markdown_makes_the_same_summary(store: Store):
    turns = [talk(n) for n in range(6)]
    found = []
    for form in ("json", "markdown"):
        thread = made(store, turns)
        model = EchoSummary(form=form)
        assert pumped(store, thread, model).done
        found.append(newest(store, thread))
    assert found[0] == found[1]


@ONE_STORE
@pytest.mark.covers("B47")
def test_twenty_rounds_of_a_talkative_model_stay_within_the_cap(store: Store):
    """Report 2."""
    settings = Settings(threshold_tokens=100, min_recent=1, cap_chars=900, piece_bytes=400)
    thread = made(store, [talk(n) for n in range(20)])
    model = EchoSummary(item_chars=200)
    assert pumped(store, thread, model, settings).done
    found = stored(store, thread)
    assert len(found) >= 20
    assert max(row[4] for row in found) <= 900
    summary = newest(store, thread)
    assert summary is not None
    assert len(summary.text) <= 900
    assert "### Omitted\n- [#" in summary.text


def test_a_fork_reads_its_parents_summaries_up_to_the_fork_and_goes_on_from_there(store: Store):
    parent = made(store, [talk(n) for n in range(10)])
    assert pumped(store, parent, EchoSummary()).done
    mine = stored(store, parent)
    at = mine[-1][0] - 1
    fork = store.write(TENANT, lambda unit: log.fork(unit, parent, at, "fork").id, name="test.fork")
    below = newest(store, parent, at)
    assert below is not None
    assert newest(store, fork) == below
    model = scripted()
    made(store, [talk(n) for n in range(20, 26)], thread=fork)
    assert pumped(store, fork, model).done
    assert f"The messages after it, #{below.upto} to" in asked(model.requests[0])
    assert [row[0] for row in stored(store, fork)] == sorted(row[0] for row in stored(store, fork))
    assert all(row[0] > at for row in stored(store, fork))
    assert stored(store, parent) == mine
    last = newest(store, fork)
    log.erase_thread(store, TENANT, parent)
    assert newest(store, fork) == last, "the heir has what it shared"
    assert newest(store, fork, at) == below
    assert pumped(store, fork, scripted()) == Ran(steps=0, done=True)


@pytest.mark.covers("B45")
def test_an_erasure_takes_every_summary_over_the_words_in_forks_too_and_those_below_stay(store: Store):
    turns = [talk(n, user="eve" if n == 4 else "ada") for n in range(10)]
    parent = made(store, turns)
    fork = store.write(TENANT, lambda unit: log.fork(unit, parent, 40, "fork").id, name="test.fork")
    made(store, [talk(n) for n in range(20, 25)], thread=fork)
    for thread in (parent, fork):
        assert pumped(store, thread, EchoSummary()).done
    before = stored(store, parent)
    assert stored(store, fork)
    log.erase_user(store, TENANT, "eve")
    left = stored(store, parent)
    assert left == [row for row in before if row[0] <= 20]
    assert left
    assert stored(store, fork) == []
    for thread in (parent, fork):
        assert pumped(store, thread, EchoSummary()).done
        summary = newest(store, thread)
        assert summary is not None
        assert summary.upto > 25
        assert "message 4" not in summary.text
    again = stored(store, parent)
    dropped(store, parent)
    assert pumped(store, parent, EchoSummary()).done
    assert stored(store, parent) == again, "what was left fits to what is made anew"
    log.erase_thread(store, TENANT, parent)
    assert stored(store, parent) == []


def test_a_summary_of_another_log_is_not_believed_and_is_replaced(store: Store):
    thread = made(store, [talk(n) for n in range(8)])
    assert pumped(store, thread, EchoSummary()).done
    whole = stored(store, thread)
    column = rows.summary.c
    spoil = scoped(rows.summary).update().where(column.upto == whole[-1][0]).values(covered=bytes(16))
    store.write(TENANT, lambda unit: unit.count(spoil), name="test.spoil")
    summary = newest(store, thread)
    assert summary is not None
    assert summary.upto == whole[-2][0]
    assert pumped(store, thread, EchoSummary()).done
    assert stored(store, thread) == whole


@ONE_STORE
def test_where_the_tenants_secret_is_lost_no_piece_is_folded_for_ever(store: Store):
    thread = made(store, [talk(n) for n in range(8)])
    lose = scoped(store_rows.tenant).delete()
    store.write(TENANT, lambda unit: unit.count(lose), name="test.lose")
    model = scripted()
    assert pumped(store, thread, model).reason == "erased"
    assert len(model.requests) == 1
    assert stored(store, thread) == []
    made(store, [talk(8)], thread=thread)
    assert pumped(store, thread, model).done, "the next message made another secret"


@ONE_STORE
@pytest.mark.covers("B31")
def test_without_a_model_it_stays_inactive_and_says_so(store: Store):
    thread = made(store, [talk(n) for n in range(8)])
    for compactor in (None, Extractive()):
        inactive = Rolling.of(compactor, settings=SMALL)
        assert inactive.status == "inactive: it needs a model"
        assert run(store, TENANT, thread, inactive, Extractive()) == Ran(steps=0, done=True)
    assert newest(store, thread) is None
    active = Rolling.of(EchoSummary(), settings=SMALL)
    assert active.status == "active"
    assert run(store, TENANT, thread, active, EchoSummary()).steps


@ONE_STORE
@pytest.mark.covers("B43")
@pytest.mark.parametrize("trouble", [Bad.UNAVAILABLE, RuntimeError("no")])
def test_trouble_with_the_model_changes_nothing_and_is_made_up_for(store: Store, trouble: Any):
    thread = made(store, [talk(n) for n in range(6)])
    model = scripted([trouble] * 3)
    ran = pumped(store, thread, model)
    assert (ran.steps, ran.done) == (0, False)
    assert stored(store, thread) == []
    assert due(store, thread, memory="rolling")["failures"] == 1
    assert pumped(store, thread, EchoSummary()).done
    assert newest(store, thread) is not None


@ONE_STORE
def test_a_bad_answer_is_asked_for_again_in_the_same_conversation(store: Store):
    thread = made(store, [talk(n) for n in range(6)])
    model = scripted(["", "### Thoughts\n- none", None])
    assert pumped(store, thread, model).done
    first, second, third = model.requests[:3]
    assert second.messages[:3] == third.messages[:3] == first.messages
    assert [len(one.messages) for one in (first, second, third)] == [3, 4, 6]
    assert all(row[8] == 0 for row in stored(store, thread))
    assert all(one.messages[-1].kind == "user" for one in model.requests)


@ONE_STORE
def test_after_three_bad_answers_the_originals_stay_and_later_pieces_are_folded(store: Store):
    """Report 17."""
    thread = made(store, [talk(n) for n in range(4)])
    model = scripted([None, "", Bad.REFUSED, Bad.TIMEOUT])
    assert pumped(store, thread, model).done
    found = stored(store, thread)
    marked = [row for row in found if row[8]]
    assert [row[8] for row in found[:2]] == [0, 1]
    assert len(marked) == 1
    after = newest(store, thread, marked[0][0])
    assert after is not None
    assert after.upto == found[0][0], "one that only points is not shown"
    later = newest(store, thread)
    assert later is not None
    assert f"- [#{marked[0][1]}–#{marked[0][0] - 1}]" in later.text, "what could not be summarised can be found"


@ONE_STORE
def test_a_summary_that_is_no_smaller_than_what_it_stands_for_is_no_progress(store: Store):
    """Reports 3 and 4: it is asked for again, but not for ever, and is not shown while it is."""
    thread = made(store, [talk(n, size=200) for n in range(2)])
    long = "### Main Topics\n" + "\n".join(f"- topic {n} {'x' * 80}" for n in range(24))
    model = scripted(when=lambda request: long)
    settings = Settings(threshold_tokens=100, min_recent=1, piece_bytes=400)
    assert pumped(store, thread, model, settings).done
    assert "no smaller" in model.requests[1].messages[-1].text
    count = len(model.requests)
    assert count == 3 * len(stored(store, thread))
    assert pumped(store, thread, model, settings) == Ran(steps=0, done=True)
    assert len(model.requests) == count
    summary = newest(store, thread)
    assert summary is not None
    assert summary.stands.chars > summary.said_chars
    found = store.read(TENANT, lambda unit: log.read(unit, log.load(unit, thread)))
    assert window([*map(Weight.of, found)], settings, [summary.stands]).start == 0


LONG = timedelta(minutes=20)


class Died(BaseException):
    """The worker is gone: nothing that comes after is done."""


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_anywhere_loses_nothing(store: Store, point: str):
    """Law 6: whoever goes on comes to the same bytes."""
    turns = [talk(n) for n in range(5)]
    undisturbed = made(store, turns)
    assert pumped(store, undisturbed, EchoSummary()).done
    thread = made(store, turns)
    for hit in (1, 2):
        hits = 0
        dead = False

        def listener(name: str, hit: int = hit) -> None:
            nonlocal hits, dead
            hits += name == point
            dead = dead or hits == hit
            if dead:
                raise Died

        with listening(listener), contextlib.suppress(Died):
            pumped(store, thread, EchoSummary())
    assert run_out(store, thread).done
    assert texts(store, thread) == texts(store, undisturbed)


def run_out(store: Store, thread: str) -> Ran:
    """Go on where another died: its lease ends by time."""
    clock: Any = store.clock
    clock.advance(LONG)
    return pumped(store, thread, EchoSummary())


@ONE_STORE
@pytest.mark.covers("B39", "B40", "B41")
def test_a_fold_is_told_once_and_a_look_is_not(store: Store, caplog: pytest.LogCaptureFixture):
    thread = made(store, [talk(n) for n in range(4)])
    with caplog.at_level(logging.INFO, "everlog.memory.rolling"):
        ran = pumped(store, thread, EchoSummary())
        assert pumped(store, thread, EchoSummary()).steps == 0
    told = [record for record in caplog.records if record.msg == FOLDED]
    assert len(told) == ran.steps
    numbers = [(vars(record)["compressed"], vars(record)["plaintext"]) for record in told]
    assert numbers == [(row[0], 20 - row[0]) for row in stored(store, thread)]
    assert console_line(56, 5) == "rolling_summary: 56 compressed → summary, 5 plaintext"
    assert "word" not in caplog.text


@ONE_STORE
def test_what_our_own_tools_brought_back_is_not_summarised_again(store: Store):
    thread = made(store, [talk(n) for n in range(6)])
    model = scripted()
    ours = memory(model, recalled=lambda call: call.name == "look")
    assert run(store, TENANT, thread, ours, model).done
    results = [row for one in model.requests for row in asked(one).splitlines() if "Tool result" in row]
    assert results
    assert all(row.endswith(RECALLED) for row in results)


def test_a_worker_keeps_it_current_where_it_was_marked(store: Store):
    thread = made(store, [talk(n) for n in range(6)])
    model = EchoSummary()
    worked = Worker(store, [memory(model)], model, poll_s=0.01).work(threading.Event(), until_idle=True)
    assert worked.steps == len(stored(store, thread)) > 0
    assert due(store, thread, memory="rolling")["due_at"] is None


def test_how_much_room_there_is_decides_when_a_piece_is_folded_and_never_what_a_summary_is_made_of(store: Store):
    turns = [talk(n) for n in range(6)]
    roomy, crowded = made(store, turns), made(store, turns)
    assert pumped(store, roomy, EchoSummary()).done
    tight = replace(SMALL, room_bytes=400)
    assert pumped(store, crowded, EchoSummary(), tight).done
    less, more = ([(row[0], row[1], row[7], row[-1]) for row in stored(store, thread)] for thread in (roomy, crowded))
    assert len(less) < len(more)
    assert less == more[: len(less)]


@ONE_STORE
def test_settings_can_be_of_each_thread(store: Store):
    threads = [made(store, [talk(n) for n in range(6)]) for _ in range(2)]
    large = Settings(threshold_tokens=100_000)
    kept = Rolling(model="summary@1", settings=lambda unit, subject: SMALL if subject.key == threads[0] else large)
    assert [run(store, TENANT, thread, kept, EchoSummary()).steps > 0 for thread in threads] == [True, False]


@ONE_STORE
def test_a_stretch_without_words_is_passed_over_without_a_model(store: Store):
    turns = [talk(n, user="eve" if 1 <= n <= 3 else "ada") for n in range(8)]
    thread = made(store, turns)
    log.erase_user(store, TENANT, "eve")
    model = scripted()
    assert pumped(store, thread, model).done
    assert newest(store, thread) is not None
    assert "#5 " not in "".join(asked(one).partition("<input>")[2] for one in model.requests)


def test_the_public_face_reads_and_rebuilds(store: Store):
    thread = Everlog(store, tenant=TENANT).thread("talk")
    thread.extend([talk(n) for n in range(6)])
    assert thread.rolling.summary() is None
    assert pumped(store, thread.id, EchoSummary()).done
    summary = thread.rolling.summary()
    assert summary is not None
    assert thread.rolling.summary(upto=summary.upto) == summary
    assert thread.rolling.summary(upto=summary.upto - 1) != summary
    count = len(stored(store, thread.id))
    assert thread.rolling.rebuild() == count > 0
    assert thread.rolling.summary() is None
