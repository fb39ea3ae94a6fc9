"""From what a policy sends to the bytes of a request, with marks where they are worth most for that policy.

For prompts that grow at their end Anthropic's four marks are: behind the instructions, which outlive every change; at
the front of the view, which may outlive an epoch; where the last request ended, so that it is read however many blocks
were added since; at the end. OpenAI since GPT-5.6 finds earlier ends by itself, so there the first two are marked, and
one more in the view. Each other policy has the marks that were best for it of those that were tried.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks._caches import policies
from benchmarks._caches.policies import Policy, Sent
from benchmarks._caches.providers import Marks, Wire
from benchmarks._caches.talks import Talk
from everlog import Chat, ChatConfig, Tool
from everlog.messages import Message
from everlog.protocols.exchange import Said, said


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where marks stand."""

    instructions: bool = False
    blocks: tuple[int, ...] = ()
    """Behind so many blocks of memory; where it has fewer, at its end."""
    last: bool = False
    """Where the last request ended, if this one goes on from there."""
    end: bool = False
    mode: str | None = None
    """What OpenAI is told of its own end: implicit or explicit."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as it is on the wire, and what is counted of the answer."""

    at_s: float
    body: dict[str, Any]
    reply_tokens: int


GROWING: dict[Marks, Plan] = {
    "anthropic": Plan(instructions=True, blocks=(2,), last=True, end=True),
    "exact": Plan(instructions=True, blocks=(2, 4), mode="implicit"),
}

PLANS: dict[Policy, dict[Marks, Plan]] = {
    policies.whole: GROWING,
    policies.rolling: GROWING,
    policies.epochs: GROWING,
    policies.merged_by_turn: GROWING,
    policies.window: {
        "anthropic": Plan(instructions=True),
        "exact": Plan(instructions=True, mode="explicit"),
    },
    policies.rewritten: {"exact": Plan(mode="explicit")},
    policies.merged: {
        "anthropic": Plan(blocks=(2, 4, 8, 14)),
        "exact": Plan(blocks=(2, 4, 8, 14), mode="explicit"),
    },
}


def requests(policy: Policy, talk: Talk, wire: Wire, plan: Plan | None = None) -> Iterator[Request]:
    """Yield the requests of a talk, made by a policy."""
    plan = plan or PLANS[policy].get(wire.marks, Plan())
    chat = chat_for(talk, wire, mode=plan.mode)
    before: list[Said] = []
    for exchange, sent in policy(talk):
        prompt, ends = _said(talk, sent, plan)
        if plan.last and before and prompt[: len(before)] == before:
            ends.add(len(before) - 1)
        if plan.end:
            ends.add(len(prompt) - 1)
        chat.messages = [replace(one, cached=True) if place in ends else one for place, one in enumerate(prompt)]
        yield Request(exchange.at_s, json.loads(chat.render_bytes()), exchange.reply_tokens)
        before = prompt


def chat_for(talk: Talk, wire: Wire, *, mode: str | None) -> Chat:
    """Return a chat with the talk's tools that renders for a wire; `mode` is what OpenAI is told of its own end."""
    config = ChatConfig(api_keys={wire.served: "none"})
    chat = Chat(wire.model, provider=wire.served, protocol=wire.protocol, config=config)
    if mode:
        chat.with_caching(mode=mode)
    tools = [
        Tool(name=tool.name, description=tool.description, parameters=tool.parameters, function=print)
        for tool in talk.tools
    ]
    return chat.with_tools(*tools) if tools else chat


def _said(talk: Talk, sent: Sent, plan: Plan) -> tuple[list[Said], set[int]]:
    """Return the prompt, and the places in it that end at a mark that stays."""
    instructions = "\n\n".join(filter(None, (talk.instructions, sent.instructed)))
    prompt = [Said(messages=(Message(kind="system", text=instructions),))]
    ends = {0} if plan.instructions else set()
    size = len(sent.memory)
    marked = {min(place, size) for place in plan.blocks}
    start = 0
    for stop in sorted({*marked, size} - {0}):
        prompt.append(Said(messages=tuple(Message(kind="user", text=block) for block in sent.memory[start:stop])))
        if stop in marked:
            ends.add(len(prompt) - 1)
        start = stop
    return [*prompt, *said(sent.words)], ends
