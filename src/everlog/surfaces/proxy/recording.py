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
from dataclasses import dataclass
from functools import partial
from typing import Literal

from everlog.access import use
from everlog.access.keys import NANO
from everlog.clock import new_id
from everlog.conversation.exchange_values import Answer, Caller, Recorded, Request
from everlog.conversation.exchanges import record
from everlog.conversation.presence import Presence
from everlog.errors import Busy
from everlog.log import TurnState
from everlog.messages import Message
from everlog.protocols import FORMATS, Format
from everlog.protocols.exchange import Usage
from everlog.protocols.shapes import Record, loads
from everlog.protocols.sse import Frames
from everlog.store import Store, Unit
from everlog.surfaces.proxy.exchanges import parse_answer, parse_exchange
from everlog.surfaces.proxy.identity import is_turned_off
from everlog.surfaces.proxy.incoming import Headers, Incoming, values
from everlog.surfaces.proxy.profiles.blocks import redacting
from everlog.surfaces.proxy.terminal import Terminal
from everlog.tokens import BYTES_PER_TOKEN, size_bytes

log = logging.getLogger(__name__)

THREADS = 4
WAITING = 256
"""Requests and answers that are parsed, placed or kept at this moment, or wait for it; with more, no exchange is heard."""

MOST_HEARD = 256 * 2**20
"""Bytes of an answer that are kept to be read; of a longer one nothing is kept."""

DEGRADED = (b"x-everlog-degraded", b"record")

HINT = (b"x-everlog-hint", b"a history without its beginning is a new thread; X-Everlog-Session-ID says whose it is")


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
    ) -> None:
        """Begin to record.

        Args:
            store: where to.
            tenant: whose the exchanges are, unless `of` says otherwise.
            caller: who asks, unless `of` says otherwise.
            redact: applied to each message before it is stored.
            aliases: further names of headers that say who asks, by field.
            waiting: how many requests and answers may wait for a thread.
        """
        self.store = store
        self.redact = redacting(redact)
        self.aliases = aliases
        self.counts: Counter[str] = Counter()
        """Exchanges by what became of them: the words of `Recorded.decision`, `refused` and `failed`."""
        self._tenant, self._caller = tenant, caller
        self._most, self._waiting = waiting, 0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="everlog-record")

    def listen(self, incoming: Incoming, protocol: str) -> "Exchange | None":
        """Return who hears an exchange; None where the client wants it kept nowhere.

        Raises:
            Busy: there are too many.
        """
        return self.listen_for(incoming, protocol, tenant=self._tenant, caller=self._caller)

    def listen_for(self, incoming: Incoming, protocol: str, *, tenant: str, caller: Caller) -> "Exchange | None":
        """Return who hears an exchange of somebody.

        Raises:
            Busy: there are too many.
        """
        is_off = is_turned_off(incoming.headers, "memory")
        if incoming.method != "POST" or (is_off and not caller.key):
            return None
        if self._waiting >= self._most:
            self.counts["refused"] += 1
            raise Busy("too many exchanges wait to be recorded; this one is not")
        return Exchange(self, incoming, FORMATS[protocol], tenant=tenant, caller=caller, is_kept=not is_off)

    def begin(self, act: Callable[[], "Heard | Recorded | None"]) -> "Future[Heard | Recorded | None]":
        """Do something in a thread."""
        with self._lock:
            self._waiting += 1
        return self._pool.submit(self._run, act)

    def _run(self, act: Callable[[], "Heard | Recorded | None"]) -> "Heard | Recorded | None":
        try:
            return act()
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Finish what is under way."""
        self._pool.shutdown(wait=True)


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
        is_kept: bool,
    ) -> None:
        """Begin to hear it; one that is not kept is only counted under its key."""
        self._is_kept = is_kept
        self.whole = False
        self.id = new_id(recorder.store.clock)
        self._recorder = recorder
        self._incoming = incoming
        self._format = protocol
        self._tenant, self._caller = tenant, caller
        self._terminal: Terminal | None = None
        self._status: int | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._heard = recorder.begin(self._hear)

    def head(self, status: int, headers: Headers) -> Headers:
        """Hear how the answer begins."""
        self._status = status
        kind = next(values(headers, b"content-type"), b"")
        if kind.lower().startswith(b"text/event-stream"):
            self._terminal = Terminal(self._format.name)
        return ((b"x-everlog-request-id", self.id.encode()), *self._said())

    def _said(self) -> Headers:
        """Return what is known by now of where the request belongs."""
        if not self._heard.done():
            return ()
        if self._heard.exception() is not None:
            return (DEGRADED,)
        heard = self._heard.result()
        placed = heard.presence.placed if isinstance(heard, Heard) else None
        return (HINT,) if placed is not None and placed.is_unproven else ()

    def piece(self, data: bytes) -> int:
        """Hear more of the body."""
        if not self._is_good:
            return len(data)
        self._size += len(data)
        if self._size <= MOST_HEARD:
            self._pieces.append(data)
        if self._terminal is None:
            return 0
        free = self._terminal.feed(data)
        self.whole = self._terminal.is_whole
        return free

    async def commit(self) -> None:
        """Keep the exchange."""
        await self._kept(is_whole=True)

    async def leave(self, why: Literal["client", "upstream"]) -> None:
        """Keep what there is; where the upstream never answered, that is nothing."""
        if self._status is None and why == "upstream":
            self._recorder.counts.update(("nothing",))
            return
        await self._kept(is_whole=False)

    @property
    def _is_good(self) -> bool:
        return self._status is None or 200 <= self._status < 300

    async def _kept(self, *, is_whole: bool) -> None:
        what = "failed"
        try:
            kept = await asyncio.wrap_future(self._recorder.begin(lambda: self._keep(is_whole=is_whole)))
            what = kept.decision if isinstance(kept, Recorded) else "nothing"
        finally:
            self._recorder.counts.update((what,))

    def _hear(self) -> Heard | None:
        """Parse and place the request, while the upstream is at work."""
        recorder = self._recorder
        body = _record(self._incoming.body) if self._is_kept else None
        if body is None:
            return None
        request = parse_exchange(
            self._format, self._incoming.headers, body, caller=self._caller, request=self.id, aliases=recorder.aliases
        )
        presence = Presence(request, recorder.redact)
        recorder.store.read(self._tenant, presence.place)
        is_stored = self._format.name == "responses" and body.get("store") is not False
        return Heard(request=request, presence=presence, is_stored=is_stored)

    def _keep(self, *, is_whole: bool) -> Recorded | None:
        """Keep the exchange, and count what it took under its key: without the other, too."""
        recorder = self._recorder
        heard = self._hear() if self._heard.exception() is not None else self._heard.result()  # it may be back by now
        if not self._is_good or self._size > MOST_HEARD:
            return None
        is_stored = isinstance(heard, Heard) and heard.is_stored
        answer = self._answer(is_whole=is_whole, is_stored=is_stored)
        if answer is None:
            return None
        if isinstance(heard, Heard):
            return record(
                recorder.store,
                self._tenant,
                heard.request,
                answer,
                redact=recorder.redact,
                presence=heard.presence,
                also=self._use(answer),
            )
        if (used := self._use(answer)) is not None:
            recorder.store.write(self._tenant, used, name="record.use")
        return None

    def _use(self, answer: Answer) -> Callable[[Unit], None] | None:
        """Return what adds the exchange to what was used under its key."""
        if not self._caller.key:
            return None
        said = sum(size_bytes(message.text) for message in answer.messages)
        tokens = (
            _tokens(answer) or (len(self._incoming.body) + said) // BYTES_PER_TOKEN
        )  # an estimate where nobody counted
        return partial(use, key=self._caller.key, tokens=tokens, nano_usd=_nano_usd(answer))

    def _answer(self, *, is_whole: bool, is_stored: bool) -> Answer | None:
        """Return the answer as far as it came; None where it is none that belongs to the conversation."""
        heard = b"".join(self._pieces)
        if self._terminal is None:
            body = _record(heard)
            if body is None:
                return None if is_whole else Answer(state=TurnState.ABORTED)
            if self._format.parse_fault(body) is not None:
                return None
            return parse_answer(self._format.parse_reply(body), is_whole=is_whole, is_stored=is_stored)
        stream = self._format.stream()
        for event in Frames().feed(heard):
            stream.feed(event)
        reply = stream.reply()
        is_ended = is_whole and stream.fault is None and (stream.done or reply.stop is not None)
        return parse_answer(reply, is_whole=is_ended, is_stored=is_stored)


def _tokens(answer: Answer) -> int:
    """Return how many tokens an answer took, of all kinds."""
    used = answer.usage or Usage()
    return sum(count or 0 for count in (used.input, used.cache_read, used.cache_write, used.output))


def _nano_usd(answer: Answer) -> int | None:
    return None if answer.cost_usd is None else round(answer.cost_usd * NANO)


def _record(data: bytes) -> Record | None:
    """Return the object that a body is; None where it is none."""
    try:
        found = loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    return found if isinstance(found, dict) else None
