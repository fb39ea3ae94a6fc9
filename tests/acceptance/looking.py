"""A model that answers a `Plan`, and at times looks into memory where it is offered that.

Whether it looks, and how, follows from turn and round alone: memory's tools by themselves, one or two at once, one round or
two, with words or thoughts before them, or among the client's own calls. Where it is not offered them it never does, so
that a session without memory has the same answers.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from everlog.messages import JSON, Message
from everlog.protocols import FORMATS
from everlog.testing.upstream import Answer, Received
from tests.acceptance.sessions import ASIDE, Plan

PREFIX = "everlog_"
"""How the names of memory's tools begin."""

LABEL = re.compile(r"^(\d+)\+(\d+)\|", re.MULTILINE)
"""A line of a view that opens into two."""

SAID = re.compile(r"(Question|Notes) ([a-z]*)(\d+)(?:\.(\d+)\.\d+)?: ")

WAYS = ("none", "one", "mixed", "two rounds", "none", "pair", "words", "mixed pair", "thoughts", "none", "mixed first")
"""How it looks into memory, turn by turn."""

OUTPUT_TOKENS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as the model saw it."""

    received: Received
    at: float
    """Seconds since 1970."""
    who: str
    turn: int
    step: int
    """How many rounds of the client's tools the turn has behind it."""
    hidden: int
    """How many rounds of memory's tools stand behind what the client said last."""
    is_offered: bool
    """Whether there are memory's tools."""


@dataclass(slots=True)
class Looking:
    """The model; give it to `Stage.play` or `Upstream`."""

    plans: Sequence[Plan]
    keeps: bool = True
    """Whether bodies stay in `asked`; those of a long session without memory are too many."""
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, received: Received) -> Answer:
        """Answer a request."""
        body = received.body
        assert received.protocol is not None
        messages = [one for said in FORMATS[received.protocol].parse_history(body) for one in said.messages]
        what, who, turn, step, hidden = _place(messages)
        plan = next(plan for plan in self.plans if plan.who == who)
        offered = any(PREFIX in str(tool) for tool in body.get("tools") or ())
        asked = received if self.keeps else Received(method="", path=received.path, headers={}, raw=b"")
        self.asked.append(
            Asked(received=asked, at=time.time(), who=who, turn=turn, step=step, hidden=hidden, is_offered=offered)
        )
        step += what == "Notes"
        tokens = len(received.raw) // 4
        calls = plan.calls(turn, step) if step < plan.rounds(turn) else ()
        words = plan.looking(turn, step) if calls else plan.answer(turn)
        answer = self._looks(turn, step, hidden, calls, messages) if offered else None
        if answer is None:
            answer = Answer(text=words, calls=calls, thinking="Where is it?" if turn % 5 == 1 else "")
        elif len(answer.calls) > 1 and calls and calls[0] in answer.calls:
            answer = replace(answer, text=words)
        return replace(answer, input_tokens=tokens, cached_tokens=tokens // 2, output_tokens=OUTPUT_TOKENS)

    def _looks(
        self, turn: int, step: int, hidden: int, calls: Sequence[tuple[str, str, JSON]], messages: Sequence[Message]
    ) -> Answer | None:
        """Return an answer that looks into memory; None where it has looked enough."""
        way = WAYS[(turn * 3 + step) % len(WAYS)]
        if hidden >= {"none": 0, "two rounds": 2}.get(way, 1):
            return None
        own = _memory_calls(f"{turn}_{step}_{hidden}", turn, messages)
        if way.startswith("mixed"):
            if not calls:
                return None
            mixed = {"mixed": (*calls, own[0]), "mixed first": (own[0], *calls)}.get(way, (calls[0], *own, *calls[1:]))
            return Answer(calls=mixed)
        return Answer(
            calls=own if way == "pair" else (own[hidden],),
            text=ASIDE if way == "words" else "",
            thinking="It was long ago." if way == "thoughts" else "",
        )


def _memory_calls(name: str, turn: int, messages: Sequence[Message]) -> tuple[tuple[str, str, JSON], ...]:
    """Two calls: the words of an old message, and a line of the view, if there is one."""
    old = turn * 5 % max(1, 3 * turn)
    lines = [found for message in messages for found in LABEL.findall(message.text)]
    first, size = map(int, lines[turn % len(lines)]) if lines else (0, 1)
    return (
        (f"mem_{name}_a", f"{PREFIX}zoom", {"id": old, "n": 1}),
        (f"mem_{name}_b", f"{PREFIX}zoom", {"id": first, "n": size}),
    )


def _place(messages: Sequence[Message]) -> tuple[str, str, int, int, int]:
    """Return what the client said last, in whose words, of which turn and step, and how many hidden rounds came since."""
    names = {one.call.call_id: one.call.name for one in messages if one.call is not None}
    hidden, is_result = 0, False
    for message in reversed(messages):
        if message.result is not None and names.get(message.result.call_id, "").startswith(PREFIX):
            hidden += not is_result
            is_result = True
        elif message.kind in ("user", "tool_result"):
            found = SAID.findall(message.text)
            assert found, "the client said nothing that has a place"
            what, who, turn, step = found[-1]
            return what, who, int(turn), int(step or 0), hidden
        else:
            is_result = False
    raise AssertionError("nobody said anything")
