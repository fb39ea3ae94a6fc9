"""Bringing in what was said elsewhere: each conversation is aligned with the log, so that it is there once.

Imported again it adds nothing; grown, it adds what is new; edited, it becomes a fork at the edit, named
`key~1`, `key~2` …. A killed import is resumed by running it again: what is there is recognised by its fingerprints.
Long conversations go in pages, each its own unit.

What is slow, fingerprints and alignment, is done before, in a unit that reads and holds up nobody (`placement.py`). The
unit that makes the thread locks no more than one, and checks that what was planned on is still so; if not, all is
planned again. What cannot be stored is refused before the first write, so that it leaves nothing behind.

A conversation that branches off another one shares of it what the log really has of it, so that nothing depends on the
order of imports, or on what became of the parent meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeAlias

from everlog import log
from everlog.conversation.alignment.placement import Coming, Plan
from everlog.conversation.alignment.seen import Overtaken, forked, made, unchanged
from everlog.log import NewTurn, ThreadRow
from everlog.messages import Conversation, Message
from everlog.pump import mark_tree
from everlog.store import Store, Unit

PAGE = 1000
"""Entries appended in one unit."""

Arrived: TypeAlias = Callable[[int, int], None]
"""Told how many messages of a conversation are in the log, and how many it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of one conversation."""

    key: str
    """The thread it is in."""
    entries: int
    """Entries appended."""
    known: int
    """Messages that were there already."""
    instructions: int
    """Leading system messages of the conversation, or instructions of an export, which are kept beside the thread."""
    forked_at: int | None
    """Where it goes another way than its parent, or than what the log had."""


def add(
    store: Store,
    tenant: str,
    conversation: Conversation,
    *,
    redact: Callable[[Message], Message],
    on_progress: Arrived | None = None,
) -> Added:
    """Put a conversation into the log, once.

    Raises:
        Mistake: it holds what cannot be stored, such as a key or an id that is none; nothing of it was stored.
        Erased: the thread was erased while it was brought in.
        StoreUnavailable: nothing of the page at hand was stored; the pages before it were.
    """
    coming = Coming(conversation, redact)
    size = len(coming.messages)
    appended = 0
    while True:
        plan = store.read(tenant, coming.plan)
        coming.check(plan.start)
        try:
            thread = _begun(store, tenant, plan)
        except Overtaken:
            continue
        done = plan.start
        for done in _append_from(store, tenant, coming, thread, plan.start):
            if on_progress is not None:
                on_progress(done, size)
        appended += done - plan.start
        if done == size:
            return Added(
                key=thread.key or conversation.key,
                entries=appended,
                known=size - appended,
                instructions=len(coming.instructions),
                forked_at=plan.forked_at,
            )


def _begun(store: Store, tenant: str, plan: Plan) -> ThreadRow:
    if plan.thread is not None and plan.is_ready:
        return plan.thread
    return store.write(tenant, partial(_begin, plan=plan), name="import.begin")


def _begin(unit: Unit, plan: Plan) -> ThreadRow:
    """Find, fork or make the thread.

    Raises:
        Overtaken: what was planned on has changed.
    """
    if plan.made is None:
        assert plan.thread is not None
        thread = unchanged(unit, plan.thread)
        if plan.title is not None:
            log.entitle(unit, thread, plan.title)
    elif plan.thread is None:
        thread = made(unit, plan.made, title=plan.title)
    else:
        thread = forked(unit, plan.thread, plan.forked_at or 0, plan.made, title=plan.title)
    log.instruct(unit, thread, plan.instructions)
    return thread


def _append_from(store: Store, tenant: str, coming: Coming, thread: ThreadRow, start: int) -> Iterator[int]:
    """Append what is new, until it is done or somebody else writes to the same thread; yield how many are in."""
    done = start
    for page in _pages(coming.turns(start)):
        unit = partial(_append, thread=thread, at=thread.next + done - start, page=page)
        if not store.write(tenant, unit, name="import.page"):
            return
        done += sum(len(turn.messages) for turn in page)
        yield done


def _append(unit: Unit, thread: ThreadRow, at: int, page: Sequence[NewTurn]) -> bool:
    """Append a page, unless the thread has changed otherwise since it was aligned."""
    row = log.load(unit, thread.id)
    if (row.next, row.generation) != (at, thread.generation):
        return False
    if page[0].more and not log.continues(unit, row):
        page = [replace(page[0], more=False), *page[1:]]
    appended = log.append(unit, row, page)
    mark_tree(unit, thread.id, upto=appended.stop, live=False)
    return True


def _pages(turns: Iterator[NewTurn]) -> Iterator[list[NewTurn]]:
    """Yield turns in pages of about `PAGE` messages; a longer turn is cut, and its rest continues it."""
    page: list[NewTurn] = []
    size = 0
    for piece in _pieces(turns):
        page.append(piece)
        size += len(piece.messages)
        if size >= PAGE:
            yield page
            page, size = [], 0
    if page:
        yield page


def _pieces(turns: Iterator[NewTurn]) -> Iterator[NewTurn]:
    for turn in turns:
        for begin in range(0, len(turn.messages), PAGE):
            yield replace(
                turn,
                messages=tuple(islice(turn.messages, begin, begin + PAGE)),
                erased=frozenset(n - begin for n in turn.erased if begin <= n < begin + PAGE),
                more=turn.more or begin > 0,
            )
