"""What of a message decides where a conversation may be cut: kind, turn, size, and the calls it opens or answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from everlog.memory.rolling.settings import Settings
from everlog.messages import Entry, Kind, Media
from everlog.tokens import FRAME_BYTES, MEDIA_BYTES, size_bytes

PATIENCE = 256
"""Messages after which a call that has no result is taken to have none."""

_TINY = 4
"""So many messages as are always shown, or more, are a piece only with this part of its usual bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One message, without its words."""

    i: int
    """Its position."""
    kind: Kind
    turn: int
    chars: int
    """Characters that count: its text; of a tool call the arguments. Names of tools, images and files do not."""
    bytes: int
    """UTF-8 bytes of what a summariser is shown of it."""
    room: int = 0
    """Bytes that it counts for in a prompt; of a text that is attached, as an image."""
    opens: str | None = None
    """Id of the call that it is."""
    closes: str | None = None
    """Id of the call that it answers."""

    @classmethod
    def of(cls, entry: Entry) -> "Weight":
        """Weigh an entry; one that was erased weighs nothing, and so does a system message, which is not summarised."""
        call, result = entry.message.call, entry.message.result
        shown = "" if entry.kind == "system" else entry.text
        media = sum(isinstance(part, Media) for part in entry.message.parts)
        return cls(
            i=entry.i,
            kind=entry.kind,
            turn=entry.turn,
            chars=len(shown if call is None else call.arguments),
            bytes=size_bytes(shown),
            room=size_bytes(entry.text) + FRAME_BYTES + MEDIA_BYTES * media,
            opens=None if call is None else call.call_id,
            closes=None if result is None else result.call_id,
        )


def tokens(chars: int) -> int:
    """Return the tokens that so many characters are taken for: a quarter, rounded up."""
    return -(-chars // 4)


def boundaries(weights: Sequence[Weight]) -> Iterator[int]:
    """Yield the positions, above the first, before which a conversation may be cut: in a turn, only between rounds.

    Each depends on what lies below it, and on the kind and turn of the message there; so an erasure above moves none.
    """
    opened: dict[str, int] = {}
    for before, weight in zip((None, *weights), weights, strict=False):
        if before is not None:
            if weight.turn != before.turn:
                opened.clear()
            opened = {call: i for call, i in opened.items() if weight.i - i <= PATIENCE}
            asks = weight.kind == "tool_call" and before.kind in {"assistant", "tool_call"}
            if weight.kind != "tool_result" and not opened and (not asks or weight.turn != before.turn):
                yield weight.i
        if weight.opens is not None:
            opened[weight.opens] = weight.i
        if weight.closes is not None:
            opened.pop(weight.closes, None)


def torn(weights: Sequence[Weight]) -> frozenset[int]:
    """Return the positions at which a cut would part a call from its result, wherever that stands."""
    opened: dict[str, int] = {}
    found: set[int] = set()
    for weight in weights:
        if weight.closes is not None and (begin := opened.pop(weight.closes, None)) is not None:
            found.update(range(begin + 1, weight.i + 1))
        if weight.opens is not None:
            opened[weight.opens] = weight.i
    return frozenset(found)


def piece_end(weights: Sequence[Weight], settings: Settings) -> int | None:
    """Return where the piece that begins with the first of some messages ends; None if that is not among them.

    A piece ends at the first boundary with as many bytes below it as are folded at once, or as many messages as are
    always shown, unless those are tiny.
    """
    size = n = 0
    for stop in boundaries(weights):
        while weights[n].i < stop:
            size += weights[n].bytes
            n += 1
        if size >= settings.fold_bytes or (n >= settings.min_recent and size * _TINY >= settings.fold_bytes):
            return stop
    return None
