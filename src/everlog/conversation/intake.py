"""Bringing in what was said elsewhere: each conversation is aligned with the log, so that it is there once.

Imported again it adds nothing; grown, it adds what is new; edited, it becomes a fork at the edit, named
`key~1`, `key~2` …. A killed import is resumed by running it again: what is there is recognised by its fingerprints.
Long conversations go in pages, each its own unit.

A conversation that branches off another one shares of it what the log really has of it, so that nothing depends on the
order of imports, or on what became of the parent meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, groupby, islice, takewhile

from everlog import log
from everlog.jsonl import Transcript
from everlog.log import NewTurn, Print, ThreadRow
from everlog.log.fingerprints import ERASED
from everlog.messages import Conversation, Message
from everlog.pump import mark_tree
from everlog.store import Store, Unit

PAGE = 1000
"""Entries appended in one unit."""


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
    """Leading system messages, kept beside the thread."""
    forked_at: int | None
    """Where it goes another way than its parent, or than what the log had."""


def add(store: Store, tenant: str, conversation: Conversation, *, redact: Callable[[Message], Message]) -> Added:
    """Put a conversation into the log, once.

    Raises:
        StoreUnavailable: nothing of the page at hand was stored; the pages before it were.
    """
    coming = _Coming(conversation, redact)
    appended = 0
    while True:
        place = store.write(tenant, coming.place, name="import.begin")
        done = _append_from(store, tenant, coming, place)
        appended += done
        if place.start + done == len(coming.messages):
            return Added(
                key=place.thread.key or conversation.key,
                entries=appended,
                known=len(coming.messages) - appended,
                instructions=len(coming.leading),
                forked_at=place.forked_at,
            )


def _append_from(store: Store, tenant: str, coming: "_Coming", place: "_Place") -> int:
    """Append what is new, until it is done or somebody else appends to the same thread; return how many were."""
    done = 0
    for page in _pages(coming.turns(place.start)):
        unit = partial(_append, thread=place.thread.id, at=place.thread.next + done, page=page)
        if not store.write(tenant, unit, name="import.page"):
            break
        done += sum(len(turn.messages) for turn in page)
    return done


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a conversation goes."""

    thread: ThreadRow
    start: int
    """The first of its messages that is new there."""
    forked_at: int | None = None


class _Coming:
    """A conversation on its way in."""

    def __init__(self, conversation: Conversation, redact: Callable[[Message], Message]) -> None:
        self._conversation = conversation
        self._entries = conversation.entries if isinstance(conversation, Transcript) else None
        messages = tuple(map(redact, conversation.messages))
        title = conversation.title
        self.title = None if title is None else redact(Message(kind="note", text=title)).text
        # A transcript is a thread of ours already: its system entries were not leading when they were logged.
        self.leading, self.messages = ((), messages) if self._entries is not None else log.leading(messages)

    def place(self, unit: Unit) -> _Place:
        """Find, fork or make the thread, in a unit that writes."""
        known = log.known(unit, self._conversation.key)
        if known is None:
            place = self._new(unit)
        else:
            row = log.load(unit, known)
            if self.title is not None:
                log.entitle(unit, row, self.title)
            place = self._aligned(unit, row)
        log.instruct(unit, place.thread, [message.text for message in self.leading])
        return place

    def turns(self, start: int) -> Iterator[NewTurn]:
        """Yield what is to be appended from message `start` on, as turns."""
        if self._entries is None:
            said = self.messages[start - 1] if start else None
            yield from log.split(self.messages[start:], origin=self._conversation.origin, before=said)
            return
        before = self._entries[start - 1].turn if start else None
        pairs_left = zip(self._entries[start:], self.messages[start:], strict=True)
        for (number, _), group in groupby(pairs_left, key=lambda pair: (pair[0].turn, pair[0].origin.request)):
            pairs = list(group)
            yield NewTurn(
                messages=tuple(message for _, message in pairs),
                erased=frozenset(n for n, (entry, _) in enumerate(pairs) if entry.erased),
                origin=next((entry.origin for entry, _ in pairs if not entry.erased), pairs[0][0].origin),
                more=number == before,
            )
            before = number

    def _new(self, unit: Unit) -> _Place:
        conversation = self._conversation
        parent = None if conversation.parent is None else log.known(unit, conversation.parent)
        if parent is None or conversation.parent is None:
            return _Place(log.create(unit, conversation.key, title=self.title), 0)
        candidates = [log.load(unit, id_) for id_ in (parent, *log.variants(unit, conversation.parent))]
        incoming = self._prints(unit)[: max(0, conversation.shared - len(self.leading))]
        shared, row = max(
            ((_common(log.seen(unit, one), incoming), one) for one in candidates), key=lambda pair: pair[0]
        )
        if not shared:
            return _Place(log.create(unit, conversation.key, title=self.title), 0)
        return _Place(log.fork(unit, row.id, shared, conversation.key, title=self.title), shared, shared)

    def _prints(self, unit: Unit) -> list[Print]:
        erased = frozenset(n for n, entry in enumerate(self._entries or ()) if entry.erased)
        return log.prints(unit.secret(), self.messages, erased)

    def _aligned(self, unit: Unit, row: ThreadRow) -> _Place:
        incoming = self._prints(unit)
        match self._reached(unit, row, incoming):
            case None:
                return _Place(log.create(unit, self._free_key(unit), title=self.title), 0)
            case thread, log.Append(start=start):
                return _Place(thread, start)
            case thread, log.Fork(at=at, start=start):
                made = log.fork(unit, thread.id, at, self._free_key(unit), title=self.title)
                return _Place(made, start, at)
            case thread, _:
                return _Place(thread, len(self.messages))

    def _reached(self, unit: Unit, row: ThreadRow, incoming: Sequence[Print]) -> tuple[ThreadRow, log.Decision] | None:
        """Return the thread that the conversation is in: the one of its name, or one where it went another way before."""
        here = row, log.align(log.seen(unit, row), incoming)
        if isinstance(here[1], log.Append | log.Nothing):
            return here
        forks = {fork.id: fork for fork in log.forks(unit, row)}
        others = [log.load(unit, id_) for id_ in log.variants(unit, self._conversation.key) if id_ not in forks]
        return log.best(
            [here, *((one, log.align(log.seen(unit, one), incoming)) for one in (*forks.values(), *others))]
        )

    def _free_key(self, unit: Unit) -> str:
        names = (log.variant(self._conversation.key, n) for n in count(1))
        return next(name for name in names if log.known(unit, name) is None)


def _common(old: Sequence[Print], new: Sequence[Print]) -> int:
    """Return how many entries from the first on are the same messages; an erased one stands for any of its kind."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _same(*pair), pairs))


def _same(old: Print, new: Print) -> bool:
    return old.fp == new.fp or (old.fp == ERASED and old.kind == new.kind)


def _append(unit: Unit, thread: str, at: int, page: Sequence[NewTurn]) -> bool:
    """Append a page, unless the thread has grown otherwise since it was aligned."""
    row = log.load(unit, thread)
    if row.next != at:
        return False
    if page[0].more and not log.continues(unit, row):
        page = [replace(page[0], more=False), *page[1:]]
    appended = log.append(unit, row, page)
    mark_tree(unit, thread, upto=appended.stop, live=False)
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
