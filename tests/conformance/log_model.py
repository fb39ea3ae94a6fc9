"""A log in a few dictionaries, beside the real one: what each act must come to, and what must be left of what was erased.

`World` does everything twice, in the database and here, and compares. Words are hex digits that occur once, so that a
piece of 16 of them, wherever it is found, tells whose it is.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from everlog import (
    Appended,
    Conflict,
    Entry,
    Erased,
    Everlog,
    Media,
    Message,
    Mistake,
    NewTurn,
    Origin,
    Receipt,
    UnknownThread,
)
from everlog.log import rows
from everlog.memory.rolling import Rolling, Settings
from everlog.messages import Kind
from everlog.pump import run
from everlog.store import Store, Unit, metadata, scoped
from everlog.store import rows as store_rows
from everlog.store.sealed import Table
from everlog.testing import EchoSummary

PIECE = 16
SUMMARY = Rolling(model="summary@1", settings=Settings(threshold_tokens=100, min_recent=1, piece_bytes=400))
_RUN = re.compile(rb"[0-9a-f ]{%d,}" % PIECE)
_EVERYTHING = {
    table.name: scoped(table).select().order_by(*table.primary_key)
    for table in metadata.sorted_tables
    if "tenant" in table.c and table.name != "receipt"
}


@dataclass(eq=False)
class Part:
    """What one thread has of a turn; a fork that goes on with a turn has a part of its own."""

    user: str | None
    cwd: str | None = None
    erased: bool = False


@dataclass(eq=False)
class Said:
    """An entry; forks hold the same ones as their parent."""

    kind: Kind
    text: str
    turn: int
    part: Part
    content: bytes | None = None
    author: str | None = None

    @property
    def erased(self) -> bool:
        return self.part.erased

    def words(self) -> Iterator[str]:
        yield self.text
        if self.content is not None:
            yield self.content.decode()
        if self.part.cwd is not None:
            yield self.part.cwd


@dataclass(eq=False)
class Thread:
    """A thread."""

    key: str
    said: list[Said] = field(default_factory=list)
    turns: int = 0
    keyed: dict[str, tuple[NewTurn, Appended, Part]] = field(default_factory=dict)
    title: str | None = None


class World:
    """One tenant's log, and what it must be."""

    def __init__(self, memory: Everlog) -> None:
        self.memory = memory
        self.threads: dict[str, Thread] = {}
        self.parts: list[Part] = []
        self.everything: list[Said] = []
        self.titles: list[str] = []
        self.folders: list[str] = []
        self.ids: dict[str, str] = {}
        self.gone: list[str] = []
        self._words = 0

    # ---- words ----

    def word(self, size: int = 40) -> str:
        """Return words that no other entry of any tenant has: hex digits, with spaces here and there."""
        self._words += 1
        drawn = hashlib.shake_128(f"{self.memory.name} {self._words}".encode()).hexdigest((size + 1) // 2)
        return re.sub("(.{24})", r"\1 ", drawn)[:size]

    def turn(
        self, kinds: Sequence[Kind], user: str | None, *, client_key: str | None = None, size: int = 40
    ) -> NewTurn:
        """Return a turn with fresh words; every third one shows an image, every other one has a working directory."""
        messages = []
        for kind in kinds:
            content = self.word(64).encode() if self._words % 3 == 0 else None
            parts = () if content is None else (Media(media_type="image/png", content=content),)
            messages.append(Message(kind=kind, text=self.word(size), parts=parts, author=user))
        cwd = self.word() if self._words % 2 else None
        return NewTurn(messages=tuple(messages), client_key=client_key, origin=Origin(user=user, cwd=cwd))

    # ---- acts ----

    def append(self, key: str, turns: Sequence[NewTurn]) -> None:
        """Append turns, known client keys and all."""
        thread = self.threads.get(key, Thread(key))
        stale = turns[0].more and bool(thread.said) and thread.said[-1].erased
        known = [turn.client_key in thread.keyed for turn in turns if not turn.more]
        if stale:
            with pytest.raises(Erased):
                self.memory.thread(key).extend(turns)
            return
        if any(known):
            self._again(thread, turns)
            return
        first = len(thread.said)
        appended = self.memory.thread(key).extend(turns)
        for turn in turns:
            self._add(thread, turn)
        assert (appended.first, appended.stop) == (first, len(thread.said))
        assert (appended.turn, appended.repeated) == (thread.turns - 1, False)
        if key not in self.threads:
            self.threads[key] = thread
            self.ids[self.memory.thread(key).id] = key

    def _again(self, thread: Thread, turns: Sequence[NewTurn]) -> None:
        (turn,) = turns
        assert turn.client_key is not None
        before, appended, _ = thread.keyed[turn.client_key]
        if before.messages == turn.messages:
            again = self.memory.thread(thread.key).extend(turns)
            assert again == Appended(first=appended.first, stop=appended.stop, turn=appended.turn, repeated=True)
        else:
            with pytest.raises(Conflict):
                self.memory.thread(thread.key).extend(turns)

    def _add(self, thread: Thread, turn: NewTurn) -> None:
        first = len(thread.said)
        if turn.more and thread.turns:
            part = self._going_on(thread)
        else:
            part = Part(turn.origin.user, turn.origin.cwd)
            self.parts.append(part)
            self.folders += [] if part.cwd is None else [part.cwd]
            thread.turns += 1
        for message in turn.messages:
            content = next((one.content for one in message.parts if isinstance(one, Media)), None)
            said = Said(message.kind, message.text, thread.turns - 1, part, content, message.author)
            thread.said.append(said)
            self.everything.append(said)
        if turn.client_key is not None and not turn.more:
            appended = Appended(first=first, stop=len(thread.said), turn=thread.turns - 1)
            thread.keyed[turn.client_key] = turn, appended, part

    def _going_on(self, thread: Thread) -> Part:
        """Return the part that the next entry of the last turn belongs to: forks share users, not rows."""
        last = thread.said[-1].part
        part = Part(last.user, last.cwd, last.erased)
        self.parts.append(part)
        return part

    def repeat(self, key: str, client_key: str, *, changed: bool) -> None:
        """Send a turn again under its client key, with the same words or with others."""
        thread = self.threads[key]
        if client_key in thread.keyed:
            turn = thread.keyed[client_key][0]
            fresh = self.turn([message.kind for message in turn.messages], turn.origin.user, client_key=client_key)
            self.append(key, [fresh if changed else turn])

    def fork(self, key: str, at: int, new: str, *, titled: bool) -> None:
        """Fork a thread; impossible places and taken names are refused."""
        parent = self.threads[key]
        title = self.word() if titled else None
        if title is not None:
            self.titles.append(title)
        if new in self.threads:
            with pytest.raises(Conflict):
                self.memory.thread(key).fork(at, new, title=title)
        elif at > len(parent.said):
            with pytest.raises(Mistake):
                self.memory.thread(key).fork(at, new, title=title)
        else:
            made = self.memory.thread(key).fork(at, new, title=title)
            shared = parent.said[:at]
            turns = shared[-1].turn + 1 if shared else 0
            self.threads[new] = Thread(new, list(shared), turns, title=title)
            self.ids[made.id] = new

    def erase_thread(self, key: str) -> Receipt:
        """Erase a thread; whoever held it cannot use it any more, and its name is free."""
        held = self.memory.thread(key)
        thread = held.id
        receipt = self.memory.erase(thread=key)
        del self.threads[key], self.ids[thread]
        self.gone.append(thread)
        with pytest.raises(Erased):
            held.append("user", "too late")
        with pytest.raises(UnknownThread):
            list(self.memory.thread(key).entries())
        return receipt

    def erase_user(self, user: str) -> Receipt:
        """Erase a user's turns everywhere."""
        receipt = self.memory.erase(user=user)
        gone = [part for part in self.parts if part.user == user]
        for part in gone:
            part.erased, part.user, part.cwd = True, None, None
        for thread in self.threads.values():
            thread.keyed = {name: kept for name, kept in thread.keyed.items() if not kept[2].erased}
            if any(said.part is part for said in thread.said for part in gone):
                thread.title = None
        return receipt

    def erase_tenant(self) -> Receipt:
        """Erase everything."""
        receipt = self.memory.erase_tenant()
        self.threads.clear()
        self.ids.clear()
        self.gone.clear()
        return receipt

    def pump(self, key: str) -> None:
        """Derive what can be derived."""
        thread = self.memory.thread(key)
        assert thread.pump().done
        assert run(self.memory.store, self.memory.name, thread.id, SUMMARY, EchoSummary()).done

    # ---- what must hold ----

    def check(self, key: str, start: int = 0, stop: int | None = None) -> None:
        """Compare a stretch of a thread."""
        thread = self.threads[key]
        found = list(self.memory.thread(key).entries(start, stop))
        wanted = list(enumerate(thread.said))[start:stop]
        assert [entry.i for entry in found] == [i for i, _ in wanted]
        assert [_outline(entry) for entry in found] == [_expected(said) for _, said in wanted]

    def check_all(self) -> None:
        """Compare all threads, and let each of them be verified."""
        listed = {overview.key: (overview.entries, overview.turns) for overview in self.memory.threads()}
        assert listed == {key: (len(thread.said), thread.turns) for key, thread in self.threads.items()}
        for key in self.threads:
            self.check(key)
            assert [fault for part in self.memory.verify(key) for fault in part.faults] == []

    def check_rows(self) -> None:
        """Look into every row: of erased threads nothing but tombstones, of erased words nothing at all."""
        dumped = dump(self.memory.store, self.memory.name)
        for name, found in dumped.items():
            for row in found:
                if name == "thread":
                    assert row["erased_at"] is None or row["key"] is row["title"] is row["parent"] is None
                elif name == "entry" and row["thread"] in self.gone:
                    assert all(row[column] is None for column in rows.entry.info["clear"])
                else:
                    assert not {row.get("thread"), row.get("owner"), row.get("subject")} & {*self.gone}, name
        pieces = self.erased_pieces()
        for found in dumped.values():
            for row in found:
                assert not pieces_in(b" | ".join(_bytes(value) for value in row.values())) & pieces

    def check_files(self, folder: Path) -> None:
        """Look into every file: no piece of what was erased, and in an encrypted database no piece of anything."""
        pieces = self.erased_pieces()
        if self.memory.store.vault.provider is not None:
            pieces |= pieces_of(words for said in self.everything for words in said.words())
        for path in folder.iterdir():
            assert not pieces_in(path.read_bytes()) & pieces, f"erased words are in {path.name}"

    def erased_pieces(self) -> set[bytes]:
        """Return every piece of 16 bytes of what may not be anywhere any more."""
        shown = {said for thread in self.threads.values() for said in thread.said if not said.erased}
        kept = {thread.title for thread in self.threads.values()} | {said.part.cwd for said in shown}
        erased = (words for said in self.everything if said not in shown for words in self._of(said))
        return pieces_of(erased) | pieces_of(words for words in self.titles + self.folders if words not in kept)

    def _of(self, said: Said) -> Iterator[str]:
        yield said.text
        if said.content is not None:
            yield said.content.decode()


def dump(store: Store, tenant: str) -> dict[str, list[dict[str, object]]]:
    """Return every row that a tenant has, receipts apart, by table."""
    tables: dict[str, Table] = {table.name: table for table in metadata.sorted_tables}

    def act(unit: Unit) -> dict[str, list[dict[str, object]]]:
        return {
            name: [
                {column.name: value for column, value in zip(tables[name].c, row, strict=True)}
                for row in unit.rows(statement)
            ]
            for name, statement in _EVERYTHING.items()
        }

    return store.read(tenant, act)


def keys_of(store: Store, tenant: str, owner: str) -> list[bytes]:
    """Return the wrapped keys of an owner."""
    return store.read(tenant, partial(_keys_of, owner=owner))


def _keys_of(unit: Unit, owner: str) -> list[bytes]:
    return [bytes(row[2]) for row in unit.rows(store_rows.KEYS_OF, owner=owner)]


def pieces_of(texts: Iterable[str | None]) -> set[bytes]:
    """Return all pieces of 16 bytes of some words."""
    found: set[bytes] = set()
    for text in texts:
        encoded = (text or "").encode()
        found.update(encoded[i : i + PIECE] for i in range(len(encoded) - PIECE + 1))
    return found


def pieces_in(content: bytes) -> set[bytes]:
    """Return all pieces of 16 bytes of what could be words in a file or a row."""
    return pieces_of(run.group().decode() for run in _RUN.finditer(content))


def _outline(entry: Entry) -> tuple[object, ...]:
    content = [part.content for part in entry.message.parts if isinstance(part, Media)]
    return entry.kind, entry.text, entry.author, content, entry.turn, entry.erased, entry.origin.user, entry.origin.cwd


def _expected(said: Said) -> tuple[object, ...]:
    if said.erased:
        return said.kind, "", None, [], said.turn, True, None, None
    content = [] if said.content is None else [said.content]
    return said.kind, said.text, said.author, content, said.turn, False, said.part.user, said.part.cwd


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
