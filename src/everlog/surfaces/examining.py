"""Why a thread has no memory in its prompts yet, or what its next epoch waits for: read from rows, no word of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from everlog import access, context, log
from everlog.access import Key, Mode, Requested
from everlog.context import Outlook
from everlog.conversation.remembering.asking import threshold_tokens
from everlog.errors import UnknownModel
from everlog.memory.interface import Subject
from everlog.memory.tree import Tree
from everlog.registry import Model, builtin
from everlog.store import Store, Unit
from everlog.surfaces.checks import Check
from everlog.surfaces.reasons import WHY
from everlog.tokens import BYTES_PER_TOKEN

MOST_TOLD = 3
"""Epochs that are told of: those of the models and budgets that asked last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What a proxy does unless a key or a request says otherwise."""

    summarises: bool = False
    """Whether a model is there that writes summaries."""
    mode: Mode = "tree"
    budget_tokens: int = 20_000
    named_by: str = "the settings"
    """Who says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A thread at one moment."""

    entries: int
    turns: int
    said_bytes: int
    newest: Requested | None
    """The request of its newest message, as far as it is known."""
    key: Key | None
    """The key that it came with."""
    outlooks: tuple[Outlook, ...]
    unbuilt: int
    """How many lines of its tree are left to build."""


def checks(store: Store, tenant: str, thread: str, usual: Usual) -> list[Check]:
    """Return what can be told of a thread, by its id: from what was said to what its next epoch waits for.

    Raises:
        Erased: the thread was erased.
    """
    return [*_checks(store.read(tenant, partial(examined, thread=thread)), usual)]


def examined(unit: Unit, thread: str) -> Examined:
    """Return a thread as it is now.

    Raises:
        Erased: it was erased.
    """
    row = log.load(unit, thread)
    last = log.at(unit, row, [row.next - 1]).get(row.next - 1) if row.next else None
    request = None if last is None else last.origin.request
    newest = None if request is None else access.asked(unit, request)
    tree = Tree()
    state = tree.read(unit, Subject(tenant=unit.tenant, memory=tree.name, key=thread))
    return Examined(
        entries=row.next,
        turns=row.turns,
        said_bytes=sum(one.size for one in log.seen(unit, row)),
        newest=newest,
        key=next((one for one in access.keys(unit) if newest is not None and one.id == newest.key), None),
        outlooks=tuple(context.outlooks(unit, thread)),
        unbuilt=tree.plan(state, unit.now, 0).remaining,
    )


def _checks(found: Examined, usual: Usual) -> Iterator[Check]:
    yield Check("thread", "ok", f"{found.entries:,} messages in {found.turns:,} turns")
    yield _request(found.newest)
    mode, budget, named_by = _mode(found.key, usual)
    if mode not in ("rolling", "tree"):
        does = "nothing of it is kept" if mode == "off" else "it is kept, and goes up as the client sends it"
        yield Check(
            "mode",
            "skip",
            f"{mode} ({named_by}): {does}; --mode tree, a key's mode, or X-Everlog-Mode: tree of a request gives it memory",
        )
    else:
        yield Check("mode", "ok", f"{mode} at {budget:,} tokens ({named_by}), unless a request says otherwise")
        if mode == "rolling" and not usual.summarises:
            lack = "without a model nobody writes them, so requests go up as they came: name one in [compactor]"
            yield Check("summaries", "fail", lack)
    yield _size(found, budget, is_remembered=mode in ("rolling", "tree"))
    for outlook in found.outlooks[:MOST_TOLD]:
        yield from _epoch(outlook)
    yield from _left_alone(found)
    if mode != "rolling" or any(one.consumer.mode == "tree" for one in found.outlooks):
        yield _lines(found.unbuilt)


def _lines(unbuilt: int) -> Check:
    if not unbuilt:
        return Check("lines", "ok", "all built")
    said = f"{unbuilt:,} left to build; the proxy builds them beside requests, `everlog pump` at once"
    return Check("lines", "todo", said)


def _mode(key: Key | None, usual: Usual) -> tuple[Mode, int, str]:
    """Return the mode and budget of a key's requests, and who says so."""
    name = "" if key is None else f"key {key.name or key.id}"
    mode = None if key is None else key.mode
    budget = None if key is None else key.budget_tokens
    return (
        mode or usual.mode,
        budget or usual.budget_tokens,
        ", ".join(dict.fromkeys(name if own else usual.named_by for own in (mode, budget))),
    )


def _request(newest: Requested | None) -> Check:
    if newest is None:
        return Check("request", "skip", "the newest is not known: it came without the proxy, or long ago")
    is_good = newest.status is not None and 200 <= newest.status < 300
    end = "no answer" if newest.status is None else f"answered with {newest.status}"
    said = f"the newest: {_at(newest.at)}, {newest.model or 'no model'}, {newest.decision}, {end}"
    return Check("request", "ok" if is_good else "todo", said)


def _size(found: Examined, budget: int, *, is_remembered: bool) -> Check:
    model = _model(found.newest)
    most = threshold_tokens(budget, model)
    why = f"half of what {model.id} takes" if most < budget else "the budget"
    said = f"about {found.said_bytes // BYTES_PER_TOKEN:,} tokens were said"
    if found.outlooks:
        return Check("size", "ok", f"{said}; memory stands for a part of them")
    if not is_remembered:
        return Check("size", "ok", said)
    left = most * BYTES_PER_TOKEN - found.said_bytes
    if left >= 0:
        return Check(
            "size",
            "ok",
            f"{said}; requests go up as they came until these are more than {most:,} ({why}), "
            f"{left // BYTES_PER_TOKEN:,} from here",
        )
    return Check(
        "size",
        "todo",
        f"{said}, more than {most:,} ({why}): the next request has memory. If not, its answer says why by "
        "X-Everlog-Memory-Off, with X-Everlog-Debug: on",
    )


def _epoch(outlook: Outlook) -> Iterator[Check]:
    consumer, epoch = outlook.consumer, outlook.epoch
    whom = f" for {consumer.family}" if consumer.family else ""
    yield Check(
        "epoch",
        "ok",
        f"{epoch.n}, opened {_at(epoch.opened_at)} because {WHY[epoch.reason]} ({epoch.reason}): {consumer.mode} at "
        f"{consumer.budget:,} {consumer.unit}{whom}; memory takes {outlook.memory_bytes:,} of {epoch.budget:,} bytes",
    )
    yield Check("next epoch", "ok", f"{outlook.turns_when}; or when instructions, tools or the model change")
    if outlook.placeholders:
        said = f"{outlook.placeholders:,} of {outlook.lines:,} lines in it had no words yet; the next epoch has those that are built"
        yield Check("placeholders", "todo", said)
    if outlook.hidden:
        yield Check("left out", "todo", f"{outlook.hidden:,} messages have nothing in it that stands for them")


def _left_alone(found: Examined) -> Iterator[Check]:
    """Yield what is to be said where the newest request went up without the memory that ones before it had."""
    newest = found.newest
    if newest is None or not found.outlooks or newest.at <= found.outlooks[0].epoch.last_at:
        return
    said = (
        "the newest request went up as it came: its header X-Everlog-Mode or X-Everlog-Memory said so, or there was "
        "trouble (X-Everlog-Degraded, `everlog_degraded_total` of /metrics)"
    )
    yield Check("degraded", "todo", said)


def _model(newest: Requested | None) -> Model:
    name = (newest.model if newest is not None else None) or ""
    try:
        return builtin().find(name)
    except UnknownModel:
        return Model(id=name, provider="")


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
