"""Turns: a person's message and everything until the final reply, and how a flat history falls into them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from everlog.messages import Message, Origin


class TurnState(IntEnum):
    """How far a turn has come; the numbers are stored."""

    OPEN = 0
    """The reply is still being made."""
    COMPLETE = 1
    """Answered to the end."""
    PARTIAL = 2
    """The reply broke off; what came is kept."""
    ABORTED = 3
    """Cancelled, or failed without a reply."""
    ERASED = 4
    """Erased with its user; nothing can be added to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """A turn to append, or more of the turn that is open."""

    messages: tuple[Message, ...]
    """What was said, in order; at least one."""
    client_key: str | None = None
    """Makes the append idempotent: the same key with the same content is stored once."""
    state: TurnState = TurnState.COMPLETE
    learn: bool = True
    """Whether facts may be learned from it."""
    scope: str | None = None
    """The scope its facts belong to."""
    model: str | None = None
    """The model that was asked."""
    timezone: str | None = None
    """The speaker's zone, an IANA name."""
    origin: Origin = Origin()
    erased: frozenset[int] = frozenset()
    """Which of `messages`, by index, are tombstones: erased where they came from, so erased here."""
    more: bool = False
    """Whether this continues the thread's last turn instead of opening one. Whose turn it is stays as it was; of what is
    given here only messages, state, model and `origin.request` count."""
    beside: bool = False
    """Whether more of a turn is no part of its answer: one that is open, or broke off, stays so, whatever `state` says."""


def split(
    messages: Sequence[Message], *, origin: Origin | None = None, before: Message | None = None
) -> Iterator[NewTurn]:
    """Cut a flat history into turns: a new one begins with each user message that follows something else.

    People who talk to each other are all `user`; there a change of author begins a turn too.

    Args:
        messages: the history, or the rest of one.
        origin: where it came from.
        before: what was said just before the rest; if the rest begins no turn, it goes on with that one.
    """
    origin = origin or Origin()
    start = 0
    for i in range(1, len(messages) + 1):
        if i == len(messages) or begins(messages[i - 1], messages[i]):
            turn = tuple(messages[start:i])
            if turn:
                more = start == 0 and before is not None and not begins(before, turn[0])
                yield NewTurn(messages=turn, origin=origin, more=more)
            start = i


def begins(before: Message, message: Message) -> bool:
    """Return whether a message opens a turn, after the one before it."""
    return message.kind == "user" and (before.kind != "user" or before.author != message.author)
