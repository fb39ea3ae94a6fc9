"""Keeping what goes through the proxy: an ear that parses and places the request while the upstream is at work, and
keeps it with its answer, in one unit, when that has come.

All of it is done in threads of its own, few and bounded. Nothing here can break an answer: who is refused for want of
room, or fails, is counted, and a client sends its history again with the next request. An answer that the upstream
refused leaves no trace, as it leaves none in the client's history; one that broke off is kept as far as it came.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

from everlog import access
from everlog.access import Requested
from everlog.clock import new_id
from everlog.conversation.alignment.exchanges import record
from everlog.conversation.alignment.presence import Presence
from everlog.conversation.alignment.values import Answer, Caller, Request
from everlog.conversation.restoring import restored
from everlog.errors import Busy
from everlog.log import TurnState
from everlog.messages import Message
from everlog.protocols import FORMATS, Format
from everlog.protocols.shapes import Record
from everlog.protocols.sse import Frames
from everlog.store import Store, Unit
from everlog.surfaces.proxy.incoming import Headers, Incoming, values
from everlog.surfaces.proxy.pruning import Pruning
from everlog.surfaces.proxy.recording.controls import Controls
from everlog.surfaces.proxy.recording.exchanges import body_of, parse_answer, parse_exchange
from everlog.surfaces.proxy.recording.identity import opaque
from everlog.surfaces.proxy.recording.noting import placed, requested, size_of, use
from everlog.surfaces.proxy.recording.profiles.blocks import redacting
from everlog.surfaces.proxy.recording.standing import Standing
from everlog.surfaces.proxy.recording.telling import told
from everlog.surfaces.proxy.recording.terminal import Terminal, begins_as_stream
from everlog.surfaces.proxy.relay.hearing import NOT_KEPT, REQUEST_ID
from everlog.surfaces.proxy.relay.upstreams import provider_of
from everlog.surfaces.proxy.settings.options import Target

log = logging.getLogger(__name__)

T = TypeVar("T")

THREADS = 4
WAITING = 256
"""Requests and answers that are parsed, placed or kept at this moment, or wait for it; with more, no exchange is heard."""

MOST_HEARD = 256 * 2**20
"""Bytes of an answer that are kept to be read; of a longer one nothing is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A request, ready to be kept with its answer."""

    request: Request
    presence: Presence
    is_stored: bool
    """Whether the client may name the answer later instead of sending it again."""


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
        keeps: bool = True,
        noted: Callable[[Requested], None] | None = None,
        pruning: Pruning | None = None,
    ) -> None:
        """Begin to record.

        Args:
            store: where to.
            tenant: whose the exchanges are, unless `of` says otherwise.
            caller: who asks, unless `of` says otherwise.
            redact: applied to each message before it is stored.
            aliases: further names of headers that say who asks, by field.
            waiting: how many requests and answers may wait for a thread.
            keeps: whether exchanges are kept; if not, only what was used under keys is.
            noted: told what each request was, in a thread, when all is done.
            pruning: forgets what old requests were.
        """
        self.store = store
        self.redact = redacting(redact)
        self.aliases = aliases
        self.counts: Counter[str] = Counter()
        """Exchanges by what became of them: the words of `Recorded.decision`, `refused` and `failed`; and `unread`, those
        of them whose request or answer came in a form that is not known."""
        self.noted = noted
        self.pruning = pruning or Pruning()
        self.keeps = keeps
        self.standing = Standing(store)
        self._tenant, self._caller = tenant, caller
        self.waiting = 0
        """Requests and answers that are worked on, or wait for it."""
        self._most = waiting
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="everlog-record")

    def listen(self, incoming: Incoming, protocol: str) -> "Exchange | None":
        """Return who hears an exchange; None where the client wants it kept nowhere.

        Raises:
            Busy: there are too many.
        """
        return self.listen_for(incoming, protocol, tenant=self._tenant, caller=self._caller)

    def listen_for(
        self, incoming: Incoming, protocol: str, *, tenant: str, caller: Caller, target: Target | None = None
    ) -> "Exchange | None":
        """Return who hears an exchange of somebody with an upstream.

        Raises:
            Busy: there are too many.
        """
        controls = Controls.of(incoming.headers)
        controls = replace(controls, keeps=controls.keeps and self.keeps)
        if incoming.method != "POST" or not (controls.keeps or caller.key):
            return None
        if self.waiting >= self._most:
            self.counts["refused"] += 1
            raise Busy("too many exchanges wait to be recorded; this one is not")
        return Exchange(
            self, incoming, FORMATS[protocol], tenant=tenant, caller=caller, controls=controls, target=target
        )

    def restore(
        self, incoming: Incoming, protocol: str, body: Record, *, tenant: str, caller: Caller
    ) -> tuple[Message, ...] | None:
        """Return the whole conversation of a request that names a part of it; None where that is not known here."""
        given = FORMATS[protocol]
        request = parse_exchange(given, incoming.headers, body, caller=caller, request="", aliases=self.aliases)
        messages = [message for said in given.parse_history(body) for message in said.messages]
        return self.store.read(tenant, partial(restored, request=request, messages=messages))

    def begin(self, act: Callable[[], T]) -> Future[T]:
        """Do something in a thread."""
        with self._lock:
            self.waiting += 1
        return self._pool.submit(self._run, act)

    def _run(self, act: Callable[[], T]) -> T:
        try:
            return act()
        finally:
            with self._lock:
                self.waiting -= 1

    def close(self) -> None:
        """Finish what is under way; while nothing can be kept, what still waits for its turn is given up."""
        self._pool.shutdown(wait=True, cancel_futures=not self.standing.is_well)


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
    ) -> None:
        self.whole = False
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
        self._is_unread = False
        self._heard = recorder.begin(self._hear)

    def head(self, status: int, headers: Headers) -> None:
        """Hear how the answer begins."""
        self._status = status
        kind = next(values(headers, b"content-type"), b"")
        if kind.lower().startswith(b"text/event-stream"):
            self._terminal = Terminal(self._format.name)

    def said(self) -> Headers:
        """Return what is known by now of where the request belongs, and of whether it can be kept."""
        return ((REQUEST_ID, self.id.encode()), *self._said())

    def _said(self) -> Headers:
        if not self._heard.done():
            return self._recorder.standing.said
        if self._heard.exception() is not None:
            return NOT_KEPT
        heard = self._heard.result()
        if heard is None:
            return NOT_KEPT if self._is_lost else ()
        more = told(heard.request, heard.presence.placed, all_of_it=self._controls.tells)
        return (*self._recorder.standing.said, *more)

    @property
    def _is_lost(self) -> bool:
        """Whether the upstream has answered a request that is to be kept, and that nobody here can read."""
        if not (self._controls.keeps and self._is_good and self._heard.done()):
            return False
        return self._heard.exception() is None and self._heard.result() is None

    def piece(self, data: bytes) -> int:
        """Hear more of the body."""
        if not self._is_good:
            return len(data)
        if not self._size and self._terminal is None and begins_as_stream(data):  # whatever its type says
            self._terminal = Terminal(self._format.name)
        self._size += len(data)
        if self._size <= MOST_HEARD:
            self._pieces.append(data)
        if not self._controls.keeps:
            return len(data)
        if self._terminal is None:
            return 0
        free = self._terminal.feed(data)
        self.whole = self._terminal.is_whole
        return free

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
            what = (await asyncio.wrap_future(self._recorder.begin(act))).decision
            self._is_unread = self._is_unread or (is_answered and self._is_lost)
        finally:
            self._recorder.counts.update((what, "unread") if self._is_unread else (what,))

    def _hear(self) -> Heard | None:
        """Parse and place the request, while the upstream is at work."""
        recorder = self._recorder
        body = body_of(self._incoming.body) if self._controls.keeps else None
        if body is None:
            return None
        request = parse_exchange(
            self._format, self._incoming.headers, body, caller=self._caller, request=self.id, aliases=recorder.aliases
        )
        presence = Presence(request, recorder.redact)
        recorder.standing.prove()
        recorder.store.read(self._tenant, presence.place)
        is_stored = self._format.name == "responses" and body.get("store") is not False
        return Heard(request=request, presence=presence, is_stored=is_stored)

    def _keep(self, *, is_whole: bool, is_answered: bool) -> Requested:
        """Keep the exchange and what it was, in one unit."""
        recorder = self._recorder
        with recorder.standing.keeping():
            is_heard = self._heard.exception() is None
            heard = self._heard.result() if is_heard else self._hear()  # what failed it may be back by now
            answer = None
            if is_answered and self._is_good and self._size <= MOST_HEARD:
                answer = self._answer(is_whole=is_whole, is_stored=heard is not None and heard.is_stored)
            was = self._written(heard, answer)
        if recorder.noted is not None:
            recorder.noted(was)
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
        note = partial(self._note, size=len(self._incoming.body) + size_of(answer))
        if heard is None or answer is None:
            recorder.store.write(self._tenant, partial(note, was=was), name="record.note")
            return was
        recorded = record(
            recorder.store,
            self._tenant,
            heard.request,
            answer,
            redact=recorder.redact,
            presence=heard.presence,
            also=lambda unit, recorded: note(unit, placed(was, recorded)),
        )
        return placed(was, recorded)

    def _note(self, unit: Unit, was: Requested, *, size: int) -> None:
        if self._controls.keeps:
            access.note(unit, was)
        use(unit, was, size)

    def _answer(self, *, is_whole: bool, is_stored: bool) -> Answer | None:
        """Return the answer as far as it came; None where it is none that belongs to the conversation."""
        heard = b"".join(self._pieces)
        if self._terminal is None:
            body = body_of(heard)
            if body is None:
                self._is_unread = is_whole
                return Answer(state=TurnState.ABORTED)
            if self._format.parse_fault(body) is not None:
                return None
            reply = self._format.parse_reply(body)
            return parse_answer(reply, is_whole=is_whole, is_stored=is_stored, provider=self._provider)
        stream = self._format.stream()
        for event in Frames().feed(heard):
            stream.feed(event)
        reply = stream.reply()
        is_ended = is_whole and stream.fault is None and (stream.done or reply.stop is not None)
        return parse_answer(reply, is_whole=is_ended, is_stored=is_stored, provider=self._provider)
