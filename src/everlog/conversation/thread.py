"""One endless conversation, as a program holds it: append, read, fork, and what is derived from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Any

from everlog import jsonl, log
from everlog.conversation.costs import Costs, costs_of
from everlog.conversation.rolling import Rolling
from everlog.conversation.tree import Tree
from everlog.errors import Conflict, Mistake, expect
from everlog.log import Appended, NewTurn, ThreadRow, TurnState, Verified
from everlog.log.threads import END
from everlog.memory import rolling, tree
from everlog.memory.tree import Tree as TreeMemory
from everlog.messages import Entry, Kind, Message, Origin, Unknown
from everlog.pump import Options, Progress, Ran, compactor_of, mark_tree, run
from everlog.pump.compactors import EXTRACTIVE, Given
from everlog.store import Store, Unit

PAGE = 1000

Redact = Callable[[Message], Message]


class Thread:
    """A thread of a tenant. Made by the first append; until then it is empty and cannot be read."""

    def __init__(
        self, store: Store, tenant: str, key: str, *, redact: Redact, required_protocol: str | None = None
    ) -> None:
        self.key = key
        self._store = store
        self._tenant = tenant
        self._redact = redact
        self._required_protocol = required_protocol
        self._id: str | None = None

    def __repr__(self) -> str:
        return f"<Thread {self.key!r}>"

    @property
    def tree(self) -> Tree:
        """The tree memory of this thread."""
        return Tree(self._store, self._tenant, self.id)

    @property
    def rolling(self) -> Rolling:
        """The rolling summary of this thread."""
        return Rolling(self._store, self._tenant, self.id)

    @property
    def id(self) -> str:
        """Our own id of the thread.

        Raises:
            UnknownThread: nothing was appended to it yet.
        """
        if self._id is None:
            self._id = self._store.read(self._tenant, partial(log.find, key=self.key)).id
        return self._id

    def append(
        self,
        kind: Kind,
        text: str,
        *,
        author: str | None = None,
        at: datetime | None = None,
        client_key: str | None = None,
        origin: Origin | None = None,
    ) -> Appended:
        """Append one message: a user's opens a turn, anything else belongs to the turn that is open.

        Args:
            kind: who speaks: system, user, assistant, tool_call, tool_result or note.
            text: the words.
            author: name of the speaker.
            at: when it was said, aware; now if None.
            client_key: makes a user's message idempotent: the same key with the same content is stored once. What
                belongs to the turn that is open has no key of its own; store whole turns with `turn` instead.
            origin: opaque ids of request, session, user and project.

        Raises:
            Conflict: the client key was used before, with other content.
            Erased: the thread was erased.
        """
        message = Message(kind=kind, text=text, author=author, at=at)
        turn = NewTurn(
            messages=(message,),
            client_key=client_key,
            origin=origin or Origin(),
            more=kind != "user",
            beside=kind in ("note", "system"),
        )
        return self.extend([turn])

    def turn(
        self,
        messages: Iterable[Message],
        *,
        client_key: str | None = None,
        state: TurnState = TurnState.COMPLETE,
        origin: Origin | None = None,
    ) -> Appended:
        """Append a whole turn in one unit: a user's message and everything until the reply."""
        turn = NewTurn(messages=tuple(messages), client_key=client_key, state=state, origin=origin or Origin())
        return self.extend([turn])

    def extend(self, turns: Sequence[NewTurn]) -> Appended:
        """Append turns in one unit; all of them are stored, or none.

        Raises:
            Mistake: a turn is empty, or holds what cannot be stored.
            Conflict: a client key was used before, with other content.
            Erased: the thread was erased.
        """
        _check(turns)
        redacted = [replace(turn, messages=tuple(map(self._redact, turn.messages))) for turn in turns]
        self._id, appended = self._store.write(
            self._tenant, partial(_append, key=self.key, thread=self._id, turns=redacted), name="log.append"
        )
        return appended

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Yield entries in order, read in pages; each page is one snapshot.

        Raises:
            Damaged: entries are missing.
            Erased: the thread was erased.
            Mistake: a position is negative.
            UnknownThread: there is no such thread.
        """
        expect(start, int, "a position is an int")
        expect(stop, (int, NoneType), "a position to stop at is an int or None")
        if start < 0 or (stop is not None and stop < 0):
            raise Mistake("positions are counted from 0; there is none before it")
        return self._pages(min(start, END), stop)

    def _pages(self, start: int, stop: int | None) -> Iterator[Entry]:
        while True:
            end = start + PAGE if stop is None else min(stop, start + PAGE)
            page = self._store.read(self._tenant, partial(_entries, thread=self.id, start=start, stop=end))
            yield from page
            start += len(page)
            if not page or start == stop:
                return

    def instructions(self) -> list[str]:
        """Return what the model was told before the conversation, oldest first: the newest 8 distinct texts.

        They stand beside the log and are no entries. An import brings them in, an erasure of the thread takes them away.

        Raises:
            Erased: the thread was erased.
            UnknownThread: there is no such thread.
        """
        return self._store.read(self._tenant, partial(_instructions, thread=self.id))

    def fork(self, at: int, key: str, *, title: str | None = None) -> "Thread":
        """Return a new thread that shares the entries below `at` and goes its own way from there."""
        expect(at, int, "the position to fork at is an int")
        made = Thread(
            self._store,
            self._tenant,
            log.checked_key(key),
            redact=self._redact,
            required_protocol=self._required_protocol,
        )
        said = None if title is None else self._redact(Message(kind="note", text=title)).text
        unit = partial(_fork, thread=self.id, at=at, key=key, title=said)
        made._id = self._store.write(self._tenant, unit, name="log.fork")
        return made

    def pump(
        self,
        compactor: Given = EXTRACTIVE,
        *,
        compactor_options: Mapping[str, Any] | None = None,
        options: Options | None = None,
        on_progress: Progress | None = None,
    ) -> Ran:
        """Build the lines of the tree that are still missing; a model is asked several requests at once.

        Args:
            compactor: answers what needs a compactor: the name of a model, a `Chat`, a function that makes one, or any
                compactor; by default the built-in one, which needs no model.
            compactor_options: how to reach a model that is named: `provider`, `protocol`, `assume_model_exists`,
                `base_url`, `api_key`, `config`, as `Chat` takes them.
            options: hooks, called in this thread, and limits.
            on_progress: told after each write: lines built, and about how many are left.

        Raises:
            ProtocolError: another protocol than the required one would be spoken; nothing was sent.
            Mistake: there is no such model, option or key, or the provider turns every request down.
            PumpTimeout: a pass took too long; what was built stays, and the next call goes on.
        """
        asked = compactor_of(compactor, options=compactor_options, required_protocol=self._required_protocol)
        memory = TreeMemory.of(asked)
        return run(self._store, self._tenant, self.id, memory, asked, options=options, on_progress=on_progress)

    def cost(self) -> Costs:
        """Return what models took for this thread: the talk, and what is remembered of it, apart.

        Raises:
            UnknownThread: there is no such thread.
        """
        return costs_of(self._store, self._tenant, self.id)

    def verify(self) -> Iterator[Verified]:
        """Check the thread page by page: positions, hashes, turns, large parts, and that its tree and its summaries can be shown.

        Raises:
            Erased: the thread was erased.
            UnknownThread: there is no such thread.
        """
        known = self._id or self._store.read(self._tenant, partial(log.known, key=self.key))
        return verified(self._store, self._tenant, known or self.id)

    def row(self) -> ThreadRow:
        """Return what the database says of the thread now."""
        return self._store.read(self._tenant, partial(log.load, thread=self.id))

    def export(self) -> Iterator[bytes]:
        """Yield the thread as lines of JSON, one entry each, as `everlog.jsonl` describes them.

        An empty thread is one line, which names it.
        """
        row = self.row()
        parent = None
        if row.parent is not None:
            parent = self._store.read(self._tenant, partial(log.key_of, thread=row.parent))
        shared = row.segments[-2][1] if parent is not None and len(row.segments) > 1 else 0
        return jsonl.lines(
            self.entries(0, row.next),
            key=self.key,
            title=row.title,
            parent=parent,
            shared=shared,
            instructions=self.instructions(),
        )


def verified(store: Store, tenant: str, thread: str) -> Iterator[Verified]:
    """Check a thread by its id: the log, and if its row can be read at all, what was derived from it."""
    readable = True
    for part in log.verify(store, tenant, thread):
        readable = readable and not (part.of == 0 and part.faults)
        yield part
    if readable:
        yield from tree.verify(store, tenant, thread)
        yield from rolling.verify(store, tenant, thread)


def _check(turns: Sequence[NewTurn]) -> None:
    """Refuse what no store could keep, before a unit begins."""
    for turn in turns:
        expect(turn, NewTurn, "what a thread is extended by is a NewTurn")
        expect(turn.origin, Origin, "`origin` is an Origin")
        for message in turn.messages:
            expect(message, Message, "what a turn is made of is a Message")
            kept = [part.value for part in message.parts if isinstance(part, Unknown)]
            try:
                if message.meta or kept:
                    jsonl.dumps([dict(message.meta), *kept])
            except (TypeError, ValueError, RecursionError) as error:
                raise Mistake(
                    "`meta` of a message, or a part that is not known, holds what JSON cannot say; "
                    "give text, numbers, lists and dicts"
                ) from error


def _append(unit: Unit, key: str, thread: str | None, turns: Sequence[NewTurn]) -> tuple[str, Appended]:
    if thread is None:
        row = log.ensure(unit, key)
        thread, appended = row.id, log.append(unit, row, turns)
    else:
        appended = log.append(unit, thread, turns)
    mark_tree(unit, thread, upto=appended.stop)
    return thread, appended


def _entries(unit: Unit, thread: str, start: int, stop: int) -> list[Entry]:
    return log.read(unit, log.load(unit, thread), start, stop)


def _instructions(unit: Unit, thread: str) -> list[str]:
    return log.instructions(unit, log.load(unit, thread))


def _fork(unit: Unit, thread: str, at: int, key: str, title: str | None) -> str:
    if log.known(unit, key) is not None:
        raise Conflict(f"there is a thread {key!r} already; name the fork otherwise")
    return log.fork(unit, thread, at, key, title=title).id
