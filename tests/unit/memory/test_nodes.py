import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.errors import UnknownAddress
from everlog.memory.tree.nodes import (
    address,
    children_of,
    cover,
    ending_within,
    index_of,
    label_of,
    level_of,
    nodes_in,
    pack,
    parent_of,
    parse_label,
    start_of,
    stop_of,
)

VECTORS = Path(__file__).parents[2] / "vectors"
ZOOM = json.loads((VECTORS / "text.json").read_text("utf-8"))["zoom"]

nodes = st.integers(0, 39).flatmap(lambda level: st.builds(pack, st.just(level), st.integers(0, (1 << 40 - level) - 1)))


@pytest.mark.covers("A113")
@given(nodes)
def test_a_node_covers_its_aligned_stretch(nid: int):
    level, index = level_of(nid), index_of(nid)
    assert pack(level, index) == nid
    assert (start_of(nid), stop_of(nid)) == (index << level, (index + 1) << level)


@given(nodes)
def test_halves_tile_their_node_and_know_it(nid: int):
    if level_of(nid):
        left, right = children_of(nid)
        assert (start_of(left), stop_of(left), stop_of(right)) == (start_of(nid), start_of(right), stop_of(nid))
        assert parent_of(left) == parent_of(right) == nid


@given(nodes)
def test_a_label_names_its_node(nid: int):
    assert parse_label(label_of(nid)) == nid


@pytest.mark.parametrize(
    "text", ["", "0", "0+0", "1+2", "0+3", "00+1", "0+01", "-1+1", "0+1 ", "0+1|", "٠+1", "1e3+1", "9" * 30 + "+1"]
)
def test_what_is_no_address_has_no_node(text: str):
    assert parse_label(text) is None


@pytest.mark.parametrize("first_and_size", ZOOM["valid"])
def test_the_valid_addresses_of_eight_messages_are_taken(first_and_size: list[int]):
    first, size = first_and_size
    assert label_of(address(first, size, ZOOM["T"])) == f"{first}+{size}"


@pytest.mark.parametrize("first_and_size", [*ZOOM["invalid"], [True, 1], [0, 1.0], [10**5000, 1], [0, 10**5000]])
def test_any_other_address_is_refused(first_and_size: list[object]):
    first, size = first_and_size
    with pytest.raises(UnknownAddress, match="No line"):
        address(first, size, ZOOM["T"])


@pytest.mark.parametrize(("opened", "halves"), ZOOM["opens"].items())
def test_a_line_opens_to_its_two_halves(opened: str, halves: list[str]):
    first, size = map(int, opened.split(","))
    assert [label_of(nid) for nid in children_of(address(first, size, ZOOM["T"]))] == halves


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_a_cover_tiles_its_stretch_with_the_fewest_nodes(start: int, length: int):
    found = cover(start, start + length)
    edges = [start, *map(stop_of, found)]
    assert [start_of(nid) for nid in found] == edges[:-1]
    assert edges[-1] == start + length
    assert not any(parent_of(one) == parent_of(other) for one, other in pairwise(found))


@pytest.mark.parametrize(("count", "nodes"), [(0, 0), (1, 1), (2, 3), (4, 7), (48, 94), (128, 255), (1000, 1994)])
def test_a_full_tree_has_known_many_nodes(count: int, nodes: int):
    assert nodes_in(count) == nodes == sum(count >> level for level in range(41))


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_nodes_become_possible_once_each_and_after_their_halves(one: int, two: int, three: int):
    start, middle, stop = sorted((one, two, three))
    found = ending_within(start, stop)
    assert found == ending_within(start, middle) + ending_within(middle, stop)
    assert len(found) == len(set(found)) == nodes_in(stop) - nodes_in(start)
    assert all(start < stop_of(nid) <= stop for nid in found)
    place = {nid: n for n, nid in enumerate(found)}
    assert all(place[half] < place[nid] for nid in found if level_of(nid) for half in children_of(nid) if half in place)
