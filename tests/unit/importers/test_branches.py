"""Trees become conversations without losing a message, and forks share what they say they share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.importers.branches import Branch, Node, Tree
from everlog.importers.report import Malformed, Tally
from everlog.messages import Message, Origin

Shape = list[tuple[int | None, int]]
"""For each node the place of its parent, and how many messages it holds."""


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    count = draw(st.integers(0, 25))
    parents = [draw(st.none() | st.integers(0, place - 1)) if place else None for place in range(count)]
    return [(parent, draw(st.sampled_from([0, 1, 1, 1, 2]))) for parent in parents]


def tree_of(shape: Shape) -> Tree:
    tree = Tree(Tally())
    for place, (parent, count) in enumerate(shape):
        messages = tuple(Message(kind="user", text=f"{place}.{number}") for number in range(count))
        tree.add(str(place), Node(parent=None if parent is None else str(parent), messages=messages))
    return tree


def path_to(shape: Shape, place: int) -> list[str]:
    texts: list[str] = []
    above: int | None = place
    while above is not None:
        parent, count = shape[above]
        texts = [f"{above}.{number}" for number in range(count)] + texts
        above = parent
    return texts


def texts(branch: Branch) -> list[str]:
    return [message.text for message in branch.messages]


@given(shapes(), st.data())
def test_every_path_to_a_leaf_is_in_some_branch_and_forks_share_their_parents_beginning(
    shape: Shape, data: st.DataObject
):
    active = data.draw(st.none() | st.integers(0, max(0, len(shape) - 1)))
    branches = list(tree_of(shape).branches(None if active is None else str(active)))
    by_fork = {branch.fork: branch for branch in branches}
    assert len(by_fork) == len(branches)
    for place in range(len(shape)):
        path = path_to(shape, place)
        assert any(texts(branch)[: len(path)] == path for branch in branches) or not path
    seen: set[str | None] = set()
    for branch in branches:
        if branch.shared:
            assert branch.parent in seen
            assert texts(branch)[: branch.shared] == texts(by_fork[branch.parent])[: branch.shared]
        assert branch.shared < len(branch.messages)
        seen.add(branch.fork)
    own = [text for branch in branches for text in texts(branch)[branch.shared :]]
    assert sorted(own) == sorted(
        f"{place}.{number}" for place, (_, count) in enumerate(shape) for number in range(count)
    )


@given(shapes(), st.data())
def test_the_active_node_ends_the_first_branch(shape: Shape, data: st.DataObject):
    places = [place for place in range(len(shape)) if path_to(shape, place)]
    if places:
        active = data.draw(st.sampled_from(places))
        first = next(tree_of(shape).branches(str(active)))
        assert (texts(first), first.fork) == (path_to(shape, active), None)


@given(shapes(), st.data())
def test_branches_keep_their_names_when_one_of_them_grows(shape: Shape, data: st.DataObject):
    inner = {parent for parent, _ in shape}
    leaves = [place for place in range(len(shape)) if place not in inner]
    if not leaves:
        return
    active = str(leaves[0])
    before = list(tree_of(shape).branches(active))
    grown = data.draw(st.sampled_from(leaves))
    after = {branch.fork: branch for branch in tree_of([*shape, (grown, 1)]).branches(active)}
    for branch in before:
        longer = after[branch.fork]
        assert texts(longer)[: len(branch.messages)] == texts(branch)


@pytest.mark.parametrize(
    "parents", [{"a": "a"}, {"a": "b", "b": "a"}, {"x": None, "a": "c", "b": "a", "c": "b", "d": "a"}]
)
def test_nodes_in_a_circle_are_refused_before_anything_comes_out(parents: dict[str, str | None]):
    tree = Tree(Tally())
    for name, parent in parents.items():
        tree.add(name, Node(parent=parent, messages=(Message(kind="user", text=name),)))
    with pytest.raises(Malformed, match="in a circle"):
        next(tree.branches())


def test_a_tree_as_deep_as_a_long_talk_is_no_trouble():
    tree = tree_of([(place - 1 if place else None, 1) for place in range(20_000)])
    (branch,) = tree.branches()
    assert len(branch.conversation("k", None, Origin(), Tally()).messages) == 20_000


def test_the_same_node_again_is_left_out_and_another_one_of_its_name_is_kept():
    tree, hello, other = Tree(Tally()), (Message(kind="user", text="hello"),), (Message(kind="user", text="other"),)
    names = [tree.add("a", Node(parent=None, messages=said)) for said in (hello, hello, other, other, ())]
    assert names == ["a", None, "a~2", None, "a~3"]
