"""Reading what comes back from a provider: the answer, whole or as it comes, or why there is none.

A server may say what it likes: whatever it sends ends, in bounded time and memory, as an answer or as `ProviderTrouble`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from everlog.chat.bodies import Body
from everlog.chat.cancel import Cancel
from everlog.chat.effects import Close, Effect, Program, Receive, Request, Response, Send
from everlog.chat.ledger import NOTHING
from everlog.chat.prepared import Prepared
from everlog.chat.refusals import refusal
from everlog.chat.retries import request_id, should_retry
from everlog.clock import Clock
from everlog.errors import BadReply, ConnectionFailed, ProviderTimeout, ProviderTrouble
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Delta, Fault, Reply, Stream, TextDelta
from everlog.protocols.shapes import Record, loads, record
from everlog.protocols.sse import BOM, Event, EventTooLarge, Frames

Each = Callable[[Delta], Effect]

KEEPS_ALIVE = "ping"
"""The name of events that say nothing."""


class Reading:
    """One try: a request sent, and its answer read."""

    def __init__(self, prepared: Prepared, cancel: Cancel, clock: Clock, each: Each) -> None:
        self.was_handed_out = False
        self.should_retry: bool | None = None
        """What the provider says of another try."""
        self.answered: Reply | None = None
        self.seen: dict[str, Any] = {}
        """What is known of the answer: `http_status`, `request_id`, `usage`."""
        self._prepared = prepared
        self._format = FORMATS[prepared.protocol]
        self._cancel = cancel
        self._clock = clock
        self._each = each

    def body(self, request: Request) -> Program[Record]:
        """Send once and return the body of the answer."""
        response: Response = yield Send(request, self._cancel)
        body = self._body(response.status, response.headers, response.body)
        is_count = self._prepared.purpose == "count_tokens"
        self.seen["usage"] = NOTHING if is_count else self._format.parse_reply(body).usage
        return body

    def reply(self, request: Request) -> Program[Reply]:
        """Send once and return the answer of the model."""
        response: Response = yield Send(request, self._cancel, stream=self._prepared.is_stream)
        if response.connection is None:
            return self._checked(self._format.parse_reply(self._body(response.status, response.headers, response.body)))
        self._note(response.status, response.headers)
        end: Reply | Stream
        try:
            first = yield from self._first(response.connection)
            if first.startswith((b"{", b"[")) or "json" in response.headers.get("content-type", ""):
                end = yield from self._unstreamed(response, first)
            else:
                end = yield from self._streamed(response.connection, first)
        except GeneratorExit:
            raise
        except BaseException:
            yield Close(response.connection)
            raise
        if isinstance(end, Reply):
            yield Close(response.connection)
            return end
        yield Close(response.connection, is_over=end.done)
        return self._whole(end, response.headers)

    def _first(self, connection: Any) -> Program[bytes]:
        """Return the first bytes that are more than blanks; those of JSON tell it from events, whatever the server calls it."""
        quiet = Quiet(self._prepared.timeouts.read_s, self._clock)
        chunk: bytes
        while chunk := (yield Receive(connection)):
            self._cancel.check()
            chunk = chunk.removeprefix(BOM).lstrip()
            if chunk:
                return chunk
            quiet.goes_on()
        return b""

    def _unstreamed(self, response: Response, first: bytes) -> Program[Reply]:
        """Read the answer of a server that does not stream, though asked to, and hand it out at once."""
        whole = Body()
        whole.add(first)
        while chunk := (yield Receive(response.connection)):
            whole.add(chunk)
        body = self._body(response.status, response.headers, whole.whole())
        reply = self._checked(self._format.parse_reply(body))
        if reply.text:
            self.was_handed_out = True
            yield self._each(TextDelta(text=reply.text))
        return reply

    def _streamed(self, connection: Any, chunk: bytes) -> Program[Stream]:
        """Read a stream to its end, from its first bytes on, and hand out each piece."""
        frames, stream, receive = Frames(), self._format.stream(), Receive(connection)
        quiet = Quiet(self._prepared.timeouts.read_s, self._clock)
        each, check = self._each, self._cancel.check
        try:
            while chunk:
                events = frames.feed(chunk)
                if events and events[-1].name != KEEPS_ALIVE:
                    quiet.since = None
                else:
                    quiet.hears(events, has_more=frames.is_within_event)
                for event in events:
                    for delta in stream.feed(event):
                        self.was_handed_out = True
                        yield each(delta)
                        check()
                if stream.done or stream.fault is not None:
                    break
                chunk = yield receive
                check()
        except EventTooLarge as error:
            self._note_part(stream)
            raise BadReply(str(error)) from None
        except BaseException:
            self._note_part(stream)
            raise
        return stream

    def _whole(self, stream: Stream, headers: Mapping[str, str]) -> Reply:
        """Return the answer of a stream that is over."""
        if stream.fault is not None:
            self._note_part(stream)
            raise self._refusal(None, headers, stream.fault)
        reply = stream.reply()
        if not stream.done and reply.stop is None:
            self._note_part(stream)
            self._raise_cut(has_begun=reply.id is not None or reply.said.raw is not None)
        return self._checked(reply)

    def _note_part(self, stream: Stream) -> None:
        """Note the tokens of an answer that was cut off: the provider counts output only at its end."""
        usage = stream.reply().usage
        if usage is not None:
            self.seen["usage"] = usage if stream.done else replace(usage, output=None)

    def _raise_cut(self, *, has_begun: bool) -> None:
        if has_begun:
            raise ConnectionFailed("the stream ended before the answer was whole", status=self.seen["http_status"])
        raise BadReply("the stream held no event that can be read", status=self.seen["http_status"])

    def _body(self, status: int, headers: Mapping[str, str], content: bytes) -> Record:
        """Return the body of a good answer."""
        self._note(status, headers)
        parsed = loads(content.decode("utf-8-sig", "replace"))
        fault = self._format.parse_fault(record(parsed))
        if not 200 <= status < 300:
            raise self._refusal(status, headers, fault)
        if fault is not None:
            raise self._refusal(None, headers, fault)
        if not isinstance(parsed, dict):
            raise BadReply("the answer is not a JSON object", status=status)
        return parsed

    def _note(self, status: int, headers: Mapping[str, str]) -> None:
        self.seen |= {"http_status": status, "request_id": request_id(headers)}

    def _checked(self, reply: Reply) -> Reply:
        """Return an answer that says something, and note what it took."""
        self.seen["usage"] = reply.usage
        self.answered = reply
        is_empty_message = isinstance(reply.body.get("content"), list) and reply.stop is not None
        if reply.said.raw is None and not is_empty_message:
            why = reply.stop or "no reason given"
            raise BadReply(f"the answer holds no message ({why})", status=self.seen["http_status"], finish=reply.stop)
        return reply

    def _refusal(self, status: int | None, headers: Mapping[str, str], fault: Fault | None) -> ProviderTrouble:
        self.should_retry = should_retry(headers) if status is not None else None
        return refusal(
            status,
            fault,
            headers=headers,
            now=self._clock.now(),
            provider=self._prepared.endpoint.provider,
            model=self._prepared.model.id,
        )


class Quiet:
    """How long a server has kept a connection alive without a word of an answer."""

    def __init__(self, limit_s: float, clock: Clock) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self.since: datetime | None = None

    def hears(self, events: list[Event], *, has_more: bool = False) -> None:
        """Take note of the events in the bytes that came, and whether they hold the beginning of one."""
        if has_more or any(event.name != KEEPS_ALIVE for event in events):
            self.since = None
        else:
            self.goes_on()

    def goes_on(self) -> None:
        """Take note that what came says nothing.

        Raises:
            ProviderTimeout: so it is for longer than a provider may be silent.
        """
        now = self._clock.now()
        if self.since is None:
            self.since = now
        elif (now - self.since).total_seconds() > self._limit_s:
            raise ProviderTimeout(
                f"nothing of an answer came in {self._limit_s:g} s, only what keeps a connection open"
            )
