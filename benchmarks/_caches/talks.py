"""Conversations to be replayed: what is said and when, the same at every run."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from everlog.messages import Call, Message, Result
from everlog.protocols.exchange import Tool

BYTES_PER_TOKEN = 4

TURN_S = 60.0
"""From a turn's beginning to that of the next, without the rounds in between."""

ROUND_S = 4.0

_WORDS = (
    "harbour ledger tide signal mast rope engine invoice copper lantern wind ferry cargo anchor chart buoy crane pier "
    "salt wheel valve hull keel storm radio depth pilot crew watch bell compass barrel canvas rudder galley hatch "
    "north south east west before after under over never always because while until without against beside between "
    "seven twelve forty ninety report order change check repair deliver refuse accept measure compare confirm delay"
)

WORDS = _WORDS.split()

TOOLS = tuple(
    Tool(
        name=name,
        description=f"{name.replace('_', ' ').capitalize()}, by its number or its name, as the harbour office keeps it.",
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name, or the beginning of it."},
                "day": {
                    "type": "string",
                    "description": "The day that is meant, as 2026-11-30; today if none is given.",
                },
            },
            "required": ["name"],
        },
    )
    for name in ("find_ship", "find_cargo", "find_berth", "find_crew", "find_weather")
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request: what is new in it, and what is answered."""

    at_s: float
    new: tuple[Message, ...]
    """Words of the user, or results of the calls answered last."""
    reply: tuple[Message, ...]

    @property
    def opens(self) -> bool:
        """Whether a turn begins with it."""
        return self.new[0].kind == "user"

    @property
    def reply_tokens(self) -> int:
        """What the provider counts of the answer, generously."""
        return sum(-(-len(message.text) // BYTES_PER_TOKEN) + 64 for message in self.reply)


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation."""

    name: str
    instructions: str
    tools: tuple[Tool, ...]
    exchanges: tuple[Exchange, ...]
    turns: int


def plain(turns: int = 300) -> Talk:
    """Turns of 120 and 380 tokens, behind 1,500 of instructions."""
    chance = random.Random(1)
    return _talk("talk", (), turns, (0 for _ in range(turns)), chance, most_calls=1)


def with_tools(turns: int = 300) -> Talk:
    """The same, with 3 to 10 rounds of tools in half of the turns."""
    chance = random.Random(2)
    rounds = (chance.randint(3, 10) if turn % 2 else 0 for turn in range(turns))
    return _talk("tools", TOOLS, turns, rounds, chance, most_calls=3)


def agent(turns: int = 20, least: int = 30, most: int = 60) -> Talk:
    """Few turns of many rounds, 30 to 60 unless said; one round in ten makes fifteen calls at once."""
    chance = random.Random(3)
    rounds = (chance.randint(least, most) for _ in range(turns))
    return _talk("agent", TOOLS, turns, rounds, chance, most_calls=3, burst=15)


def _talk(
    name: str,
    tools: tuple[Tool, ...],
    turns: int,
    rounds: Iterator[int],
    chance: random.Random,
    *,
    most_calls: int,
    burst: int = 0,
) -> Talk:
    exchanges: list[Exchange] = []
    at_s = 0.0
    for turn, count in zip(range(turns), rounds, strict=False):
        new: tuple[Message, ...] = (Message(kind="user", text=text(chance, 120)),)
        for number in range(count):
            calls = burst if burst and chance.random() < 0.1 else chance.randint(1, most_calls)
            asked, answered = _round(chance, f"c{turn}x{number}x", calls)
            exchanges.append(Exchange(at_s, new, asked))
            new, at_s = answered, at_s + ROUND_S
        exchanges.append(Exchange(at_s, new, (Message(kind="assistant", text=text(chance, 380)),)))
        at_s += TURN_S
    return Talk(name, text(chance, 1500), tools, tuple(exchanges), turns)


def _round(chance: random.Random, prefix: str, calls: int) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    asked, answered = [], []
    for number in range(calls):
        call_id, tool = f"{prefix}{number}", chance.choice(TOOLS).name
        arguments = f'{{"name":"{text(chance, 12)}","day":"2026-11-{chance.randint(1, 30):02}"}}'
        call = Call(call_id=call_id, name=tool, arguments=arguments)
        asked.append(Message(kind="tool_call", text=f"{tool} {arguments}", parts=(call,)))
        found = text(chance, chance.randint(120, 400))
        answered.append(
            Message(kind="tool_result", text=found, author=tool, parts=(Result(call_id=call_id, name=tool),))
        )
    return tuple(asked), tuple(answered)


def text(chance: random.Random, tokens: int) -> str:
    """Return words of exactly so many tokens."""
    size = tokens * BYTES_PER_TOKEN
    return " ".join(chance.choices(WORDS, k=size // 4))[: size - 1] + "."
