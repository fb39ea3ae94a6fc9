"""The vocabulary of a conversation: pure values, no identity and no place to live.

What a program or a person said is a `Message`; once it is in the log it is an `Entry`, which adds its position and
where it came from. One message of a wire format may become several here: an assistant's words are one message, each
tool call is another, each result a third, and they stay together by `call_id`.

Text is kept word for word. The one change made is that two halves of a surrogate pair become the character they stand
for; lone halves stay. What is not text stands in `parts`, each with the place in the text it belongs to; what we do
not understand is an `Unknown` part, verbatim, and is never dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args

from everlog.errors import Mistake, expect

JSON: TypeAlias = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]

Kind = Literal["system", "user", "assistant", "tool_call", "tool_result", "note"]
"""Who speaks. `note` is text about the conversation that nobody said in it, such as a client's own summary."""

KINDS: tuple[Kind, ...] = get_args(Kind)

_WORDS = (str, "a str")
_MAYBE_WORDS = ((str, NoneType), "a str or None")
_MAYBE_BYTES = ((bytes, NoneType), "bytes or None")
_PLACE = (int, "an int")


def _expect(value: Any, **fields: tuple[type | tuple[type, ...], str]) -> None:
    for name, (kind, said) in fields.items():
        if not isinstance(getattr(value, name), kind):
            expect(getattr(value, name), kind, f"`{name}` of a {type(value).__name__} is {said}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, a sound or a file: its bytes, or where they can be found."""

    media_type: str
    """MIME type, such as image/png; application/octet-stream where the source does not say."""
    content: bytes | None = None
    """The bytes themselves; None when only a reference is known."""
    url: str | None = None
    """Where the source says it is; never fetched by us."""
    name: str | None = None
    """File name, as the source gave it."""
    offset: int = 0
    """Where in the message's text it stands, in characters."""

    def __post_init__(self) -> None:
        maybe = _MAYBE_WORDS
        _expect(self, media_type=_WORDS, content=_MAYBE_BYTES, url=maybe, name=maybe, offset=_PLACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call: what the assistant asked for."""

    call_id: str
    """Ties the call to its result; unique within a turn."""
    name: str
    """Name of the tool."""
    arguments: str
    """The arguments as JSON text, exactly as the model wrote them (it may be malformed)."""

    def __post_init__(self) -> None:
        _expect(self, call_id=_WORDS, name=_WORDS, arguments=_WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a tool answered; the words are the message's text."""

    call_id: str
    """The call that this answers."""
    name: str | None = None
    """Name of the tool, where the source repeats it."""
    failed: bool = False
    """Whether the tool reported an error."""

    def __post_init__(self) -> None:
        _expect(self, call_id=_WORDS, name=_MAYBE_WORDS, failed=(bool, "a bool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A part whose form we do not know, kept verbatim."""

    source: str
    """The format it came from, such as chatgpt."""
    value: JSON
    """The part itself."""
    offset: int = 0
    """Where in the message's text it stands, in characters."""

    def __post_init__(self) -> None:
        _expect(self, source=_WORDS, offset=_PLACE)


Part: TypeAlias = Media | Call | Result | Unknown

_MESSAGE: dict[str, tuple[type | tuple[type, ...], str]] = {
    "text": _WORDS,
    "author": _MAYBE_WORDS,
    "at": ((datetime, NoneType), "a datetime or None"),
    "parts": (tuple, "a tuple of parts"),
    "id": _MAYBE_WORDS,
    "model": _MAYBE_WORDS,
    "meta": (Mapping, "a mapping"),
}


def _is_plain(message: Any) -> bool:
    """Whether all of a message is of its kind, seen at a glance: a history has thousands of them."""
    words = _MAYBE_WORDS[0]
    return (
        isinstance(message.text, str)
        and isinstance(message.parts, tuple)
        and isinstance(message.meta, dict)
        and isinstance(message.author, words)
        and isinstance(message.id, words)
        and isinstance(message.model, words)
        and (message.at is None or isinstance(message.at, datetime))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing said: by a person, a model, a tool, or about the conversation."""

    kind: Kind
    text: str = ""
    """The words. Several text parts of a source are joined by a newline; of a tool call, `name arguments`."""
    author: str | None = None
    """Name of the speaker where the source gives one: a person, an agent, a tool."""
    at: datetime | None = None
    """When it was said, aware; None when the source does not say."""
    parts: tuple[Part, ...] = ()
    """What is not text, in order."""
    id: str | None = None
    """The id its source gave it."""
    model: str | None = None
    """The model that wrote it."""
    meta: Mapping[str, JSON] = field(default_factory=dict)
    """Small facts of the source worth keeping; never instructions to us."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise Mistake(f"there is no such kind of message; it is one of {', '.join(KINDS)}")
        if not _is_plain(self):
            _expect(self, **_MESSAGE)
        for part in self.parts:
            expect(part, (Media, Call, Result, Unknown), "a part of a message is a Media, Call, Result or Unknown")
        if self.at is not None and self.at.tzinfo is not UTC:
            object.__setattr__(self, "at", _in_utc(self.at))
        if not self.text.isascii():
            object.__setattr__(self, "text", joined_surrogates(self.text))

    @property
    def call(self) -> Call | None:
        """The tool call it makes, if it is one."""
        return next((part for part in self.parts if isinstance(part, Call)), None)

    @property
    def result(self) -> Result | None:
        """The tool call it answers, if it is a result."""
        return next((part for part in self.parts if isinstance(part, Result)), None)

    @property
    def source(self) -> str:
        """`kind: text`, the form in which the tree weighs and summarises it."""
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an entry came from: opaque ids only, since they are stored unencrypted."""

    request: str | None = None
    session: str | None = None
    user: str | None = None
    """The end user, for `erase --user`."""
    project: str | None = None
    cwd: str | None = None
    """Working directory; stored encrypted like text."""

    def __post_init__(self) -> None:
        maybe = _MAYBE_WORDS
        _expect(self, request=maybe, session=maybe, user=maybe, project=maybe, cwd=maybe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message in the log: at a position, for good."""

    i: int
    """Position in its thread: 0, 1, 2 … without gaps."""
    turn: int
    """Number of the turn it belongs to."""
    message: Message
    """What was said; an empty one of the same kind when `erased`."""
    at: datetime
    """When it was said, or, where nobody knows, when it was logged."""
    origin: Origin = Origin()
    erased: bool = False
    """Whether its words were erased; position, kind and time remain."""

    @property
    def kind(self) -> Kind:
        return self.message.kind

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def author(self) -> str | None:
        return self.message.author


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A whole conversation from elsewhere, as an importer yields it."""

    key: str
    """Stable name, `format:id`; the same conversation imported again has the same key."""
    messages: tuple[Message, ...]
    title: str | None = None
    parent: str | None = None
    """Key of the conversation this one branches off, to be added before it, also where they have no message in common."""
    shared: int = 0
    """How many of `messages`, from the first, are the parent's own (only with `parent`)."""
    origin: Origin = Origin()


def _in_utc(at: datetime) -> datetime:
    if at.utcoffset() is None:
        raise Mistake(f"the time {at.isoformat()} has no zone; attach one, e.g. tzinfo=datetime.UTC")
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise Mistake(f"the time {at.isoformat()} is outside the years 1 to 9999 in UTC; give another") from error


def joined_surrogates(text: str) -> str:
    """Return text with each high and low surrogate in a row made the one character they encode; lone ones stay."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text
