"""One answer for a client out of several rounds of its upstream, while they come.

Between rounds the memory's tools run and another request goes up; a client that waits is told that it is waited for.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

from everlog.errors import ConnectionFailed, EverlogError, ProviderTrouble
from everlog.messages import Call
from everlog.protocols import Format
from everlog.protocols.exchange import Fault
from everlog.protocols.shapes import encoded, loads, record
from everlog.protocols.sse import Event, EventTooLarge, Frames
from everlog.surfaces.proxy.hidden.rounds import Rounds
from everlog.surfaces.proxy.relay.headers import is_event_stream
from everlog.surfaces.proxy.relay.hearing import Way
from everlog.surfaces.proxy.relay.reading import Whole, decoded, decoder_of, heard, of_another, whole
from everlog.surfaces.proxy.relay.upstream import Coming
from everlog.surfaces.proxy.remembering.mending import fault_in, is_too_long

BURST = 64
"""Events that are worked through before others have their turn; 5 ms of them at most."""

ALIVE_S = 5.0
"""After how much silence between rounds a client is told that it is waited for, in seconds."""

BEHIND_S = 0.25
"""How long the end of a body is waited for behind the last event, so that its connection can be used again, in seconds."""

Run = Callable[[Sequence[Call]], Awaitable[Mapping[str, str]]]
"""Runs calls of memory's tools; returns what they say, by the ids of the calls."""

ROUNDS = b"x-everlog-rounds"
"""The header that says how many requests an answer took."""


async def unstreamed(first: Coming, protocol: Format, rounds: Rounds, run: Run, way: Way) -> Whole:
    """Return an answer that is not streamed, with all its rounds.

    Raises:
        ProviderTrouble: a round has no answer.
    """
    coming = first
    while True:
        status, headers = coming.status, heard(coming)
        try:
            data = await whole(coming)
        finally:
            coming.close()
        body = loads(data.decode("utf-8", "replace"))
        if status >= 400 or not isinstance(body, dict):
            return Whole(status, of_another(headers), data)
        await asyncio.to_thread(rounds.take, body)
        ended = rounds.ended()
        if ended.fault is not None:
            return Whole(ended.status, of_another(headers), rounds.fail(ended.fault, ended.status))
        if ended.calls or not ended.is_final:
            rounds.answer(await run(ended.calls))
        if ended.is_final:
            said = await asyncio.to_thread(lambda: encoded(rounds.body()))
            return Whole(status, (*of_another(headers), (ROUNDS, b"%d" % rounds.rounds)), said)
        coming = await _next(protocol, rounds, way)


async def _next(protocol: Format, rounds: Rounds, way: Way) -> Coming:
    """Ask for the next round: once more, with less, where what memory's tools said is too long for the model."""
    coming = await _sent(rounds, way)
    if coming.status < 400:
        return coming
    refused, fault = await refused_with(protocol, coming)
    if fault is not None and is_too_long(coming.status, fault) and rounds.shorten():
        return await _sent(rounds, way)
    return refused


async def refused_with(protocol: Format, coming: Coming) -> tuple[Whole, Fault | None]:
    """Return what an upstream refuses a request with, and the error in it.

    Raises:
        ProviderTrouble: it cannot be read.
    """
    try:
        data = await whole(coming)
    finally:
        coming.close()
    fault = fault_in(protocol.name, record(loads(data.decode("utf-8", "replace"))))
    return Whole(coming.status, of_another(heard(coming)), data), fault


async def _sent(rounds: Rounds, way: Way) -> Coming:
    return await way.send(await asyncio.to_thread(lambda: encoded(rounds.request())))


NO_STREAM = Fault(type="no_stream", message="The upstream gave no stream.")


class Streamed:
    """An answer in pieces."""

    def __init__(
        self,
        first: Coming,
        protocol: Format,
        rounds: Rounds,
        run: Run,
        way: Way,
        done: Callable[[], None],
        *,
        alive_s: float = ALIVE_S,
    ) -> None:
        """Begin with the answer of the first round; `done` is called before its end is told."""
        self.status = first.status
        self.headers = of_another(heard(first))
        self._protocol = protocol
        self._rounds = rounds
        self._run = run
        self._way = way
        self._done = done
        self._alive_s = alive_s
        self._work: asyncio.Task[Coming | None] | None = None
        """Asks for the next round; None comes of it where the answer ends."""
        self._is_over = False
        self._events: deque[Event] = deque()
        """What came and was not looked at yet."""
        self._take(first)

    def _take(self, coming: Coming) -> None:
        self._coming = coming
        self._frames = Frames()
        self._decoder = decoder_of(heard(coming))

    async def read(self) -> bytes:
        """Return what comes next; nothing is the end."""
        while not self._is_over:
            if self._work is not None:
                await asyncio.wait((self._work,), timeout=self._alive_s)
                if not self._work.done():
                    return self._rounds.keep_alive
                if (ended := await self._begun(self._work)) is not None:
                    return ended
            if not self._events:
                data = await self._more()
                if data:
                    self._events.extend(self._heard(data))
                elif said := self._ended():
                    return said
            if said := self._fed():
                return said
            await asyncio.sleep(0)
        return b""

    async def _more(self) -> bytes:
        """Return the next bytes of a round; how its connection ends is of no matter once all was said."""
        if not self._rounds.is_over:
            return await self._coming.read()
        try:
            async with asyncio.timeout(BEHIND_S):
                return await self._coming.read()
        except (TimeoutError, ProviderTrouble):
            return b""

    def _heard(self, data: bytes) -> list[Event]:
        try:
            return self._frames.feed(decoded(self._decoder, data))
        except EventTooLarge as error:
            raise ConnectionFailed(str(error)) from None

    def _fed(self) -> bytes:
        """Return what the client gets for the next events: not for too many at once, since others wait."""
        count = min(BURST, len(self._events))
        return b"".join(self._rounds.feed(self._events.popleft()) for _ in range(count))

    def _ended(self) -> bytes:
        """Return what is said at the end of a round."""
        ended = self._rounds.ended()
        if ended.fault is not None:
            return self._failed(ended.fault, ended.status)
        if ended.is_final and not ended.calls:
            return self._finished()
        self._work = asyncio.create_task(self._further(ended.calls, is_final=ended.is_final))
        return b""

    def _finished(self) -> bytes:
        self._is_over = True
        self._done()
        return self._rounds.finish()

    async def _further(self, calls: Sequence[Call], *, is_final: bool) -> Coming | None:
        """Run tools, and ask again if the answer does not end here."""
        self._coming.close()
        self._rounds.answer(await self._run(calls))
        return None if is_final else await _next(self._protocol, self._rounds, self._way)

    async def _begun(self, work: "asyncio.Task[Coming | None]") -> bytes | None:
        """Take the next round's answer; return the end of all where there is none, or the upstream refuses it."""
        self._work = None
        try:
            coming = work.result()
        except EverlogError as error:
            return self._failed(Fault(type="upstream_unreachable", message=str(error)), 502)
        if coming is None:
            return self._finished()
        self._take(coming)
        if coming.status < 400 and is_event_stream(heard(coming)):
            return None
        body = record(loads((await whole(coming)).decode("utf-8", "replace")))
        fault = fault_in(self._protocol.name, body)
        return self._failed(fault or NO_STREAM, coming.status if coming.status >= 400 else 502)

    def _failed(self, fault: Fault, status: int) -> bytes:
        self._is_over = True
        self._done()
        return self._rounds.fail(fault, status)

    def close(self) -> None:
        """Ask for nothing more."""
        if self._work is not None:
            self._work.cancel()
            self._work.add_done_callback(_let_go)
        self._coming.close()


def _let_go(work: "asyncio.Task[Coming | None]") -> None:
    """Close what came though nobody waits for it."""
    if not work.cancelled() and work.exception() is None and (coming := work.result()) is not None:
        coming.close()
