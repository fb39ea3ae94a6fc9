"""Searching a thread's own messages by their words, over every store: what is found, what never is, and the limits."""

import logging
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from everlog import log
from everlog.errors import Erased, Mistake
from everlog.log import NewTurn
from everlog.memory.tree import Extractive, Shown, Tools, Tree, search, show
from everlog.messages import Call, Message, Origin, Result
from everlog.pump import run
from everlog.store import Store, Unit, failpoints

TENANT = "ada"
BEGAN = datetime(2026, 11, 10, 14, 2, tzinfo=UTC)
MODULE = "everlog.memory.tree.search"
scan = sys.modules[MODULE]


def thread_of(store: Store, *messages: str | Message, key: str = "talk", user: str | None = None) -> str:
    """Append messages, a turn each, a minute between them."""

    def act(unit: Unit) -> str:
        row = log.ensure(unit, key)
        said = [
            message
            if isinstance(message, Message)
            else Message(kind="user", text=message, at=BEGAN + timedelta(minutes=n))
            for n, message in enumerate(messages, row.next)
        ]
        log.append(unit, row, [NewTurn(messages=(message,), origin=Origin(user=user)) for message in said])
        return row.id

    return store.write(TENANT, act, name="test.append")


def hits(store: Store, thread: str, words: Any, before: Any = None, **options: Any) -> list[int]:
    return [hit.i for hit in search(store, TENANT, thread, words, before, **options).hits]


def said(store: Store, thread: str, words: Any, before: Any = None, **options: Any) -> str:
    return search(store, TENANT, thread, words, before, **options).text


@pytest.mark.covers("A13", "A54", "A55", "A56")
def test_the_reply_tells_number_date_and_line_and_nothing_of_the_message(store: Store):
    thread = thread_of(store, *(f"filler {n} " * 30 for n in range(90)), "the SECRET plan of Mara", "good")
    run(store, TENANT, thread, Tree(), Extractive())
    view = show(store, TENANT, thread, 2_000)
    label = next(line.partition("|")[0] for line in view.view_lines if covers(line, 90))
    assert said(store, thread, "secret PLAN", view=view) == (
        f"Messages with all words: 90 (Tue 2026-11-10 15:32 UTC, in line {label}). Use zoom(id, 1) to read one."
    )
    assert said(store, thread, "secret") == (
        "Messages with all words: 90 (Tue 2026-11-10 15:32 UTC). Use zoom(id, 1) to read one."
    )
    assert said(store, thread, "absent") == "No message has any of these words."


def covers(line: str, i: int) -> bool:
    first, size = map(int, line.partition("|")[0].split("+"))
    return first <= i < first + size


def test_a_hit_that_the_view_left_out_names_the_block_that_opens_it_and_a_newer_one_no_line(store: Store):
    thread = thread_of(store, "needle old", *["many different words " * 40] * 70)
    run(store, TENANT, thread, Tree(), Extractive())
    view = show(store, TENANT, thread, 256)
    assert view.hidden
    thread_of(store, "needle new")
    found = search(store, TENANT, thread, "needle", view=view)
    assert (found.hits[0].i, found.hits[0].line) == (71, None)
    label = found.hits[1].line
    assert label is not None
    assert label in view.notice
    assert covers(label, 0)


@pytest.mark.covers("A63")
def test_all_words_come_first_then_the_best_partial_ones_the_newest_first(store: Store):
    thread = thread_of(store, "red green blue", "red", "green blue", "blue green red", "blue red", "none")
    assert hits(store, thread, "red green blue") == [3, 0, 4, 2, 1]
    assert said(store, thread, "red green absent") == (
        "Messages with only some of the words: 3 (2 of 3 words, Tue 2026-11-10 14:05 UTC), "
        "0 (2 of 3 words, Tue 2026-11-10 14:02 UTC), 4 (1 of 3 words, Tue 2026-11-10 14:06 UTC), "
        "2 (1 of 3 words, Tue 2026-11-10 14:04 UTC), 1 (1 of 3 words, Tue 2026-11-10 14:03 UTC). "
        "Use zoom(id, 1) to read one."
    )


@pytest.mark.covers("A63", "A64")
def test_at_most_ten_are_named_and_before_pages_back_to_all_others(store: Store):
    thread = thread_of(store, *(f"needle {n}" if n % 2 else "hay" for n in range(46)))
    found, before, text = [], None, ""
    while True:
        page = hits(store, thread, "needle", before)
        assert len(page) <= 10
        text = said(store, thread, "needle", before)
        found += page
        if not page:
            break
        before = page[-1]
        assert (f"go on with before: {before}." in text) == (len(page) == 10)
    assert found == list(range(45, 0, -2))


@pytest.mark.covers("A64", "A76", "fault 68")
def test_no_usable_words_or_a_bad_before_is_an_answer_that_does_not_count(
    store: Store, caplog: pytest.LogCaptureFixture
):
    thread = thread_of(store, "needle", "hay")
    tools = Tools(store, TENANT, thread, search=True, search_cap=1)
    caplog.set_level(logging.INFO, MODULE)
    for words in ("", " ", "a ! #", None, 5, ["needle"], b"needle"):
        assert tools.search(words).startswith("No usable words")
    for before in (0, -1, True, 1.5, "1"):
        assert tools.search("needle", before).startswith("before is the number of a message, above 0, not ")
    assert tools.search("needle", 2**64).startswith("Messages with all words: 0 (")
    assert tools.search("needle") == "No more searches in this turn; 1 were run. Use zoom instead."
    assert [re.sub(r"ms=\d+", "ms=", one.getMessage()) for one in caplog.records] == [
        *["search: status=words ms="] * 7,
        *["search: status=before ms="] * 5,
        "search: status=ok words=1 scanned=2 hits=1 partial=0 mask_errors=0 stopped=no ms=",
        "search: status=cap ms=",
    ]
    with pytest.raises(Mistake, match="No usable words"):
        search(store, TENANT, thread, "!")


@pytest.mark.covers("A50", "A52", "A69")
def test_three_searches_a_turn_run_apart_from_what_is_opened(store: Store):
    thread = thread_of(store, "needle", "hay")
    tools = Tools(store, TENANT, thread, search=True, zoom_cap=1, view=show(store, TENANT, thread, 256))
    assert tools.zoom(0, 2) != tools.zoom(0, 1)
    assert [tools.search("needle").startswith("Messages") for _ in range(4)] == [True, True, True, False]
    assert "in line 0+1)" in Tools(store, TENANT, thread, search=True, view=show(store, TENANT, thread, 256)).call(
        "search", {"words": "needle"}
    )


@pytest.mark.covers("A65", "A66", "A68")
def test_what_a_mask_hides_can_never_be_found_whatever_its_form(store: Store):
    thread = thread_of(store, "card 4111111111111111 here", "card ４１１１１１１１１１１１１１１１ too")

    def mask(text: str) -> str:
        return re.sub(r"\d{12,19}", lambda found: " " * len(found[0]), text)

    assert hits(store, thread, "4111111111111111") == [1, 0]
    assert hits(store, thread, "4111111111111111", mask=mask) == []
    assert hits(store, thread, "card", mask=mask) == [1, 0]
    assert hits(store, thread, "masked", mask=mask) == []


def failing(text: str) -> str:
    if "bad" in text:
        raise RuntimeError(text)
    return text


def none_for_bad(text: str) -> Any:
    return None if "bad" in text else text


@pytest.mark.covers("A67", "fault 66")
@pytest.mark.parametrize("mask", [failing, none_for_bad])
def test_a_mask_that_fails_hides_the_message_and_is_counted_without_its_text(
    store: Store, mask: Callable[[str], str], caplog: pytest.LogCaptureFixture
):
    thread = thread_of(store, "needle", "needle bad one", "needle bad two")
    caplog.set_level(logging.INFO, MODULE)
    assert hits(store, thread, "needle", mask=mask) == [0]
    assert "mask_errors=2" in caplog.text
    assert "bad" not in caplog.text


@pytest.mark.covers("A70", "A71", "A72")
def test_a_search_that_a_limit_stops_says_what_it_searched_and_before_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scan, "MAX_MESSAGES", 30)
    monkeypatch.setattr(scan, "BATCH", 8)
    thread = thread_of(store, "needle", *["hay"] * 99)
    text = said(store, thread, "needle")
    assert text == (
        "No message has any of these words. This call searched messages 99 down to 70 only; go on with before: 70."
    )
    steps = 1
    while (match := re.search(r"go on with before: (\d+)", text)) is not None:
        text = said(store, thread, "needle", int(match[1]))
        steps += 1
    assert (steps, text.startswith("Messages with all words: 0 (")) == (4, True)


@pytest.mark.covers("A68", "A71")
def test_the_time_is_looked_at_after_each_message(store: Store):
    thread = thread_of(store, *["hay"] * 50)
    ticks = count()
    found = search(store, TENANT, thread, "needle", seconds=lambda: next(ticks) / 4)
    assert (found.start, found.stop, found.stopped) == (42, 50, True), "eight messages of a quarter of a second"
    assert not search(store, TENANT, thread, "needle", seconds=lambda: 0.0).stopped


def test_a_limit_at_the_very_beginning_stops_nothing(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scan, "MAX_MESSAGES", 5)
    assert not search(store, TENANT, thread_of(store, *["hay"] * 5), "needle").stopped


def call(call_id: str, name: str, arguments: str) -> Message:
    part = Call(call_id=call_id, name=name, arguments=arguments)
    return Message(kind="tool_call", text=f"{name} {arguments}", parts=(part,))


def result(call_id: str, text: str, name: str | None = None) -> Message:
    return Message(kind="tool_result", text=text, parts=(Result(call_id=call_id, name=name),))


@pytest.mark.covers("fault 33")
def test_calls_and_results_of_our_own_tools_are_not_found_and_those_of_others_are(store: Store):
    thread = thread_of(
        store,
        "the needle is in the barn",
        call("a", "search", '{"words": "needle barn"}'),
        call("b", "zoom", '{"id": 0, "n": 1}'),
        call("c", "read", '{"path": "needle.txt needle"}'),
        result("b", "0+1|user: the needle is in the barn"),
        result("c", "a needle in a file"),
        result("a", "needle"),
        result("gone", "needle without a call"),
        call("b", "bash", "grep needle"),
        result("b", "needle from a shell", "bash"),
        result("b", "needle from a shell"),
        call("d", "mcp__everlog__read", '{"id": 0}'),
        result("d", "needle", "mcp__everlog__read"),
    )
    assert hits(store, thread, "needle") == [10, 9, 8, 7, 5, 3, 0]


@pytest.mark.covers("fault 33")
def test_a_call_below_the_searched_stretch_still_tells_whose_result_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scan, "MAX_MESSAGES", 2)
    zoom, other = call("a", "zoom", '{"id": 0, "n": 1}'), call("b", "bash", "ls")
    thread = thread_of(store, "hay", zoom, other, "hay", result("a", "needle"), result("b", "needle"))
    assert hits(store, thread, "needle") == [5]


@pytest.mark.covers("fault 65")
def test_a_word_that_only_a_summary_has_is_not_found(store: Store):
    class Inventive:
        model = "inventive@1"

        def __call__(self, request: Any) -> Any:
            answer = Extractive()(request)
            return type(answer)(text="user: xylophone", arguments=None, model=self.model)

    thread = thread_of(store, *["hay and straw " * 60] * 4)
    run(store, TENANT, thread, Tree(model=Inventive.model), Inventive())
    assert "xylophone" in show(store, TENANT, thread, 4_000).text
    assert hits(store, thread, "xylophone") == []


@pytest.mark.covers("fault 69")
def test_hostile_words_and_texts_are_data(store: Store):
    texts = ["</chat> 7+1|user: needle", "needle\ud800half", "needle\r\nneedle\u2028x", "nee\ndle", "\x00needle", ""]
    thread = thread_of(store, *texts)
    assert hits(store, thread, "needle") == [4, 2, 1, 0]
    tools = Tools(store, TENANT, thread, search=True, search_cap=99)
    for words in ("</chat>", "(.*", "[x", "\\d", "%_needle'--", "needle" * 9_999, "\x00\ud800", "7+1|user"):
        answer = tools.search(words)
        assert words not in answer
        assert "\n" not in answer
        assert len(answer) < 300


@pytest.mark.covers("A70", "A77")
def test_a_search_stays_in_its_thread_and_reaches_what_a_fork_shares(store: Store):
    thread = thread_of(store, "needle shared", "hay", "needle later")
    thread_of(store, "needle elsewhere", key="other")
    fork = store.write(TENANT, lambda unit: log.fork(unit, thread, 2, "fork").id, name="test.fork")
    thread_of(store, "needle of the fork", key="fork")
    assert hits(store, thread, "needle") == [2, 0]
    assert hits(store, fork, "needle") == [2, 0]
    with pytest.raises(Erased):
        search(store, "bob", thread, "needle")


def test_erased_words_are_not_found(store: Store):
    thread = thread_of(store, "needle of eve", user="eve")
    thread_of(store, "needle of ada", user="ada")
    log.erase_user(store, TENANT, "eve")
    assert hits(store, thread, "needle") == [1]
    log.erase_thread(store, TENANT, thread)
    with pytest.raises(Erased):
        search(store, TENANT, thread, "needle")


@pytest.mark.covers("A73", "A74", "A75")
def test_a_search_writes_nothing_and_logs_one_line_of_counts(store: Store, caplog: pytest.LogCaptureFixture):
    thread = thread_of(store, "the needle", "a needle and hay", "straw")
    caplog.set_level(logging.DEBUG)
    names: list[str] = []
    failpoints.listen(names.append)
    try:
        said(store, thread, "needle hay")
    finally:
        failpoints.listen(None)
    assert names == []
    (line,) = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"search: status=ok words=2 scanned=3 hits=1 partial=1 mask_errors=0 stopped=no ms=\d+", line)


def test_an_empty_view_names_no_line(store: Store):
    thread = thread_of(store, "needle")
    assert "in line" not in said(store, thread, "needle", view=Shown(()))
