"""What compiling a prompt is about, as values: for whom, on which terms, the epoch that it is in, and what comes out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal, TypeAlias, get_args

from everlog.memory.tree.render import Shown
from everlog.protocols.exchange import Said
from everlog.tokens import utf8

Mode: TypeAlias = Literal["tree", "rolling", "none"]
"""What stands for the words that are no longer shown: lines of the tree, a summary, nothing."""

Reason: TypeAlias = Literal[
    "first",
    "lost",
    "budget",
    "renderer",
    "instructions",
    "tools",
    "fork",
    "rebuilt",
    "erased",
    "full",
    "landed",
    "idle",
    "estimate",
    "tail",
]
"""Why an epoch opened."""

REASONS: tuple[Reason, ...] = get_args(Reason)

HeldKind: TypeAlias = Literal["reply", "round", "volatile", "own"]
"""A reply in its provider's own blocks; a round of memory tools; what is shown once before a user's message; what a caller
says in blocks of its own."""

HELD_KINDS: tuple[HeldKind, ...] = get_args(HeldKind)

ItemKind: TypeAlias = Literal["instructions", "view", "summary", "left out", "repeated", "message", "held", "volatile"]
"""What a part of a prompt is."""

ITEM_KINDS: tuple[ItemKind, ...] = get_args(ItemKind)

Status: TypeAlias = Literal["sent", "answered", "failed", "cancelled", "not sent"]
"""What became of a request; one that what may be spent did not allow was not sent."""

STATUSES: tuple[Status, ...] = get_args(Status)

LOW_MARK = 0.45
"""Measured over 300 turns at 20,000 tokens: input costs 23.4 % of merging after every message where reads cost a tenth and
marks are not taken; 24.6 % at 0.5 (`docs/caching.md`)."""

KEY_LENGTH = 150
"""Characters of the longest key of a consumer that is not hashed."""

Marking: TypeAlias = Literal["none", "breakpoints", "blocks"]
"""Which marks of what is to be cached a provider takes: none, such that stay where they are, or blocks that may move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many bytes a token stands for, as a fraction: in integers, so that every process comes to the same bytes."""

    bytes: int = 4
    tokens: int = 1

    def bytes_for(self, tokens: int) -> int:
        """Return the bytes that stand for some tokens."""
        return tokens * self.bytes // self.tokens

    def tokens_for(self, size_bytes: int) -> int:
        """Return the tokens that some bytes stand for, rounded up."""
        return -(-size_bytes * self.tokens // self.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """For whom prompts are compiled: requests of one consumer share a prefix, those of two never do."""

    mode: Mode
    budget: int
    """The most that memory may take, in `unit`."""
    unit: Literal["bytes", "tokens"] = "bytes"
    renderer: str
    """What the bytes of a prompt depend on beside its parts."""
    family: str
    """The model, as provider/id: caches and tokens of two models differ."""
    tail: bool = True
    """Whether the newest words are shown as they were said; without, the tree alone is the memory."""

    @property
    def kin(self) -> str:
        """The same for consumers that differ in their budget alone."""
        return f"{self.mode}{'' if self.tail else ' tail=0'} {self.renderer} {self.family}"

    @property
    def key(self) -> str:
        """The name of its rows."""
        name = f"{self.budget} {self.unit} {self.kin}"
        return name if len(name) <= KEY_LENGTH else f"{self.budget} {self.unit} {sha256(utf8(name)).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What stands before memory in each request, and is the caller's own."""

    instructions: tuple[Said, ...] = ()
    tools: bytes = b""
    """The tools as they are sent, for their hash and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What was sent and is no entry, or was sent in the place of some."""

    position: int
    """It stands before this entry."""
    n: int
    """Its number among those at the same place."""
    kind: HeldKind
    covers: int = 0
    """How many entries from `position` on it stands for."""
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On which terms a prompt is compiled."""

    consumer: Consumer
    head: Head = Head()
    open_at: int | None = None
    """Position of the user's message of the turn that is open; None if none is."""
    low_mark: float = LOW_MARK
    """The share of the budget that past and tail together are brought down to."""
    window_tokens: int | None = None
    """The most that the model takes in; None if nobody knows."""
    idle_s: float | None = None
    """Silence after which the provider has certainly forgotten; None where it promises nothing."""
    recent: int = 0
    """How many of the newest entries are shown as they were said if they fit below the low mark."""
    marking: Marking = "none"
    tools: bool = True
    """Whether the model has the tools that open lines."""
    volatile: tuple[Said, ...] = ()
    """What is to be shown before the open turn's user message, unless the same is shown already."""
    own: tuple[Held, ...] = ()
    """What the caller says of the open turn in blocks of its own, where the log's words do not give them. It is held where
    it was not sent yet; what was sent stays as it was."""
    outgrown: bool = False
    """Whether a first epoch opens since the history outgrew its budget: it is brought down to the low mark like any other."""
    too_long: bool = False
    """Whether the provider just refused the prompt as too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A stretch of requests in which the prompt only grows."""

    n: int
    reason: Reason
    opened_at: datetime
    turn: int
    looked: int
    """The turn at which placeholders were last looked at."""
    budget: int
    """Bytes that memory may take in it."""
    rate: Rate
    renderer: str
    past: str
    """What stands for the entries before `cut`, as `past.py` reads it."""
    cut: int
    """The first entry that is shown as it was said."""
    repeat: int | None
    """A user's message before the cut that is shown all the same, since the cut is in its turn."""
    whole: int
    """Entries from here on are shown whole, those before it are clipped."""
    head_hash: bytes
    tools_hash: bytes
    past_hash: bytes
    prefix: int = 0
    """How many pieces the last request had."""
    prefix_hash: bytes
    """Hash over them."""
    sent: int = 0
    """How many entries the thread had then."""
    seen_bytes: int = 0
    seen_tokens: int = 0
    """What providers counted for requests of this epoch, and their sizes."""
    last_at: datetime

    @property
    def clip(self) -> int:
        """Bytes to which an entry of the tail is clipped."""
        return self.budget // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a prompt."""

    said: Said
    size: int
    """Bytes of its words."""
    kind: ItemKind
    ref: str
    """What it shows: positions, never words."""
    mine: bool = True
    """Whether it counts towards the budget; the open turn is the caller's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of the report of a prompt."""

    kind: ItemKind
    ref: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A compiled prompt."""

    said: tuple[Said, ...]
    """The whole conversation to send, instructions first, with marks of what is to be cached."""
    epoch: Epoch
    turned: Reason | None
    """Why an epoch opened for this request; None if it goes on with the one before."""
    request: str
    """Our id of the request."""
    memory_bytes: int
    """What memory takes of the budget."""
    prompt_bytes: int
    """All of the prompt: instructions, tools, memory, open turn."""
    items: tuple[Item, ...]
    shown: Shown | None
    """The view in it, for tools that name its lines."""
    hidden: int
    """How many of the oldest entries nothing in it stands for."""
    wants: int | None
    """Up to which entry the next epoch will want memory to be built; None while there is room."""
    turns_when: str
    """What would open the next epoch, in words."""


def said_of(pieces: Sequence[Piece]) -> tuple[Said, ...]:
    """Return what pieces say."""
    return tuple(piece.said for piece in pieces)
