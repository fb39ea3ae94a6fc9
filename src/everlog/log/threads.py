"""Threads and forks: names, ids, and whose rows hold which positions.

A fork copies nothing. It lists its *segments* flat, `(owner, upto)`: entry `i` lies under the owner of the first
segment with `i < upto`, and from the last `upto` on under the fork itself. A node of the tree over `[a, b)` lies
under the owner of entry `b - 1`, because that owner's own log is the same up to there.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, pairwise
from typing import Any

from everlog.clock import moment, new_id
from everlog.errors import Damaged, Erased, Mistake, UnknownThread, expect
from everlog.log import heads, rows
from everlog.names import is_name, unlike
from everlog.store import Unit, sealed
from everlog.store import rows as store_rows
from everlog.tokens import utf8

_ID = re.compile("[0-9a-f]{32}")
KEY_LENGTH = 200
END = 1 << 62
"""Above every position."""
VARIANTS = 32
"""Names looked for by one statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """A thread as one unit of work saw it."""

    id: str
    """Our own id, a UUIDv7; the key can change hands after an erasure, this never does."""
    key: str | None
    """The name its user gave; None once it is erased."""
    title: str | None
    created_at: datetime
    next: int
    """How many entries it has, shared ones included; the position of the next one."""
    turns: int
    """How many turns it has; the number of the next one."""
    generation: int
    """Rises with each erasure in it; what was read under another generation must not be written."""
    parent: str | None
    """Id of the thread it was forked from."""
    segments: tuple[tuple[str, int], ...]
    """Whose rows hold which positions, `(owner, upto)`, the thread's own last."""

    def owner(self, i: int) -> str:
        """Return the id of the thread under whose id the row of position `i` is stored."""
        return next(owner for owner, upto in self.segments if i < upto)

    def spans(self, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
        """Yield `(owner, start, stop)` pieces that cover `[start, stop)`, in order."""
        for owner, upto in self.segments:
            if start >= stop:
                return
            if start < upto:
                yield owner, start, min(stop, upto)
                start = upto


def find(unit: Unit, key: str) -> ThreadRow:
    """Return the thread with a key.

    Raises:
        UnknownThread: the tenant has none.
    """
    found = unit.row(rows.THREAD_OF_KEY, key=checked_key(key))
    if found is None:
        raise UnknownThread(f"no thread {key!r} here; `everlog threads` lists the ones there are")
    return load(unit, found[0])


def known(unit: Unit, key: str) -> str | None:
    """Return the id of the thread with a key, or None."""
    found = unit.row(rows.THREAD_OF_KEY, key=checked_key(key))
    return None if found is None else found[0]


def variants(unit: Unit, key: str) -> list[str]:
    """Return the ids of the threads named `key~1`, `key~2` …: other ways that a conversation went."""
    found: list[str] = []
    for begin in count(1, VARIANTS):
        names = [variant(key, n) for n in range(begin, begin + VARIANTS)]
        some: dict[str, str] = dict(unit.rows(rows.THREADS_OF_KEYS, keys=names))
        if not some:
            return found
        found += [some[name] for name in names if name in some]
    raise AssertionError("unreachable")


def variant(key: str, n: int) -> str:
    """Return the name of the n-th other way that a conversation went."""
    return f"{key[: KEY_LENGTH - len(str(n)) - 1]}~{n}"


def fence(unit: Unit, thread: str) -> None:
    """See to it that what was derived from a thread before this moment is not written after it.

    Raises:
        Erased: it was erased.
    """
    load(unit, thread)
    unit.run(rows.TOUCH_GENERATION, {"thread": thread})


def unborn(unit: Unit) -> ThreadRow:
    """Return what a thread is before anything is said in it; there is no row of it."""
    return _empty(unit, "")


def load(unit: Unit, thread: str) -> ThreadRow:
    """Return a thread by its id; a writing unit locks it, so that positions are given out once.

    Raises:
        Erased: it was erased.
    """
    return ask(unit, thread)()


def ask(unit: Unit, thread: ThreadRow | str) -> Callable[[], ThreadRow]:
    """Start to load a thread; call what is returned to get it. What is asked in between sees it locked."""
    if isinstance(thread, ThreadRow):
        return lambda: thread
    row = unit.ask(rows.THREAD_TO_WRITE if unit.writes else rows.THREAD, thread=thread)
    unit.reread_tenant()
    segments = unit.ask(rows.SEGMENTS, thread=thread)

    def answer() -> ThreadRow:
        found = row()
        if not found or found[0][8] is not None:
            raise Erased("this thread was erased")
        return _thread(unit, found[0], segments())

    return answer


def create(unit: Unit, key: str, *, title: str | None = None, parent: str | None = None) -> ThreadRow:
    """Make an empty thread; the key must be free.

    Raises:
        Erased: the tenant is being erased at this moment.
    """
    _enter_tenant(unit)
    return _create(unit, key, title=title, parent=parent)


def _create(unit: Unit, key: str, *, title: str | None, parent: str | None) -> ThreadRow:
    thread = _id_after(new_id(unit.clock), parent)
    unit.run(
        rows.PUT_THREAD,
        {
            "thread": thread,
            "key": checked_key(key),
            "title": _seal_title(unit, thread, title),
            "created_at": unit.now_us,
            "next": 0,
            "turns": 0,
            "generation": 0,
            "erased_at": None,
            "parent": parent,
            "head": heads.head(unit, thread, key, 0, 0, ()),
        },
    )
    return replace(_empty(unit, thread), key=key, title=title, parent=parent)


def _empty(unit: Unit, thread: str) -> ThreadRow:
    return ThreadRow(
        id=thread,
        key=None,
        title=None,
        created_at=unit.now,
        next=0,
        turns=0,
        generation=0,
        parent=None,
        segments=((thread, END),),
    )


def ensure(unit: Unit, key: str, *, title: str | None = None) -> ThreadRow:
    """Return the thread with a key, made if there is none."""
    thread = known(unit, key)
    return load(unit, thread) if thread is not None else create(unit, key, title=title)


def fork(unit: Unit, parent: str, at: int, key: str, *, title: str | None = None) -> ThreadRow:
    """Make a thread that shares the entries below `at` of the thread with id `parent` and goes its own way from there.

    The tenant is held before the parent is locked, in the order of an erasure: two that wait the other way round for
    each other would both fail.

    Raises:
        Erased: the parent was erased, or the tenant is being erased at this moment.
        Mistake: the parent has not as many entries.
    """
    _enter_tenant(unit)
    return _fork(unit, load(unit, parent), at, key, title=title)


def _fork(unit: Unit, parent: ThreadRow, at: int, key: str, *, title: str | None) -> ThreadRow:
    if not 0 <= at <= parent.next:
        raise Mistake(f"cannot fork at {at}: the thread has {parent.next} entries")
    made = _create(unit, key, title=title, parent=parent.id)
    shared = tuple((owner, stop) for owner, _, stop in parent.spans(0, at))
    if shared:
        unit.run(
            rows.PUT_SEGMENT,
            [{"thread": made.id, "n": n, "owner": owner, "upto": upto} for n, (owner, upto) in enumerate(shared)],
        )
    turns = 0
    if at:
        last = unit.row(rows.TURN_AT, thread=parent.owner(at - 1), position=at - 1)
        turns = 0 if last is None else last[0] + 1
    heads.grow(unit, made.id, key, at, turns, shared)
    return ThreadRow(
        id=made.id,
        key=key,
        title=title,
        created_at=made.created_at,
        next=at,
        turns=turns,
        generation=0,
        parent=parent.id,
        segments=(*shared, (made.id, END)),
    )


def forks(unit: Unit, thread: ThreadRow) -> list[ThreadRow]:
    """Return the living threads that share rows of a thread."""
    ids = {fork for fork, _, _ in unit.rows(rows.FORKS_OF, owner=thread.id)}
    return [load(unit, fork) for fork in sorted(ids)]


def key_of(unit: Unit, thread: str) -> str | None:
    """Return the key of a thread by its id; None if it was erased."""
    found = unit.row(rows.KEY_OF, thread=thread)
    return None if found is None else found[0]


def listed(unit: Unit, *, after: str = "", limit: int = 500) -> list[ThreadRow]:
    """Return up to `limit` threads in the order they were made, after the one with id `after`."""
    found = unit.rows(rows.THREADS, after=after, limit=limit)
    if found:
        sealed.onward(found[-1][1], after)
    return [_thread(unit, row, unit.rows(rows.SEGMENTS, thread=row[1]) if row[9] else []) for row in found]


def ids(unit: Unit) -> list[str]:
    """Return the ids of all threads, erased ones included, in the order they were made."""
    return [thread for (thread,) in unit.rows(rows.THREAD_IDS)]


def names(unit: Unit) -> list[tuple[str, str]]:
    """Return (id, key) of all living threads, in the order they were made; nothing else of them is looked at."""
    return [(thread, key) for thread, key in unit.rows(rows.NAMES)]


def entitle(unit: Unit, thread: ThreadRow, title: str | None) -> None:
    """Set a thread's title."""
    if title != thread.title:
        unit.run(rows.SET_TITLE, {"thread": thread.id, "new_title": _seal_title(unit, thread.id, title)})


def checked_key(key: str) -> str:
    """Return a thread key that every engine can store and index.

    Raises:
        Mistake: it is no text, or no name.
    """
    expect(key, str, "a thread's key is a str")
    if not is_name(key, KEY_LENGTH):
        raise Mistake(f"a thread's key is 1 to {KEY_LENGTH} printable characters; this one {unlike(key, KEY_LENGTH)}")
    return key


def _enter_tenant(unit: Unit) -> None:
    """Keep the tenant from being erased until this unit ends, and make its secret if it is new."""
    locked = unit.ask(store_rows.TENANT_TO_ENTER)
    unit.reread_tenant()
    unit.secret()
    held = locked() or unit.rows(store_rows.GET_TENANT)
    if not held or held[0][0] == store_rows.CLOSED:
        raise Erased("this tenant is being erased at this moment; try again when that is done")


def _id_after(thread: str, parent: str | None) -> str:
    """Return an id that sorts after the parent's also within a millisecond, or where the clock went back."""
    if parent is None or thread > parent:
        return thread
    if _ID.fullmatch(parent) is None:
        raise Damaged("a row of the table 'thread' is damaged: its id is none of ours; `everlog verify` says more")
    return f"{int(parent[:12], 16) + 1:012x}{thread[12:]}"


def _thread(unit: Unit, row: tuple[Any, ...], segments: Sequence[tuple[str, int]]) -> ThreadRow:
    _, thread, key, title, created_at, next_, turns, generation, _, parent, _ = row
    ends = (0, *(upto for _, upto in segments))
    if ends[-1] > next_ or any(upto <= before for before, upto in pairwise(ends)):
        raise Damaged(
            "the stretches that a thread shares with its parents do not fit together; `everlog verify` says more"
        )
    return ThreadRow(
        id=thread,
        key=key,
        title=None if title is None else unit.open_text(rows.thread.c.title, (thread,), title),
        created_at=moment(created_at),
        next=next_,
        turns=turns,
        generation=generation,
        parent=parent,
        segments=(*segments, (thread, END)),
    )


def _seal_title(unit: Unit, thread: str, title: str | None) -> bytes | None:
    return None if title is None else unit.seal(rows.thread.c.title, (thread,), utf8(title))
