"""Compiling: from an epoch and what was said since its cut to the prompt, or to the next epoch and its prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from everlog.clock import new_id
from everlog.context import budget as budgets
from everlog.context.codec import weigh
from everlog.context.drafts import Draft, drafted, items, newest_bytes
from everlog.context.keepers import Folded, Seen
from everlog.context.marks import marked
from everlog.context.opening import divide
from everlog.context.past import PAIR_BYTES
from everlog.context.pieces import Shape, clipped_held, size_of
from everlog.context.reading import Reading
from everlog.context.rounds import Round
from everlog.context.turning import Facts, looks, reason_to_turn, turns_when
from everlog.context.values import Context, Epoch, Held, Rate, Reason, said_of
from everlog.messages import Entry
from everlog.tokens import FRAME_BYTES

AHEAD = 3, 4
"""From this share of the budget on the next epoch is prepared for. One that opens though memory was not full may begin there:
a first one, over a log from before, and one that shows lines which were missing. At the low mark they would lose words."""

FOLDING = ("first", "budget", "fork", "full", "landed", "idle", "estimate", "tail")
"""Reasons to bring memory down to its low mark. Others change what stands before it, maybe in every turn: then nothing is
folded that fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A prompt, and what is to be kept of it."""

    context: Context
    before: Epoch | None
    """The row that it changes; None where it is a new one."""
    held: tuple[Held, ...]
    """What is to be held from now on."""
    turn: int


def compiled(reading: Reading) -> Compiled:
    """Return the next request of a thread.

    Raises:
        ContextTooLong: the caller's own leaves no room for memory in the model's window.
    """
    before = reading.newest
    origin: Reason | None = None
    if before is not None:
        held = reading.held(before)
    else:
        before, held, origin = reading.inherited()
        if before is None:
            return _opened(reading, None, origin)
        before = _taken_over(reading, before, origin)
    draft = drafted(reading, before, held, reading.entries(before.cut))
    reason = reason_to_turn(before, _facts(reading, draft))
    if origin == "budget" and draft.memory_bytes > before.budget:
        reason = "budget"
    if reason is None:
        return _finished(reading, draft, before=None if origin else before, turned=origin)
    turned = _opened(reading, draft, origin or reason)
    if origin is None and reason in ("full", "landed", "idle", "tail") and _is_same(before, turned.context.epoch):
        return _finished(reading, draft, before=before, turned=None)
    return turned


def _taken_over(reading: Reading, epoch: Epoch, origin: Reason) -> Epoch:
    """Return an epoch of another consumer, or of the parent, as the first of this one: nothing of it was sent yet."""
    now = reading.unit.now
    return replace(
        epoch,
        n=0,
        reason=origin,
        opened_at=now,
        last_at=now,
        turn=reading.turn,
        looked=reading.turn,
        budget=budgets.asked(reading.terms.consumer, epoch.rate),
        prefix=0,
        prefix_hash=b"\0" * 16,
        whole=min(epoch.whole, reading.row.next),
        sent=min(epoch.sent, reading.row.next),
    )


def _facts(reading: Reading, draft: Draft) -> Facts:
    epoch, terms = draft.epoch, reading.terms
    budget = min(epoch.budget, _window_room(reading, draft, epoch.rate))
    newest = newest_bytes(draft, terms.open_at)
    sent = draft.encoded[: epoch.prefix]
    closed = reading.row.next if terms.open_at is None else terms.open_at
    return Facts(
        turn=reading.turn,
        renderer=terms.consumer.renderer,
        head_hash=reading.head_hash,
        tools_hash=reading.tools_hash,
        past_hash=None if draft.seen is None else reading.past_hash(draft.seen.text),
        prefix_hash=reading.prefix_hash(sent) if len(sent) == epoch.prefix else None,
        erased=any(entry.erased for entry in draft.entries),
        full=draft.bytes - newest > budget or draft.memory_bytes > budget,
        above_low=draft.memory_bytes > int(epoch.budget * terms.low_mark),
        landed=looks(epoch, reading.turn) and reading.keeper.has_landed(epoch.past),
        reached=terms.consumer.mode == "rolling" and reading.keeper.has_landed(epoch.past),
        silent_s=(reading.unit.now - epoch.last_at).total_seconds(),
        idle_s=terms.idle_s,
        too_long=terms.too_long,
        tail=terms.consumer.tail,
        folds=closed > epoch.cut,
    )


def _opened(reading: Reading, before: Draft | None, reason: Reason) -> Compiled:
    """Return the first request of a new epoch."""
    terms, unit, row = reading.terms, reading.unit, reading.row
    old = None if before is None else before.epoch
    rate = budgets.learned(old)
    budget = budgets.at_opening(terms.consumer, rate, old, reason=reason, turn=reading.turn)
    whole = row.next if terms.open_at is None else terms.open_at
    room = _first_room(reading, rate, whole) if before is None else _window_room(reading, before, rate)
    budget = min(budget, room)
    shape = Shape(whole=whole, clip=budget // 8, tools=terms.tools)
    entries = reading.newest_entries(budget, shape) if before is None else before.entries
    folded = _folded(reading, before, entries, reason, budget=budget, whole=whole)
    now = unit.now
    epoch = Epoch(
        n=0 if reading.newest is None else reading.newest.n + 1,
        reason=reason,
        opened_at=now,
        turn=reading.turn,
        looked=reading.turn,
        budget=budget,
        rate=rate,
        renderer=terms.consumer.renderer,
        past=folded.past,
        cut=folded.cut,
        repeat=_repeat(reading, old, folded.cut),
        whole=whole,
        head_hash=reading.head_hash,
        tools_hash=reading.tools_hash,
        past_hash=b"",
        prefix_hash=b"",
        last_at=now,
    )
    held = [] if before is None else _carried(before.held, epoch, terms.open_at)
    draft = drafted(reading, epoch, held, [entry for entry in entries if entry.i >= folded.cut])
    return _finished(reading, draft, before=None, turned=reason)


def _folded(
    reading: Reading, before: Draft | None, entries: Sequence[Entry], reason: Reason, *, budget: int, whole: int
) -> Folded:
    """Return the past of a new epoch, and where the words after it begin."""
    terms = reading.terms
    old, past = (None, "") if before is None else (before.epoch, before.epoch.past)
    numerator, denominator = AHEAD
    ahead, low = budget * numerator // denominator, int(budget * terms.low_mark)
    is_early = (before is None and not terms.outgrown) or reason == "landed"
    low = max(low, ahead) if is_early else low
    shape = Shape(whole=whole, clip=budget // 8, tools=terms.tools)
    start = entries[0].i if entries else reading.row.next
    cut_into = reading.cut(entries, shape)
    known = before.past_bytes if before is not None and before.seen is not None else 0 if not start else None
    inside = None if terms.consumer.tail else _inside(cut_into, terms.open_at, budget - (known or 0))
    if not terms.consumer.tail and inside is None:
        cut = max(whole, start)
        return Folded(past=reading.keeper.grow(past, cut, budget=budget - PAIR_BYTES, low=low), cut=cut)
    divided = partial(
        divide,
        cut_into,
        cut=start,
        open_at=terms.open_at,
        past=known,
        keep=None if reason in FOLDING else ahead,
        recent=terms.recent,
    )
    room = divided(budget=budget, low=low)
    repeat = _repeat(reading, old, room.cut)
    if repeat is not None and (terms.open_at is None or repeat < terms.open_at):
        spare = shape.clip + FRAME_BYTES  # what the repeated message of a closed turn may take
        room = divided(budget=budget - spare, low=max(0, low - spare))
    return reading.keeper.fold(past, room if inside is None else replace(room, cut=inside), cut_into)


def _inside(cut_into: Sequence[Round], open_at: int | None, room: int) -> int | None:
    """Return where a memory without a tail is cut inside the open turn; None where that turn is not too large."""
    ours = [one for one in cut_into if open_at is not None and one.start >= open_at]
    return ours[-1].start if sum(one.size for one in ours[:-1]) > room else None


def _finished(reading: Reading, draft: Draft, *, before: Epoch | None, turned: Reason | None) -> Compiled:
    terms, unit = reading.terms, reading.unit
    seen = draft.seen or Seen()
    epoch = replace(
        draft.epoch,
        past_hash=reading.past_hash(seen.text),
        prefix=len(draft.pieces),
        prefix_hash=reading.prefix_hash(draft.encoded),
        sent=reading.row.next,
        looked=reading.turn if looks(draft.epoch, reading.turn) else draft.epoch.looked,
        last_at=unit.now,
    )
    pieces = said_of(draft.pieces)
    sent = before.prefix if before is not None else 0
    said = marked(terms.head.instructions, pieces, past=draft.past, sent=sent, marking=terms.marking)
    head = _head_bytes(reading)
    memory = draft.memory_bytes
    numerator, denominator = AHEAD
    context = Context(
        said=said,
        epoch=epoch,
        turned=turned,
        request=new_id(unit.clock),
        memory_bytes=memory,
        prompt_bytes=head + draft.bytes,
        items=items(draft, head),
        shown=seen.shown,
        hidden=seen.hidden,
        wants=reading.row.next if draft.bytes * denominator > epoch.budget * numerator else None,
        turns_when=turns_when(epoch, draft.bytes),
    )
    fresh = draft.held if before is None else [one for one in draft.held if one.kind in ("volatile", "own")]
    return Compiled(context=context, before=before, held=tuple(fresh), turn=reading.turn)


def _carried(held: Sequence[Held], epoch: Epoch, open_at: int | None) -> list[Held]:
    """Return what a new epoch takes over: rounds and replies of the turn that is open, long results cut."""
    if open_at is None:
        return []
    return [
        clipped_held(one, epoch.clip)
        for one in held
        if one.kind != "volatile" and one.position >= max(open_at + (one.kind != "own"), epoch.cut)
    ]


def _repeat(reading: Reading, old: Epoch | None, cut: int) -> int | None:
    """Return the message that began the turn which a cut is in; None if a turn begins at the cut."""
    if not 0 < cut < reading.row.next:
        return None
    entry = reading.entry(cut)
    if entry is None:
        return None
    began = reading.turn_start(entry.turn, cut)
    if began is None:
        began = old.repeat if old is not None else None
    if began is None or began >= cut:
        return None
    first = reading.entry(began)
    return began if first is not None and first.kind == "user" and not first.erased else None


def _is_same(old: Epoch, new: Epoch) -> bool:
    return (old.past, old.cut, old.repeat, old.whole) == (new.past, new.cut, new.repeat, new.whole)


def _head_bytes(reading: Reading) -> int:
    return sum(map(weigh, reading.terms.head.instructions)) + len(reading.terms.head.tools)


def _first_room(reading: Reading, rate: Rate, open_at: int) -> int:
    """Return the bytes that the model's window leaves to memory where nothing was compiled before."""
    if reading.terms.window_tokens is None:
        return budgets.in_window(None, rate, head=0, open_turn=0)
    entries = reading.entries(open_at) if open_at < reading.row.next else ()
    open_turn = sum(size_of(entry, Shape(whole=open_at, clip=0)) for entry in entries)
    return budgets.in_window(reading.terms.window_tokens, rate, head=_head_bytes(reading), open_turn=open_turn)


def _window_room(reading: Reading, draft: Draft, rate: Rate) -> int:
    """Return the bytes that the model's window leaves to memory."""
    open_turn = sum(piece.size for piece in draft.pieces if not piece.mine)
    return budgets.in_window(reading.terms.window_tokens, rate, head=_head_bytes(reading), open_turn=open_turn)
