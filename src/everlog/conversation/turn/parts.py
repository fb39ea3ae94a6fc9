"""What of a reply, and of a round of results, becomes entries, and what is only held for later requests. Pure.

Words, and calls of the user's own tools with their results, are the conversation. Calls of memory's own tools are not:
what they show is in the log already. A reply is held beside its entries where they would not give its blocks again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from everlog.context import Held
from everlog.messages import Message
from everlog.protocols.exchange import Said
from everlog.protocols.plain import is_plain


@dataclass(frozen=True, slots=True)
class Parts:
    """What is recorded of something that was said."""

    entries: tuple[Message, ...]
    held: tuple[Held, ...]
    said: tuple[Said, ...] = ()
    """All of it as it may be said again."""


class Numbers:
    """Counts what is held at each position."""

    def __init__(self, known: Mapping[int, int]) -> None:
        """Go on from what is held already."""
        self._next = dict(known)

    def at(self, position: int) -> int:
        """Return the next number there."""
        n = self._next.get(position, 0)
        self._next[position] = n + 1
        return n


def of_reply(
    said: Said, *, tools: Collection[str], position: int, numbers: Numbers, redact: Callable[[Message], Message]
) -> Parts:
    """Return what a reply comes to, whose first entry will stand at `position`."""
    redacted = tuple(map(redact, said.messages))
    entries = tuple(one for one in redacted if one.call is None or one.call.name not in tools)
    is_same = redacted == said.messages
    raw = said.raw if is_same else None  # blocks would bring back what was redacted
    kept = Said(messages=redacted, raw=raw)
    if len(entries) == len(redacted) and (raw is None or is_plain(raw)):
        return Parts(entries, (), (kept,))
    held = Held(position=position, n=numbers.at(position), kind="reply", covers=len(entries), said=(kept,))
    return Parts(entries, (held,), (kept,))


def of_results(
    said: Sequence[Said],
    *,
    tools: Collection[str],
    position: int,
    numbers: Numbers,
    redact: Callable[[Message], Message],
) -> Parts:
    """Return what results of tools come to, whose first entry will stand at `position`."""
    entries: list[Message] = []
    ours: list[Said] = []
    for one in said:
        for message in one.messages:
            if message.result is not None and message.result.name in tools:
                ours.append(Said(messages=(message,)))
            else:
                entries.append(redact(message))
    held = [Held(position=position, n=numbers.at(position), kind="round", said=tuple(ours))] if ours else []
    return Parts(tuple(entries), tuple(held))
