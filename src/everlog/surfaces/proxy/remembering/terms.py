"""On which terms the prompt of a client's request is compiled, and the body that it becomes. Pure.

What is the client's own stays as it came: settings, tools, the instructions at its beginning, and what it puts beside the
first message of its history, such as the rules of a project, which would fall out of sight with that message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from everlog.context import Consumer, Context, Head, Held, Marking, Mode, Terms
from everlog.conversation.turn.asking import prompt
from everlog.conversation.turn.carrying import carried
from everlog.memory.prompts import load
from everlog.memory.tree.schemas import SCHEMAS
from everlog.messages import JSON, Message
from everlog.protocols import Format
from everlog.protocols.anthropic.marks import capped
from everlog.protocols.exchange import Said
from everlog.protocols.responses import FORMAT as RESPONSES
from everlog.protocols.shapes import Record, array, dumps, record
from everlog.registry import Model, builtin
from everlog.surfaces.proxy.hidden.offering import with_tools
from everlog.surfaces.proxy.recording.profiles.blocks import LEFT_OUT
from everlog.surfaces.proxy.remembering.standing_words import System, placed
from everlog.surfaces.proxy.remembering.stateless import stateless
from everlog.tokens import BYTES_PER_TOKEN, size_bytes, utf8

FORM = "1"
"""Changes when the same parts make other bytes."""

SURE = 3, 4
"""The share of what a model did not take in that it is taken to take in: tokens are estimated, and quotes count too."""

TOOLS: tuple[Mapping[str, JSON], ...] = tuple(SCHEMAS[name] for name in ("zoom", "read", "date"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an upstream takes what memory adds to a request."""

    system: System | None = None
    """How it takes system messages; None where nobody says."""
    tools: bool = True
    """Whether its models are given the tools that open lines."""
    marking: Marking = "none"

    @property
    def has_own(self) -> bool:
        """Whether the memory's words are instructions of their own, which can end in a mark."""
        return self.system == "own" or (self.system is None and self.marking != "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What a client sends, as far as it is its own."""

    protocol: Format
    body: Record
    leading: tuple[Said, ...]
    """The instructions at the beginning of its history."""
    beside: tuple[str, ...] = ()
    """What it puts beside the first message of it, where that is not in the turn that is open."""


@cache
def words(mode: Mode, *, tools: bool) -> str:
    """Return what a model is told of its memory."""
    if mode != "tree":
        return ""
    told = prompt(tools=tools).text
    return load(__package__, "tools").render(memory=told) if tools else told


def terms_of(
    client: Client,
    *,
    mode: Mode,
    budget_tokens: int,
    model: Model,
    family: str,
    manner: Manner,
    open_at: int,
    own: tuple[Held, ...] = (),
    too_long: bool = False,
) -> Terms:
    """Return the terms of a request."""
    told = words(mode, tools=manner.tools)
    ours = (Said(messages=(Message(kind="system", text=told),)),) if told else ()
    beside = (Said(messages=(Message(kind="user", text="\n\n".join(client.beside)),)),) if client.beside else ()
    offered = [*array(client.body.get("tools")), *(dict(one) for one in TOOLS if manner.tools)]
    form = "tools" if manner.tools else "bare"
    return Terms(
        consumer=Consumer(
            mode=mode,
            budget=budget_tokens,
            unit="tokens",
            renderer=f"proxy{FORM} {client.protocol.name} {manner.marking} {manner.system} {form}",
            family=family,
        ),
        head=Head(instructions=(*client.leading, *ours, *beside), tools=utf8(dumps(offered)) if offered else b""),
        open_at=open_at,
        window_tokens=window_of(model, client.body),
        idle_s=_idle_s(model, client.body),
        marking=manner.marking,
        tools=manner.tools,
        own=own,
        outgrown=True,
        too_long=too_long,
    )


def body_of(client: Client, context: Context, terms: Terms, manner: Manner) -> Record:
    """Return the body that goes up: the client's, with the prompt that was compiled as its conversation.

    Raises:
        Mistake: an attachment of the log is one that the client's protocol cannot carry.
    """
    told = words(terms.consumer.mode, tools=manner.tools)
    own = stateless(client.body) if client.protocol is RESPONSES else client.body
    at = len(client.leading)
    said = [*carried(context.said, client.protocol.name)]
    if told and not manner.has_own:
        del said[at]
    elif told and _marks(client.body.get("system"), client.leading):
        said[at] = replace(said[at], cached=False)
    body = client.protocol.with_history(own, said)
    if told and not manner.has_own:
        body = placed(client.protocol.name, body, told, manner.system)
    if manner.tools:
        body = with_tools(client.protocol.name, body, TOOLS)
    if client.protocol.name == "anthropic":
        body = capped(body, ("messages",))
    return client.protocol.repair(body)


def beside(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return what a client put beside the first message of its history."""
    first = next((one for one in messages if one.kind != "system"), None)
    return () if first is None else tuple(map(str, array(first.meta.get(LEFT_OUT))))


def marking_of(client: Format, provider: str | None, model: Model) -> Marking:
    """Return which marks of what is to be cached a model takes from this protocol."""
    if provider is None:
        return "none"
    marks = builtin().caching(model).marks
    return "none" if marks == "blocks" and client.name != "anthropic" else marks


def window_of(model: Model, body: Record) -> int | None:
    """Return the tokens that a model takes in beside its answer; None where nobody knows."""
    known = [model.input_tokens] if model.input_tokens else []
    if model.context_tokens:
        answer = answer_tokens(body) or model.output_tokens or 0
        known.append(model.context_tokens - min(answer, model.context_tokens // 2))
    return min(known, default=None)


def window_below(body: Record) -> int:
    """Return the tokens that a model is tried with that did not take in a request."""
    return size_bytes(dumps(body)) // BYTES_PER_TOKEN * SURE[0] // SURE[1]


def answer_tokens(body: Record) -> int | None:
    """Return how many tokens of an answer a client asks for at most; None where it does not say."""
    return next((n for name in _LIMITS if type(n := body.get(name)) is int), None)


_LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")


def _idle_s(model: Model, body: Record) -> float | None:
    if not model.provider or body.get("prompt_cache_retention") == "24h":
        return None
    found = builtin().caching(model)
    return found.long_s if '"ttl":"1h"' in dumps(body.get("system")) and found.long_s is not None else found.idle_s


def _marks(system: JSON, leading: Sequence[Said]) -> bool:
    """Whether a client marks its own instructions."""
    blocks = [*array(system), *(part for said in leading if said.raw for one in said.raw.items for part in _parts(one))]
    return any("cache_control" in record(one) or "prompt_cache_breakpoint" in record(one) for one in blocks)


def _parts(item: JSON) -> list[JSON]:
    return array(item) if isinstance(item, list) else array(record(item).get("content"))
