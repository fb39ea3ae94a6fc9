"""Codex's sessions ("rollouts"): a JSONL file each.

Since September 2025 each line is `{timestamp, type, payload}`; what was said stands in `response_item`, events repeat it
for the screen and are counted only. Before that, a header line was followed by bare items without times. A thread that
was rolled back keeps the undone turns as a fork. The file's types are public in the program's source (codex-rs/protocol).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from everlog.importers.branches import Node, Tree
from everlog.importers.codex_items import CLIENT, FORMAT, ITEMS, Turn, item_messages
from everlog.importers.records import Value
from everlog.importers.report import Malformed, Problem, Tally, label
from everlog.importers.shapes import Record, array, compact, record, string
from everlog.importers.source import Source
from everlog.importers.times import moment
from everlog.importers.titles import titled
from everlog.jsonl import dumps, encoded
from everlog.messages import JSON, Conversation, Message, Origin

KEY = FORMAT
_CWD = re.compile("<cwd>([^<]+)</cwd>")
"""Where old sessions name their folder: in the context that the client gives the model."""

LINES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"})


def knows(value: JSON) -> bool:
    """Whether value is a line of this form, new or old."""
    shape = record(value)
    kind = shape.get("type")
    if isinstance(kind, str):
        return (kind in LINES and isinstance(shape.get("payload"), dict)) or (
            kind in ITEMS and not {"role", "call_id", "summary", "action"}.isdisjoint(shape)
        )
    return "record_type" in shape or _is_header(shape)


def conversations(records: Iterable[Value | Problem], source: Source, tally: Tally) -> Iterator[Conversation | Problem]:
    """Yield the thread, and what was rolled back in it as forks."""
    rollout = _Rollout(tally)
    for item in records:
        if isinstance(item, Problem):
            yield item
        elif isinstance(item.value, dict):
            rollout.add(item.value)
        else:
            yield Problem(where=item.where, reason="it is not an object", position=item.position)
    try:
        yield from rollout.conversations()
    except Malformed as error:
        yield Problem(where=source.path.name, reason=str(error), position=0)


class _Rollout:
    """What the lines of one file add up to."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._tree = Tree(tally)
        self._path: list[str] = []
        self._turns: list[int] = []
        self._header: Record = {}
        self._started: datetime | None = None
        self._title: str | None = None
        self._turn = Turn()
        self._cwd: str | None = None

    def add(self, line: Record) -> None:
        """Take in one line."""
        kind, payload = string(line.get("type")), record(line.get("payload"))
        at = moment(line.get("timestamp"), self._tally)
        self._turn = replace(self._turn, place=len(self._tree.nodes))
        if kind in ITEMS and "payload" not in line:
            self._say(item_messages(line, at or self._started, self._turn, self._tally), line)
        elif kind == "response_item":
            self._say(item_messages(payload, at, self._turn, self._tally), payload)
        elif kind == "session_meta" or (kind is None and _is_header(line)):
            self._begin(payload if kind else line, at)
        elif kind == "turn_context":
            self._turn = replace(self._turn, model=string(payload.get("model")), cwd=string(payload.get("cwd")))
            self._tally.skipped["turn_context"] += 1
        elif kind == "compacted":
            self._compacted(payload, at)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "world_state" or "record_type" in line:
            self._tally.skipped["state"] += 1
        else:
            self._tally.unknown[f"line {label(kind)}"] += 1

    def conversations(self) -> Iterator[Conversation]:
        """Yield what was said, once all lines are in."""
        identity = string(self._header.get("id")) or self._digest()
        origin = Origin(session=identity, cwd=string(self._header.get("cwd")) or self._cwd)
        active = self._path[-1] if self._path else None
        for branch in self._tree.branches(active):
            title = self._title or titled(branch.messages)
            yield branch.conversation(f"{KEY}:{identity}", title, origin, self._tally, stated=self._started)

    def _begin(self, header: Record, at: datetime | None) -> None:
        """Take in what the session says of itself; a fork's file repeats its parent's after its own."""
        if self._header:
            self._tally.skipped["session_meta of the forked thread"] += 1
            return
        self._header = header
        self._started = moment(header.get("timestamp"), self._tally) or at
        base = string(record(header.get("base_instructions")).get("text")) or string(header.get("instructions"))
        spawn = record(record(record(header.get("source")).get("subagent")).get("thread_spawn"))
        parent = string(header.get("parent_thread_id")) or string(spawn.get("parent_thread_id"))
        self._turn = replace(
            self._turn,
            meta=compact(
                git_branch=string(record(header.get("git")).get("branch")),
                forked_from=string(header.get("forked_from_id")),
                parent_thread=parent,
            ),
        )
        if base:
            self._say([Message(kind="system", text=base, at=self._started)], {})

    def _say(self, messages: list[Message], item: Record) -> None:
        """Put messages after what was said before."""
        if not messages:
            return
        if self._cwd is None and messages[0].author == CLIENT and (found := _CWD.search(messages[0].text)):
            self._cwd = found[1]
        name = string(item.get("id")) or f"message {len(self._tree.nodes) + 1}"
        parent = self._path[-1] if self._path else None
        added = self._tree.add(name, Node(parent=parent, messages=tuple(messages)))
        if added is not None:
            if messages[0].kind == "user":
                self._turns.append(len(self._path))
                self._turn = replace(self._turn, meta={})
            self._path.append(added)

    def _compacted(self, payload: Record, at: datetime | None) -> None:
        self._tally.skipped["replaced message"] += len(array(payload.get("replacement_history")))
        if text := string(payload.get("message")):
            note = Message(kind="note", text=text, author=CLIENT, at=at, meta={"compact": "summary"})
            self._say([note], {})

    def _event(self, payload: Record) -> None:
        kind = payload.get("type")
        self._tally.skipped[f"event {label(kind)}"] += 1
        if kind == "thread_name_updated":
            self._title = string(payload.get("thread_name")) or self._title
        elif kind == "thread_rolled_back" and isinstance(count := payload.get("num_turns"), int) and count > 0:
            kept = self._turns[-count] if count <= len(self._turns) else 0
            self._turns = self._turns[:-count]
            self._path = self._path[:kept]

    def _digest(self) -> str:
        first = next(iter(self._tree.nodes.values()), None)
        text = dumps([[message.kind, message.text] for message in first.messages] if first else [])
        return sha256(encoded(text)).hexdigest()[:32]


def _is_header(shape: Record) -> bool:
    return "id" in shape and "timestamp" in shape and not {"instructions", "git"}.isdisjoint(shape)
