"""A tree of messages as conversations: the branch somebody went on with, and each other one as a fork of it.

Sources keep edited questions and regenerated answers as siblings. A fork is named after the first node that is its own,
which stays the same when the branch grows, so that a later export brings the same names.
"""

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass

from everlog.importers.report import Malformed, Tally
from everlog.importers.times import dated
from everlog.messages import Conversation, Message, Origin

DUPLICATE = "duplicate id, kept as a message of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a source's tree; it may hold no message, or several."""

    parent: str | None
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A path from a root to a leaf."""

    messages: tuple[Message, ...]
    nodes: tuple[str, ...]
    """The nodes that no earlier branch has, in order."""
    fork: str | None = None
    """The first of its own nodes, which names it; None for the first branch."""
    parent: str | None = None
    """`fork` of the branch it leaves, where `shared` is not 0."""
    shared: int = 0
    """How many of its messages, from the first, are that branch's too."""

    def conversation(
        self, key: str, title: str | None, origin: Origin, tally: Tally, *, stated: object = None
    ) -> Conversation:
        """Return it as a conversation; `key` is that of the first branch, `stated` the time that the source gives."""

        def name(fork: str | None) -> str:
            return key if fork is None else f"{key}#{fork}"

        return Conversation(
            key=name(self.fork),
            title=title,
            messages=dated(self.messages, tally, stated=stated, shared=self.shared),
            parent=name(self.parent) if self.shared else None,
            shared=self.shared,
            origin=origin,
        )


class Tree:
    """The nodes of one conversation, in the order of the source."""

    def __init__(self, tally: Tally) -> None:
        self.nodes: dict[str, Node] = {}
        self._tally = tally
        self._copies: Counter[str] = Counter()

    def add(self, name: str, node: Node) -> str | None:
        """Add a node and return the name it got: another one if its id came before with other messages.

        A node that says again what it said before is left out, and has no name.
        """
        known = [self.nodes[each] for each in (name, f"{name}~{self._copies[name]}") if each in self.nodes]
        if any(each.messages == node.messages for each in known):
            self._tally.skipped["repeated message"] += 1
            return None
        if known:
            self._tally.assumed[DUPLICATE] += 1
            self._copies[name] = max(2, self._copies[name] + 1)
            return self.add(f"{name}~{self._copies[name]}", node)
        self.nodes[name] = node
        return name

    def branches(self, active: str | None = None) -> Iterator[Branch]:
        """Yield the branch that ends at `active` (else at the newest leaf), then the others that hold messages of their own.

        Raises:
            Malformed: nodes are each other's parents.
        """
        self._refuse_circles()
        leaves = self._leaves()
        inner = {node.parent for node in self.nodes.values()}
        newest = next((name for name in reversed(self.nodes) if name not in inner), None)
        first = active if active in self.nodes else newest
        places: dict[str, tuple[str | None, int]] = {}
        main: str | None = None
        for leaf in [first, *leaves] if first is not None else leaves:
            own, joint = self._path(leaf, places)
            parent, shared = places.get(joint, (None, 0)) if joint is not None else (None, 0)
            messages = [message for name in own for message in self.nodes[name].messages]
            if messages and main is None:
                main = own[0]
            branch = own[0] if messages else parent
            count = shared
            for name in own:
                count += len(self.nodes[name].messages)
                places[name] = branch, count
            if messages:
                yield Branch(
                    messages=(*self._messages_to(joint), *messages),
                    nodes=tuple(own),
                    fork=None if branch == main else branch,
                    parent=None if parent == main else parent,
                    shared=shared,
                )

    def _refuse_circles(self) -> None:
        known: set[str] = set()
        for start in self.nodes:
            path: dict[str, None] = {}
            name: str | None = start
            while name is not None and name in self.nodes and name not in known:
                if name in path:
                    raise Malformed("messages follow each other in a circle")
                path[name] = None
                name = self.nodes[name].parent
            known.update(path)

    def _leaves(self) -> list[str]:
        """Return the leaves, depth first: so a branch that grows stays where it is among the others."""
        children: dict[str | None, list[str]] = {}
        for name, node in self.nodes.items():
            children.setdefault(node.parent if node.parent in self.nodes else None, []).append(name)
        leaves: list[str] = []
        waiting = children.get(None, [])[::-1]
        while waiting:
            name = waiting.pop()
            if name in children:
                waiting.extend(reversed(children[name]))
            else:
                leaves.append(name)
        return leaves

    def _path(self, leaf: str, places: Container[str]) -> tuple[list[str], str | None]:
        """Return the nodes from the first that has no place yet to the leaf, and the node before them."""
        own: list[str] = []
        name: str | None = leaf
        while name is not None and name in self.nodes and name not in places:
            own.append(name)
            name = self.nodes[name].parent
        return own[::-1], name if name in places else None

    def _messages_to(self, name: str | None) -> list[Message]:
        found: list[tuple[Message, ...]] = []
        while name is not None and name in self.nodes:
            found.append(self.nodes[name].messages)
            name = self.nodes[name].parent
        return [message for messages in reversed(found) for message in messages]
