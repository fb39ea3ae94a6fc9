"""The rolling summary as the pump sees it: which piece is due, what an answer is worth, and how a summary is kept.

One step at a time, since each goes on from the summary before. An answer adds; what was there is carried over by code.
After three that cannot be used, a summary is kept that only points at the piece, marked as a fallback and never shown,
so the originals stay and later pieces are not held up. Without a model nothing is done.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal, assert_never

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
from everlog.memory.rolling import codec, outline, questions, replies, rows, shelf, toollines
from everlog.memory.rolling.fold import Fold, fold, idle
from everlog.memory.rolling.markdown import render
from everlog.memory.rolling.outline import Additions, Outline
from everlog.memory.rolling.questions import Prompts, Recalled
from everlog.memory.rolling.settings import Settings
from everlog.memory.sight import Seen, seen
from everlog.messages import Call
from everlog.store import Unit
from everlog.store.keys import digest
from everlog.tokens import size_bytes, utf8

TRIES = 3
"""Answers that are tried for one piece."""

FOLDED = "rolling summary"
"""What is logged when a piece was folded, with `compressed` and `plaintext`: how many messages the summary stands for, and
how many are left as they are."""

_log = logging.getLogger(__name__)

_FIRST = 3
"""Messages of a request before any answer: rules, summary so far, task."""

_FAILED = {
    "refused": "the model's server refused to answer",
    "timeout": "no answer came in time",
    "unusable": "it could not be read",
}

SettingsOf = Callable[[Unit, Subject], Settings]
"""The settings of a thread, as they are found in the unit that reads it."""


@dataclass(frozen=True, slots=True)
class Made:
    """A summary to be kept."""

    upto: int
    prev: int
    covered: str
    said_chars: int
    outline: Outline
    inputs: Digest
    model: str
    prompt: str
    seen: Seen | None
    fallback: bool = False
    """Whether it only points at what could not be summarised."""


def console_line(compressed: int, plaintext: int) -> str:
    """Return the line in which seed 002 tells of a fold."""
    return f"rolling_summary: {compressed} compressed → summary, {plaintext} plaintext"


class Rolling:
    """The rolling summary."""

    name = "rolling"

    def __init__(
        self,
        *,
        model: str | None,
        settings: Settings | SettingsOf | None = None,
        prompts: Prompts | None = None,
        recalled: Recalled | None = None,
    ) -> None:
        """Make the memory for one compactor.

        Args:
            model: what will answer; None where there is no model, and nothing is summarised.
            settings: of all threads, or what gives those of each; the defaults if None.
            prompts: the words to ask it with; our own if None.
            recalled: tells calls of our own memory's tools, whose results are in the log already; none are, if None.
        """
        self.model = model
        self.prompts = prompts or questions.prompts()
        self._settings = settings or Settings()
        self._recalled = recalled or _nothing

    @classmethod
    def of(
        cls,
        compactor: Compactor | None,
        *,
        settings: Settings | SettingsOf | None = None,
        prompts: Prompts | None = None,
        recalled: Recalled | None = None,
    ) -> "Rolling":
        """Return the memory for a compactor; one that is code, and no model, leaves it inactive."""
        is_code = compactor is None or bool(getattr(compactor, "inline", False))
        model = None if compactor is None or is_code else compactor.model
        return cls(model=model, settings=settings, prompts=prompts, recalled=recalled)

    @property
    def status(self) -> Literal["active", "inactive: it needs a model"]:
        """Whether conversations are summarised at all."""
        return "inactive: it needs a model" if self.model is None else "active"

    def read(self, unit: Unit, subject: Subject) -> Fold:
        """Take in the newest summary and the piece after it."""
        settings = self._settings if isinstance(self._settings, Settings) else self._settings(unit, subject)
        return idle(unit, subject, settings) if self.model is None else fold(unit, subject, settings)

    def plan(self, state: Fold, now: datetime, room: int) -> Plan:  # noqa: ARG002 -- no time makes a piece due
        """Return the one piece that is due, if there is one."""
        if not state.piece:
            return Plan(steps=(), remaining=0)
        about = -(-(state.reach - state.start) // len(state.piece))
        return Plan(steps=(self._step(state),)[:room], remaining=max(1, about))

    def judge(self, state: Fold, step: Step, reply: Reply | None) -> Verdict:
        """Accept what can be added, carry along what cannot, and after the last try only point at the piece."""
        if not state.piece or step.inputs != self._inputs(state) or step.name != _name(state):
            return Stale()
        if step.request is None or reply is None:
            return Accept(rows=(self._made(state, state.outline, step, self._model),))
        match reply:
            case Failure(kind="unavailable"):
                return Reject(reason="unavailable", retry_at=reply.retry_at)
            case Failure():
                attempt = Try(text="", size_bytes=0, reason=_FAILED[reply.kind])
            case Answer():
                cap = state.settings.cap_chars
                found, reason = replies.read(reply, replies.Asked(state.outline, state.start, state.stop, cap))
                if found is not None:
                    after = self._after(state, found)
                    # The last one is kept all the same: no summary is shown in place of fewer words than it has.
                    if len(render(after)) < state.said_chars or len(step.tries) + 1 == TRIES:
                        return Accept(rows=(self._made(state, after, step, reply.model),))
                    reason = replies.NO_SMALLER
                attempt = Try(text=reply.text, size_bytes=size_bytes(reply.text), reason=reason, usage=reply.usage)
            case _:
                assert_never(reply)
        tried = (*step.tries, attempt)
        if len(tried) >= TRIES:
            pointing = _within(state, partial(outline.unsaid, state.outline, state.start, state.stop, render))
            return Accept(rows=(self._made(state, pointing, step, self._model, fallback=True),), fallback=True)
        first = replace(step.request, messages=step.request.messages[:_FIRST])
        return Again(step=replace(step, tries=tried, request=questions.further(self.prompts, first, tried)))

    def write(self, unit: Unit, subject: Subject, verdicts: Sequence[Accept | Again]) -> None:
        """Keep a summary, under the thread that owns the last entry it stands for; one that is there stays as it is."""
        made: list[Made] = [row for verdict in verdicts for row in verdict.rows]
        if not made:
            return
        thread = log.load(unit, subject.key)
        for one in made:
            # A hash that would not be believed must not be stored: the piece would be folded for ever.
            fits = one.covered == shelf.covered(unit, thread, one.upto).hex()
            if one.seen != seen(unit, thread, one.upto) or not fits:
                raise Erased("something was erased while it was summarised; the summary was dropped")
            row = _row(unit, thread, one)
            # One of another log, which cannot be believed, must not keep the place of one that can.
            unit.run(rows.OTHERS, {"thread": row["thread"], "at": one.upto, "hash": row["covered"]})
            unit.run(rows.PUT, row)
            if not one.fallback:
                _log.info(FOLDED, extra={"compressed": one.upto, "plaintext": thread.next - one.upto})

    @property
    def _model(self) -> str:
        return self.model or ""

    def _after(self, state: Fold, found: Additions) -> Outline:
        tools = toollines.lines(state.piece, self._recalled)
        return _within(state, partial(outline.merged, state.outline, found, tools, render))

    def _step(self, state: Fold) -> Step:
        request: Request | None = None
        if any(not entry.erased and entry.kind != "system" for entry in state.piece):
            request = questions.request(self.prompts, state.outline, state.piece, state.settings, self._recalled)
        return Step(
            subject=state.subject,
            name=_name(state),
            span=Span(thread=state.subject.key, start=state.start, stop=state.stop),
            request=request,
            inputs=self._inputs(state),
        )

    def _inputs(self, state: Fold) -> Digest:
        """Return the digest of all that an answer depends on."""
        said = [utf8(f"{entry.i}\0{entry.kind}\0{entry.author}\0{entry.text}") for entry in state.piece]
        # How much room there is decides when a piece is asked about, not what.
        asked = utf8(f"{self._model}\0{self.prompts.id}\0{replace(state.settings, room_bytes=None)}")
        return digest(state.secret, b"rolling", asked, codec.encode(state.outline), *said).hex()

    def _made(self, state: Fold, after: Outline, step: Step, model: str, *, fallback: bool = False) -> Made:
        return Made(
            upto=state.stop,
            prev=state.start,
            covered=state.covered,
            said_chars=state.said_chars,
            outline=after,
            inputs=step.inputs,
            model=model,
            prompt=self.prompts.id,
            seen=state.seen,
            fallback=fallback,
        )


def _within(state: Fold, make: Callable[[int], Outline]) -> Outline:
    """Return a summary, made for a cap in characters, that keeps to the one in bytes too."""
    cap, most = state.settings.cap_chars, state.settings.cap_bytes
    made = make(cap)
    while most is not None and cap and (size := size_bytes(render(made))) > most:
        cap = min(cap - 1, cap * most // size)
        made = make(cap)
    return made


def _nothing(call: Call) -> bool:  # noqa: ARG001 -- no call is one of ours
    return False


def _name(state: Fold) -> str:
    return f"summary {state.stop}"


def _row(unit: Unit, thread: ThreadRow, made: Made) -> dict[str, object]:
    owner = thread.owner(made.upto - 1)
    return {
        "thread": owner,
        "upto": made.upto,
        "prev": made.prev,
        "covered": bytes.fromhex(made.covered),
        "said": made.said_chars,
        "size": len(render(made.outline)),
        "prompt": made.prompt,
        "model": made.model,
        "inputs": bytes.fromhex(made.inputs),
        "fallback": int(made.fallback),
        "body": unit.seal(rows.summary.c.body, (owner, made.upto), codec.encode(made.outline)),
    }
