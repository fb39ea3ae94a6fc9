"""What a rolling summary costs and what prompts show beside it, for a few values of what decides when a piece is folded.

Conversations are LoCoMo's (`EVERLOG_DATA` names the folder with `locomo/*.json`), made up where there are none, and the same
with every message twelve times as long. After each turn the pump runs, as it does behind a chat. Counted for each message:
tokens that the compactor reads, characters ÷ 4; shown: how many of the newest messages stand in a prompt as they were said, and
the most that nothing in it stood for. The compactor is scripted, so what it writes is not measured.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import everlog
from benchmarks._sheet import Sheet, fill
from benchmarks._stock import words
from everlog import Conversation, NewTurn, TurnState, context
from everlog.context import Consumer, Terms
from everlog.conversation.summaries import settings_for
from everlog.memory.interface import Answer, Request
from everlog.memory.rolling import Rolling, Settings
from everlog.messages import Message
from everlog.pump import run
from everlog.testing import EchoSummary
from everlog.tokens import size_bytes

BUDGET_TOKENS = 4_000
LARGE = 12
MESSAGES = 300


class Counting(EchoSummary):
    """A scripted compactor that counts what it reads."""

    read_bytes = 0

    def __call__(self, request: Request) -> Answer:
        self.read_bytes += sum(size_bytes(message.text) for message in request.messages)
        return super().__call__(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Talked:
    """What came of one conversation."""

    tokens: float
    """That the compactor read, for each message."""
    shown: float
    """Messages as they were said, in a prompt on average."""
    hidden: int
    """The most that nothing stood for."""
    epochs: float
    """Turns that began a new prompt, of a hundred."""


def measure(sheet: Sheet) -> None:
    """Measure the defaults, and one value changed at a time."""
    talks = [texts[: sheet.pick(MESSAGES, 60)] for texts in _talks()][: sheet.pick(3, 1)]
    usual = settings_for(BUDGET_TOKENS)
    kinds: dict[str, Settings] = {"defaults": usual}
    if not sheet.quick:
        kinds |= {f"room 1/{part}": replace(usual, room_bytes=4 * BUDGET_TOKENS // part) for part in (2, 8)}
        kinds |= {"no room": replace(usual, room_bytes=None)}
        kinds |= {f"threshold 1/{n}": replace(usual, threshold_tokens=BUDGET_TOKENS // n) for n in (4, 8)}
        kinds |= {f"recent {n}": replace(usual, min_recent=n) for n in (4, 10)}
    for size, times in (("as they are", 1), (f"{LARGE} times as long", LARGE)):
        for name, settings in kinds.items():
            found = [_talked([text * times for text in texts], settings) for texts in talks]
            what = f"{len(talks)} x {len(talks[0])}, {size}"
            count = len(found)
            sheet.row("tokens read by the compactor, per message", what, name, sum(one.tokens for one in found) / count)
            sheet.row("messages shown as they were said", what, name, sum(one.shown for one in found) / count)
            sheet.row("new prompts, of a hundred turns", what, name, sum(one.epochs for one in found) / count)
            bound = 0 if name == "defaults" else None
            sheet.row(
                "messages that nothing stood for, at most", what, name, max(one.hidden for one in found), at_most=bound
            )


def _talks() -> Iterator[Sequence[str]]:
    place = os.environ.get("EVERLOG_DATA")
    files = sorted(Path(place).glob("locomo/locomo*.json")) if place else []
    for file in files:
        with everlog.read(file) as reading:
            for talk in reading:
                assert isinstance(talk, Conversation), "the file is without fault"
                yield [message.text for message in talk.messages]
    if not files:
        yield [words(i, 120) for i in range(MESSAGES)]


def _talked(texts: Sequence[str], settings: Settings) -> Talked:
    model, shown, hidden, epochs = Counting(), 0, 0, 0
    memory = Rolling.of(model, settings=settings)
    consumer = Consumer(mode="rolling", budget=BUDGET_TOKENS, unit="tokens", renderer="r", family="m")
    with everlog.open(":memory:") as home:
        thread = home.thread("talk")
        for said, reply in zip(islice(texts, 0, None, 2), islice(texts, 1, None, 2), strict=False):
            at = thread.extend([NewTurn(messages=(Message(kind="user", text=said),), state=TurnState.OPEN)]).first
            made = context.prepare(home.store, home.name, thread.id, Terms(consumer=consumer, open_at=at))
            shown += at + 1 - made.epoch.cut
            hidden = max(hidden, made.hidden)
            epochs += made.turned is not None
            thread.extend([NewTurn(messages=(Message(kind="assistant", text=reply),), more=True)])
            run(home.store, home.name, thread.id, memory, model)
    turns = len(texts) // 2
    return Talked(
        tokens=model.read_bytes / 4 / len(texts), shown=shown / turns, hidden=hidden, epochs=100 * epochs / turns
    )


if __name__ == "__main__":
    raise SystemExit(fill("summaries", measure))
