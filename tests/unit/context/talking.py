"""A conversation in memory whose prompts are compiled, without a model: what tests of epochs say and look at."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

import everlog
from everlog import Everlog, context
from everlog.context import Consumer, Context, Head, Held, Terms
from everlog.log import NewTurn, TurnState
from everlog.messages import Call, Message, Result
from everlog.protocols.exchange import Said, Usage
from everlog.testing import FrozenClock

TENANT = "default"


@dataclass
class Talk:
    """A thread and one consumer of it."""

    budget: int = 4_000
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of the terms."""
    consumer: dict[str, Any] = field(default_factory=dict)
    clock: FrozenClock = field(default_factory=lambda: FrozenClock(step=timedelta(milliseconds=1)))

    def __post_init__(self) -> None:
        self.memory: Everlog = everlog.open(":memory:", clock=self.clock)
        self.thread = self.memory.thread("talk")
        self.open_at: int | None = None
        self.numbers = count()
        self.last: Context | None = None

    def terms(self, **more: Any) -> Terms:
        named: dict[str, Any] = {"mode": "tree", "budget": self.budget, "renderer": "r", "family": "m"} | self.consumer
        head = Head(instructions=(Said(messages=(Message(kind="system", text="Be brief."),)),), tools=b"[]")
        given: dict[str, Any] = {"consumer": Consumer(**named), "head": head, "open_at": self.open_at}
        return Terms(**(given | self.options | more))

    def ask(self, text: str) -> int:
        """The user says something; return its position."""
        self.open_at = self.thread.extend([NewTurn(messages=(user(text),), state=TurnState.OPEN)]).first
        return self.open_at

    def request(self, **more: Any) -> Context:
        """Compile the next request, and keep what it is made of."""
        self.last = context.prepare(self.memory.store, TENANT, self.thread.id, self.terms(**more))
        return self.last

    def round(self, result: str, *, name: str | None = None) -> None:
        """The model calls a tool, which answers."""
        call_id = name or f"call_{next(self.numbers)}"
        self.thread.extend(
            [NewTurn(messages=(call(call_id), answer(call_id, result)), state=TurnState.OPEN, more=True)]
        )

    def together(self, results: Sequence[str]) -> None:
        """The model calls tools at once, which answer, if there are any."""
        names = [f"call_{next(self.numbers)}" for _ in results]
        messages = [call(name) for name in names] + [answer(*one) for one in zip(names, results, strict=True)]
        if messages:
            self.thread.extend([NewTurn(messages=tuple(messages), state=TurnState.OPEN, more=True)])

    def reply(self, text: str, usage: Usage | None = None) -> None:
        """The model answers, and the turn is over."""
        if usage is not None:
            assert self.last is not None
            self.note(usage)
        self.thread.extend([NewTurn(messages=(Message(kind="assistant", text=text),), more=True)])
        self.open_at = None

    def turn(self, text: str, reply: str, **more: Any) -> Context:
        """A whole turn without tools; return its request."""
        self.ask(text)
        made = self.request(**more)
        self.reply(reply)
        return made

    def until(self, reason: str, *, size: int = 400, most: int = 60) -> Context:
        """Talk until an epoch opens for a reason."""
        for n in range(most):
            made = self.turn(f"question {n} " + "q" * size, f"answer {n} " + "a" * size)
            if made.turned == reason:
                return made
        raise AssertionError(f"no epoch opened for {reason} in {most} turns")

    def hold(self, held: Sequence[Held]) -> None:
        """Hold something for the epoch of the last request."""
        assert self.last is not None
        made, thread, terms = self.last, self.thread.id, self.terms()
        self.memory.store.write(TENANT, lambda unit: context.hold(unit, thread, terms, made, held), name="test.hold")

    def note(self, usage: Usage) -> None:
        """The provider counted."""
        assert self.last is not None
        made, thread, terms = self.last, self.thread.id, self.terms()
        self.memory.store.write(
            TENANT,
            lambda unit: context.answered(unit, thread, terms, made, status="answered", usage=usage),
            name="test.note",
        )


def user(text: str) -> Message:
    return Message(kind="user", text=text)


def call(call_id: str) -> Message:
    return Message(kind="tool_call", text="look {}", parts=(Call(call_id=call_id, name="look", arguments="{}"),))


def answer(call_id: str, text: str) -> Message:
    return Message(kind="tool_result", text=text, parts=(Result(call_id=call_id, name="look"),))


def words(made: Context) -> str:
    """Return all words of a prompt."""
    return "\n".join(message.text for said in made.said for message in said.messages)
