"""Keeping what goes through the proxy: an ear that parses and places the request while the upstream is at work, and
keeps it with its answer, in one unit, when that has come.

All of it is done in threads of its own, few and bounded. Nothing here can break an answer: who is refused for want of
room, or fails, is counted, and a client sends its history again with the next request. An answer that the upstream
refused leaves no trace, as it leaves none in the client's history; one that broke off is kept as far as it came.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

from everlog import access
from everlog.access import Requested
from everlog.clock import new_id
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.presence import Placed, Presence
from everlog.conversation.alignment.values import Answer, Caller, Recorded, Request
from everlog.errors import Busy, Erased
from everlog.log import TurnState
from everlog.messages import Message
from everlog.protocols import FORMATS, Format
from everlog.protocols.exchange import Said
from everlog.protocols.shapes import Record
from everlog.store import Store, Unit
from everlog.surfaces.proxy.incoming import Headers, Incoming, values
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.exchanges import body_of, heard_answer, is_too_long, parse_request
from everlog.surfaces.proxy.recording.identity import opaque
from everlog.surfaces.proxy.recording.noting import placed, requested, size_of, use
from everlog.surfaces.proxy.recording.profiles import Profile, profile_of
from everlog.surfaces.proxy.recording.profiles.blocks import redacting
from everlog.surfaces.proxy.recording.profiles.rules import Facts
from everlog.surfaces.proxy.recording.pruning import Pruning
from everlog.surfaces.proxy.recording.room import MOST_HELD, STEP, Room
from everlog.surfaces.proxy.recording.standing import Standing
from everlog.surfaces.proxy.recording.telling import told
from everlog.surfaces.proxy.recording.terminal import Terminal, begins_as_stream
from everlog.surfaces.proxy.recording.threads import Threads
from everlog.surfaces.proxy.relay.encodings import readable
from everlog.surfaces.proxy.relay.hearing import NOT_KEPT, REQUEST_ID
from everlog.surfaces.proxy.relay.upstreams import provider_of
from everlog.surfaces.proxy.remembering.steadiness import as_read, steady
from everlog.surfaces.proxy.remembering.watching import Watch
from everlog.surfaces.proxy.settings.options import Target

log = logging.getLogger(__name__)

WAITING = 256
"""Requests and answers that are parsed, placed or kept at this moment, or wait for it; with more, no exchange is heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A request, ready to be kept with its answer."""

    request: Request
    presence: Presence
    is_stored: bool
    """Whether the client may name the answer later instead of sending it again."""
    body: Record
    """What the client sent, without what it writes anew each time; empty where nobody makes another request of it."""
    came: Record
    """All of what it sent."""
    profile: Profile
    history: tuple[Said, ...]
    """Its conversation, as it stands there."""


class Beside(Protocol):
    """What is written in the unit that keeps an exchange."""

    def heard(self, answer: Answer) -> Answer:
        """Return an answer with what is known of it beside what the client was told."""
        ...

    def write(self, unit: Unit, recorded: Recorded | None) -> None:
        """Write; `recorded` is what was kept of the exchange, None where that is nothing."""
        ...

    def done(self) -> None:
        """Hear that all of it is kept."""
        ...


class Recorder:
    """Keeps exchanges in one database."""

    def __init__(
        self,
        store: Store,
        *,
        tenant: str,
        caller: Caller,
        redact: Callable[[Message], Message],
        aliases: Mapping[str, Sequence[str]] | None = None,
        waiting: int = WAITING,
        held_bytes: int = MOST_HELD,
        noted: Callable[[Requested], None] | None = None,
        pruning: Pruning | None = None,
        watch: Watch | None = None,
    ) -> None:
        """Begin to record.

        Args:
            store: where to.
            tenant: whose the exchanges are, unless `of` says otherwise.
            caller: who asks, unless `of` says otherwise.
            redact: applied to each message before it is stored.
            aliases: further names of headers that say who asks, by field.
            waiting: how many requests and answers may wait for a thread.
            held_bytes: how much of them may be held at a time, by all together.
            noted: told what each request was, in a thread, when all is done.
            pruning: forgets what old requests were.
            watch: sees requests go up.
        """
        self.store = store
        self.redact = redacting(redact)
        self.aliases = aliases
        self.counts: Counter[str] = Counter()
        """Exchanges by what became of them: the words of `Recorded.decision`, `refused` and `failed`; and `unread`, those
        of them whose request or answer came in a form that is not known."""
        self.noted = noted
        self.pruning = pruning or Pruning()
        self.watch = watch or Watch()
        self.standing = Standing(store)
        self._tenant, self._caller = tenant, caller
        self.threads = Threads()
        self.room = Room(held_bytes)
        self._most = waiting

    def listen(self, incoming: Incoming, protocol: str) -> "Exchange | None":
        """Return who hears an exchange; None where the client wants it kept nowhere.

        Raises:
            Busy: there are too many.
        """
        return self.listen_for(incoming, protocol, tenant=self._tenant, caller=self._caller)

    def listen_for(
        self,
        incoming: Incoming,
        protocol: str,
        *,
        tenant: str,
        caller: Caller,
        target: Target | None = None,
        remembers: bool = False,
        keeps: bool = True,
    ) -> "Exchange | None":
        """Return who hears an exchange of somebody with an upstream.

        Args:
            incoming: the request.
            protocol: its wire format.
            tenant: whose the exchange is.
            caller: who asks.
            target: the upstream.
            keeps: whether it is kept, unless its own headers say that it is not; if not, only what was used under keys is.
            remembers: whether another request may be made of it.

        Raises:
            Busy: there are too many.
        """
        controls = Controls.of(incoming.headers)
        controls = replace(controls, keeps=controls.keeps and keeps)
        if incoming.method != "POST" or not (controls.keeps or caller.key):
            return None
        if self.threads.waiting >= self._most or not self.room.has(len(incoming.body)):
            self.counts["refused"] += 1
            raise Busy("too many exchanges wait to be recorded, or too large ones; this one is not")
        exchange = Exchange(
            self,
            incoming,
            FORMATS[protocol],
            tenant=tenant,
            caller=caller,
            controls=controls,
            target=target,
            remembers=remembers and controls.keeps,
        )
        self.room.enter(exchange)
        return exchange

    def close(self) -> None:
        """Finish what is under way; while nothing can be kept, what still waits for its turn is given up."""
        self.threads.close(gives_up=not self.standing.is_well)


class Exchange:
    """Hears one exchange."""

    def __init__(
        self,
        recorder: Recorder,
        incoming: Incoming,
        protocol: Format,
        *,
        tenant: str,
        caller: Caller,
        controls: Controls,
        target: Target | None = None,
        remembers: bool = False,
    ) -> None:
        self.whole = False
        self.remembers = remembers
        """Whether another request may be made of this one."""
        self.beside: Beside | None = None
        self.headers: Headers = ()
        """What the answer says besides, as memory knows it."""
        self.id = new_id(recorder.store.clock)
        self._at = recorder.store.clock.now()
        self._controls = controls
        self._recorder = recorder
        self._incoming = incoming
        self._format = protocol
        self._tenant, self._caller = tenant, caller
        self._upstream = None if target is None else opaque(target.name)
        self._provider = None if target is None else provider_of(target)
        self._terminal: Terminal | None = None
        self._status: int | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_unread = self._is_unreadable = False
        """Whether the answer, or the request, came in a form that is not known."""
        self._is_too_much = False
        """Whether there was no room for all of the answer; nothing of it is kept then."""
        self._known: Headers | None = None
        """What can be told of where the request belongs, as soon as that is known."""
        self._heard: Future[Heard | None] = recorder.threads.begin(self._hear, len(incoming.body))

    def head(self, status: int, headers: Headers) -> None:
        """Hear how the answer begins."""
        self._status = status
        kind = next(values(headers, b"content-type"), b"")
        if kind.lower().startswith(b"text/event-stream"):
            self._terminal = Terminal(self._format.name)

    def said(self) -> Headers:
        """Return what is known by now of where the request belongs, and of whether it can be kept."""
        return ((REQUEST_ID, self.id.encode()), *self._said(), *self.headers)

    def _said(self) -> Headers:
        if self._is_too_much:
            return NOT_KEPT
        if self._known is None:
            is_failed = self._heard.done() and self._heard.exception() is not None
            return NOT_KEPT if is_failed else self._recorder.standing.said
        return NOT_KEPT if self._is_lost else (*self._recorder.standing.said, *self._known)

    @property
    def _is_lost(self) -> bool:
        """Whether the upstream has answered a request that is to be kept, and that nobody here can read."""
        return self._controls.keeps and self._is_good and self._is_unreadable

    def piece(self, data: bytes) -> int:
        """Hear more of the body."""
        if not self._is_good:
            return len(data)
        if not self._size and self._terminal is None and begins_as_stream(data):  # whatever its type says
            self._terminal = Terminal(self._format.name)
        self._take(data)
        if not self._controls.keeps:
            return len(data)
        if self._terminal is None:
            return 0
        free = self._terminal.feed(data)
        self.whole = self._terminal.is_whole
        return free

    def _take(self, data: bytes) -> None:
        """Hold a piece to be read, as long as there is room for all of them."""
        before, self._size = self._size, self._size + len(data)
        if self._size // STEP > before // STEP and not self._is_too_much:
            self._is_too_much = not self._recorder.room.has(max(STEP, len(data)))
        if self._is_too_much:
            self._pieces = []
        else:
            self._pieces.append(data)

    @property
    def held_bytes(self) -> int:
        """How much of the request and of the answer is held."""
        return len(self._incoming.body) + (0 if self._is_too_much else self._size)

    async def found(self) -> Heard | None:
        """Wait until it is known where the request belongs, and return it; None where it cannot be read.

        Raises:
            StoreUnavailable: nothing can be looked up, or kept, now.
        """
        return await asyncio.shield(asyncio.wrap_future(self._heard))

    async def commit(self) -> None:
        """Keep the exchange."""
        await self._kept(is_whole=True, is_answered=True)

    async def leave(self, why: Literal["client", "upstream"]) -> None:
        """Keep what there is; where the upstream never answered, that is nothing."""
        await self._kept(is_whole=False, is_answered=self._status is not None or why == "client")

    @property
    def _is_good(self) -> bool:
        return self._status is None or 200 <= self._status < 300

    async def _kept(self, *, is_whole: bool, is_answered: bool) -> None:
        what = "failed"
        act = partial(self._keep, is_whole=is_whole, is_answered=is_answered)
        try:
            what = (await asyncio.wrap_future(self._recorder.threads.keep(act, self.held_bytes))).decision
            self._is_unread = self._is_unread or self._is_too_much or (is_answered and self._is_lost)
        finally:
            self._recorder.counts.update((what, "unread") if self._is_unread else (what,))
            self._incoming, self._pieces, self._size = replace(self._incoming, body=b""), [], 0

    def _hear(self) -> Heard | None:
        """Parse and place the request, while the upstream is at work."""
        recorder = self._recorder
        data = readable(self._incoming) if self._controls.keeps else None
        body = None if data is None else body_of(data)
        if body is None or is_too_long(body):
            self._is_unreadable, self._known = True, ()
            return None
        came, profile = body, profile_of(Facts(self._incoming.headers, body, ()))
        body = steady(profile, None, came)
        request, history = parse_request(
            self._format, self._incoming.headers, body, caller=self._caller, request=self.id, aliases=recorder.aliases
        )
        presence = Presence(request, recorder.redact)
        recorder.standing.prove()
        placed = recorder.store.read(self._tenant, presence.place)
        self._known = told(request, placed, all_of_it=self._controls.tells)
        if not self.remembers:
            self._known = (*self._known, *self._watched(request, placed, as_read(profile, self._provider, came)))
        is_stored = self._format.name == "responses" and body.get("store") is not False
        if not self.remembers:
            body, came, history = {}, {}, ()
        return Heard(
            request=request,
            presence=presence,
            is_stored=is_stored,
            body=body,
            came=came,
            profile=profile,
            history=history,
        )

    def _watched(self, request: Request, placed: Placed, body: Record) -> Headers:
        """Return what the answer tells of the prefix of a request that goes up as it came."""
        if request.is_side:
            return ()
        known = placed.thread if placed.forks_at is None else None
        prefix = self._recorder.watch.sent(
            self._format.name,
            body,
            tenant=self._tenant,
            thread=None if known is None else known.id,
            consumer=request.model or "",
            mode="record",
        )
        return () if prefix is None else prefix.said(all_of_it=self._controls.tells)

    def _keep(self, wait_for_earlier: Callable[[], object], *, is_whole: bool, is_answered: bool) -> Requested:
        """Keep the exchange and what it was, in one unit."""
        recorder = self._recorder
        with recorder.standing.keeping():
            is_heard = self._heard.exception() is None
            heard = self._heard.result() if is_heard else self._hear()  # what failed it may be back by now
            self._heard = Future()  # a long history is let go in this thread, not on the event loop
            if heard is not None and heard.presence.is_adrift:
                wait_for_earlier()
                heard.presence.placed = None
            answer = None
            if is_answered and self._is_good and not self._is_too_much:
                answer = heard_answer(
                    self._format,
                    self._pieces,
                    is_stream=self._terminal is not None,
                    is_whole=is_whole,
                    is_stored=heard is not None and heard.is_stored,
                    provider=self._provider,
                )
                self._is_unread = is_whole and answer is not None and answer.state is TurnState.ABORTED
            if answer is not None and self.beside is not None:
                answer = self.beside.heard(answer)
            was = self._written(heard, answer)
        if recorder.noted is not None:
            recorder.noted(was)
        if self.beside is not None:
            self.beside.done()
        recorder.pruning.after(recorder.store, self._tenant)
        return was

    def _written(self, heard: Heard | None, answer: Answer | None) -> Requested:
        recorder = self._recorder
        was = requested(
            id_=self.id,
            at=self._at,
            now=recorder.store.clock.now(),
            key=self._caller.key,
            protocol=self._format.name,
            upstream=self._upstream,
            status=self._status,
            request=None if heard is None else heard.request,
            answer=answer,
        )
        size = len(self._incoming.body) + size_of(answer)
        note = partial(self._note, size=size, is_asked=answer is not None)
        if heard is None or answer is None:
            recorder.store.write(self._tenant, partial(note, was=was), name="record.note")
            return was
        try:
            recorded = record(
                recorder.store,
                self._tenant,
                heard.request,
                answer,
                redact=recorder.redact,
                presence=heard.presence,
                also=lambda unit, recorded: note(unit, placed(was, recorded), recorded),
            )
        except Erased:
            recorder.store.write(self._tenant, partial(note, was=was), name="record.note")
            return was
        return placed(was, recorded)

    def _note(self, unit: Unit, was: Requested, recorded: Recorded | None = None, *, size: int, is_asked: bool) -> None:
        if self.beside is not None:
            self.beside.write(unit, recorded)
        if self._controls.keeps:
            access.note(unit, was)
        use(unit, was, size, is_asked=is_asked)
