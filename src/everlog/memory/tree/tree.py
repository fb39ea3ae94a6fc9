"""The tree as the pump sees it: which nodes are missing, what an answer is worth, and how a node is kept.

A source of at most 512 bytes is its own node, at once; a longer one is a step with a request. An answer is kept if it
fits and is shorter than its source. After five that do not do, the shortest that was at least shorter than its source
is kept, or clauses of the source itself, marked as a fallback: so every node is built in the end.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from everlog import log
from everlog.errors import Erased
from everlog.log import ThreadRow
from everlog.memory.interface import (
    Accept,
    Again,
    Answer,
    Digest,
    Failure,
    Plan,
    Reject,
    Reply,
    Request,
    Span,
    Stale,
    Step,
    Subject,
    Try,
    Verdict,
)
from everlog.memory.tree import extractive, rows
from everlog.memory.tree.lines import LIMIT_BYTES, Line, encode, flatten, line_of, shown
from everlog.memory.tree.nodes import ending_within, index_of, level_of, nodes_in, pack, start_of, stop_of
from everlog.memory.tree.window import Node, Window, seen, window
from everlog.messages import JSON, Message
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import size_bytes, utf8

TRIES = 5
"""Answers that are tried for one node."""

_HEAD = re.compile(r"\s*[0-9]+\+[0-9]+\|")


class Tree:
    """The tree memory."""

    name = "tree"

    def __init__(self, *, model: str = extractive.MODEL, prompt: str | None = None) -> None:
        """Make the memory for one compactor.

        Args:
            model: what will answer; part of the digest of every request.
            prompt: id of the prompt it is asked with.
        """
        self.model = model
        self.prompt = prompt

    def read(self, unit: Unit, subject: Subject) -> Window:
        """Take in the stretch that begins at the first missing node."""
        return window(unit, subject)

    def plan(self, state: Window, now: datetime, room: int) -> Plan:  # noqa: ARG002 -- no time makes a node due
        """Return the missing nodes whose source is there, those that need no model among them."""
        steps: list[Step] = []
        built = 0
        for nid in ending_within(state.start, state.stop):
            if nid in state.lines:
                built += 1
            elif len(steps) < room and (made := state.source(nid)) is not None:
                steps.append(self._step(state, nid, made))
        remaining = nodes_in(state.count) - nodes_in(state.start) - built
        return Plan(steps=tuple(steps), remaining=remaining)

    def judge(self, state: Window, step: Step, reply: Reply | None) -> Verdict:
        """Accept a line that fits, keep a try that does not, and after the last settle for the best there is."""
        nid = _nid_of(step)
        made = state.source(nid)
        if nid in state.lines or made is None or self._inputs(state, made) != step.inputs:
            return Stale()
        if reply is None:
            return Accept(rows=(Node(nid, made, step.inputs, state.seen),))
        match reply:
            case Failure(kind="unavailable"):
                return Reject(reason="unavailable")
            case Failure():
                attempt = Try(text="", size_bytes=0)
            case Answer():
                line = _answered(reply, made)
                if line is not None and line.size_bytes <= LIMIT_BYTES:
                    return Accept(rows=(self._node(nid, line, step, state, reply.model),))
                attempt = Try(
                    text="" if line is None else line.text,
                    size_bytes=0 if line is None else line.size_bytes,
                    usage=reply.usage,
                )
            case _:
                assert_never(reply)
        tried = replace(step, tries=(*step.tries, attempt))
        return Again(step=tried) if len(tried.tries) < TRIES else self._settle(state, tried, nid, made)

    def write(self, unit: Unit, subject: Subject, verdicts: Sequence[Accept]) -> None:
        """Keep the nodes, each under the thread that owns its last entry; one that is there stays as it is."""
        nodes = [node for verdict in verdicts for node in verdict.rows]
        if not nodes:
            return
        thread = log.load(unit, subject.key)
        now = seen(unit, thread, max(stop_of(node.nid) for node in nodes))
        if any(node.seen != now for node in nodes):
            raise Erased("something was erased while its lines were made; they were dropped")
        unit.run(rows.PUT_NODE, [_row(unit, thread, node) for node in nodes])

    def _step(self, state: Window, nid: int, made: Line) -> Step:
        request = None
        if made.size_bytes > LIMIT_BYTES:
            messages = tuple(Message(kind=kind, text=words) for kind, words in made.pieces)
            request = Request(source=messages, limit_bytes=LIMIT_BYTES)
        return Step(
            subject=state.subject,
            name=f"node {level_of(nid)}:{index_of(nid)}",
            span=Span(thread=state.subject.key, start=start_of(nid), stop=stop_of(nid)),
            request=request,
            inputs=self._inputs(state, made),
        )

    def _inputs(self, state: Window, made: Line) -> Digest:
        free = made.size_bytes <= LIMIT_BYTES
        maker = () if free else (utf8(self.prompt or ""), utf8(self.model))
        return digest(state.secret, b"node", utf8(made.text), *maker).hex()

    def _node(self, nid: int, line: Line, step: Step, state: Window, model: str, *, fallback: bool = False) -> Node:
        return Node(nid, line, step.inputs, state.seen, model=model, prompt=self.prompt, fallback=fallback)

    def _settle(self, state: Window, step: Step, nid: int, made: Line) -> Accept:
        """Take the shortest try, or where none can be used clauses of the source."""
        usable = [attempt for attempt in step.tries if attempt.size_bytes]
        if usable:
            best = min(usable, key=lambda attempt: attempt.size_bytes)
            return Accept(rows=(self._node(nid, Line(best.text, ()), step, state, self.model),))
        line = extractive.extract(made.pieces)
        return Accept(rows=(self._node(nid, line, step, state, extractive.MODEL, fallback=True),))


def _nid_of(step: Step) -> int:
    level, _, index = step.name.removeprefix("node ").partition(":")
    return pack(int(level), int(index))


def _answered(answer: Answer, made: Line) -> Line | None:
    """Return the line that an answer gives, or None if it cannot be used."""
    if answer.finish != "stop":
        return None
    line = _of_pieces(answer.arguments, made)
    if line is None:
        text = _HEAD.sub("", flatten(answer.text)).strip()
        line = Line(text, ()) if text else None
    return line if line is not None and line.size_bytes < made.size_bytes else None


def _of_pieces(arguments: JSON, made: Line) -> Line | None:
    """Return the line of an answer in pieces, each with a kind that its source has."""
    pieces = arguments.get("pieces") if isinstance(arguments, dict) else None
    if not isinstance(pieces, list) or not pieces:
        return None
    kinds = {kind for kind, _ in made.pieces}
    found = []
    for piece in pieces:
        match piece:
            case [str(kind), str(words)] if kind in kinds and words:
                found.append((kind, words))
            case _:
                return None
    return line_of(found)


def _row(unit: Unit, thread: ThreadRow, node: Node) -> dict[str, object]:
    owner = thread.owner(stop_of(node.nid) - 1)
    return {
        "thread": owner,
        "nid": node.nid,
        "size": size_bytes(shown(node.line.text)),
        "prompt": node.prompt,
        "model": node.model,
        "inputs": bytes.fromhex(node.inputs),
        "fallback": int(node.fallback),
        "body": unit.seal(rows.node.c.body, (owner, node.nid), encode(node.line)),
    }
