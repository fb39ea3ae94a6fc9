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


class Which(Struct, frozen=True, kw_only=True):
    """Which requests, or what came of them; the newest first."""

    limit: Limit = 100
    cursor: Annotated[str, Meta(description="`next` of the page before; the first page without it.")] = ""
    session_id: Annotated[str | None, Meta(description="Only those of this session.")] = None
    user_id: Annotated[str | None, Meta(description="Only those of this end user.")] = None
    project_id: Annotated[str | None, Meta(description="Only those of this project.")] = None


class Request(Struct, frozen=True, kw_only=True):
    """What a request to a model was; no word of it."""

    id: Annotated[str, Meta(description="As `X-Everlog-Request-ID` of its answer told it.")]
    at: str
    ms: Annotated[int, Meta(description="From when it came until it was kept.")]
    key: Annotated[str | None, Meta(description="Id of the key it came with; null on the machine itself.")]
    user_id: str | None
    session_id: str | None
    project_id: str | None
    protocol: str
    upstream: Annotated[str | None, Meta(description="The server of models that it went to, by its name.")]
    model: str | None
    status: Annotated[int | None, Meta(description="Of the answer; null where none came.")]
    decision: Annotated[str, Meta(description="new, append, fork, regenerated, compacted, nothing or side.")]
    thread: Annotated[str | None, Meta(description="Key of the thread that it is in; null if it is in none.")]
    first: Annotated[int | None, Meta(description="Position of its first entry; null if it has none.")]
    stop: Annotated[int | None, Meta(description="Position after its last.")]
    tokens_in: Annotated[int | None, Meta(description="Read anew; null where the provider did not say.")]
    tokens_out: int | None
    tokens_cache_read: int | None
    tokens_cache_write: int | None
    cost_usd: Annotated[float | None, Meta(description="Null where nobody knows the price.")]


class Requests(Struct, frozen=True, kw_only=True):
    """Some requests, the newest first."""

    requests: list[Request]
    next: Annotated[str | None, Meta(description="The cursor of the next page; null at the end.")]


class Event(Struct, frozen=True, kw_only=True):
    """An entry as an event: what was said, and where it came from. It never changes."""

    id: Annotated[str, Meta(description="Key of the thread and position in it.")]
    event_type: Annotated[str, Meta(description="`message.` and the kind of the entry.")]
    role: str
    content: str
    created_at: str
    request_id: str | None
    session_id: str | None
    user_id: str | None
    project_id: str | None


class Events(Struct, frozen=True, kw_only=True):
    """Entries of the newest requests."""

    events: list[Event]
    next: Annotated[str | None, Meta(description="The cursor of the next page; null at the end.")]


class Thread(Struct, frozen=True, kw_only=True):
    """A conversation."""

    key: str
    title: str | None
    entries: int
    turns: int
    forked_from: str | None
    is_beside: Annotated[
        bool,
        Meta(
            description="Whether it was a question beside a talk of its session, as far as one can tell afterwards: "
            "its answer never came back, and the talk went on since."
        ),
    ]


class Threads(Struct, frozen=True, kw_only=True):
    """Some conversations, in the order in which they were made."""

    threads: list[Thread]
    next: Annotated[str | None, Meta(description="The cursor of the next page; null at the end.")]


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was looked at, and how it is."""

    name: str
    state: Annotated[
        str,
        Meta(
            description="ok; todo: it is pending, or to be looked after; fail: it is wrong; skip: it is not known, or off."
        ),
    ]
    said: Annotated[str, Meta(description="In words, for people: they change.")]


class Checks(Struct, frozen=True, kw_only=True):
    """What can be told of the memory of a conversation, as `everlog doctor THREAD` prints it."""

    checks: list[Check]


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


class ModelUse(Struct, frozen=True, kw_only=True):
    """What the requests to a model took that are still kept."""

    model: str
    requests: int
    tokens_in: Annotated[int, Meta(description="Read anew, as far as the provider said.")]
    tokens_out: int
    tokens_cache_read: int
    tokens_cache_write: int
    cost_usd: Annotated[float, Meta(description="Of those whose price is known.")]


class Since(Struct, frozen=True, kw_only=True):
    """What this server counted since it began."""

    modes: Annotated[dict[str, int], Meta(description="Requests of conversations, by their mode of memory.")]
    hidden_rounds: Annotated[int, Meta(description="Rounds of memory's tools that no client saw.")]
    prefixes: Annotated[
        dict[str, int],
        Meta(
            description="Requests that were compared with the one before, by who broke the prefix: `nobody`, "
            "`caller:tools`, `epoch:full` …"
        ),
    ]
    lost_bytes: Annotated[
        dict[str, int], Meta(description="Bytes that had to be read anew for it, by who broke the prefix.")
    ]


class Stats(Struct, frozen=True, kw_only=True):
    """How much there is."""

    threads: int
    entries: int
    erased: int
    text_bytes: int
    kinds: dict[str, int]
    media: int
    media_bytes: int
    models: Annotated[list[ModelUse], Meta(description="By model, as long as requests are kept.")]
    since_start: Annotated[Since | None, Meta(description="Null where no proxy runs.")]
