"""Each row of the published vectors is run by a test that is named here, or does not apply for a reason.

The rows of `text.json` that no other test reads are run in this file.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.memory.interface import Accept, Again, Answer
from everlog.memory.tree.lines import LIMIT_BYTES, Line, joined
from everlog.tokens import cut, size_bytes
from tests.unit.memory.test_tree_steps import NOW, TREE, long, node, window

TESTS = Path(__file__).parents[2]
VECTORS = TESTS / "vectors"
TEXT = json.loads((VECTORS / "text.json").read_text("utf-8"))

FOLD, RENDER, NODES, STEPS = (f"unit/memory/test_{name}.py" for name in ("fold", "render", "nodes", "tree_steps"))
ASKING = "conformance/test_pump_asking.py"
HERE = "unit/memory/test_vectors.py"

RUN = {
    "due_pairs": f"{FOLD}::test_the_pair_that_merges_next_is_the_most_due",
    "push": f"{FOLD}::test_the_rule_reproduces_rollback_push_at_every_step",
    "view_uniform A5": f"{FOLD}::test_two_thousand_appends_give_the_published_views",
    "view_uniform C2": f"{FOLD}::test_two_thousand_appends_give_the_published_views",
    "scheduler v3-window": f"{ASKING}::test_the_leaves_that_are_out_at_once_are_those_of_a_block",
    "scheduler v3-next": f"{ASKING}::test_a_merge_is_out_as_soon_as_its_halves_are_built_and_no_leaf_of_the_next_block",
    "scheduler free-leaves": f"{ASKING}::test_the_first_eight_merges_of_short_messages_are_out_at_once",
    "scheduler context-gap": f"{ASKING}::test_a_gap_before_a_leaf_keeps_everything_behind_it_out_of_its_context",
    "scheduler owed": f"{STEPS}::test_what_is_left_is_counted_in_nodes_and_ends_at_nothing",
    "scheduler owed4": f"{STEPS}::test_what_is_left_is_counted_in_nodes_and_ends_at_nothing",
    "scheduler failing-merges": f"{ASKING}::test_merges_that_a_model_always_refuses_are_settled_and_never_asked_about_again",
    "scheduler leaf-stuck": f"{STEPS}::test_a_stuck_leaf_holds_up_its_own_ancestors_and_nobody_else",
    "scheduler expected_total_nodes": f"{NODES}::test_a_full_tree_has_known_many_nodes",
    "text flatten": "unit/memory/test_lines.py::test_each_line_break_is_one_space",
    "text cut_bytes": f"{HERE}::test_a_text_is_cut_to_as_many_bytes_as_the_vectors_say",
    "text render empty_variants": f"{RENDER}::test_an_empty_view_is_its_tags",
    "text render two": f"{RENDER}::test_two_messages_are_two_lines",
    "text render size": f"{RENDER}::test_the_size_of_a_view_is_counted_as_it_is_rendered",
    "text zoom valid": f"{NODES}::test_the_valid_addresses_of_eight_messages_are_taken",
    "text zoom invalid": f"{NODES}::test_any_other_address_is_refused",
    "text zoom opens": f"{NODES}::test_a_line_opens_to_its_two_halves",
    "text zoom two_messages": "conformance/test_tree_tools.py::test_two_messages_open_as_the_vectors_say",
    "text paging codepoint": "unit/memory/test_lookup.py::test_the_row_of_the_vectors",
    "text free_nodes": f"{HERE}::test_what_is_its_own_node_is_decided_as_the_vectors_say",
    "text size_tolerance rows": f"{HERE}::test_a_reply_is_asked_for_as_often_as_the_vectors_say",
    "text size_tolerance never_fits": f"{HERE}::test_of_replies_that_never_fit_the_one_is_kept_that_the_vectors_keep",
    "text search_words rows": "unit/memory/test_matching.py::test_the_rows_of_the_vectors",
    "text search_words limits": "unit/memory/test_matching.py::test_the_limits_of_the_vectors",
}

OF_OTHERS = {
    "view_uniform A1": "measures age from the first message, and counts text alone",
    "view_uniform A3": "counts text alone; A5 and C2 are the same rule with what is rendered",
    "view_uniform B2": "measures age from the first message, and counts text alone",
    "view_uniform D2": "measures age from the first message, and counts text alone",
    "scheduler v1-order": "the first edition's order, in which one leaf that fails blocks all behind it",
    "scheduler v1-context-gap": "the first edition's order again; the same log is run as context-gap",
    "text paging utf16": "of programs that count in UTF-16; pages count characters here",
    "text cache_blocks": "where a request to a provider is marked for its cache, which a view does not decide",
}


def rows() -> Iterator[str]:
    """Yield the name of each row, or group of rows, that the vectors have."""
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in VECTORS.glob("*.json")}
    assert found.keys() == {"due_pairs", "push", "scheduler", "text", "view_uniform"}
    yield from ("due_pairs", "push", "scheduler expected_total_nodes")
    for name in ("scheduler", "view_uniform"):
        yield from (f"{name} {case['id']}" for case in found[name]["cases"])
    for group, content in TEXT.items():
        if group in {"render", "zoom", "paging", "size_tolerance", "search_words"}:
            yield from (f"text {group} {part}" for part in content if part not in {"note", "T"})
        else:
            yield f"text {group}"


def test_no_row_is_forgotten():
    assert sorted(rows()) == sorted([*RUN, *OF_OTHERS])


@pytest.mark.parametrize("row", RUN)
def test_the_test_of_a_row_is_there(row: str):
    file, _, name = RUN[row].partition("::")
    assert re.search(rf"^def {name}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE)


NAMED = {"e-acute": "é", "euro": "€", "emoji U+1F600": "\U0001f600", "emoji": "\U0001f600", "a real U+FFFD": "\ufffd"}


def meant(description: str) -> str:
    """Return the text that a row describes, such as `x then e-acute x 300`."""
    text = ""
    for part in re.split(r", | then ", description):
        name, _, times = part.partition(" x ")
        text += NAMED.get(name, name) * int(times or 1)
    return text


@pytest.mark.parametrize(("description", "limit", "kept"), TEXT["cut_bytes"]["rows"])
def test_a_text_is_cut_to_as_many_bytes_as_the_vectors_say(description: str, limit: int, kept: int):
    text = meant(description)
    assert size_bytes(text) >= kept
    part = cut(text, limit)
    assert (size_bytes(part), text.startswith(part)) == (kept, True)


@pytest.mark.parametrize(("description", "size", "free"), TEXT["free_nodes"]["rows"])
def test_what_is_its_own_node_is_decided_as_the_vectors_say(description: str, size: int, free: bool):
    assert TEXT["free_nodes"]["limit"] == LIMIT_BYTES
    if merge := re.fullmatch(r"merge of (\d+) and (\d+) byte lines", description):
        halves = ["user: " + "a" * (int(length) - len("user: ")) for length in merge.groups()]
        made = joined(*map(Line, halves))
        last = TREE.plan(window(*halves), NOW, 10).steps[-1]
        assert last.name == "node 1:0"
    else:
        number = int(re.findall(r"\d+", description)[-1])
        made = Line("user: " + ("é" if "acute" in description else "a") * number)
        (last,) = TREE.plan(window(made.text), NOW, 10).steps
    assert made.size_bytes == size
    assert (last.request is None) is free


def replied(sizes: list[int]) -> tuple[int, int]:
    """Return how many answers of these sizes are taken, and the bytes of the line that is kept."""
    state = window(long(0) * 2)
    (step,) = TREE.plan(state, NOW, 10).steps
    for asked, size in enumerate(sizes, 1):
        text = "user: " + "w" * (size - len("user: "))
        verdict = TREE.judge(state, step, Answer(text=text, model="some-model"))
        if isinstance(verdict, Accept):
            return asked, node(verdict).line.size_bytes
        assert isinstance(verdict, Again)
        step = verdict.step
    raise AssertionError("no answer was kept")


@pytest.mark.parametrize("row", [row for row in TEXT["size_tolerance"]["rows"] if row["accept"] == LIMIT_BYTES])
def test_a_reply_is_asked_for_as_often_as_the_vectors_say(row: dict[str, int]):
    """Rows that accept more are of others; in them a reply that is a little too long is kept."""
    assert replied([row["first_reply"], 100])[0] == row["calls"]


def test_of_replies_that_never_fit_the_one_is_kept_that_the_vectors_keep():
    row = TEXT["size_tolerance"]["never_fits"]
    assert replied(row["replies"]) == (row["tries"], row["kept_bytes"])
