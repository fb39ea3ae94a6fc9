"""One call of a model: the request, sent again while that helps, and the answer, whole or as it comes.

Each request that goes out is a row of the ledger. What goes wrong is raised as one class of `ProviderTrouble`; a stream
is begun again only if nothing of it was handed out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from everlog.chat.bodies import Body, body_bytes
from everlog.chat.cancel import Cancel
from everlog.chat.effects import Close, Effect, Emit, Program, Receive, Request, Response, Send, Sleep, Timeouts
from everlog.chat.ledger import NOTHING, Attempt, Ledger
from everlog.chat.providers import Endpoint
from everlog.chat.refusals import refusal
from everlog.chat.retries import Retry, pause_s
from everlog.chat.telemetry import Span
from everlog.clock import Clock
from everlog.errors import BadReply, ConnectionFailed, NeverSent, ProviderTrouble
from everlog.messages import JSON
from everlog.protocols import FORMATS
from everlog.protocols.exchange import Delta, Fault, Reply, Stream, TextDelta
from everlog.protocols.shapes import Record, loads, record
from everlog.protocols.sse import EventTooLarge, Frames
from everlog.registry import Model

T = TypeVar("T")
Each = Callable[[Delta], Effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request that is ready to go out."""

    endpoint: Endpoint
    model: Model
    protocol: str
    body: Mapping[str, JSON] = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The caller's; those of the endpoint win."""
    path: str | None = None
    """Behind the base URL, where it is not the protocol's."""
    purpose: str = "chat"
    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: Retry = field(default_factory=Retry)

    @property
    def is_stream(self) -> bool:
        """Whether the answer is to come in pieces."""
        return self.body.get("stream") is True

    def render_bytes(self) -> bytes:
        """Return the body as it goes out, byte for byte."""
        return body_bytes(self.body)

    def request(self) -> Request:
        """Return the whole request."""
        path = FORMATS[self.protocol].path if self.path is None else self.path
        return Request(
            url=self.endpoint.url(path),
            headers=self.endpoint.with_headers(self.headers),
            body=self.render_bytes(),
            timeouts=self.timeouts,
        )


def exchange(prepared: Prepared, *, ledger: Ledger, cancel: Cancel, clock: Clock, each: Each = Emit) -> Program[Reply]:
    """Ask a model and return its answer.

    Args:
        prepared: the request; its body says whether the answer is streamed.
        ledger: gets a row for each request that goes out.
        cancel: is checked before each request, and when a piece of a stream comes and when it was taken.
        clock: for the ledger, and the chance in pauses.
        each: what to do with each piece of a stream; by default it is emitted.

    Raises:
        ProviderTrouble: it failed, and again as often as the request says.
        Cancelled: it was cancelled.
    """
    call = _Call(prepared, ledger, cancel, clock, each)
    return (yield from call.tries(call.reply))


def fetch(prepared: Prepared, *, ledger: Ledger, cancel: Cancel, clock: Clock) -> Program[Record]:
    """Ask a provider something that no model answers, such as a count of tokens, and return the body of the answer.

    Raises:
        ProviderTrouble: it failed, and again as often as the request says.
        Cancelled: it was cancelled.
    """
    call = _Call(prepared, ledger, cancel, clock, Emit)
    return (yield from call.tries(call.body))


class _Call:
    """One call under way."""

    def __init__(self, prepared: Prepared, ledger: Ledger, cancel: Cancel, clock: Clock, each: Each) -> None:
        self._prepared = prepared
        self._format = FORMATS[prepared.protocol]
        self._ledger = ledger
        self._cancel = cancel
        self._clock = clock
        self._each = each
        self._span: Span
        self._was_handed_out = False
        self._seen: dict[str, Any] = {}
        """What is known of the answer of this try: `http_status`, `request_id`, `usage`."""

    def tries(self, read: Callable[[Request], Program[T]]) -> Program[T]:
        """Send until it works, or further tries make no sense."""
        prepared = self._prepared
        request = prepared.request()
        self._span = Span(
            operation=prepared.purpose,
            provider=prepared.endpoint.provider,
            model=prepared.model.id,
            url=request.url,
            body=prepared.body,
        )
        try:
            result = yield from self._until_it_works(request, read)
        except BaseException as error:
            self._span.end(error)
            raise
        self._span.end()
        return result

    def _until_it_works(self, request: Request, read: Callable[[Request], Program[T]]) -> Program[T]:
        tried = 0
        while True:
            tried += 1
            self._cancel.check()
            try:
                return (yield from self._try(request, tried, read))
            except ProviderTrouble as error:
                chance = int.from_bytes(self._clock.random(4), "big") / 2**32
                pause = None if self._was_handed_out else pause_s(self._prepared.retry, error, tried, chance)
                if pause is None:
                    raise
            yield Sleep(pause, self._cancel)

    def _try(self, request: Request, number: int, read: Callable[[Request], Program[T]]) -> Program[T]:
        self._seen = {}
        place = self._ledger.begin(
            Attempt(
                provider=self._prepared.endpoint.provider,
                model=self._prepared.model,
                protocol=self._prepared.protocol,
                purpose=self._prepared.purpose,
                began=self._clock.now(),
                number=number,
            )
        )
        try:
            result = yield from read(request)
        except ProviderTrouble as error:
            error.provider = error.provider or self._prepared.endpoint.provider
            error.model = error.model or self._prepared.model.id
            usage = NOTHING if _is_free(error) else None
            self._end(place, status="failed", error=type(error).__name__, usage=self._seen.get("usage", usage))
            raise
        except BaseException:
            self._end(place, status="cancelled", usage=self._seen.get("usage"))
            raise
        self._end(place, status="succeeded", usage=self._seen.get("usage"))
        return result

    def _end(self, place: int, **changes: Any) -> None:
        self._span.tried(self._ledger.end(place, ended=self._clock.now(), **{**self._seen, **changes}))

    def body(self, request: Request) -> Program[Record]:
        """Send once and return the body of the answer."""
        response: Response = yield Send(request, self._cancel)
        body = self._body(response.status, response.headers, response.body)
        self._seen["usage"] = (
            NOTHING if self._prepared.purpose == "count_tokens" else self._format.parse_reply(body).usage
        )
        return body

    def reply(self, request: Request) -> Program[Reply]:
        """Send once and return the answer of the model."""
        response: Response = yield Send(request, self._cancel, stream=self._prepared.is_stream)
        if response.connection is None:
            return self._checked(self._format.parse_reply(self._body(response.status, response.headers, response.body)))
        self._note(response.status, response.headers)
        if "json" in response.headers.get("content-type", ""):
            return (yield from self._unstreamed(response))
        return (yield from self._streamed(response))

    def _unstreamed(self, response: Response) -> Program[Reply]:
        """Read the answer of a server that does not stream, though asked to, and hand it out at once."""
        whole = Body()
        try:
            while chunk := (yield Receive(response.connection)):
                whole.add(chunk)
            body = self._body(response.status, response.headers, whole.whole())
            reply = self._checked(self._format.parse_reply(body))
            if reply.text:
                self._was_handed_out = True
                yield self._each(TextDelta(text=reply.text))
        except GeneratorExit:
            raise
        except BaseException:
            yield Close(response.connection)
            raise
        yield Close(response.connection)
        return reply

    def _streamed(self, response: Response) -> Program[Reply]:
        frames, stream, receive = Frames(), self._format.stream(), Receive(response.connection)
        each, check = self._each, self._cancel.check
        try:
            while not stream.done and stream.fault is None:
                chunk = yield receive
                if not chunk:
                    break
                check()
                for event in frames.feed(chunk):
                    for delta in stream.feed(event):
                        self._was_handed_out = True
                        yield each(delta)
                        check()
        except GeneratorExit:
            raise
        except BaseException as error:
            self._note_part(stream)
            yield Close(response.connection)
            if isinstance(error, EventTooLarge):
                raise BadReply(str(error)) from error
            raise
        yield Close(response.connection, is_over=stream.done)
        if stream.fault is not None:
            self._note_part(stream)
            raise self._refusal(None, response.headers, stream.fault)
        reply = stream.reply()
        if not stream.done and reply.stop is None:
            self._note_part(stream)
            self._raise_cut(has_begun=reply.id is not None or reply.said.raw is not None)
        return self._checked(reply)

    def _note_part(self, stream: Stream) -> None:
        """Note the tokens of an answer that was cut off: the provider counts output only at its end."""
        usage = stream.reply().usage
        if usage is not None:
            self._seen["usage"] = usage if stream.done else replace(usage, output=None)

    def _raise_cut(self, *, has_begun: bool) -> None:
        if has_begun:
            raise ConnectionFailed("the stream ended before the answer was whole", status=self._seen["http_status"])
        raise BadReply("the stream held no event that can be read", status=self._seen["http_status"])

    def _body(self, status: int, headers: Mapping[str, str], content: bytes) -> Record:
        """Return the body of a good answer."""
        self._note(status, headers)
        parsed = loads(content.decode("utf-8", "replace"))
        fault = self._format.parse_fault(record(parsed))
        if not 200 <= status < 300:
            raise self._refusal(status, headers, fault)
        if fault is not None:
            raise self._refusal(None, headers, fault)
        if not isinstance(parsed, dict):
            raise BadReply("the answer is not a JSON object", status=status)
        return parsed

    def _note(self, status: int, headers: Mapping[str, str]) -> None:
        request_id = headers.get("request-id") or headers.get("x-request-id")
        self._seen |= {"http_status": status, "request_id": request_id}

    def _checked(self, reply: Reply) -> Reply:
        """Return an answer that says something, and note what it took."""
        self._seen["usage"] = reply.usage
        self._span.answered(model=reply.model, id=reply.id, finish=reply.stop)
        is_empty_message = isinstance(reply.body.get("content"), list) and reply.stop is not None
        if reply.said.raw is None and not is_empty_message:
            why = reply.stop or "no reason given"
            raise BadReply(f"the answer holds no message ({why})", status=self._seen["http_status"], finish=reply.stop)
        return reply

    def _refusal(self, status: int | None, headers: Mapping[str, str], fault: Fault | None) -> ProviderTrouble:
        return refusal(
            status,
            fault,
            headers=headers,
            now=self._clock.now(),
            provider=self._prepared.endpoint.provider,
            model=self._prepared.model.id,
        )


def _is_free(error: ProviderTrouble) -> bool:
    """Whether the provider surely did no work that it could charge for: it never saw the request, or turned it down."""
    return isinstance(error, NeverSent) or (error.status is not None and 400 <= error.status < 500)
