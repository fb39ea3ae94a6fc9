"""The pieces of a prompt, in the order in which they are sent: the past, and every entry since the cut.

They are a function of the epoch and of what was said: the same epoch gives the same pieces in any process, and what is
said later only adds pieces at the end. An entry below `whole` that is too large is shown as its beginning, how much is
left out, and its end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from everlog import jsonl
from everlog.context.codec import weigh, weigh_message
from everlog.context.past import LOADED
from everlog.context.values import Held, ItemKind, Piece
from everlog.messages import Call, Entry, Message
from everlog.protocols.exchange import MODEL, Said, said
from everlog.tokens import cut, size_bytes, text_of, utf8

ERASED = "(erased)"

BLOCK = 8
"""Lines of a view that stand in one block, where a provider reads up to the last block that it knows."""

GROUP = 2
"""Blocks behind which a mark may stand (measured: which of the first four it is makes no difference)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the form of entries depends on."""

    whole: int
    clip: int
    tools: bool = True
    """Whether the model can read on where something is left out."""


def past_pieces(text: str, *, ref: str, kind: ItemKind = "view", split: bool = False) -> list[Piece]:
    """Return the past as what the user shows, and the assistant has seen; nothing if there is no past.

    Args:
        text: the past as it is shown.
        ref: what it stands for.
        kind: what it is.
        split: whether it stands in blocks of eight lines, of which the first two, and the next two, can end in a mark.
    """
    if not text:
        return []
    blocks = _blocks(text) if split else [text]
    groups = [blocks[:GROUP], blocks[GROUP : 2 * GROUP], blocks[2 * GROUP :]] if split else [blocks]
    seen = Said(messages=(Message(kind="assistant", text=LOADED),))
    shown = [Said(messages=tuple(Message(kind="user", text=block) for block in group)) for group in groups if group]
    sizes = [sum(map(size_bytes, group)) for group in groups]
    return [
        *(Piece(said=one, size=size, kind=kind, ref=ref) for one, size in zip(shown, sizes, strict=False)),
        Piece(said=seen, size=size_bytes(LOADED), kind=kind, ref=ref),
    ]


def tail_pieces(entries: Sequence[Entry], held: Iterable[Held], *, shape: Shape, open_at: int | None) -> list[Piece]:
    """Return what was said from the cut on, with what is held in its place."""
    waiting: dict[int, list[Held]] = {}
    for one in sorted(held, key=lambda one: (one.position, one.n)):
        waiting.setdefault(one.position, []).append(one)
    found: list[Piece] = []
    plain: list[Entry] = []
    covered = entries[0].i if entries else 0

    def flush() -> None:
        found.extend(_spoken(plain, shape, open_at))
        plain.clear()

    for entry in entries:
        for one in waiting.pop(entry.i, ()):
            flush()
            found += _kept(one, open_at)
            covered = max(covered, one.position + one.covers)
        if entry.i >= covered:
            plain.append(entry)
    flush()
    for position in sorted(waiting):
        for one in waiting[position]:
            found += _kept(one, open_at)
    return found


def repeated(entry: Entry, shape: Shape, open_at: int | None) -> Piece:
    """Return a user's message from before the cut."""
    message = _shown(entry, shape)
    said_ = Said(messages=(message,))
    mine = open_at is None or entry.i < open_at
    return Piece(said=said_, size=weigh(said_), kind="repeated", ref=str(entry.i), mine=mine)


def size_of(entry: Entry, shape: Shape) -> int:
    """Return the bytes that an entry counts for."""
    return weigh_message(_shown(entry, shape))


def clipped_held(one: Held, limit: int) -> Held:
    """Return what is held with its long results cut, as an epoch takes it over."""
    return replace(one, said=tuple(_clipped_said(part, limit) for part in one.said))


def _clipped_said(part: Said, limit: int) -> Said:
    if part.raw is not None or all(size_bytes(message.text) <= limit for message in part.messages):
        return part
    cut_ = tuple(
        replace(message, text=_clip(message.text, limit, None)) if message.result is not None else message
        for message in part.messages
    )
    return replace(part, messages=cut_)


def _spoken(entries: Sequence[Entry], shape: Shape, open_at: int | None) -> list[Piece]:
    found: list[Piece] = []
    at = 0
    shown = [_shown(entry, shape) for entry in entries]
    for group in said(shown):
        first, last = entries[at], entries[at + len(group.messages) - 1]
        at += len(group.messages)
        found.append(
            Piece(
                said=group,
                size=weigh(group),
                kind="message",
                ref=str(first.i) if first is last else f"{first.i}-{last.i}",
                mine=open_at is None or last.i < open_at,
            )
        )
    return found


def _kept(one: Held, open_at: int | None) -> list[Piece]:
    mine = one.kind == "volatile" or open_at is None or one.position < open_at
    kind: ItemKind = "volatile" if one.kind == "volatile" else "held"
    return [
        Piece(said=part, size=weigh(part), kind=kind, ref=f"{one.position}.{one.n}", mine=mine) for part in one.said
    ]


def _shown(entry: Entry, shape: Shape) -> Message:
    """Return an entry as it is sent: never as instructions, and clipped where it is long and no longer new."""
    message = entry.message
    if entry.erased:
        return Message(kind="assistant" if message.kind in MODEL else "user", text=ERASED)
    if message.kind in ("system", "note"):
        message = replace(message, kind="user", text=f"[{message.kind}] {message.text}")
    if entry.i >= shape.whole or weigh_message(message) <= shape.clip:
        return message
    where = entry.i if shape.tools else None
    if (call := message.call) is not None:
        note = {"left_out": _left_out(size_bytes(call.arguments), where)}
        short = Call(call_id=call.call_id, name=call.name, arguments=jsonl.dumps(dict(note)))
        return replace(message, parts=tuple(short if part is call else part for part in message.parts))
    return replace(message, text=_clip(message.text, shape.clip, where))


def _clip(text: str, limit: int, where: int | None) -> str:
    """Return the beginning and the end of a text, and how much is left out between them."""
    size = size_bytes(text)
    if size <= limit:
        return text
    note = f"\n[… {_left_out(size, where)} …]\n"
    room = max(0, limit - size_bytes(note))
    head = cut(text, room * 2 // 3)
    encoded = utf8(text)
    begin = len(encoded) - room // 3
    while begin < len(encoded) and encoded[begin] & 0xC0 == 0x80:
        begin += 1
    return f"{head}{note}{text_of(encoded[begin:])}"


def _left_out(size: int, where: int | None) -> str:
    more = "" if where is None else f"; read({where}) shows all of them"
    return f"of {size} bytes some are left out{more}"


def _blocks(text: str) -> list[str]:
    """Return a view in blocks of lines, which are the view byte for byte when they are joined."""
    rows = text.split("\n")
    lines = [*(f"{row}\n" for row in rows[:-1]), rows[-1]]
    return ["".join(lines[begin : begin + BLOCK]) for begin in range(0, len(lines), BLOCK)]
