"""What the tree plans, and what it makes of each reply: pure, over snapshots made by hand."""

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.memory.interface import Accept, Again, Answer, Failure, Reject, Reply, Span, Stale, Step, Subject, Verdict
from everlog.memory.sight import Seen
from everlog.memory.tree import Extractive, Tree
from everlog.memory.tree.extractive import MODEL, extract
from everlog.memory.tree.lines import LIMIT_BYTES, Line, joined
from everlog.memory.tree.nodes import children_of, level_of, nodes_in, pack
from everlog.memory.tree.window import Node, Window

NOW = datetime(2026, 11, 10, 14, 2, tzinfo=UTC)
SCHEDULER = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[2] / "vectors" / "scheduler.json").read_text("utf-8"))["cases"]
    if "id" in case
}
TREE = Tree()


def after(state: Window, verdicts: Sequence[Verdict]) -> Window:
    """Return the snapshot that goes on; a compactor without contexts never needs a new one."""
    found = state.after(verdicts)
    assert found is not None
    return found


def window(*texts: str) -> Window:
    return Window(
        subject=Subject(tenant="t", memory="tree", key="thread"),
        count=len(texts),
        start=0,
        stop=len(texts),
        seen=Seen((("thread", 1 << 62),), {"thread": 0}),
        lines={},
        sources=dict(enumerate(map(Line, texts))),
        secret=b"secret",
    )


def long(n: int) -> str:
    return f"user: {n} " + "word " * 120


def steps(state: Window, room: int = 1000) -> Sequence[Step]:
    return TREE.plan(state, NOW, room).steps


def names(found: Sequence[Step]) -> list[str]:
    return [step.name for step in found]


def answer(text: str, **more: Any) -> Answer:
    return replace(Answer(text=text, model="some-model"), **more)


def node(verdict: object) -> Node:
    assert isinstance(verdict, Accept)
    (row,) = verdict.rows
    assert isinstance(row, Node)
    return row


def drained(state: Window) -> Window:
    """Do all there is to do, with the compactor that needs no model."""
    while found := steps(state):
        verdicts = [
            TREE.judge(state, step, None if step.request is None else Extractive()(step.request)) for step in found
        ]
        state = after(state, verdicts)
    return state


@pytest.mark.covers("A114")
def test_a_short_message_and_a_short_pair_are_their_own_nodes_without_a_model():
    state = window("user: hello\nworld", "assistant: remember me")
    found = steps(state)
    assert names(found) == ["node 0:0", "node 0:1", "node 1:0"]
    assert [step.request for step in found] == [None] * 3
    assert [node(TREE.judge(state, step, None)).line.text for step in found] == [
        "user: hello\nworld",
        "assistant: remember me",
        "user: hello\nworld\nassistant: remember me",
    ]


def test_short_leaves_whose_pairs_are_long_ask_only_for_the_pairs():
    case = SCHEDULER["free-leaves"]
    state = window(*("user: " + "x" * 300 for _ in range(32)))
    leaves = [step for step in steps(state) if step.request is None]
    assert names(leaves) == [f"node 0:{i}" for i in range(32)]
    asked = [step for step in steps(state) if step.request is not None]
    assert names(asked)[:8] == [f"node {level}:{index}" for level, index in case["start"]]
    assert len(drained(state).lines) == case["total_nodes_when_done"]


@pytest.mark.parametrize("name", ["owed", "owed4"])
def test_what_is_left_is_counted_in_nodes_and_ends_at_nothing(name: str):
    case = SCHEDULER[name]
    state = window(*map(long, range(int(case["log"].split()[0]))))
    assert TREE.plan(state, NOW, 1000).remaining == case["nodes_owed"]
    assert TREE.plan(drained(state), NOW, 1000).remaining == 0


def test_a_long_source_is_a_step_that_carries_all_it_needs():
    (step,) = steps(window(long(0)))
    assert step.span == Span(thread="thread", start=0, stop=1)
    assert step.request is not None
    assert step.request.limit_bytes == LIMIT_BYTES
    assert [(message.kind, message.text) for message in step.request.source] == [("user", long(0)[6:])]


def test_a_stuck_leaf_holds_up_its_own_ancestors_and_nobody_else():
    case = SCHEDULER["leaf-stuck"]
    state = window(long(0), *(f"user: {n}" for n in range(1, 201)))
    while found := [step for step in steps(state) if step.name != "node 0:0"]:
        state = after(
            state, [TREE.judge(state, one, None if one.request is None else Extractive()(one.request)) for one in found]
        )
    missing = [nid for nid in range(201) if nid not in state.lines]
    assert len(missing) == case["pending_leaves"]
    assert names(steps(state)) == ["node 0:0"]
    assert nodes_in(201) - len(state.lines) == 1 + (201).bit_length() - 1, "the leaf and its ancestors"


def test_a_plan_gives_no_more_steps_than_there_is_room_for():
    state = window(*(f"user: {n}" for n in range(40)))
    assert names(steps(state, room=3)) == names(steps(state))[:3]


@given(st.lists(st.integers(0, 900), min_size=1, max_size=40))
def test_every_node_is_built_whatever_the_messages_are(sizes: list[int]):
    state = drained(window(*("user: " + "word " * (size // 5) for size in sizes)))
    assert len(state.lines) == nodes_in(len(sizes))
    for nid, line in state.lines.items():
        assert line.size_bytes <= LIMIT_BYTES
        if level_of(nid):
            left, right = children_of(nid)
            source = joined(state.lines[left], state.lines[right])
            assert line == source if source.size_bytes <= LIMIT_BYTES else line.size_bytes < source.size_bytes


@given(st.lists(st.integers(0, 700), min_size=2, max_size=30), st.randoms(use_true_random=False))
def test_the_order_in_which_steps_are_done_changes_nothing(sizes: list[int], random: Random):
    start = window(*(f"user: {n} " + "word " * (size // 5) for n, size in enumerate(sizes)))
    state = start
    while found := list(steps(state)):
        random.shuffle(found)
        some = found[: random.randint(1, len(found))]
        done = [one for one in some if ready(state, one)]
        state = after(
            state, [TREE.judge(state, one, None if one.request is None else Extractive()(one.request)) for one in done]
        )
    assert dict(state.lines) == dict(drained(start).lines)


def ready(state: Window, step: Step) -> bool:
    level, index = map(int, step.name.removeprefix("node ").split(":"))
    return state.source(pack(level, index)) is not None


def test_a_line_that_fits_and_is_shorter_is_kept_with_what_made_it():
    state = window(long(0))
    (step,) = steps(state)
    kept = node(TREE.judge(state, step, answer("user: many words")))
    assert (kept.line.text, kept.model, kept.prompt, kept.fallback) == ("user: many words", "some-model", None, False)
    assert kept.inputs == step.inputs


@pytest.mark.parametrize("text", ["0+1|user: words", " 12+4|user: words", "0+1| user:  words"])
def test_a_copied_label_is_taken_off(text: str):
    state = window(long(0))
    (step,) = steps(state)
    assert node(TREE.judge(state, step, answer(text))).line.text.replace("  ", " ") == "user: words"


def test_a_reply_of_several_lines_is_made_one():
    state = window(long(0))
    (step,) = steps(state)
    assert node(TREE.judge(state, step, answer("user: a\r\nb\n"))).line.text == "user: a b"


@pytest.mark.parametrize(
    "reply",
    [
        answer(""),
        answer(" \n "),
        answer("0+1|"),
        answer("user: cut off", finish="length"),
        answer("user: a tool call", finish="tool_calls"),
        answer("user: filtered", finish="filtered"),
        answer("user: " + "x" * 507),
        answer("x" * 400),
        Failure(kind="refused"),
        Failure(kind="timeout"),
        Failure(kind="unusable"),
        answer("", arguments={"pieces": []}),
        answer("", arguments={"pieces": [["assistant", "I promise"]]}),
        answer("", arguments={"pieces": [["user", 7]]}),
        answer("", arguments={"pieces": "user: x"}),
    ],
)
def test_a_reply_that_cannot_be_used_is_tried_again_and_carried_along(reply: Reply):
    state = window(long(0))
    (step,) = steps(state)
    verdict = TREE.judge(state, step, reply)
    assert isinstance(verdict, Again)
    assert (verdict.step.name, len(verdict.step.tries)) == (step.name, 1)


def test_a_merge_must_be_shorter_than_its_two_lines():
    state = window("user: " + "a" * 255, "user: " + "b" * 250)
    state = after(state, [TREE.judge(state, step, None) for step in steps(state) if step.request is None])
    (step,) = steps(state)
    assert isinstance(TREE.judge(state, step, answer("user: " + "c" * 511)), Again)
    assert isinstance(TREE.judge(state, step, answer("user: " + "c" * 506)), Accept)


@pytest.mark.covers("A115")
def test_after_five_tries_the_shortest_is_kept():
    state = window(long(0) * 2)
    (step,) = steps(state)
    verdict: object = Again(step=step)
    for size in (600, 580, 590, 570, 580):
        assert isinstance(verdict, Again)
        verdict = TREE.judge(state, verdict.step, answer("user: " + "z" * size))
    assert node(verdict).line == Line("user: " + "z" * 570)
    assert node(verdict).fallback is False


def test_a_try_that_is_no_shorter_than_its_source_is_never_kept():
    state = window("user: " + "word " * 110)
    (step,) = steps(state)
    verdict: object = Again(step=step)
    for _ in range(5):
        assert isinstance(verdict, Again)
        verdict = TREE.judge(state, verdict.step, answer("user: " + "z" * 600))
    assert (node(verdict).fallback, node(verdict).line.size_bytes <= LIMIT_BYTES) == (True, True)


def test_after_five_replies_of_nothing_clauses_of_the_source_stand_in():
    state = window(long(0))
    (step,) = steps(state)
    verdict: object = Again(step=step)
    for _ in range(5):
        assert isinstance(verdict, Again)
        verdict = TREE.judge(state, verdict.step, Failure(kind="refused"))
    assert node(verdict).line == extract([("user", long(0)[6:])])
    assert (node(verdict).fallback, node(verdict).model) == (True, MODEL)


def test_a_provider_that_is_down_counts_against_nobody():
    state = window(long(0))
    (step,) = steps(state)
    assert TREE.judge(state, step, Failure(kind="unavailable")) == Reject(reason="unavailable")


def test_a_late_answer_to_another_question_is_stale():
    state = window(long(0))
    (step,) = steps(state)
    assert TREE.judge(state, replace(step, inputs="0" * 32), answer("user: x")) == Stale()
    built = after(state, [TREE.judge(state, step, answer("user: x"))])
    assert TREE.judge(built, step, answer("user: y")) == Stale()
    assert TREE.judge(window(long(1)), step, answer("user: x")) == Stale()


def test_the_digest_of_what_a_model_was_asked_changes_with_source_and_model_and_says_nothing_without_the_key():
    state = window(long(0), "user: short")
    free, asked = steps(state)
    other = Tree(model="other").plan(state, NOW, 10).steps
    assert other[1].inputs != asked.inputs
    assert other[0].inputs == free.inputs, "what is its own node does not depend on a model"
    assert steps(replace(state, secret=b"another"))[1].inputs != asked.inputs


def test_steps_hold_no_code_and_survive_as_data():

    found = steps(window(long(0), "user: x"))
    assert pickle.loads(pickle.dumps(found)) == found
