"""Where a conversation from elsewhere goes: planned in a unit that only reads, so that nobody waits for it.

The plan says on which state of which thread it rests; whoever carries it out checks that this is still so.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from everlog import log
from everlog.conversation.alignment.seen import free_key
from everlog.errors import Mistake
from everlog.jsonl import Transcript, dumps
from everlog.log import NewTurn, Print, ThreadRow
from everlog.log.fingerprints import ERASED
from everlog.messages import Conversation, Message, Unknown
from everlog.store import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where a conversation goes."""

    start: int
    """The first of its messages that is new there."""
    thread: ThreadRow | None = None
    """The thread it goes on in, or that it is a fork of, as it was seen; None for a new one."""
    made: str | None = None
    """Key of the thread to make; None if it goes on in `thread`."""
    forked_at: int | None = None
    """Where it goes another way than `thread`."""
    title: str | None = None
    """The title to set, if there is one to set."""
    instructions: tuple[str, ...] = ()
    """Those that the thread does not have yet."""

    @property
    def is_ready(self) -> bool:
        """Whether nothing has to be written before the messages."""
        return self.made is None and self.title is None and not self.instructions


class Coming:
    """A conversation on its way in; one with a value that is no JSON is a `Mistake` from the beginning."""

    def __init__(self, conversation: Conversation, redact: Callable[[Message], Message]) -> None:
        self._conversation = conversation
        self._entries = conversation.entries if isinstance(conversation, Transcript) else None
        messages = tuple(map(redact, conversation.messages))
        _check_values(messages)
        title = conversation.title
        self._title = None if title is None else redact(Message(kind="note", text=title)).text
        self.messages: Sequence[Message] = messages
        if isinstance(conversation, Transcript):
            # A thread of ours already: its system entries were not leading when they were logged.
            told = (redact(Message(kind="system", text=text)) for text in conversation.instructions)
            self.instructions, self._shared = tuple(message.text for message in told), conversation.shared
        else:
            leading, self.messages = log.leading(messages)
            self.instructions = tuple(message.text for message in leading)
            self._shared = max(0, conversation.shared - len(leading))
        self._printed: tuple[bytes, list[Print]] | None = None

    def plan(self, unit: Unit) -> Plan:
        """Decide where it goes and what of it is new there, in a unit that reads.

        Raises:
            Mistake: its key, or that of its parent, is none.
        """
        known = log.known(unit, self._conversation.key)
        return self._new(unit) if known is None else self._aligned(unit, log.load(unit, known))

    def check(self, start: int) -> None:
        """Make sure, before anything is written, that all messages from `start` on can be.

        Raises:
            Mistake: they cannot; one has an id or a part that cannot be stored.
        """
        if start < len(self.messages):
            log.check(list(self.turns(start)))

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

    def _new(self, unit: Unit) -> Plan:
        conversation = self._conversation
        parent = None if conversation.parent is None else log.known(unit, conversation.parent)
        if parent is None or conversation.parent is None:
            return self._made(unit, conversation.key)
        incoming = self._prints(unit)[: self._shared]
        candidates = [log.load(unit, id_) for id_ in (parent, *log.variants(unit, conversation.parent))]
        shared, row = max(
            ((_common(log.seen(unit, one), incoming), one) for one in candidates), key=lambda pair: pair[0]
        )
        return self._made(unit, conversation.key, row, at=shared, start=shared)

    def _aligned(self, unit: Unit, row: ThreadRow) -> Plan:
        incoming = self._prints(unit)
        match self._reached(unit, row, incoming):
            case None:
                return self._made(unit, free_key(unit, self._conversation.key))
            case thread, log.Append(start=start):
                return self._going_on(unit, thread, start)
            case thread, log.Fork(at=at, start=start):
                return self._made(unit, free_key(unit, self._conversation.key), thread, at=at, start=start)
            case thread, _:
                return self._going_on(unit, thread, len(self.messages))

    def _going_on(self, unit: Unit, thread: ThreadRow, start: int) -> Plan:
        kept = log.instructions(unit, thread) if self.instructions else ()
        missing = tuple(text for text in log.latest_instructions(self.instructions) if text not in kept)
        title = self._title if self._title != thread.title else None
        seen = log.seen(unit, thread) if missing else ()
        return Plan(
            start=start,
            thread=thread,
            title=None if title is None or _lost_words(unit, thread) else title,
            instructions=() if seen and _all_erased(seen) else missing,
        )

    def _made(
        self, unit: Unit, key: str, parent: ThreadRow | None = None, *, at: int | None = None, start: int = 0
    ) -> Plan:
        return Plan(
            start=start,
            thread=parent,
            made=key,
            forked_at=at,
            title=None if self._title is not None and parent and _lost_words(unit, parent) else self._title,
            instructions=self.instructions,
        )

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

    def _prints(self, unit: Unit) -> list[Print]:
        secret = unit.secret()
        if self._printed is None or self._printed[0] != secret:
            erased = frozenset(n for n, entry in enumerate(self._entries or ()) if entry.erased)
            self._printed = secret, log.prints(secret, self.messages, erased)
        return self._printed[1]


def _check_values(messages: Sequence[Message]) -> None:
    """Make sure that what stands beside the words can be written and compared: JSON, not nested without end.

    Raises:
        Mistake: it cannot.
    """
    for message in messages:
        values = [part.value for part in message.parts if isinstance(part, Unknown)]
        if not message.meta and not values:
            continue
        try:
            dumps([dict(message.meta), values])
        except (RecursionError, TypeError, ValueError):
            raise Mistake("a value beside the words of a message cannot be written as JSON") from None


def _lost_words(unit: Unit, thread: ThreadRow) -> bool:
    """Whether words of a thread, or of its kin, were erased: the title of a source is made of the words of them all."""
    return any(one.fp == ERASED for relative in log.kin(unit, thread) for one in log.seen(unit, relative))


def _all_erased(seen: Sequence[Print]) -> bool:
    """Whether all of them were: with the last of them its instructions went."""
    return all(one.fp == ERASED for one in seen)


def _common(old: Sequence[Print], new: Sequence[Print]) -> int:
    """Return how many entries from the first on are the same messages; an erased one stands for any of its kind."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _same(*pair), pairs))


def _same(old: Print, new: Print) -> bool:
    return old.fp == new.fp or (old.fp == ERASED and old.kind == new.kind)
