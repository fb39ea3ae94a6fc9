"""Ways of making prompts of an endless conversation: each takes a talk and yields what is sent in each request.

Nothing is said here of wires or marks: `plans` renders what is yielded, with marks where they are worth most.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks._caches.talks import Exchange, Talk, text
from everlog.memory.tree.fold import View, settle
from everlog.memory.tree.nodes import label_of, level_of
from everlog.memory.tree.render import FRAME_BYTES, line_bytes
from everlog.messages import Message
from everlog.tokens import bytes_for, cut, size_bytes

BUDGET_BYTES = bytes_for(20_000)

LOW_MARK = 0.5

LINE_BYTES = 300
"""What a line of a view takes at most, with its label."""

BLOCK_LINES = 8
"""Lines of a view that are one block on the wire."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The prompt of one request; the instructions come before it."""

    words: tuple[Message, ...]
    """What is sent verbatim, after the memory."""
    memory: tuple[str, ...] = ()
    """What stands for the past, in blocks, said by the user."""
    instructed: str = ""
    """What is added to the instructions."""


Sending = Iterator[tuple[Exchange, Sent]]

Policy = Callable[[Talk], Sending]


@dataclass(slots=True)
class Log:
    """What was said so far, and where it may be cut."""

    said: list[Message] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    """Where a turn begins, or a later round of it."""
    turns: list[int] = field(default_factory=list)
    lines: dict[int, str] = field(default_factory=dict)

    def hear(self, exchange: Exchange) -> None:
        """Take in what is new in a request."""
        if exchange.opens:
            self.turns.append(len(self.said))
            self.rounds.append(len(self.said))
        self.said += exchange.new

    def answer(self, exchange: Exchange) -> None:
        """Take in what is answered; calls and their results are a round, the first of a turn goes with the user's words."""
        if not exchange.opens:
            self.rounds.append(len(self.said))
        self.said += exchange.reply

    def since(self, start: int) -> tuple[Message, ...]:
        """Return what was said from a cut on; inside a turn, behind the words that opened it."""
        opened = self.turns[bisect_right(self.turns, start) - 1]
        return (*(() if opened == start else (self.said[opened],)), *self.said[start:])

    def newest(self, budget: int) -> int:
        """Return the earliest cut from which on everything fits, or the latest one there is."""
        start = self.rounds[-1]
        for earlier in reversed(self.rounds):
            if weight(self.since(earlier)) > budget:
                break
            start = earlier
        return start

    def weigh(self, nodes: Collection[int]) -> Mapping[int, int]:
        """Return the bytes of lines of the tree."""
        return {node: size_bytes(self.line(node)) for node in nodes}

    def line(self, node: int) -> str:
        """Return the line of a node; above the leaves its words are made up, since only their size counts."""
        if node not in self.lines:
            room = LINE_BYTES - line_bytes(node, 0)
            message = None if level_of(node) else self.said[node]
            words = f"{message.kind}: {message.text}" if message else text(random.Random(node), room // 4 + 1)
            self.lines[node] = cut(words, room)
        return self.lines[node]

    def shown(self, view: View) -> tuple[str, ...]:
        """Return a view in blocks of lines."""
        lines = [f"{label_of(node)}|{self.line(node)}\n" for node in view.lines]
        blocks = ["".join(lines[n : n + BLOCK_LINES]) for n in range(0, len(lines), BLOCK_LINES)]
        return (f"<chat>\n{blocks[0]}", *blocks[1:], "</chat>") if blocks else ()


def weight(messages: Collection[Message]) -> int:
    """Return the bytes of messages."""
    return sum(size_bytes(message.text) for message in messages)


def whole(talk: Talk) -> Sending:
    """Send all of it, always."""
    log = Log()
    for exchange in talk.exchanges:
        log.hear(exchange)
        yield exchange, Sent(tuple(log.said))
        log.answer(exchange)


def window(talk: Talk) -> Sending:
    """Send the newest that fits, from a round on."""
    log = Log()
    for exchange in talk.exchanges:
        log.hear(exchange)
        yield exchange, Sent(log.since(log.newest(BUDGET_BYTES)))
        log.answer(exchange)


def rewritten(talk: Talk) -> Sending:
    """Rewrite a block of 2,000 tokens in the instructions each turn, and send the newest 8,000 verbatim."""
    log = Log()
    for exchange in talk.exchanges:
        log.hear(exchange)
        block = text(random.Random(len(log.turns)), 2_000)
        yield exchange, Sent(log.since(log.newest(bytes_for(8_000))), instructed=block)
        log.answer(exchange)


def rolling(talk: Talk) -> Sending:
    """Fold what is above the budget into a summary of 2,000 tokens, and keep the newest 20 messages."""
    log = Log()
    start = 0
    summary: tuple[str, ...] = ()
    for exchange in talk.exchanges:
        log.hear(exchange)
        if weight(log.since(start)) + weight_of(summary) > BUDGET_BYTES:
            keep = bisect_right(log.rounds, max(start, len(log.said) - 20))
            start = log.rounds[min(keep, len(log.rounds) - 1)]
            summary = (text(random.Random(start), 2_000),)
        yield exchange, Sent(log.since(start), memory=summary)
        log.answer(exchange)


def weight_of(blocks: Collection[str]) -> int:
    """Return the bytes of blocks."""
    return sum(map(size_bytes, blocks))


def merged(talk: Talk) -> Sending:
    """Show the past as a tree view that is merged after every message, and the newest round verbatim."""
    yield from _merged(talk, lambda log: log.rounds[-1])


def merged_by_turn(talk: Talk) -> Sending:
    """Show past turns as a tree view that is merged after every message of theirs, and the open turn verbatim."""
    yield from _merged(talk, lambda log: log.turns[-1])


def _merged(talk: Talk, upto: Callable[[Log], int]) -> Sending:
    log, view = Log(), View()
    for exchange in talk.exchanges:
        log.hear(exchange)
        for count in range(view.count + 1, upto(log) + 1):
            view = settle(view, count, budget=BUDGET_BYTES, low=BUDGET_BYTES, weigh=log.weigh)
        yield exchange, Sent(log.since(upto(log)), memory=log.shown(view))
        log.answer(exchange)


def epochs(talk: Talk, low_mark: float = LOW_MARK) -> Sending:
    """Freeze a view and grow behind it; once the budget is full, at a round, fold all but a short tail to the low mark."""
    log, view, start = Log(), View(), 0
    memory: tuple[str, ...] = ()
    for exchange in talk.exchanges:
        log.hear(exchange)
        if weight_of(memory) + weight(log.since(start)) > BUDGET_BYTES:
            start = log.newest(BUDGET_BYTES // 4)
            low = max(int(BUDGET_BYTES * low_mark) - weight(log.since(start)), FRAME_BYTES + BUDGET_BYTES // 8)
            view = settle(view, start, budget=low, low=low, weigh=log.weigh)
            memory = log.shown(view)
        yield exchange, Sent(log.since(start), memory=memory)
        log.answer(exchange)
