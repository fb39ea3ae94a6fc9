"""What a client asked and what it was answered, as values; and what was kept of it."""

from dataclasses import dataclass
from typing import Literal

from everlog.log import TurnState
from everlog.messages import Message, Origin
from everlog.protocols.exchange import Usage

Word = Literal["new", "append", "fork", "regenerated", "compacted", "nothing", "side"]
"""What became of an exchange: it began a thread, went on with one, went another way from an edit or from an answer that
was given again, went on after a summary of the client's own, was there already, or was beside the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request, and so whose threads it can reach."""

    key: str = ""
    """Id of the API key; empty where none is needed."""
    user: str = ""
    """The end user, where the request names one; two of them are two people."""
    project: str | None = None
    """The project that the key is for, whatever requests say."""
    is_one_person: bool = False
    """Whether only one person is behind the key: a history that shows less than the whole of a thread is theirs too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asked, in our words."""

    messages: tuple[Message, ...]
    """The history as the client sent it, instructions first."""
    name: str
    """Key of the thread if this begins one; where it is taken, `name~1` and so on."""
    caller: Caller = Caller()
    session: str = ""
    """The client's own name for the session; it may hold several threads."""
    after: str | None = None
    """Id of the response that it goes on from, where the client sends only what is new."""
    held: str | None = None
    """Id of the conversation that the server holds, where the client sends only what is new there."""
    origin: Origin = Origin()
    model: str | None = None
    learns: bool = True
    """Whether facts may be learned from it."""
    is_side: bool = False
    """Whether it is the client's own question beside the conversation: a title, a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back."""

    messages: tuple[Message, ...] = ()
    id: str | None = None
    """By which its server knows it."""
    state: TurnState = TurnState.COMPLETE
    """Complete, partial if it broke off, aborted if nothing of it came."""
    ids: tuple[tuple[str, int], ...] = ()
    """Ids that a client may name later, each with the message of these that it stands for."""
    usage: Usage | None = None
    """Tokens, as the provider counted them."""
    cost_usd: float | None = None
    """Dollars; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was kept of an exchange."""

    decision: Word
    thread: str | None
    """Id of the thread that it is in; None if it is in none."""
    said: int
    """How many messages of the request were new."""
    first: int | None = None
    """Position of the first entry; None if there is none."""
    stop: int | None = None
    """Position after the last."""
