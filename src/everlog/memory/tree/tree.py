"""The tree as the pump sees it: which nodes are missing, what an answer is worth, and how a node is kept.

A source of at most 512 bytes is its own node, at once; a longer one is a step with a request. An answer is kept if it
fits, is shorter than its source, and says truly who speaks. After five that do not do, the shortest that was only too
long is kept, or clauses of the source itself, marked as a fallback: so every node is built in the end. A node is built
once and never made again, unless it is dropped.
"""

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
    Compactor,
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
from everlog.memory.sight import seen
from everlog.memory.tree import contexts, extractive, questions, replies, rows, tries
from everlog.memory.tree.lines import LIMIT_BYTES, Line, encode, shown
from everlog.memory.tree.nodes import ending_within, index_of, level_of, nodes_in, pack, start_of, stop_of
from everlog.memory.tree.questions import CONTEXT_BYTES, Prompts
from everlog.memory.tree.tries import Tried
from everlog.memory.tree.window import Node, Window, window
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import size_bytes, utf8

TRIES = 5
"""Answers that are tried for one node."""

_FIRST = 3
"""Messages of a request before any answer: rules, context, task."""

_FAILED = {
    "refused": "the model's server refused to answer",
    "timeout": "no answer came in time",
    "unusable": "it could not be read",
}


class Tree:
    """The tree memory."""

    name = "tree"

    def __init__(
        self, *, model: str = extractive.MODEL, prompts: Prompts | None = None, context_bytes: int = CONTEXT_BYTES
    ) -> None:
        """Make the memory for one compactor.

        Args:
            model: what will answer; part of the digest of every request.
            prompts: the words to ask it with; None for a compactor that reads a source alone, as `Extractive` does, so
                that no node waits for another's context.
            context_bytes: budget of the view that is shown beside a source.
        """
        self.model = model
        self.prompts = prompts
        self.prompt_id = None if prompts is None else prompts.id
        self._context_bytes = context_bytes

    @classmethod
    def of(cls, compactor: Compactor, prompts: Prompts | None = None) -> "Tree":
        """Return the memory for a compactor, with prompts for one that is a model."""
        if compactor.model == extractive.MODEL:
            return cls(model=compactor.model)
        return cls(model=compactor.model, prompts=prompts or questions.prompts())

    def read(self, unit: Unit, subject: Subject) -> Window:
        """Take in the stretch that begins at the first missing node."""
        state = window(unit, subject)
        if self.prompts is None:
            return state
        return contexts.with_contexts(unit, log.load(unit, subject.key), state, self._context_bytes)

    def plan(self, state: Window, now: datetime, room: int) -> Plan:  # noqa: ARG002 -- no time makes a node due
        """Return the missing nodes whose source is there, those that need no model first.

        For a model that is shown a context, that are at most the leaves of one block of eight, and merges.
        """
        steps: list[Step] = []
        built = 0
        for nid in ending_within(state.start, state.stop):
            if nid in state.lines:
                built += 1
            elif (
                len(steps) < room
                and (made := state.source(nid)) is not None
                and (step := self._step(state, nid, made)) is not None
            ):
                steps.append(step)
        steps.sort(key=lambda step: step.request is not None)
        remaining = nodes_in(state.count) - nodes_in(state.start) - built
        return Plan(steps=tuple(steps), remaining=remaining)

    def judge(self, state: Window, step: Step, reply: Reply | None) -> Verdict:
        """Accept a line that fits, keep a try that does not, and after the last settle for the best there is."""
        nid = _nid_of(step)
        made = state.source(nid)
        if nid in state.lines or made is None or self._inputs(state, nid, made, step.request) != step.inputs:
            return Stale()
        if reply is None:
            return Accept(rows=(Node(nid, made, step.inputs, state.seen),))
        given = state.given(nid, made)
        match reply:
            case Failure(kind="unavailable"):
                return Reject(reason="unavailable", retry_at=reply.retry_at)
            case Failure():
                attempt = Try(text="", size_bytes=0, reason=_FAILED[reply.kind])
            case Answer():
                judged = replies.judge(reply, made, given)
                if judged.line is not None and not judged.reason:
                    return Accept(rows=(self._node(nid, judged.line, step, state, reply.model),))
                size = size_bytes(judged.text)
                attempt = Try(text=judged.text, size_bytes=size, reason=judged.reason, usage=reply.usage)
            case _:
                assert_never(reply)
        assert step.request is not None
        tried = (*step.tries, attempt)
        if len(tried) >= TRIES:
            return self._settle(state, replace(step, tries=tried), nid, made)
        first = replace(step.request, messages=step.request.messages[:_FIRST])
        again = replace(step, tries=tried, request=questions.further(self.prompts, first, tried))
        return Again(step=again, rows=(Tried(nid, step.inputs, tried, state.seen),))

    def write(self, unit: Unit, subject: Subject, verdicts: Sequence[Accept | Again]) -> None:
        """Keep the nodes, each under the thread that owns its last entry; one that is there stays as it is."""
        made: list[Node | Tried] = [row for verdict in verdicts for row in verdict.rows]
        if not made:
            return
        thread = log.load(unit, subject.key)
        now = seen(unit, thread, max(stop_of(row.nid) for row in made))
        if any(row.seen != now for row in made):
            raise Erased("something was erased while its lines were made; they were dropped")
        nodes = [row for row in made if isinstance(row, Node)]
        unit.run(rows.PUT_NODE, [_row(unit, thread, node) for node in nodes])
        tries.forget(unit, thread, [node.nid for node in nodes if node.model is not None])
        tries.keep(unit, thread, [row for row in made if isinstance(row, Tried)])

    def _step(self, state: Window, nid: int, made: Line) -> Step | None:
        request: Request | None = None
        if made.size_bytes > LIMIT_BYTES:
            context = None if state.contexts is None else state.contexts.get(nid)
            if self.prompts is not None and (context is None or not state.stands_on_built(nid)):
                return None
            request = questions.request(self.prompts, state.given(nid, made), made, context)
        step = Step(
            subject=state.subject,
            name=f"node {level_of(nid)}:{index_of(nid)}",
            span=Span(thread=state.subject.key, start=start_of(nid), stop=stop_of(nid)),
            request=request,
            inputs=self._inputs(state, nid, made, request),
        )
        tried = state.tried.get(nid)
        if request is None or tried is None or tried.inputs != step.inputs:
            return step
        return replace(step, tries=tried.tries, request=questions.further(self.prompts, request, tried.tries))

    def _inputs(self, state: Window, nid: int, made: Line, request: Request | None) -> Digest:
        """Return the digest of all that the answer depends on; of what was asked, as it was asked first."""
        asked = () if request is None else request.messages[:_FIRST]
        key = nid, self.model, self.prompt_id
        if not asked and (known := state.digests.get(key)) is not None:
            return known
        if request is None or made.size_bytes <= LIMIT_BYTES:
            inputs = digest(state.secret, b"node", utf8(made.text)).hex()
        else:
            given, said = state.given(nid, made), [utf8(message.text) for message in asked]
            inputs = digest(
                state.secret, b"node", utf8(given.text), utf8(self.prompt_id or ""), utf8(self.model), *said
            ).hex()
        if not asked:
            state.digests[key] = inputs
        return inputs

    def _node(self, nid: int, line: Line, step: Step, state: Window, model: str, *, fallback: bool = False) -> Node:
        return Node(nid, line, step.inputs, state.seen, model=model, prompt=self.prompt_id, fallback=fallback)

    def _settle(self, state: Window, step: Step, nid: int, made: Line) -> Accept:
        """Take the shortest try, or where none can be used clauses of the source."""
        given = state.given(nid, made)
        best = replies.shortest([one.text for one in step.tries if one.reason == replies.TOO_LONG], made, given)
        if best is not None:
            return Accept(rows=(self._node(nid, best, step, state, self.model),))
        line = extractive.extract(given.pieces)
        node = self._node(nid, line, step, state, extractive.MODEL, fallback=True)
        return Accept(rows=(node,), fallback=True)


def _nid_of(step: Step) -> int:
    level, _, index = step.name.removeprefix("node ").partition(":")
    return pack(int(level), int(index))


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
