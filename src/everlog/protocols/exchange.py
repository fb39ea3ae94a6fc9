"""What goes to a model and comes back, in no protocol's words.

A `Said` is one wire message, or one run of a model's items: our own messages, and the raw blocks they came from. A
conversation is a sequence of them. A `Settings` is everything else of a request; a `Reply` is what a model answered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from everlog.messages import JSON, Kind, Message
from everlog.protocols.sse import Event

Finish = Literal["stop", "length", "tool_calls", "filtered", "pause", "failed", "other"]
"""Why a model stopped. `pause`: the provider wants the same request again, with the reply so far at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Blocks as a provider or client wrote them; replayed as they are within their protocol."""

    protocol: str
    items: tuple[JSON, ...]
    """Whole wire messages or items, in order."""
    field: str = ""
    """The field of the body that held them where it is not the list of messages, such as `system`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one side said at once."""

    messages: tuple[Message, ...] = ()
    """The words, calls and results, in order; reasoning is not among them."""
    raw: Raw | None = None
    cached: bool = False
    """Whether the prompt is to be cached up to here."""

    def raw_in(self, protocol: str) -> Raw | None:
        """Return the raw blocks, if they are of this protocol."""
        return self.raw if self.raw is not None and self.raw.protocol == protocol else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may call."""

    name: str
    description: str = ""
    parameters: Mapping[str, JSON] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of its arguments."""
    strict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The form that the answer is to have."""

    schema: Mapping[str, JSON]
    name: str = "response"
    description: str | None = None
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """How much the model is to think, already resolved for it."""

    enabled: bool = True
    effort: str | None = None
    """Passed on as it is: low, medium, high, none, minimal, xhigh, max …"""
    budget_tokens: int | None = None
    display: str | None = None
    """`summarized` or `omitted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of a request but the conversation."""

    model: str
    tools: tuple[Tool, ...] = ()
    choice: str | None = None
    """auto, none, required, or the name of a tool."""
    parallel: bool | None = None
    """Whether one reply may hold several calls."""
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    """Texts at which the model is to stop."""
    schema: Schema | None = None
    thinking: Thinking | None = None
    reasons: bool = False
    """Whether the model reasons by itself; some protocols then refuse a temperature and hand out sealed reasoning."""
    stream: bool = False
    end_user: str | None = None
    caching: Mapping[str, JSON] | None = None
    """Options of automatic caching; {} is the provider's default, None is none."""
    compaction: Mapping[str, JSON] | None = None
    """`at`, `instructions`, `pause_after`; {} is the provider's default, None is none."""
    names: Mapping[str, str] = field(default_factory=dict)
    """How a provider spells a field that others spell otherwise: `max_output_tokens`, `end_user`.

    Under `compaction` stands the plugin that condenses what is too long, where it is one.
    """
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Laid over the finished body, in the provider's words."""
    provider_tools: tuple[Mapping[str, JSON], ...] = ()
    """Tools that run at the provider, in its words; they come after all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider counted them; None where it did not say. No token is in two of the first four."""

    input: int | None = None
    """Read anew, neither from nor into a cache."""
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    """All that is billed as output, reasoning included."""
    thinking: int | None = None
    """The part of `output` that was reasoning."""
    cache_write_long: int | None = None
    """The part of `cache_write` that is kept for the longer of the provider's lives."""
    cost_usd: float | None = None
    """What the provider says that it cost."""
    provider_tools: Mapping[str, int] = field(default_factory=dict)
    """Uses of its own tools, by its names for them."""

    @property
    def whole_input(self) -> int:
        """All that was read, caches included."""
        return (self.input or 0) + (self.cache_read or 0) + (self.cache_write or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A passage that backs a claim."""

    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    """The words of the source."""
    text: str | None = None
    """The words of the answer that it backs."""
    start: int | None = None
    """Where the claim, or the passage, begins in characters, as the provider counts."""
    end: int | None = None
    first_page: int | None = None
    """The first page of the passage, from 1."""
    last_page: int | None = None
    source: int | None = None
    """Number of the document, from 0."""


def distinct(citations: Iterable[Citation]) -> tuple[Citation, ...]:
    """Return each citation once: streams repeat them."""
    return tuple(dict.fromkeys(citations))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A tool that the provider ran itself, such as a search."""

    type: str
    """The provider's word for it."""
    name: str
    id: str | None = None
    input: JSON = None
    result: JSON = None
    """None while there is none."""
    raw: tuple[JSON, ...] = ()
    """The blocks or the item, as they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered."""

    said: Said
    finish: Finish
    stop: str | None = None
    """The provider's own word for `finish`."""
    refusal: str = ""
    """The end of the words where the model says that it will not answer, if the protocol tells that apart."""
    thinking: str = ""
    usage: Usage | None = None
    id: str | None = None
    model: str | None = None
    citations: tuple[Citation, ...] = ()
    steps: tuple[Step, ...] = ()
    """What the provider's own tools did, in order."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """The whole answer, as it came."""

    @property
    def text(self) -> str:
        """The words."""
        return "\n".join(one.text for one in self.said.messages if one.kind == "assistant" and one.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of the words. All of them together are the text of the reply, line breaks between its texts included."""

    text: str
    refusal: bool = False
    """Whether the model says here that it will not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """A piece of the reasoning that may be shown."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """A piece of a tool call."""

    index: int
    """Number of the call in this reply, from 0."""
    call_id: str = ""
    """Said at least in the first piece."""
    name: str = ""
    arguments: str = ""
    """What is added to the JSON text of the arguments."""


Delta: TypeAlias = TextDelta | ThinkingDelta | CallDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error that a provider reports, in a body or in the middle of a stream."""

    type: str
    """The provider's word for it, such as overloaded_error."""
    message: str


class Stream(Protocol):
    """An answer under way; it may be asked at any time for what there is so far."""

    @property
    def done(self) -> bool:
        """Whether the provider said that this was all."""

    @property
    def fault(self) -> Fault | None:
        """The error that ended it, if one did."""

    def feed(self, event: Event) -> list[Delta]:
        """Take in one event and return what it adds."""

    def body(self) -> dict[str, Any]:
        """Return the answer as it would have come without streaming."""

    def reply(self) -> Reply:
        """Return the answer so far."""


def said(messages: Iterable[Message]) -> tuple[Said, ...]:
    """Group messages of a log as they are said at once: a reply with its calls is one, results in a row are one."""
    groups: list[list[Message]] = []
    for message in messages:
        if groups and _continues(groups[-1], message):
            groups[-1].append(message)
        else:
            groups.append([message])
    return tuple(Said(messages=tuple(group)) for group in groups)


def _continues(group: Sequence[Message], message: Message) -> bool:
    last = group[-1].kind
    if message.kind == "assistant":
        return last == "tool_call"
    if message.kind == "tool_call":
        return last in MODEL
    return message.kind == last == "tool_result"


MODEL: tuple[Kind, ...] = ("assistant", "tool_call")
"""Kinds that the model says."""
