"""An ear: it parses and places a request while the upstream is at work, and keeps it with its answer, in one unit, when that
has come.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from everlog import access
from everlog.access import Requested
from everlog.clock import new_id
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.presence import Placed, Presence
from everlog.conversation.alignment.values import Answer, Caller, Recorded, Request
from everlog.errors import Erased
from everlog.log import TurnState
from everlog.protocols import Format
from everlog.protocols.exchange import Said
from everlog.protocols.shapes import Record
from everlog.store import Unit
from everlog.surfaces.proxy.incoming import Headers, Incoming, values
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.exchanges import body_of, heard_answer, is_too_long, parse_request
from everlog.surfaces.proxy.recording.identity import opaque
from everlog.surfaces.proxy.recording.noting import placed, requested, size_of, use
from everlog.surfaces.proxy.recording.profiles import Profile, profile_of
from everlog.surfaces.proxy.recording.profiles.rules import Facts
from everlog.surfaces.proxy.recording.room import STEP
from everlog.surfaces.proxy.recording.telling import told
from everlog.surfaces.proxy.recording.terminal import Terminal, begins_as_stream
from everlog.surfaces.proxy.relay.encodings import readable
from everlog.surfaces.proxy.relay.hearing import NOT_KEPT, REQUEST_ID
from everlog.surfaces.proxy.relay.upstreams import provider_of
from everlog.surfaces.proxy.remembering.steadiness import as_read, steady
from everlog.surfaces.proxy.settings.options import Target

if TYPE_CHECKING:
    from everlog.surfaces.proxy.recording.recorder import Recorder


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


class Exchange:
    """Hears one exchange."""

    def __init__(
        self,
        recorder: "Recorder",
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
