"""Where a client's history belongs, and what of it is new there; decided in a unit that only reads.

Many people can stand behind one key, so a thread is reached by proof only. Whoever shows all of it, word for word, an
answer among it, has had it: that is looked up by its chain, costs nothing, and is enough for most requests. Whoever names
a session of theirs, or is known to be one person, may show less of it: that is for alignment to judge. Anything
weaker begins a thread of its own.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from everlog import log
from everlog.conversation.alignment.references import references, resolved
from everlog.conversation.alignment.values import Request, Word
from everlog.errors import Erased
from everlog.log import Decision, Place, Print, ThreadRow
from everlog.log.fingerprints import QUOTE_BYTES
from everlog.log.matches import VOICES
from everlog.messages import Message
from everlog.store import Unit
from everlog.tokens import size_bytes

_NUMBER = re.compile(r"~[0-9]+\Z")

NEAR = 64
"""Messages at the end of a history whose chains are looked up first: what is new is rarely longer."""

REPLIES = 512
"""Newest entries of a thread that are searched for a reply that a summary quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a request belongs."""

    decision: Word
    said: tuple[Message, ...]
    """What of it is new, to be appended before the answer."""
    key: str
    """Key of the thread to make, if one is to be made; a fork gets a variant of it."""
    thread: ThreadRow | None = None
    """The thread it goes on in or forks from, as it was seen; None for a new one."""
    forks_at: int | None = None
    """Where it goes another way than `thread`."""
    before: Message | None = None
    """What was said just before."""
    instructions: tuple[str, ...] = ()
    principal: str = ""
    """Under whose name it was looked for."""
    awaited: tuple[bytes, ...] = ()
    """Chains of the answers in the history that stood nowhere: where one does by now, it was kept meanwhile."""
    unknown: str | None = None
    """Id of the response that it goes on from, if nobody knew it."""
    is_unproven: bool = False
    """Whether it goes on with a talk, but neither shows the whole of one nor names its session."""
    members: frozenset[str] = frozenset()
    """Ids of the threads of the session that it names, as they were seen."""
    begun_at: int | None = None
    """Where what was new of it begins, if that was kept before its answer."""

    @property
    def thread_id(self) -> str | None:
        """Id of `thread`."""
        return None if self.thread is None else self.thread.id


class Presence:
    """A request on its way to its thread."""

    def __init__(self, request: Request, redact: Callable[[Message], Message]) -> None:
        self.placed: Placed | None = None
        """Where it belongs, once that was looked for."""
        self.is_adrift = False
        """Whether it shows or names an answer that is not in the log, or not yet: what came before may be on its way."""
        self._request = request
        self._named = bool(request.session) or request.caller.is_one_person
        leading, self._messages = log.leading(tuple(map(redact, request.messages)))
        self._leading = len(leading)
        self._instructions = tuple(message.text for message in leading if message.text)
        self._principal = ""
        self._members: list[str] = []
        self._printed: tuple[bytes, list[Print]] | None = None
        self._awaited: tuple[bytes, ...] = ()
        self._unknown: str | None = None

    def place(self, unit: Unit) -> Placed:
        """Decide where it belongs, and remember it."""
        request = self._request
        self._principal = principal_of(unit, request)
        self._members = log.members(unit, request.session, principal=self._principal) if request.session else []
        named = resolved(unit, self._messages, principal=self._principal)
        if named is not None:
            self._messages, self._printed = named, None
        incoming = self._prints(unit)
        found = None if request.held is None else self._held(unit, request.held, incoming)
        if request.after is not None:
            found = self._continued(unit, request.after, incoming)
        elif found is None and (request.session or any(one.kind in VOICES for one in incoming)):
            found = self._found(unit, incoming)
        names = request.after or request.held or any(one.kind in VOICES for one in incoming)
        self.is_adrift = (bool(names) and found is None) or any(map(references, self._messages))
        thread, decision = found or (self._newest(unit) if request.is_side else None, log.Nothing(at=0))
        decided = self._decided(unit, thread, decision)
        self.placed = replace(decided, principal=self._principal, awaited=self._awaited, unknown=self._unknown)
        return self.placed

    def take(self, placed: Placed) -> None:
        """Go by where it was put: what came before it is not waited for again."""
        self.placed, self.is_adrift = placed, False

    @property
    def shown(self) -> int:
        """How many messages the request has, without the instructions at its beginning."""
        return len(self._request.messages) - self._leading

    def printed(self, unit: Unit) -> Sequence[Print]:
        """Return the prints of those messages, and of what they refer to in its place."""
        return self._prints(unit)

    def _decided(self, unit: Unit, thread: ThreadRow | None, decision: Decision) -> Placed:
        messages = self._messages
        end = Placed(
            decision="nothing", said=(), key=self._request.name, thread=thread,
            before=messages[-1] if messages else None, instructions=self._instructions,
            members=frozenset(self._members),
        )  # fmt: skip
        if thread is None:
            is_unproven = not self._named and any(one.kind in VOICES for one in messages)
            return replace(end, decision="new", said=messages, before=None, is_unproven=is_unproven)
        base = _NUMBER.sub("", thread.key or self._request.name)
        match decision:
            case log.Append(start=start):
                before = _before(unit, thread, thread.next, messages, start)
                return replace(end, decision="append", said=messages[start:], before=before)
            case log.Fork(at=at, start=start):
                before = _before(unit, thread, at, messages, start)
                return replace(end, decision="fork", said=messages[start:], before=before, key=base, forks_at=at)
            case log.Compacted(note=note, start=start):
                summary = replace(messages[note], kind="note", author="client")
                return replace(end, decision="compacted", said=(summary, *messages[start:]), before=summary)
            case log.Nothing(at=at) if at < thread.next and _any_loud(log.seen(unit, thread, at, at + NEAR)):
                return replace(end, decision="regenerated", key=base, forks_at=at)
            case log.Nothing():
                return replace(end, decision="append")
            case log.Sibling():
                raise AssertionError("a sibling is no thread that was found")

    def _found(self, unit: Unit, incoming: Sequence[Print]) -> tuple[ThreadRow, Decision] | None:
        """Return the thread that the history belongs to, with what of it is new there; None for a new one."""
        members = self._candidates(unit)
        shown, places = _shown_in(unit, incoming, self._principal)
        self._awaited = tuple(one.chain for one in incoming[shown:] if one.kind in VOICES and not one.quiet)[-NEAR:]
        places.sort(key=lambda place: place.thread not in members)
        ended = next(self._ended(unit, places, incoming, shown), None)
        if ended is not None and not any(one.kind in VOICES for one in incoming[shown:]):
            return ended
        near = [place.thread for place in places[:1] if place.thread not in members]
        windows = (self._windowed(unit, id_, incoming) for id_ in members)
        found = next((one for one in windows if one is not None), None)
        if found is None and self._named:
            found = self._aligned(unit, members, near, incoming)
        if found is not None or ended is not None:
            return found or ended
        for place, thread in self._proven(unit, places, incoming[shown:]):
            return thread, _parted(place.i + 1, incoming, shown)
        return None

    def _ended(
        self, unit: Unit, places: Sequence[Place], incoming: Sequence[Print], shown: int
    ) -> Iterator[tuple[ThreadRow, Decision]]:
        """Yield the threads that end where the history was found, with what comes after it."""
        for place, thread in self._proven(unit, places, incoming[shown:]):
            rest = log.seen(unit, thread, place.i + 1, place.i + 1 + NEAR)
            if not _any_loud(rest):
                yield thread, _appended(thread, incoming, shown, len(rest))

    def _proven(self, unit: Unit, places: Sequence[Place], new: Sequence[Print]) -> Iterator[tuple[Place, ThreadRow]]:
        """Yield those of some places that a history proves, and their threads: it has an answer of a model's up to there,
        or, asked again, nothing new.
        """
        for place in places:
            thread = _load(unit, place.thread)
            if thread is None:
                continue
            if not _any_loud(new) or log.is_answered(unit, thread, place.i + 1):
                yield place, thread

    def _windowed(self, unit: Unit, member: str, incoming: Sequence[Print]) -> tuple[ThreadRow, Decision] | None:
        """Return a thread of the session if the history plainly shows the end of it, with what is new."""
        thread = _load(unit, member)
        if thread is None or thread.next <= len(incoming) + NEAR:
            return None
        end = log.seen(unit, thread, thread.next - len(incoming) - NEAR)
        start = log.window(log.seen(unit, thread, 0, NEAR), end, incoming)
        if start is None:
            return None
        return thread, log.Append(start=start) if start < len(incoming) else log.Nothing(at=thread.next)

    def _aligned(
        self, unit: Unit, members: Sequence[str], near: Sequence[str], incoming: Sequence[Print]
    ) -> tuple[ThreadRow, Decision] | None:
        """Return the thread that shows most of the history: of the session's, or one that it shows the whole of."""
        threads = [thread for id_ in members if (thread := _load(unit, id_)) is not None]
        others = [thread for id_ in near if (thread := _load(unit, id_)) is not None]
        asides = [text for thread in (*threads, *others) for text in log.asides(unit, thread)]
        mine = [(thread, self._judged(unit, thread, incoming, asides)) for thread in threads]
        theirs = [(thread, self._judged(unit, thread, incoming, asides)) for thread in others]
        if not self._request.session:
            mine = [one for one in mine if _reaches_an_answer(unit, *one)]
        proven = [one for one in theirs if one[1].shown.whole and one[1].shown.spoken]
        return log.best([*mine, *proven])

    def _judged(self, unit: Unit, thread: ThreadRow, incoming: Sequence[Print], asides: Sequence[str]) -> Decision:
        there = log.seen(unit, thread)
        decision = log.align(there, incoming)
        if decision.shown.whole and not isinstance(decision, log.Fork | log.Sibling):
            return decision
        quote = self._quoted(unit, thread, {one.fp for one in there}, incoming, asides)
        return decision if quote is None else log.align(there, incoming, quoted=quote)

    def _quoted(
        self, unit: Unit, thread: ThreadRow, known: set[bytes], incoming: Sequence[Print], asides: Sequence[str]
    ) -> int | None:
        """Return the place of the first message that quotes a reply of the session's, before any that still stands."""
        texts = [
            "" if one.fp in known or size_bytes(message.text) < QUOTE_BYTES else message.text
            for message, one in takewhile(lambda pair: not _stands(pair[1], known), self._pairs(incoming))
        ]
        if not any(texts):
            return None
        said = log.back(unit, thread, thread.next, REPLIES)
        return log.quoted(texts, [*asides, *(one.text for one in said if one.kind == "assistant" and one.text)])

    def _pairs(self, incoming: Sequence[Print]) -> Iterator[tuple[Message, Print]]:
        return zip(self._messages, incoming, strict=True)

    def _continued(self, unit: Unit, after: str, incoming: Sequence[Print]) -> tuple[ThreadRow, Decision] | None:
        """Return where a request goes on that sends only what is new since a response of ours."""
        place = log.answer(unit, after, principal=self._principal)
        self._unknown = after if place is None else None
        thread = None if place is None else _load(unit, place[0])
        if place is None or thread is None:
            return None
        at = place[1] + 1
        match log.align(log.seen(unit, thread, at), incoming):
            case log.Append() as decision:
                return thread, decision
            case log.Fork(at=parted, start=start):
                return thread, log.Fork(at=at + parted, start=start)
            case log.Nothing(at=known):
                return thread, log.Nothing(at=at + known)
            case _:
                return thread, log.Fork(at=at, start=0)

    def _held(self, unit: Unit, held: str, incoming: Sequence[Print]) -> tuple[ThreadRow, Decision] | None:
        """Return where a request goes on whose past the server holds: at the end, where it may have been asked in vain."""
        place = log.answer(unit, held, principal=self._principal)
        thread = None if place is None else _load(unit, place[0])
        if thread is None:
            return None
        last = log.seen(unit, thread, max(0, thread.next - len(incoming)))
        is_asked = [one.fp for one in last] == [one.fp for one in incoming]
        return thread, log.Nothing(at=thread.next) if is_asked else log.Append(start=0)

    def _newest(self, unit: Unit) -> ThreadRow | None:
        """Return the newest thread of the session, to which a question beside the conversation most likely belongs."""
        return next((thread for id_ in self._candidates(unit) if (thread := _load(unit, id_)) is not None), None)

    def _candidates(self, unit: Unit) -> Sequence[str]:
        """Return the threads that may be looked at for the name of the session, or of the one person; the newest first."""
        if self._request.session or not self._named:
            return self._members
        return log.members(unit, "", principal=self._principal)

    def _prints(self, unit: Unit) -> list[Print]:
        secret = unit.secret()
        if self._printed is None or self._printed[0] != secret:
            self._printed = secret, log.prints(secret, self._messages)
        return self._printed[1]


def principal_of(unit: Unit, request: Request) -> str:
    """Return the name under which the sessions of whoever sent a request stand."""
    return log.principal_of(unit, request.caller.key, request.caller.user)


def _shown_in(unit: Unit, incoming: Sequence[Print], principal: str) -> tuple[int, list[Place]]:
    """Return how much of the history, an answer among it, stands in the log as it is, and where."""
    spoken = next((n for n, one in enumerate(incoming) if one.kind in VOICES and not one.quiet), len(incoming))
    ends = {one.chain: n for n, one in enumerate(incoming) if n >= spoken and not one.quiet}
    chains = list(ends)
    for some in (chains[-NEAR:], chains[:-NEAR]):
        if places := log.holding(unit, some, principal=principal):
            longest = max(ends[place.chain] for place in places)
            return longest + 1, [place for place in places if ends[place.chain] == longest]
    return 0, []


def _appended(thread: ThreadRow, incoming: Sequence[Print], shown: int, quiet: int) -> Decision:
    """Return what is new of a history that shows all of a thread but some quiet entries at its end, and then goes on."""
    start = shown
    while start < len(incoming) and start - shown < quiet and incoming[start].quiet:
        start += 1
    return log.Append(start=start) if start < len(incoming) else log.Nothing(at=thread.next)


def _reaches_an_answer(unit: Unit, thread: ThreadRow, decision: Decision) -> bool:
    """Whether a history that goes another way than a thread does so after an answer; how talks begin is often the same."""
    match decision:
        case log.Fork(at=at) | log.Nothing(at=at):
            return log.is_answered(unit, thread, at)
        case _:
            return True


def _parted(at: int, incoming: Sequence[Print], shown: int) -> Decision:
    """Return what is new of a history that shows a thread up to a place and then goes another way, or ends."""
    return log.Fork(at=at, start=shown) if _any_loud(incoming[shown:]) else log.Nothing(at=at)


def _stands(one: Print, known: set[bytes]) -> bool:
    """Whether a reply that is long enough to be quoted stands in the history as a message of its own."""
    return one.kind in VOICES and one.size >= QUOTE_BYTES and one.fp in known


def _load(unit: Unit, thread: str) -> ThreadRow | None:
    try:
        return log.load(unit, thread)
    except Erased:
        return None


def _any_loud(prints: Sequence[Print]) -> bool:
    return any(not one.quiet for one in prints)


def _before(unit: Unit, thread: ThreadRow, at: int, messages: Sequence[Message], start: int) -> Message | None:
    """Return what was said just before what is new: by the history, or by the thread where nothing else was sent."""
    if start:
        return messages[start - 1]
    there = log.at(unit, thread, (at - 1,))
    return there[at - 1].message if there else None
