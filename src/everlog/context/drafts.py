"""An epoch with the pieces that its prompt comes to now, and what can be told of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everlog.context.codec import encode
from everlog.context.keepers import Seen
from everlog.context.pieces import Shape, past_pieces, repeated, tail_pieces
from everlog.context.reading import Reading
from everlog.context.values import Epoch, Held, Item, ItemKind, Piece
from everlog.messages import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An epoch with the pieces that it comes to now."""

    epoch: Epoch
    held: tuple[Held, ...]
    entries: Sequence[Entry]
    seen: Seen | None
    """None where the past cannot be shown any more."""
    pieces: tuple[Piece, ...]
    past: int
    """How many of the pieces stand for the past."""
    encoded: tuple[bytes, ...]

    @property
    def past_bytes(self) -> int:
        return sum(piece.size for piece in self.pieces[: self.past])

    @property
    def memory_bytes(self) -> int:
        return sum(piece.size for piece in self.pieces if piece.mine)

    @property
    def bytes(self) -> int:
        return sum(piece.size for piece in self.pieces)


def drafted(reading: Reading, epoch: Epoch, held: Sequence[Held], entries: Sequence[Entry]) -> Draft:
    """Return what an epoch's prompt is now, new volatile blocks included."""
    terms = reading.terms
    seen = reading.keeper.show(epoch.past)
    shape = Shape(whole=epoch.whole, clip=epoch.clip, tools=terms.tools)
    pieces = []
    if seen is not None:
        ref = f"0-{epoch.cut - 1}"
        pieces = past_pieces(seen.text, ref=ref, kind=seen.kind, split=terms.marking != "none")
    past = len(pieces)
    if epoch.repeat is not None and (entry := reading.entry(epoch.repeat)) is not None:
        pieces.append(repeated(entry, shape, terms.open_at))
    kept = [*held, *_volatile(reading, held)]
    kept += _own(terms.own, max(epoch.cut, epoch.sent), kept)
    pieces += tail_pieces(entries, kept, shape=shape, open_at=terms.open_at)
    return Draft(
        epoch=epoch,
        held=tuple(kept),
        entries=entries,
        seen=seen,
        pieces=tuple(pieces),
        past=past,
        encoded=tuple(encode([piece.said]) for piece in pieces),
    )


def _volatile(reading: Reading, held: Sequence[Held]) -> list[Held]:
    """Return what is to be shown before the open turn's message, unless the same was shown last."""
    terms = reading.terms
    if terms.open_at is None or not terms.volatile:
        return []
    shown = [one for one in held if one.kind == "volatile"]
    if any(one.position == terms.open_at for one in shown) or (shown and shown[-1].said == terms.volatile):
        return []
    return [Held(position=terms.open_at, n=0, kind="volatile", said=terms.volatile)]


def _own(own: Sequence[Held], start: int, held: Sequence[Held]) -> list[Held]:
    """Return what a caller says in blocks of its own from a position on, where nothing is held in its place."""
    covered = {i for one in held for i in range(one.position, one.position + one.covers)}
    return [
        replace(one, n=1 + max((old.n for old in held if old.position == one.position), default=-1))
        for one in own
        if one.position >= start and covered.isdisjoint(range(one.position, one.position + one.covers))
    ]


def newest_bytes(draft: Draft, open_at: int | None) -> int:
    """Return the bytes of the newest round, if its turn is open: it is sent whatever it takes."""
    size = 0
    for piece in reversed(draft.pieces[draft.past :]):
        if piece.mine or open_at is None:
            break
        size += piece.size
        if piece.said.messages and piece.said.messages[0].kind in ("assistant", "tool_call", "user"):
            break
    return size


_JOINED: tuple[ItemKind, ...] = ("view", "summary", "left out", "message")
"""Parts of which several in a row are one line of a report."""


def items(draft: Draft, head: int) -> tuple[Item, ...]:
    """Return the report: one line for each part; messages in a row are one."""
    rate = draft.epoch.rate
    found = [Item(kind="instructions", ref="head", tokens=rate.tokens_for(head))] if head else []
    if draft.seen is not None and draft.seen.hidden:
        first = draft.seen.hidden_from
        found.append(Item(kind="left out", ref=f"{first}-{first + draft.seen.hidden - 1}", tokens=0))
    for piece in draft.pieces:
        last = found[-1] if found else None
        tokens = rate.tokens_for(piece.size)
        if last is not None and last.kind == piece.kind and piece.kind in _JOINED:
            ref = last.ref if last.ref == piece.ref else f"{last.ref.partition('-')[0]}-{piece.ref.rpartition('-')[2]}"
            found[-1] = Item(kind=piece.kind, ref=ref, tokens=last.tokens + tokens)
        else:
            found.append(Item(kind=piece.kind, ref=piece.ref, tokens=tokens))
    return tuple(found)
