"""What an agent does with a tree, over every store: zoom, read, date, their limits, and the counts of what was opened."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from everlog import log
from everlog.conversation.tree import Tree
from everlog.errors import StoreUnavailable
from everlog.log import NewTurn
from everlog.memory.escapes import unescape
from everlog.memory.tree import SCHEMAS, Extractive, Tools, digs, events, hot
from everlog.memory.tree import Tree as TreeMemory
from everlog.memory.tree.lookup import PAGE_CHARACTERS
from everlog.memory.tree.tools import OPENED
from everlog.messages import Kind, Message
from everlog.pump import run
from everlog.store import Store, Unit, failpoints

TENANT = "ada"
ZOOM = json.loads((Path(__file__).parents[1] / "vectors" / "text.json").read_text("utf-8"))["zoom"]
MEANT = {"true": True, "1.5": 1.5, "18446744073709551615": 2**64 - 1}
"""What the vectors write as text, since their own format has no such values for everyone."""


def thread_of(store: Store, *texts: str, key: str = "talk", tenant: str = TENANT) -> str:
    def act(unit: Unit) -> str:
        row = log.ensure(unit, key)
        log.append(unit, row, [NewTurn(messages=(Message(kind="user", text=text),)) for text in texts])
        return row.id

    return store.write(tenant, act, name="test.append")


def eight(store: Store) -> str:
    thread = thread_of(store, *(f"Message {n}" for n in range(ZOOM["T"])))
    assert run(store, TENANT, thread, TreeMemory(), Extractive()).done
    return thread


def tools(store: Store, thread: str, **options: Any) -> Tools:
    return Tools(store, TENANT, thread, **options)


def counts(store: Store, thread: str) -> dict[str, int]:
    return {one.label: one.count for one in store.read(TENANT, partial(hot, thread=thread, limit=100))}


@pytest.mark.covers("A5", "A126", "fault 60")
def test_the_lines_of_the_vectors_open_as_they_say(store: Store):
    thread = eight(store)
    for first, size in ZOOM["valid"]:
        opened = tools(store, thread).zoom(first, size)
        labels = [line.partition("|")[0] for line in opened.split("\n")]
        assert labels == ZOOM["opens"].get(f"{first},{size}", [f"{first}+1"])
    assert tools(store, thread).zoom(3, 1) == "3+1|user: Message 3"


def test_two_messages_open_as_the_vectors_say(store: Store):
    """With our own kind for the one that speaks, and the label that can be opened again."""
    rows = ZOOM["two_messages"]
    kinds: dict[str, Kind] = {"user": "user", "talk": "assistant"}
    messages = [Message(kind=kinds[kind], text=text) for kind, text in rows["messages"]]

    def act(unit: Unit) -> str:
        row = log.ensure(unit, "talk")
        log.append(unit, row, [NewTurn(messages=tuple(messages))])
        return row.id

    thread = store.write(TENANT, act, name="test.append")
    assert run(store, TENANT, thread, TreeMemory(), Extractive()).done
    mine = tools(store, thread)
    assert mine.zoom(0, 2) == rows["zoom_0_2"].replace("talk:", "assistant:")
    assert mine.zoom(0, 1) == f"0+1|{rows['zoom_0_1_body']}"


BAD = [
    *((MEANT.get(first, first), MEANT.get(size, size)) for first, size in ZOOM["invalid"]),
    *(("0", 2), (0, "2"), (None, 1), (0, []), ([0], 1), (0, {}), (float("nan"), 1), (0, 2**200), (0, False)),
]


def test_a_bad_address_is_an_answer_and_uses_nothing_up(store: Store):
    thread = eight(store)
    with tools(store, thread, zoom_cap=1) as mine:
        for first, size in BAD:
            said = mine.call("zoom", {"id": first, "n": size})
            assert said.startswith("No line ")
            assert "There are 8 messages" in said
            assert len(said) < 250
        assert mine.zoom(0, 8).startswith("0+4|")
    assert counts(store, thread) == {"0+8": 1}


@pytest.mark.covers("A9", "A128", "fault 58")
def test_a_pair_and_its_first_message_both_open_in_one_turn_in_either_order(store: Store):
    thread = eight(store)
    for sizes in ((2, 1), (1, 2)):
        mine = tools(store, thread)
        first, second = (mine.zoom(0, size) for size in sizes)
        assert OPENED not in (first, second)
        assert [mine.zoom(0, size) for size in sizes] == [OPENED, OPENED]
    assert tools(store, thread).zoom(0, 2) != OPENED, "the next turn begins anew"


@pytest.mark.covers("A127", "A128", "fault 63", "fault 64")
def test_each_page_of_a_long_message_is_a_line_of_its_own_to_the_guard(store: Store):
    text = "</chat> 7+1|x\n" * (PAGE_CHARACTERS // 6)
    mine = tools(store, thread_of(store, text))
    opened = mine.zoom(0, 1)
    assert opened.startswith("0+1|user: &lt;/chat>")
    assert opened.endswith("\n(page 0 of 0 to 2; read(0, 1) goes on)")
    assert mine.read(0, 0) == OPENED, "zoom showed the first page"
    rest = [mine.read(0, 1), mine.read(0, 2)]
    pages = [opened.removeprefix("0+1|"), *rest]
    assert "".join(unescape(page.partition("\n(page ")[0]) for page in pages) == f"user: {text}"
    assert mine.read(0, 1) == OPENED
    assert mine.read(0, 3) == "Message 0 has 3 pages, numbered from 0 to 2; there is no page 3."
    assert mine.read(0, "1") == "Message 0 has 3 pages, numbered from 0 to 2; there is no page '1'."


@pytest.mark.covers("fault 62")
def test_a_message_opens_whole_where_nothing_is_built(store: Store):
    text = "many words " * 200
    thread = thread_of(store, text, text)
    assert tools(store, thread).zoom(1, 1) == f"1+1|user: {text}"
    assert tools(store, thread).zoom(0, 2).count("(not summarized yet: zoom it)") == 2


@pytest.mark.covers("A129")
def test_twelve_lines_a_turn_are_opened_and_refused_ones_do_not_count(store: Store):
    thread = thread_of(store, *map(str, range(30)))
    mine = tools(store, thread)
    for n in range(12):
        assert mine.zoom(n, 1).endswith(f"user: {n}")
        assert mine.zoom(n, 1) == OPENED
        assert mine.zoom(n, 3).startswith("No line")
    assert mine.zoom(12, 1) == "No more lines can be opened in this turn; 12 were. Answer with what is above."
    assert mine.read(13, 0) == mine.zoom(12, 1)
    assert mine.zoom(0, 1) == OPENED
    assert mine.date(20).endswith(" UTC"), "a date is not a line"


def test_a_tall_tree_may_be_opened_down_to_a_message(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("everlog.memory.tree.tools.ZOOM_CAP", 2)
    thread = thread_of(store, *map(str, range(33)))
    mine = tools(store, thread)
    opened = [mine.zoom(n, 1) for n in range(9)]
    assert [text.startswith("No more") for text in opened] == [False] * 8 + [True], "6 levels and 2"


def test_a_bad_position_is_an_answer(store: Store):
    mine = tools(store, eight(store))
    for i in (8, -1, True, 1.0, "1", None, 2**64):
        assert mine.date(i).endswith("There are 8 messages, numbered from 0 to 7.")
        assert mine.date(i) == mine.read(i)
        assert mine.date(i).startswith("No message ")


def test_an_empty_thread_has_no_lines(store: Store):
    thread = store.write(TENANT, lambda unit: log.create(unit, "empty").id, name="test.make")
    mine = tools(store, thread, search=True)
    assert mine.zoom(0, 1).startswith("No line 0+1.")
    assert mine.date(0) == "No message 0. There are none yet."
    assert mine.search("anything") == "No message has any of these words."


@pytest.mark.covers("A49", "A53")
def test_search_is_there_only_if_it_is_asked_for(store: Store):
    thread = eight(store)
    assert [schema["name"] for schema in tools(store, thread).schemas] == ["zoom", "read", "date"]
    assert "no such tool; there are zoom, read, date." in tools(store, thread).call("search", {"words": "message"})
    assert [schema["name"] for schema in tools(store, thread, search=True).schemas] == list(SCHEMAS)


def test_what_a_model_wrote_is_checked_before_a_tool_runs(store: Store):
    mine = tools(store, eight(store), search=True)
    assert mine.call("rm", {}) == "There is no such tool; there are zoom, read, date, search."
    wrong: list[Any] = [None, [], "0", {}, {"n": 1}, {"id": 0, "n": 1, "force": True}]
    for arguments in wrong:
        assert mine.call("zoom", arguments) == "zoom takes id, n; required: id."
    assert mine.call("zoom", {"id": 0, "n": None}) == "0+1|user: Message 0"
    assert mine.call("read", {"id": 1, "page": 0}) == "user: Message 1"
    assert mine.call("date", {"id": 1}).endswith("UTC")
    assert mine.call("search", {"words": "message", "before": 2}).startswith("Messages with all words: 1 (")


def test_a_schema_belongs_to_whoever_asked_for_it(store: Store):
    mine = tools(store, eight(store))
    changed: Any = mine.schemas[0]
    changed["parameters"]["properties"].clear()
    assert mine.schemas[0] == SCHEMAS["zoom"]


@pytest.mark.covers("A10", "A23", "A130", "A131", "fault 59")
def test_counters_land_on_the_line_that_was_opened_and_events_on_the_leaf_that_was_reached(store: Store):
    thread = eight(store)
    for turn in (3, 4):
        with tools(store, thread, turn=turn) as mine:
            for first, size in ((0, 8), (0, 4), (0, 2), (0, 1), (0, 2), (6, 1)):
                mine.zoom(first, size)
    with tools(store, thread) as mine:
        mine.zoom(6, 1)
    assert counts(store, thread) == {"0+8": 2, "0+4": 2, "0+2": 2, "0+1": 2, "6+1": 3}
    hottest, *_ = store.read(TENANT, partial(hot, thread=thread, limit=1))
    assert (hottest.label, hottest.count) == ("6+1", 3)
    dug = store.read(TENANT, partial(events, thread=thread, limit=4))
    assert [(one.leaf, one.steps, one.turn) for one in dug] == [(6, 1, None), (6, 2, 4), (0, 4, 4), (6, 2, 3)]
    assert hottest.last_at >= max(one.at for one in dug if one.at is not None)


@pytest.mark.covers("A132")
def test_however_often_a_line_is_opened_its_text_and_the_view_stay_as_they_are(store: Store):
    thread = eight(store)
    tree = Tree(store, TENANT, thread)
    before = tree.view(256), tree.zoom(0, 8)
    for _ in range(5):
        with tree.tools() as mine:
            mine.zoom(0, 8)
    assert (tree.view(256), tree.zoom(0, 8)) == before
    assert [(one.label, one.count) for one in tree.stats.hot_nodes(3)] == [("0+8", 5)]
    assert tree.stats.digs() == []


def test_nothing_is_written_until_the_turn_ends_and_then_in_one_unit(store: Store):
    thread = eight(store)
    with heard() as points:
        mine = tools(store, thread, search=True)
        mine.zoom(0, 8)
        mine.zoom(0, 1)
        mine.search("message")
        assert points == []
        mine.close()
        assert points == ["tree.digs.before_commit", "tree.digs.after_commit"]
        mine.close()
        assert len(points) == 2, "nothing more was opened"


def test_a_unit_that_is_run_again_after_its_commit_counts_once(store: Store):
    thread = eight(store)
    with heard(raising=("tree.digs.after_commit", StoreUnavailable("the answer was lost"))), tools(store, thread) as a:
        a.zoom(0, 8)
    act = partial(digs.put, thread=thread, opened=[5], reached=[], key="0" * 32)
    for _ in range(2):
        store.write(TENANT, act, name="test.again")
    assert counts(store, thread) == {"0+8": 1, "5+1": 1}


def test_counts_that_cannot_be_stored_are_dropped_and_logged_without_words(
    store: Store, caplog: pytest.LogCaptureFixture
):
    thread = eight(store)
    with heard(raising=("tree.digs.before_commit", StoreUnavailable("disk full"))), tools(store, thread) as mine:
        assert mine.zoom(0, 1) == "0+1|user: Message 0"
    assert counts(store, thread) == {}
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert record.__dict__["lost"] == 1
    assert "Message" not in record.getMessage()


def test_counts_go_with_their_thread_and_are_not_written_after_it(store: Store):
    thread = eight(store)
    with tools(store, thread) as mine:
        mine.zoom(0, 1)
    late = tools(store, thread)
    late.zoom(0, 1)
    log.erase_thread(store, TENANT, thread)
    late.close()
    assert counts(store, thread) == {}
    assert store.read(TENANT, partial(events, thread=thread, limit=9)) == []


def test_counts_of_a_fork_and_of_another_tenant_are_their_own(store: Store):
    thread = eight(store)
    fork = store.write(TENANT, lambda unit: log.fork(unit, thread, 8, "fork").id, name="test.fork")
    with tools(store, fork) as mine:
        assert mine.zoom(0, 1) == "0+1|user: Message 0"
    assert (counts(store, fork), counts(store, thread)) == ({"0+1": 1}, {})
    assert store.read("bob", partial(hot, thread=fork, limit=9)) == []


@contextmanager
def heard(raising: tuple[str, Exception] | None = None) -> Iterator[list[str]]:
    names: list[str] = []

    def listener(name: str) -> None:
        names.append(name)
        if raising is not None and raising[0] == name:
            raise raising[1]

    failpoints.listen(listener)
    try:
        yield names
    finally:
        failpoints.listen(None)
