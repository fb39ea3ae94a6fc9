"""What may be asked, and what is answered, as the document shows it."""

from typing import Annotated, Any

from msgspec import Meta, Struct

Limit = Annotated[int, Meta(ge=1, le=1000, description="The most that are returned.")]
Position = Annotated[int, Meta(ge=0, description="A position; entries count from 0.")]


class Nothing(Struct, frozen=True, kw_only=True):
    """Nothing may be asked."""


class Page(Struct, frozen=True, kw_only=True):
    """Which of many."""

    limit: Limit = 100
    cursor: Annotated[str, Meta(description="`next` of the page before; the first page without it.")] = ""


class Stretch(Struct, frozen=True, kw_only=True):
    """Which entries."""

    start: Position = 0
    limit: Limit = 100
    last: Annotated[int, Meta(ge=1, le=1000, description="The newest so many instead.")] | None = None


class Budget(Struct, frozen=True, kw_only=True):
    """How long a view may be."""

    bytes: Annotated[int, Meta(ge=256, le=100_000_000, description="The most that the view may take, UTF-8.")] = 4000


class Line(Struct, frozen=True, kw_only=True):
    """Which line of a view."""

    id: Position
    n: Annotated[int, Meta(ge=1, description="How many messages the line covers; 1 is a message.")] = 1


class Words(Struct, frozen=True, kw_only=True):
    """What to look for."""

    q: Annotated[str, Meta(min_length=1, description="At most eight words are used.")]
    before: Annotated[int, Meta(ge=0, description="Only messages before this position.")] | None = None


class Whom(Struct, frozen=True, kw_only=True):
    """Whose words to erase."""

    user: Annotated[str, Meta(min_length=1, max_length=200, description="The id that came with the turns.")]


class Thread(Struct, frozen=True, kw_only=True):
    """A conversation."""

    key: str
    title: str | None
    entries: int
    turns: int
    forked_from: str | None


class Threads(Struct, frozen=True, kw_only=True):
    """Some conversations, in the order in which they were made."""

    threads: list[Thread]
    next: Annotated[str | None, Meta(description="The cursor of the next page; null at the end.")]


class Entries(Struct, frozen=True, kw_only=True):
    """Messages, in the form of an export."""

    entries: list[Any]
    next: Annotated[int | None, Meta(description="Where the next page starts; null at the end.")]


class Instructions(Struct, frozen=True, kw_only=True):
    """What the model was told before the conversation."""

    instructions: list[str]


class View(Struct, frozen=True, kw_only=True):
    """A whole thread within a budget, or an opened line of it."""

    text: str
    bytes: int
    is_current: Annotated[bool, Meta(description="Whether no line is still to be built.")]


class Hit(Struct, frozen=True, kw_only=True):
    """A message that has some of the words."""

    id: int
    words: int
    date: str


class Hits(Struct, frozen=True, kw_only=True):
    """What was found: where and when, never what was said."""

    words: int
    hits: list[Hit]
    start: int
    stop: int


class Receipt(Struct, frozen=True, kw_only=True):
    """Proof of an erasure: counts and states."""

    id: str
    target: str
    state: str
    threads: int
    entries: int
    rows: int


class Receipts(Struct, frozen=True, kw_only=True):
    """All of them, oldest first."""

    receipts: list[Receipt]


class Stats(Struct, frozen=True, kw_only=True):
    """How much there is."""

    threads: int
    entries: int
    erased: int
    text_bytes: int
    kinds: dict[str, int]
    media: int
    media_bytes: int
