"""ChatGPT's data export: a zip archive, or the conversations.json in it.

A conversation is a tree, `mapping`, of nodes with a message each; `current_node` ends the branch that its owner went on
with. Exports since about 2024 name attachments, tools and models; those before hold little but text. The form is not
documented by its maker; this follows exports of 2023 to 2026 as users describe them.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from everlog.importers.branches import Node, Tree
from everlog.importers.chatgpt_content import Reader
from everlog.importers.records import Value
from everlog.importers.report import Malformed, Problem, Tally
from everlog.importers.shapes import Record, array, record, string
from everlog.importers.source import Source
from everlog.messages import JSON, Conversation, Origin

KEY = "chatgpt"


def knows(value: JSON) -> bool:
    """Whether value is a conversation of this form, or the object around a list of them."""
    shape = record(value)
    return isinstance(shape.get("mapping"), dict) or any(map(knows, array(shape.get("conversations"))[:1]))


def conversations(records: Iterable[Value | Problem], source: Source, tally: Tally) -> Iterator[Conversation | Problem]:
    """Yield each conversation's active branch, followed by its other branches as forks."""
    for item in records:
        if isinstance(item, Problem):
            yield item
            continue
        wrapped = record(item.value).get("conversations")
        for number, value in enumerate(wrapped if isinstance(wrapped, list) else [item.value]):
            try:
                yield from _branches(value, source, tally)
            except Malformed as error:
                yield Problem(where=item.where, reason=str(error), position=item.position + number)


def _branches(value: JSON, source: Source, tally: Tally) -> Iterator[Conversation]:
    shape = record(value)
    mapping = shape.get("mapping")
    if not isinstance(mapping, dict):
        raise Malformed("it has no mapping of messages")
    tree = _tree(mapping, source, tally)
    identity = string(shape.get("conversation_id")) or string(shape.get("id")) or _digest(mapping)
    project = string(shape.get("gizmo_id")) or string(shape.get("conversation_template_id"))
    origin = Origin(session=identity, project=project)
    found = False
    for branch in tree.branches(string(shape.get("current_node"))):
        title = string(shape.get("title"))
        yield branch.conversation(f"{KEY}:{identity}", title, origin, tally, stated=shape.get("create_time"))
        found = True
    if not found:
        tally.skipped["empty conversation"] += 1


def _tree(mapping: Record, source: Source, tally: Tally) -> Tree:
    tree = Tree(tally)
    reader = Reader(mapping, source, tally)
    for name, value in mapping.items():
        node = record(value)
        parent = string(node.get("parent"))
        message = node.get("message")
        if not isinstance(message, dict) and parent is not None:
            tally.skipped["node without message"] += 1
        tree.add(name, Node(parent=parent, messages=reader.messages(name, record(message))))
    return tree


def _digest(mapping: Record) -> str:
    return sha256("\n".join(mapping).encode("utf-8", "surrogatepass")).hexdigest()[:32]
