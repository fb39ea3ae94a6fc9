"""The prompts that are held to the bounds: those that Everlog compiles, over a database, with lines built meanwhile."""

import json
from collections.abc import Iterator
from itertools import zip_longest

import everlog
from benchmarks._caches.plans import Request, chat_for
from benchmarks._caches.policies import BUDGET_BYTES
from benchmarks._caches.providers import Marks, Wire
from benchmarks._caches.talks import Exchange, Talk
from everlog import Everlog, context
from everlog.context import Consumer, Head, Marking, Terms
from everlog.log import NewTurn, TurnState
from everlog.messages import Message
from everlog.protocols.exchange import Said
from everlog.protocols.shapes import encoded

MARKING: dict[Marks, Marking] = {"anthropic": "blocks", "exact": "breakpoints", "none": "none"}


def ours(talk: Talk, wire: Wire) -> Iterator[Request]:
    """Yield the requests of a talk as they are compiled: a frozen view, words that grow behind it, planned marks."""
    chat = chat_for(talk, wire, mode="implicit" if wire.marks == "exact" else None)
    tools = encoded({"tools": [dict(tool.parameters) for tool in talk.tools]})
    head = Head(instructions=(Said(messages=(Message(kind="system", text=talk.instructions),)),), tools=tools)
    consumer = Consumer(mode="tree", budget=BUDGET_BYTES, renderer="benchmark", family=wire.model)
    with everlog.open(":memory:") as memory:
        thread = memory.thread(talk.name)
        open_at = 0
        for exchange, following in zip_longest(talk.exchanges, talk.exchanges[1:]):
            turn = NewTurn(messages=exchange.new, state=TurnState.OPEN, more=not exchange.opens)
            first = thread.extend([turn]).first
            open_at = first if exchange.opens else open_at
            terms = Terms(consumer=consumer, head=head, open_at=open_at, marking=MARKING[wire.marks])
            made = context.prepare(memory.store, memory.name, thread.id, terms)
            chat.messages = list(made.said)
            yield Request(exchange.at_s, json.loads(chat.render_bytes()), exchange.reply_tokens)
            _answer(memory, talk.name, exchange, following)


def _answer(memory: Everlog, key: str, exchange: Exchange, following: Exchange | None) -> None:
    """Record a reply, and build what is missing, as a thread beside the talk would by the next request."""
    state = TurnState.COMPLETE if following is None or following.opens else TurnState.OPEN
    thread = memory.thread(key)
    thread.extend([NewTurn(messages=exchange.reply, state=state, more=True)])
    thread.pump()
