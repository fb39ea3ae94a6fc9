"""One call of a model: the request, sent again while that helps, and each request that goes out a row of the ledger.

What goes wrong is raised as one class of `ProviderTrouble`; a stream is begun again only if nothing of it was handed out.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from everlog.chat.cancel import Cancel
from everlog.chat.effects import Emit, Program, Request, Sleep
from everlog.chat.ledger import NOTHING, Attempt, Ledger
from everlog.chat.prepared import Prepared
from everlog.chat.reading import Each, Reading
from everlog.chat.retries import pause_s
from everlog.chat.telemetry import Span
from everlog.clock import Clock
from everlog.errors import NeverSent, ProviderTrouble
from everlog.protocols.exchange import Reply
from everlog.protocols.shapes import Record

T = TypeVar("T")
Read: TypeAlias = Callable[[Reading, Request], Program[T]]
"""What is read of an answer: the reply, or the body."""


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
    return (yield from _Call(prepared, ledger, cancel, clock, each).tries(Reading.reply))


def fetch(prepared: Prepared, *, ledger: Ledger, cancel: Cancel, clock: Clock) -> Program[Record]:
    """Ask a provider something that no model answers, such as a count of tokens, and return the body of the answer.

    Raises:
        ProviderTrouble: it failed, and again as often as the request says.
        Cancelled: it was cancelled.
    """
    return (yield from _Call(prepared, ledger, cancel, clock, Emit).tries(Reading.body))


class _Call:
    """One call under way."""

    def __init__(self, prepared: Prepared, ledger: Ledger, cancel: Cancel, clock: Clock, each: Each) -> None:
        self._prepared = prepared
        self._ledger = ledger
        self._cancel = cancel
        self._clock = clock
        self._each = each
        self._span: Span

    def tries(self, read: Read[T]) -> Program[T]:
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

    def _until_it_works(self, request: Request, read: Read[T]) -> Program[T]:
        tried = 0
        while True:
            tried += 1
            self._cancel.check()
            reading = Reading(self._prepared, self._cancel, self._clock, self._each)
            try:
                return (yield from self._try(reading, request, tried, read))
            except ProviderTrouble as error:
                chance = int.from_bytes(self._clock.random(4), "big") / 2**32
                pause = None
                if not reading.was_handed_out:
                    pause = pause_s(self._prepared.retry, error, tried, chance, told=reading.should_retry)
                if pause is None:
                    raise
            yield Sleep(pause, self._cancel)

    def _try(self, reading: Reading, request: Request, number: int, read: Read[T]) -> Program[T]:
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
            result = yield from read(reading, request)
        except ProviderTrouble as error:
            error.provider = error.provider or self._prepared.endpoint.provider
            error.model = error.model or self._prepared.model.id
            usage = reading.seen.get("usage", NOTHING if _is_free(error) else None)
            self._end(place, reading, status="failed", error=type(error).__name__, usage=usage)
            raise
        except BaseException:
            self._end(place, reading, status="cancelled")
            raise
        self._end(place, reading, status="succeeded")
        return result

    def _end(self, place: int, reading: Reading, **changes: Any) -> None:
        if (reply := reading.answered) is not None:
            self._span.answered(model=reply.model, id=reply.id, finish=reply.stop)
        self._span.tried(self._ledger.end(place, ended=self._clock.now(), **{**reading.seen, **changes}))


def _is_free(error: ProviderTrouble) -> bool:
    """Whether the provider surely did no work that it could charge for: it never saw the request, or turned it down."""
    return isinstance(error, NeverSent) or (error.status is not None and 400 <= error.status < 500)
