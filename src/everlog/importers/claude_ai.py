"""Claude.ai's data export: a zip archive, or the conversations.json in it.

A message has its words as `content` blocks in exports since about 2025, before that as `text` only; where both are, the
blocks count, since `text` then stands in for blocks it cannot show. Newer exports name each message's parent, so that
branches can be told; older ones are a list.
"""

from collections.abc import Iterable, Iterator

from everlog.importers.blocks import Speaker, Speech
from everlog.importers.branches import Node, Tree
from everlog.importers.media import media_type
from everlog.importers.records import Value
from everlog.importers.report import Malformed, Problem, Tally, label
from everlog.importers.shapes import Record, array, compact, record, string
from everlog.importers.source import Source
from everlog.importers.times import moment
from everlog.messages import JSON, Conversation, Kind, Media, Message, Origin
from everlog.tokens import utf8

FORMAT = "claude-ai"
KEY = "claude"
SENDERS: dict[str, Kind] = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}


def knows(value: JSON) -> bool:
    """Whether value is a conversation of this form."""
    return isinstance(record(value).get("chat_messages"), list)


def conversations(records: Iterable[Value | Problem], source: Source, tally: Tally) -> Iterator[Conversation | Problem]:
    """Yield each conversation's newest branch, followed by its other branches as forks."""
    del source
    for item in records:
        if isinstance(item, Problem):
            yield item
            continue
        try:
            yield from _branches(record(item.value), tally)
        except Malformed as error:
            yield Problem(where=item.where, reason=str(error), position=item.position)


def _branches(shape: Record, tally: Tally) -> Iterator[Conversation]:
    identity = string(shape.get("uuid"))
    if identity is None or not isinstance(shape.get("chat_messages"), list):
        raise Malformed("it has no uuid" if identity is None else "it has no list of chat_messages")
    if string(shape.get("summary")):
        tally.skipped["summary"] += 1
    tree, newest = _tree(shape["chat_messages"], string(shape.get("model")), tally)
    project = string(record(shape.get("project")).get("uuid")) or string(shape.get("project_uuid"))
    origin = Origin(session=identity, project=project, user=string(record(shape.get("account")).get("uuid")))
    found = False
    for branch in tree.branches(string(shape.get("current_leaf_message_uuid")) or newest):
        title = string(shape.get("name"))
        yield branch.conversation(f"{KEY}:{identity}", title, origin, tally, stated=shape.get("created_at"))
        found = True
    if not found:
        tally.skipped["empty conversation"] += 1


def _tree(chat_messages: list[JSON], model: str | None, tally: Tally) -> tuple[Tree, str | None]:
    """Return the messages as a tree, and the name of the one that came last."""
    tree = Tree(tally)
    last: str | None = None
    has_parents = any(string(record(value).get("parent_message_uuid")) for value in chat_messages)
    for number, value in enumerate(chat_messages):
        if not isinstance(value, dict):
            raise Malformed(f"its message {number + 1} is not an object")
        parent = string(value.get("parent_message_uuid")) if has_parents else last
        name = string(value.get("uuid")) or f"message {number + 1}"
        last = tree.add(name, Node(parent=parent, messages=tuple(_messages(value, name, model, tally)))) or last
    return tree, last


def _messages(shape: Record, name: str, model: str | None, tally: Tally) -> list[Message]:
    sender = shape.get("sender")
    kind = SENDERS.get(sender, "note") if isinstance(sender, str) else "note"
    if kind == "note":
        tally.unknown[f"sender {label(sender)}"] += 1
    files = _files(shape)
    speaker = Speaker(
        kind=kind,
        author=string(sender) if kind == "note" else None,
        at=moment(shape.get("created_at"), tally),
        id=name,
        model=model if kind == "assistant" else None,
        meta=compact(
            truncated=shape.get("truncated") is True,
            files=[file_id for file in files if (file_id := string(file.get("file_uuid")))] or None,
        ),
    )
    speech = Speech(speaker, FORMAT, tally)
    content = shape.get("content")
    speech.add(content if isinstance(content, list) and content else shape.get("text"))
    for attachment in map(record, array(shape.get("attachments"))):
        speech.show(_attachment(attachment))
    for file in files:
        speech.show(_file(file))
    speech.pause()
    if not speech.messages:
        tally.skipped[f"empty {kind} message"] += 1
    return speech.messages


def _attachment(shape: Record) -> Media:
    """Return an attachment; what the export holds of it is its text, so that is what the content is."""
    name, text = string(shape.get("file_name")), shape.get("extracted_content")
    if isinstance(text, str):
        return Media(media_type="text/plain", content=utf8(text), name=name)
    return Media(media_type=media_type(name, None, string(shape.get("file_type"))), name=name)


def _files(shape: Record) -> list[Record]:
    """Return the files of a message, each once, though newer exports list them in two places."""
    listed = [file for field in ("files", "files_v2") for file in map(record, array(shape.get(field))) if file]
    named = {
        string(file.get("file_uuid")) or string(file.get("file_name")) or str(place): file
        for place, file in enumerate(listed)
    }
    return list(named.values())


def _file(shape: Record) -> Media:
    name = string(shape.get("file_name"))
    url = string(record(shape.get("preview_asset")).get("url")) or string(shape.get("preview_url"))
    return Media(media_type=media_type(name), url=url, name=name)
